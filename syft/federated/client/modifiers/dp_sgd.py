"""DP-SGD at a client: what it answers with tells little about any one of its samples."""

from __future__ import annotations

from typing import Any, ClassVar

from syft.exceptions import TrainingError
from syft.federated.client.dp_settings import settings_from
from syft.federated.client.dp_training import prepare, step_seconds_of
from syft.federated.client.local_training import TERMS, LocalRound, Modifier, term
from syft.federated.client.session import ClientSession, answers
from syft.federated.client.train_config import MAX_COUNT
from syft.workers.access.policy import check_release, pay

_MEMORY = "dp_sgd"
# Terms that look at nothing but the model and its update: they change nothing about what the data is told by.
_HARMLESS = frozenset({"clipping", "control", "dp_sgd", "masking", "proximal"})


@term("dp_sgd")
class DPSGD(Modifier):
    """Draw batches in secret, clip the gradient of each sample, and add noise to their sum.

    Args:
        settings: the settings of `SampleSettings` by name, and `rounds`: how many rounds are planned.
    """

    order: ClassVar[int] = -50

    def __init__(self, settings: dict[str, Any]) -> None:
        super().__init__(settings)
        given = dict(settings)
        self.rounds = given.pop("rounds", None)
        if type(self.rounds) is not int or not 1 <= self.rounds <= MAX_COUNT:
            raise TrainingError("Private training is told how many rounds are planned.")
        self.privacy = settings_from(given)

    def train(self, work: LocalRound) -> bool:
        """Train, when it is paid for."""
        station = work.station
        strange = [name for name, kind in TERMS.items() if name not in _HARMLESS and kind in map(type, work.terms)]
        if strange:
            raise TrainingError(f"The term {strange[0]!r} can't be combined with private training at the clients.")
        spent = station.memory.get(_MEMORY)
        training = prepare(
            work.plan,
            work.loss,
            station.tensors(),
            self.privacy,
            work.config,
            spent,
            self.rounds,
            station.is_guarded,
            step_seconds_of(station.worker),
        )
        _pay(station, training.event)
        station.memory[_MEMORY] = training.spent.to_dict()  # it counts from here on, whatever happens
        act = [other.gradients for other in work.terms if type(other).gradients is not Modifier.gradients]

        def before_step() -> None:
            for gradients in act:
                gradients(work)

        training.run(work.optimizer, station.watch(), before_step)
        work.samples, work.steps = training.schedule.size, training.schedule.steps
        work.answer["privacy"] = {**training.report, "spent": station.memory[_MEMORY]}
        return True


@answers("spent", derives=False)
def spent(station: ClientSession, payload: dict[str, Any]) -> dict[str, Any]:
    """Say what this client has spent in the run so far; nothing of it depends on what its samples are."""
    return {"spent": station.memory.get(_MEMORY)}


def _pay(station: ClientSession, event: dict[str, Any]) -> None:
    """Charge the budget, or ask the policy where there is none; raises before anything is computed."""
    if not station.is_guarded:
        return
    if not pay(station.worker, event, "federated train"):
        check_release(station.worker, station.session, None, "federated train")
    station.is_paid = True
