"""DP-SGD at a client: its result reveals little about any one of its samples."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar

from syft.exceptions import TrainingError
from syft.federated.client.dp_settings import settings_from
from syft.federated.client.dp_training import prepare, step_seconds_of
from syft.federated.client.modifiers.modifier import Modifier
from syft.federated.client.train_config import MAX_COUNT
from syft.federated.client.training_loop import pair_of
from syft.workers.access.policy import check_release, pay

if TYPE_CHECKING:
    from syft.federated.client.local_round import LocalRound
    from syft.federated.client.session import ClientSession

_MEMORY = "dp_sgd"
# Modifiers that use only the model and its update, so they do not affect the privacy loss.
_HARMLESS = frozenset({"clipping", "control", "dp_sgd", "masking", "proximal"})


class DPSGD(Modifier):
    """Draw batches in secret, clip the gradient of each sample, and add noise to their sum.

    Args:
        settings: the settings of `SampleSettings` by name, and `rounds`, the planned number of rounds.
    """

    name: ClassVar[str] = "dp_sgd"
    order: ClassVar[int] = -50

    def __init__(self, settings: dict[str, Any]) -> None:
        super().__init__(settings)
        given = dict(settings)
        self.rounds = given.pop("rounds", None)
        if type(self.rounds) is not int or not 1 <= self.rounds <= MAX_COUNT:
            raise TrainingError("Private training needs rounds, the planned number of rounds.")
        self.privacy = settings_from(given)

    def train(self, work: LocalRound) -> bool:
        """Pay, then train."""
        client = work.client
        strange = [each.name for each in work.modifiers if each.name not in _HARMLESS]
        if strange:
            raise TrainingError(f"The modifier {strange[0]!r} can't be combined with private training at the clients.")
        spent = client.memory.get(_MEMORY)
        training = prepare(
            work.plan,
            work.loss,
            pair_of(client.dataset),
            self.privacy,
            work.config,
            spent,
            self.rounds,
            client.is_guarded,
            step_seconds_of(client.worker),
        )
        _pay(client, training.event)
        client.memory[_MEMORY] = training.spent.to_dict()  # it counts from here on, even if training fails
        training.run(work.optimizer, client.watch(), work.gradient_hook())
        work.samples, work.steps = training.schedule.size, training.schedule.steps
        work.answer["privacy"] = {**training.report, "spent": client.memory[_MEMORY]}
        return True


def spent(client: ClientSession, payload: dict[str, Any]) -> dict[str, Any]:
    """Return the privacy loss of this client in the run so far; it does not depend on the samples' values."""
    return {"spent": client.memory.get(_MEMORY)}


def _pay(client: ClientSession, event: dict[str, Any]) -> None:
    """Charge the budget, or check the policy if there is none; raises before anything is computed."""
    if not client.is_guarded:
        return
    if not pay(client.worker, event, "federated train"):
        check_release(client.worker, client.session, None, "federated train")
    client.is_paid = True
