"""SamplePrivacy: DP-SGD where the data is, and what it has cost so far."""

from __future__ import annotations

import dataclasses
import math
from typing import Any, ClassVar

from syft.dp.accounting.accountant import Accountant
from syft.dp.accounting.events import GaussianNoise, PoissonSampled
from syft.dp.accounting.neighbours import Neighbours
from syft.dp.training.dp_sgd import noise_of, schedule
from syft.exceptions import FederatedError, TrainingError
from syft.federated.client.dp_settings import SampleSettings
from syft.federated.client.train_config import MAX_COUNT, TrainConfig

# Different events in what a client says that it has spent.
_MOST_EVENTS = 1000


@dataclasses.dataclass(frozen=True)
class SamplePrivacy(SampleSettings):
    """Each sample of a data set is hidden: whoever gets the model learns little about any one of them.

    Epsilon compares data sets of the same size that differ in one sample (replace-one row), as queries do.

    The gradient of each sample is clipped and noise is added to their sum, at every step, where the data is (DP-SGD).
    Give it to a `TrainConfig` as `privacy`, or to `sy.federated.run` as `local_privacy`. The worker draws the batches
    and the noise from its own cryptographic generator and says what it has spent; nothing of that is up to the client.

    Args:
        noise_multiplier: how much noise, in units of `max_grad_norm`; None to have it found from `target_epsilon`.
        max_grad_norm: to what norm the gradient of a sample is clipped.
        delta: the probability that the bound does not hold; well below one over the number of samples.
        target_epsilon: the largest epsilon that training may reach; None for no such limit.
        rate: with what probability a sample is in a batch; None for `batch_size` over the size of the data set.

    Example:
        >>> import syft as sy
        >>> privacy = sy.dp.SamplePrivacy(noise_multiplier=1.1, max_grad_norm=1.0, delta=1e-5)
        >>> round(privacy.cost(60000, batch_size=256, epochs=60), 1)
        4.7
    """

    # Which data sets are neighbours, for reports.
    neighbours: ClassVar[Neighbours] = Neighbours.REPLACE_ROW

    _by_client: dict[str, Accountant] = dataclasses.field(default_factory=dict, init=False, repr=False, compare=False)

    def cost(
        self, size: int, batch_size: int = 32, epochs: int = 1, rounds: int = 1, max_nr_batches: int = -1
    ) -> float:
        """Return the epsilon of a training that is planned, for replacing one row.

        Args:
            size: how many samples the data set has.
            batch_size: how many samples are in a batch.
            epochs: how often the data set is gone through.
            rounds: how many such trainings there are.
            max_nr_batches: after how many batches each of them ends; -1 for no limit.
        """
        config = TrainConfig(batch_size=batch_size, epochs=epochs, max_nr_batches=max_nr_batches)
        config.check()
        drawn = schedule(size, config, self.rate)
        event = PoissonSampled(drawn.rate, GaussianNoise(noise_of(self, drawn, rounds)))
        return Accountant().compose(event, drawn.steps * rounds).epsilon(self.delta)

    # --- rounds of a federated run ----------------------------------------------------------------------------

    def begin(self) -> None:
        """Begin a run: nothing is spent."""
        object.__setattr__(self, "_by_client", {})  # a new one: a copy of this may be in another run

    def terms(self, rounds: int) -> dict[str, dict[str, Any]]:
        """Return the term of each client's training.

        Args:
            rounds: how many rounds are planned.
        """
        return {"dp_sgd": {**self.to_dict(), "rounds": rounds}}

    def check(self, client: str, result: object) -> None:
        """Raise if a client does not say what it has spent in a round, or spent it with less noise than asked for.

        Args:
            client: its name.
            result: its answer.
        """
        event, _ = _event_of(client, result)
        noise = event.to_dict()["event"]["noise_multiplier"]
        if self.noise_multiplier is not None and noise < self.noise_multiplier:
            raise FederatedError(f"Client {client!r} trained with less noise than it was asked for.")

    def add(self, client: str, result: Any) -> None:
        """Take note of what a client has spent in a round, as it says.

        Args:
            client: its name.
            result: its answer.
        """
        event, steps = _event_of(client, result)
        said = _spent_of(client, result["privacy"].get("spent"))
        self._note(client, self._by_client.get(client, Accountant()).after(event, steps), said)

    def add_all(self, client: str, spent: object) -> None:
        """Take note of all that a client has spent in the run, as it says; None if that is nothing.

        Args:
            client: its name.
            spent: the accountant of the client, as a dict.
        """
        if spent is not None:
            self._note(client, self._by_client.get(client, Accountant()), _spent_of(client, spent))

    def _note(self, client: str, counted: Accountant, said: Accountant) -> None:
        """Keep the larger one: the client may know of rounds that it was not heard of, and forget when it restarts."""
        is_more = said != counted and said.epsilon(self.delta) > counted.epsilon(self.delta)
        self._by_client[client] = said if is_more else counted

    @property
    def epsilon(self) -> float:
        """The largest epsilon of all clients so far, by what they say they have spent; the data of each is its own."""
        kinds = {frozenset(spent.events): spent for spent in self._by_client.values()}  # many clients spend the same
        return max((spent.epsilon(self.delta) for spent in kinds.values()), default=0.0)

    def settings(self) -> dict[str, Any]:
        """Return plain numbers by name that tell this from another one; None where a worker decides."""
        return dict(self.to_dict())

    def state(self) -> dict[str, Any]:
        """Return what has to be remembered when a run is resumed: plain values by name."""
        return {name: spent.to_dict() for name, spent in self._by_client.items()}

    def load_state(self, state: dict[str, Any]) -> None:
        """Go on from what `state` gave."""
        loaded = {str(name): Accountant.from_dict(spent) for name, spent in state.items()}
        object.__setattr__(self, "_by_client", {})  # a new one: a copy of this may be in another run
        self._by_client.update(loaded)


def _event_of(client: str, result: object) -> tuple[PoissonSampled, int]:
    """Return what a client says that it has spent, which may be anything."""
    spent = result.get("privacy") if isinstance(result, dict) else None
    if type(spent) is dict and spent.keys() == {"noise_multiplier", "rate", "steps", "spent"}:
        noise, rate, steps = spent["noise_multiplier"], spent["rate"], spent["steps"]
        numbers = type(noise) is float and type(rate) is float and type(steps) is int
        if numbers and 0 < noise < math.inf and 0 < rate <= 1 and 1 <= steps <= MAX_COUNT:
            try:
                return PoissonSampled(rate, GaussianNoise(noise)), steps
            except (ValueError, TrainingError):
                pass
    raise FederatedError(f"Client {client!r} did not say what its private training has spent.")


def _spent_of(client: str, spent: object) -> Accountant:
    """Return all that a client says that it has spent, which may be anything."""
    try:
        if type(spent) is dict and len(spent["events"]) <= _MOST_EVENTS and "orders" not in spent:
            found = Accountant.from_dict(spent)
            if found.neighbours is Neighbours.REPLACE_ROW:
                return found
    except (KeyError, TypeError, ValueError):
        pass
    raise FederatedError(f"Client {client!r} did not say what it has spent in this run.")
