"""UserPrivacy: DP-FedAvg (McMahan and others, 2018). Each client as a whole is hidden in the model of a federated run.

In each round every client takes part with the same probability, drawn in secret. Its update is clipped, by itself and
again by the server where that sees updates. The sum of the updates gets Gaussian noise, and is divided by the number of
clients that is expected, not by how many there were. All of that is done by the server, so it is trusted with what it
sees (the central model). With secure aggregation it sees the sum only, to which it adds the noise.

Epsilon compares runs of which one has one client more; the number that sums are divided by stays. This unit is another
one than that of data sets' budgets, and is never added to it.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, ClassVar

import torch

from syft.dp.accounting.accountant import Accountant, noise_for
from syft.dp.accounting.events import Approximate, GaussianNoise, PoissonSampled
from syft.dp.accounting.neighbours import Neighbours
from syft.dp.accounting.thresholds import Threshold
from syft.dp.mechanisms.noise import add_gaussian, rounding_l2
from syft.dp.training.sampling import poisson
from syft.exceptions import FederatedError, TrainingError
from syft.federated.client.modifiers.clipping import MAX_CLIP, MIN_CLIP, clipped_update
from syft.federated.client.state_vector import StateLayout
from syft.federated.strategies.strategy import Strategy, Total

# Name -> the least value, which is not allowed itself, and the largest one.
_LIMITS: dict[str, tuple[float, float]] = {
    "noise_multiplier": (1e-4, 1e6),  # less hides nothing
    "clip": (MIN_CLIP, MAX_CLIP),
    "delta": (0.0, 0.5),
    "target_epsilon": (0.0, 1e4),
    "rate": (0.0, 1.0),
}
_OPTIONAL = frozenset({"noise_multiplier", "target_epsilon", "rate"})
# The largest share of delta that a threshold of secure aggregation may take: by plan, and in the end.
_PLANNED, _ENDED = 0.1, 0.5
_LEAST_SECURE = 3


class UserPrivacy:
    """Each client of a run is hidden: whoever gets the model learns little about whether it took part, and with what.

    Give it to `sy.federated.run` as `privacy`. What holds for the model does not hold for who took part in a round: the
    server keeps that to itself. A run ends before the round that would pass `target_epsilon`.

    Args:
        noise_multiplier: how much noise, in units of `clip`; None to have it found from `target_epsilon`.
        clip: to what norm the update of a client is clipped, over all parameters together.
        delta: the probability that the bound does not hold; well below one over the number of clients.
        target_epsilon: the largest epsilon that the run may reach; None for no such limit.
        rate: with what probability a client takes part in a round; None for `clients_per_round` of the run over the
            number of its clients.
        dropout: with secure aggregation, the share of clients that is expected to be lost in a round. Epsilon holds if
            whether a client is lost depends neither on its data nor on the other clients that were drawn.

    Example:
        >>> import syft as sy
        >>> privacy = sy.dp.UserPrivacy(noise_multiplier=1.0, clip=0.5, delta=1e-6)
        >>> privacy.begin(clients=10000, rounds=100, rate=0.01)
        >>> round(privacy.cost(100), 2)
        1.51
    """

    # Which runs are neighbours, for reports.
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
        given = locals()
        for name, (least, most) in _LIMITS.items():
            value = given[name]
            if value is None and name in _OPTIONAL:
                continue
            if type(value) not in (int, float) or not least < value <= most:
                raise TrainingError(
                    f"{name} of UserPrivacy is a number above {least:g}, at most {most:g}, not {value!r:.50}."
                )
        if noise_multiplier is None and target_epsilon is None:
            raise TrainingError("UserPrivacy needs a noise_multiplier, or a target_epsilon.")
        if type(dropout) not in (int, float) or not 0 <= dropout < 1:
            raise TrainingError(f"dropout of UserPrivacy is a number from 0, below 1, not {dropout!r:.50}.")
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
        """Raise if a strategy needs more of a client than what is clipped and hidden."""
        if not strategy.is_linear or strategy.extras:
            raise FederatedError(
                f"{strategy!r} needs more than the sum of the clients' updates, which is all that UserPrivacy gives. "
                "Use one such as FedAvg, FedProx, FedAvgM, FedAdam or FedYogi."
            )

    def check_layout(self, layout: StateLayout) -> None:
        """Raise if a model has buffers: noise on them makes variances negative, and counts and tables wrong."""
        if layout.size != layout.parameters:
            raise FederatedError(
                f"The model has {layout.size - layout.parameters} numbers in buffers, as batch norm has, and the noise "
                "of UserPrivacy would fall on them: use GroupNorm or LayerNorm instead "
                "(sy.dp.PrivacyEngine.fix(model) does that), and no other buffers."
            )

    def begin(self, clients: int, rounds: int, rate: float | None = None) -> None:
        """Begin a run: nothing is spent.

        Args:
            clients: how many clients there are in all.
            rounds: how many rounds are planned.
            rate: with what probability a client takes part in a round, if this object does not say so itself.
        """
        if clients < 1:
            raise FederatedError("A run has at least one client.")
        rate = self._given_rate if self._given_rate is not None else 1.0 if rate is None else rate
        if not 0 < rate <= 1:
            raise FederatedError(f"The sampling rate of clients is above 0 and at most 1, not {rate}.")
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
        """Charge each round for the probability that it misses a threshold; raises if that is too much of delta.

        Call it after `begin`, and after `load_state` if a run is resumed.

        Args:
            least: the number of clients that a round begins with; with one there is no threshold.
            left: gives the number of clients that must be left, of the number that a round began with.
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
        """Return the probability that a client makes up the number that a round needs, at a share of lost clients."""
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
            raise FederatedError("UserPrivacy has not begun a run: give it to sy.federated.run(privacy=...).")
        return PoissonSampled(self.rate, GaussianNoise(self.noise_multiplier))

    @property
    def expected(self) -> float:
        """How many clients are expected in a round, which the sum of the updates is divided by."""
        return (self.rate or 0.0) * self.clients

    def ending(self) -> str | None:
        """Return why the run ends here: another round would pass the target; None if it goes on."""
        if self.target_epsilon is None or self.cost(1) <= self.target_epsilon * (1 + 1e-9):
            return None
        return (
            f"Another round would pass the target_epsilon of {self.target_epsilon:g}: "
            f"{self.epsilon:.4g} is spent at delta {self.delta:g} ({self.neighbours})."
        )

    def choose(self, count: int) -> list[int]:
        """Draw who takes part in a round, in secret: their numbers. There may be none, which is a round like any other.

        Args:
            count: how many clients there are in all.
        """
        if count != self.clients or self.rate is None:
            raise FederatedError(f"The run began with {self.clients} clients, and there are {count} now.")
        found: list[int] = poisson(count, self.rate).tolist()
        return found

    def terms(self) -> dict[str, dict[str, Any]]:
        """Return the term of each client's training."""
        return {"clipping": {"clip": self.clip}}

    def bound(self, result: Any) -> Any:
        """Return the answer of a client with its update clipped, whatever it did itself, and counting as one client.

        Args:
            result: the answer; one that has no update is returned as it is, to be refused.
        """
        update = result.get("update") if isinstance(result, dict) else None
        if type(update) is not torch.Tensor or not update.dtype.is_floating_point:
            return result
        bounded = {**result, "update": clipped_update(update, self.clip), "samples": 1}
        bounded.pop("metrics", None)
        return bounded

    def release(self, total: Total | None, size: int, lost: float = 0.0) -> Total:
        """Add noise to what the clients of a round gave together, and take note of what it costs.

        Args:
            total: the mean of their updates; None if nobody was drawn, or nobody answered: then there is noise only.
            size: how many numbers the updates have.
            lost: the share of the drawn clients that dropped out. With a threshold, the round is charged for twice that
                share of all clients if this is more than `dropout`, and FederatedError raised if delta has no room.

        Returns:
            The noisy sum, divided by the number of clients that is expected.
        """
        event = self._event
        update, count = torch.zeros(size, dtype=torch.float64), 0
        if total is not None:
            if abs(total.weight - total.count) > 1e-6 or total.update.shape != (size,):
                raise FederatedError("With UserPrivacy each client counts the same, and gives one update.")
            update, count = total.update.to(torch.float64) * total.weight, total.count
        missed = self._missed(max(self.dropout, 2 * lost))
        if missed and self._spent.leaked + missed > _ENDED * self.delta:
            raise FederatedError(
                f"{lost:.0%} of the clients that were drawn are lost. A round then misses the thresholds of secure "
                f"aggregation because of one client with probability {missed:.2g}, and delta is {self.delta:g}: "
                "epsilon would not hold. Plan for losses with UserPrivacy(dropout=...), or lower min_clients of "
                "SecureAggregation."
            )
        self._spent.compose(event)
        if missed:
            self._spent.compose(Approximate(0.0, missed))
        sigma = event.event.noise_multiplier * self.clip  # type: ignore[attr-defined]
        # Noise is added on a grid, and rounding to it can move neighbours apart by a little more than the clip.
        sigma *= 1.0 + rounding_l2(sigma, size) / self.clip
        return Total(add_gaussian(update, sigma) / self.expected, self.expected, count)

    # --- what it costs ----------------------------------------------------------------------------------------

    @property
    def epsilon(self) -> float:
        """What was spent so far, at `delta`."""
        return self._spent.epsilon(self.delta)

    def cost(self, rounds: int) -> float:
        """Return what will have been spent after so many more rounds, at `delta`."""
        after = self._spent.after(self._event, rounds)
        missed = self._missed(self.dropout)
        return (after.compose(Approximate(0.0, missed), rounds) if missed else after).epsilon(self.delta)

    def settings(self) -> dict[str, Any]:
        """Return plain numbers by name that tell this from another one; None where the run decides."""
        return {
            "noise_multiplier": self._given_noise,
            "clip": self.clip,
            "delta": self.delta,
            "target_epsilon": self.target_epsilon,
            "rate": self._given_rate,
            "dropout": self.dropout,
        }

    def state(self) -> dict[str, Any]:
        """Return what has to be remembered when a run is resumed: plain values by name."""
        return {
            "noise_multiplier": self.noise_multiplier,
            "rate": self.rate,
            "clients": self.clients,
            "spent": self._spent.to_dict(),
        }

    def load_state(self, state: dict[str, Any]) -> None:
        """Go on from what `state` gave; call `begin` before. The noise stays what it was found to be."""
        try:
            noise, rate, clients = float(state["noise_multiplier"]), float(state["rate"]), int(state["clients"])
            spent = Accountant.from_dict(state["spent"])
        except (KeyError, TypeError, ValueError) as error:
            raise FederatedError(f"The state of UserPrivacy can't be read: {error}") from None
        if spent.neighbours is not self.neighbours:
            raise FederatedError(f"The state of UserPrivacy counts {spent.neighbours}, not {self.neighbours}.")
        if clients != self.clients or not math.isclose(rate, self.rate or 0.0):
            raise FederatedError(
                f"The run that is resumed had {clients} clients, each with a probability of {rate:g} in a round; "
                f"now it is {self.clients} and {self.rate or 0.0:g}. Resume it with the same clients."
            )
        self.noise_multiplier, self._spent = noise, spent

    def __repr__(self) -> str:
        shown = ", ".join(f"{name}={value:g}" for name, value in self.settings().items() if value is not None)
        spent = f", spent epsilon={self.epsilon:.4g}" if len(self._spent) else ""
        return f"<UserPrivacy {shown}{spent}, {self.neighbours}>"
