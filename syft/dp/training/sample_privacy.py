"""SamplePrivacy: DP-SGD at the data, and its privacy loss so far."""

from __future__ import annotations

import dataclasses
import math
from typing import Any, ClassVar

from syft.display.facts import FactList, Shown
from syft.dp.accounting.accountant import Accountant
from syft.dp.accounting.events import GaussianNoise, PoissonSampled
from syft.dp.accounting.neighbours import Neighbours
from syft.dp.training.dp_sgd import noise_of, schedule
from syft.exceptions import FederatedError, TrainingError
from syft.federated.client.dp_settings import SampleSettings
from syft.federated.client.train_config import MAX_COUNT, TrainConfig

# Maximum number of distinct events in a client's reported loss.
_MOST_EVENTS = 1000


@dataclasses.dataclass(frozen=True)
class SamplePrivacy(Shown, SampleSettings):
    """Hides each sample of a data set: the model reveals little about any one of them.

    Epsilon compares data sets of the same size that differ in one sample (replace-one row), as queries do.

    The gradient of each sample is clipped and noise is added to their sum, at every step, where the data is (DP-SGD).
    Pass it to a `TrainConfig` as `privacy`, or to `sy.federated.run` as `local_privacy`. The worker draws the batches
    and the noise from its own cryptographic generator and reports the privacy loss; the client has no control over it.

    Args:
        noise_multiplier: the noise, in units of `max_grad_norm`; None to derive it from `target_epsilon`.
        max_grad_norm: the norm to which the gradient of a sample is clipped.
        delta: the probability with which the guarantee may fail; well below one over the number of samples.
        target_epsilon: the largest epsilon that training may reach; None for no limit.
        rate: the probability that a sample is in a batch; None for `batch_size` over the size of the data set.

    Example:
        >>> import syft as sy
        >>> privacy = sy.dp.SamplePrivacy(noise_multiplier=1.1, max_grad_norm=1.0, delta=1e-5)
        >>> round(privacy.cost(60000, batch_size=256, epochs=60), 1)
        4.7
    """

    # The neighbouring relation, for reports.
    neighbours: ClassVar[Neighbours] = Neighbours.REPLACE_ROW

    _by_client: dict[str, Accountant] = dataclasses.field(default_factory=dict, init=False, repr=False, compare=False)

    def _facts(self) -> FactList:
        shown = ((field.name, getattr(self, field.name)) for field in dataclasses.fields(self) if field.repr)
        return (*shown, ("neighbours", str(self.neighbours)))

    def cost(
        self, size: int, batch_size: int = 32, epochs: int = 1, rounds: int = 1, max_nr_batches: int = -1
    ) -> float:
        """Return the epsilon of a planned training, for replacing one row.

        Args:
            size: number of samples of the data set.
            batch_size: number of samples in a batch.
            epochs: number of passes over the data set.
            rounds: number of such trainings.
            max_nr_batches: maximum number of batches of each; -1 for no limit.
        """
        config = TrainConfig(batch_size=batch_size, epochs=epochs, max_nr_batches=max_nr_batches)
        config.check()
        drawn = schedule(size, config, self.rate)
        event = PoissonSampled(drawn.rate, GaussianNoise(noise_of(self, drawn, rounds)))
        return Accountant().compose(event, drawn.steps * rounds).epsilon(self.delta)

    # --- rounds of a federated run ----------------------------------------------------------------------------

    def begin(self) -> None:
        """Start a run with no privacy loss."""
        object.__setattr__(self, "_by_client", {})  # a new one: a copy of this object may be in another run

    def modifiers(self, rounds: int) -> dict[str, dict[str, Any]]:
        """Return the modifier of each client's training, given the planned number of rounds."""
        return {"dp_sgd": {**self.to_dict(), "rounds": rounds}}

    def check(self, client: str, result: object) -> None:
        """Raise if a client does not report its privacy loss of a round, or used too little noise."""
        event, _ = _event_of(client, result)
        noise = event.to_dict()["event"]["noise_multiplier"]
        if self.noise_multiplier is not None and noise < self.noise_multiplier:
            raise FederatedError(f"Client {client!r} trained with less noise than requested.")

    def add(self, client: str, result: Any) -> None:
        """Record the reported privacy loss of a client in a round."""
        event, steps = _event_of(client, result)
        said = _spent_of(client, result["privacy"].get("spent"))
        self._note(client, self._by_client.get(client, Accountant()).after(event, steps), said)

    def add_all(self, client: str, spent: object) -> None:
        """Record the reported total privacy loss of a client in the run, an accountant as a dict; None for none."""
        if spent is not None:
            self._note(client, self._by_client.get(client, Accountant()), _spent_of(client, spent))

    def _note(self, client: str, counted: Accountant, said: Accountant) -> None:
        """Keep the larger one: a report may include lost rounds, or omit earlier ones after a restart."""
        is_more = said != counted and said.epsilon(self.delta) > counted.epsilon(self.delta)
        self._by_client[client] = said if is_more else counted

    @property
    def epsilon(self) -> float:
        """The largest epsilon of all clients so far, as reported by them; their data sets are disjoint."""
        kinds = {frozenset(spent.events): spent for spent in self._by_client.values()}  # many clients spend the same
        return max((spent.epsilon(self.delta) for spent in kinds.values()), default=0.0)

    def settings(self) -> dict[str, Any]:
        """Return plain numbers by name that distinguish these settings; None where a worker decides."""
        return dict(self.to_dict())

    def state(self) -> dict[str, Any]:
        """Return the state for a checkpoint: plain values by name."""
        return {name: spent.to_dict() for name, spent in self._by_client.items()}

    def load_state(self, state: dict[str, Any]) -> None:
        """Restore the result of `state`."""
        loaded = {str(name): Accountant.from_dict(spent) for name, spent in state.items()}
        object.__setattr__(self, "_by_client", {})  # a new one: a copy of this object may be in another run
        self._by_client.update(loaded)


def _event_of(client: str, result: object) -> tuple[PoissonSampled, int]:
    """Return the reported privacy loss of a client, which is untrusted."""
    spent = result.get("privacy") if isinstance(result, dict) else None
    if type(spent) is dict and spent.keys() == {"noise_multiplier", "rate", "steps", "spent"}:
        noise, rate, steps = spent["noise_multiplier"], spent["rate"], spent["steps"]
        numbers = type(noise) is float and type(rate) is float and type(steps) is int
        if numbers and 0 < noise < math.inf and 0 < rate <= 1 and 1 <= steps <= MAX_COUNT:
            try:
                return PoissonSampled(rate, GaussianNoise(noise)), steps
            except (ValueError, TrainingError):
                pass
    raise FederatedError(f"Client {client!r} did not report the privacy loss of its training.")


def _spent_of(client: str, spent: object) -> Accountant:
    """Return the reported total privacy loss of a client, which is untrusted."""
    try:
        if type(spent) is dict and len(spent["events"]) <= _MOST_EVENTS and "orders" not in spent:
            found = Accountant.from_dict(spent)
            if found.neighbours is Neighbours.REPLACE_ROW:
                return found
    except (KeyError, TypeError, ValueError):
        pass
    raise FederatedError(f"Client {client!r} did not report its privacy loss in this run.")
