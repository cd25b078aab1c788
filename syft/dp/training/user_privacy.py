"""UserPrivacy: DP-FedAvg (McMahan and others, 2018), which hides each client in the model of a federated run.

In each round every client takes part with the same probability, drawn in secret. Its update is clipped by the client,
and again by the server if it sees updates. The sum of the updates gets Gaussian noise, and is divided by the expected
number of clients, not by the actual one. The server does all of that, so it is trusted (the central model). With secure
aggregation it sees only the sum, to which it adds the noise.

Epsilon compares runs of which one has one client more; the divisor of sums is the same. This unit differs from that of
data sets' budgets, and the two are never added.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, ClassVar

import torch

from syft.display.facts import FactList, Shown
from syft.dp.accounting.accountant import Accountant, noise_for
from syft.dp.accounting.events import Approximate, GaussianNoise, PoissonSampled
from syft.dp.accounting.neighbours import Neighbours
from syft.dp.accounting.thresholds import Threshold
from syft.dp.mechanisms.noise import add_gaussian, rounding_l2
from syft.dp.training.sampling import poisson
from syft.exceptions import FederatedError, TrainingError
from syft.federated.client.dp_settings import check_limits
from syft.federated.client.modifiers.clipping import MAX_CLIP, MIN_CLIP, clipped_update
from syft.federated.client.state_vector import StateLayout
from syft.federated.strategies.strategy import Strategy, Total

# Name -> exclusive minimum and inclusive maximum.
_LIMITS: dict[str, tuple[float, float]] = {
    "noise_multiplier": (1e-4, 1e6),  # less would hide nothing
    "clip": (MIN_CLIP, MAX_CLIP),
    "delta": (0.0, 0.5),
    "target_epsilon": (0.0, 1e4),
    "rate": (0.0, 1.0),
}
# The largest share of delta that a threshold of secure aggregation may use: planned, and in the end.
_PLANNED, _ENDED = 0.1, 0.5
_LEAST_SECURE = 3


class UserPrivacy(Shown):
    """Hides each client of a run: the model reveals little about its participation and its data.

    Pass it to `sy.federated.run` as `privacy`. The guarantee is for the model, not for the participants of a round,
    which the server keeps secret. A run ends before the round that would exceed `target_epsilon`.

    Args:
        noise_multiplier: the noise, in units of `clip`; None to derive it from `target_epsilon`.
        clip: the norm to which the update of a client is clipped, over all parameters together.
        delta: the probability with which the guarantee may fail; well below one over the number of clients.
        target_epsilon: the largest epsilon that the run may reach; None for no limit.
        rate: the probability that a client takes part in a round; None for `clients_per_round` of the run over the
            number of its clients.
        dropout: with secure aggregation, the expected share of clients lost in a round. Epsilon holds if the loss of a
            client depends neither on its data nor on the other drawn clients.

    Example:
        >>> import syft as sy
        >>> privacy = sy.dp.UserPrivacy(noise_multiplier=1.0, clip=0.5, delta=1e-6)
        >>> privacy.begin(clients=10000, rounds=100, rate=0.01)
        >>> round(privacy.cost(100), 2)
        1.51
    """

    # The neighbouring relation, for reports.
    neighbours: ClassVar[Neighbours] = Neighbours.ADD_REMOVE_CLIENT

    def __init__(
        self,
        noise_multiplier: float | None = None,
        clip: float = 1.0,
        delta: float = 1e-5,
        target_epsilon: float | None = None,
        rate: float | None = None,
        dropout: float = 0.0,
    ) -> None:
        check_limits("UserPrivacy", locals(), _LIMITS)
        if type(dropout) not in (int, float) or not 0 <= dropout < 1:
            raise TrainingError(f"dropout of UserPrivacy must be a number from 0 to below 1, got {dropout!r:.50}.")
        self.clip, self.delta, self.target_epsilon = float(clip), float(delta), target_epsilon
        self.dropout = float(dropout)
        self._threshold: Threshold | None = None
        self._given_noise, self._given_rate = noise_multiplier, rate
        self.noise_multiplier: float | None = noise_multiplier
        self.rate: float | None = rate
        self.clients = 0
        self._spent = Accountant(neighbours=self.neighbours)

    # --- a run ------------------------------------------------------------------------------------------------

    def check(self, strategy: Strategy) -> None:
        """Raise if a strategy needs more of a client than the clipped update."""
        if not strategy.is_linear or strategy.extras:
            raise FederatedError(
                f"{strategy!r} needs more than the sum of the clients' updates, which UserPrivacy does not provide. "
                "Use one such as FedAvg, FedProx, FedAvgM, FedAdam or FedYogi."
            )

    def check_layout(self, layout: StateLayout) -> None:
        """Raise if a model has buffers: noise would make variances negative, and counts and tables wrong."""
        if layout.size != layout.parameters:
            raise FederatedError(
                f"The model has {layout.size - layout.parameters} numbers in buffers, as with batch norm, to which "
                "UserPrivacy would add noise. Use GroupNorm or LayerNorm instead "
                "(sy.dp.PrivacyEngine.fix(model) does that), and no other buffers."
            )

    def begin(self, clients: int, rounds: int, rate: float | None = None) -> None:
        """Start a run with no privacy loss.

        Args:
            clients: total number of clients.
            rounds: number of planned rounds.
            rate: the probability that a client takes part in a round, if this object has none.
        """
        if clients < 1:
            raise FederatedError("A run needs at least one client.")
        rate = self._given_rate if self._given_rate is not None else 1.0 if rate is None else rate
        if not 0 < rate <= 1:
            raise FederatedError(f"The sampling rate of clients must be above 0 and at most 1, got {rate}.")
        noise = self._given_noise
        if noise is None and self.target_epsilon is not None:
            try:
                noise = noise_for(self.target_epsilon, self.delta, rate, max(1, rounds), neighbours=self.neighbours)
            except ValueError as error:
                raise TrainingError(str(error)) from None
        self.noise_multiplier, self.rate, self.clients = noise, float(rate), clients
        self._rounds, self._threshold = max(1, rounds), None
        self._spent = Accountant(neighbours=self.neighbours)

    def require(self, least: int, left: Callable[[int], int]) -> None:
        """Charge each round for the probability that it misses a threshold; raises if that exceeds its share of delta.

        Call it after `begin`, and after `load_state` if a run is resumed.

        Args:
            least: minimum number of clients at the start of a round; 1 for no threshold.
            left: returns the minimum number of clients at the end, from the number at the start.
        """
        if least <= 1 or self.rate is None:
            return
        self._threshold = Threshold(least, left)
        missed = self._missed(self.dropout)
        most = _PLANNED * self.delta / self._rounds
        if missed > most:
            raise FederatedError(self._advice(missed, most / self.rate))
        if self._given_noise is None and self.target_epsilon is not None and not len(self._spent):
            rest = self.delta - self._rounds * missed
            found = noise_for(self.target_epsilon, rest, self.rate, self._rounds, neighbours=self.neighbours)
            self.noise_multiplier = found

    def _missed(self, dropout: float) -> float:
        """Return the probability that one client makes the difference for a threshold, at a share of lost clients."""
        if self._threshold is None or self.rate is None:
            return 0.0
        return self.rate * self._threshold.missed(self.clients, self.rate, min(1.0, dropout))

    def _advice(self, missed: float, most: float) -> str:
        threshold, rate = self._threshold, self.rate or 1.0
        if threshold is None:
            raise ValueError("there is no threshold")
        least = threshold.fitting_least(self.clients, rate, self.dropout, most, _LEAST_SECURE)
        higher = threshold.fitting_rate(self.clients, rate, self.dropout, most)
        ways = [] if least is None else [f"SecureAggregation(min_clients={least})"]
        ways += [] if higher is None else [f"UserPrivacy(rate={higher:g})"]
        return (
            f"With {self.clients} clients at rate {rate:g} and dropout {self.dropout:g}, a round misses the thresholds "
            f"of secure aggregation (min_clients={threshold.least}) because of one client with probability "
            f"{missed:.2g}, which no noise hides. Over {self._rounds} rounds that is "
            f"{missed * self._rounds:.2g}, and delta is {self.delta:g}. "
            f"Use {' or '.join(ways) or 'more clients, or a larger delta'}."
        )

    @property
    def _event(self) -> PoissonSampled:
        if self.noise_multiplier is None or self.rate is None or not self.clients:
            raise FederatedError("UserPrivacy has no run. Pass it to sy.federated.run(privacy=...).")
        return PoissonSampled(self.rate, GaussianNoise(self.noise_multiplier))

    @property
    def expected(self) -> float:
        """The expected number of clients in a round, by which the sum of the updates is divided."""
        return (self.rate or 0.0) * self.clients

    def ending(self) -> str | None:
        """Return why the run ends here: another round would exceed the target; None if it continues."""
        if self.target_epsilon is None or self.cost(1) <= self.target_epsilon * (1 + 1e-9):
            return None
        return (
            f"Another round would exceed the target_epsilon of {self.target_epsilon:g}: "
            f"{self.epsilon:.4g} is spent at delta {self.delta:g} ({self.neighbours})."
        )

    def choose(self, count: int) -> list[int]:
        """Draw the participants of a round in secret, as indices. There may be none, which is a valid round."""
        if count != self.clients or self.rate is None:
            raise FederatedError(f"The run started with {self.clients} clients, but there are {count} now.")
        found: list[int] = poisson(count, self.rate).tolist()
        return found

    def modifiers(self) -> dict[str, dict[str, Any]]:
        """Return the modifier of each client's training."""
        return {"clipping": {"clip": self.clip}}

    def bound(self, result: Any) -> Any:
        """Return the result of a client with its update clipped by the server, and counting as one client.

        One without an update is returned unchanged, to be refused later.
        """
        update = result.get("update") if isinstance(result, dict) else None
        if type(update) is not torch.Tensor or not update.dtype.is_floating_point:
            return result
        bounded = {**result, "update": clipped_update(update, self.clip), "samples": 1}
        bounded.pop("metrics", None)
        return bounded

    def release(self, total: Total | None, size: int, lost: float = 0.0) -> Total:
        """Add noise to the sum of a round, and record its privacy loss.

        Args:
            total: the mean of the updates; None if no client was drawn or answered: then the result is noise.
            size: the length of the updates.
            lost: the share of the drawn clients that dropped out. With a threshold, the round is charged for twice that
                share of all clients if this is more than `dropout`; raises FederatedError if delta has no room.

        Returns:
            The noisy sum, divided by the expected number of clients.
        """
        event = self._event
        update, count = torch.zeros(size, dtype=torch.float64), 0
        if total is not None:
            if abs(total.weight - total.count) > 1e-6 or total.update.shape != (size,):
                raise FederatedError("With UserPrivacy all clients must have the same weight and one update.")
            update, count = total.update.to(torch.float64) * total.weight, total.count
        missed = self._missed(max(self.dropout, 2 * lost))
        if missed and self._spent.leaked + missed > _ENDED * self.delta:
            raise FederatedError(
                f"{lost:.0%} of the drawn clients are lost. A round then misses the thresholds of secure "
                f"aggregation because of one client with probability {missed:.2g}, but delta is {self.delta:g}: "
                "epsilon would not hold. Plan for losses with UserPrivacy(dropout=...), or lower min_clients of "
                "SecureAggregation."
            )
        self._spent.compose(event)
        if missed:
            self._spent.compose(Approximate(0.0, missed))
        sigma = event.event.noise_multiplier * self.clip  # type: ignore[attr-defined]
        # Rounding to the grid of the noise can move neighbours apart by slightly more than the clip.
        sigma *= 1.0 + rounding_l2(sigma, size) / self.clip
        return Total(add_gaussian(update, sigma) / self.expected, self.expected, count)

    # --- what it costs ----------------------------------------------------------------------------------------

    @property
    def epsilon(self) -> float:
        """The privacy loss so far, at `delta`."""
        return self._spent.epsilon(self.delta)

    def cost(self, rounds: int) -> float:
        """Return the privacy loss after a number of further rounds, at `delta`."""
        after = self._spent.after(self._event, rounds)
        missed = self._missed(self.dropout)
        return (after.compose(Approximate(0.0, missed), rounds) if missed else after).epsilon(self.delta)

    def settings(self) -> dict[str, Any]:
        """Return plain numbers by name that distinguish these settings; None where the run decides."""
        return {
            "noise_multiplier": self._given_noise,
            "clip": self.clip,
            "delta": self.delta,
            "target_epsilon": self.target_epsilon,
            "rate": self._given_rate,
            "dropout": self.dropout,
        }

    def state(self) -> dict[str, Any]:
        """Return the state for a checkpoint: plain values by name."""
        return {
            "noise_multiplier": self.noise_multiplier,
            "rate": self.rate,
            "clients": self.clients,
            "spent": self._spent.to_dict(),
        }

    def load_state(self, state: dict[str, Any]) -> None:
        """Restore the result of `state`; call `begin` before. The noise keeps its value."""
        try:
            noise, rate, clients = float(state["noise_multiplier"]), float(state["rate"]), int(state["clients"])
            spent = Accountant.from_dict(state["spent"])
        except (KeyError, TypeError, ValueError) as error:
            raise FederatedError(f"The state of UserPrivacy is invalid: {error}") from None
        if spent.neighbours is not self.neighbours:
            raise FederatedError(f"The state of UserPrivacy must use {self.neighbours}, got {spent.neighbours}.")
        if clients != self.clients or not math.isclose(rate, self.rate or 0.0):
            raise FederatedError(
                f"The resumed run had {clients} clients, each with a probability of {rate:g} in a round; "
                f"now it is {self.clients} and {self.rate or 0.0:g}. Resume it with the same clients."
            )
        self.noise_multiplier, self._spent = noise, spent

    def _facts(self) -> FactList:
        spent = self.epsilon if len(self._spent) else None
        return (*self.settings().items(), ("spent epsilon", spent), ("neighbours", str(self.neighbours)))

    def __repr__(self) -> str:
        shown = ", ".join(f"{name}={value:g}" for name, value in self.settings().items() if value is not None)
        spent = f", spent epsilon={self.epsilon:.4g}" if len(self._spent) else ""
        return f"<UserPrivacy {shown}{spent}, {self.neighbours}>"
