"""The control variates of Scaffold, which correct the drift of a client's gradients.

A client stores its control by the number of the round that made it. The server says which one was counted last.
That one is kept, and the one of the current round: the client learns only at the next round whether its result
arrived and the round was completed.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, ClassVar

import torch

from syft.exceptions import StateLostError, TrainingError
from syft.federated.client.modifiers.modifier import (
    MAX_ROUND,
    Modifier,
    Pairs,
    add_to_gradient,
    pieces,
    require_all_steps,
)

if TYPE_CHECKING:
    from syft.federated.client.local_round import LocalRound

MEMORY = "control"


class ScaffoldControl(Modifier):
    """Steps along `gradient - own control + mean control`, and computes the next control from the result.

    Args:
        settings: `control`, the mean control of all clients, flat, of the size of the parameters; `version`, the round
            that the control of this client was counted in last, 0 if there is none; `plain`, whether to train
            without controls in this round and to drop the own one.
    """

    name: ClassVar[str] = "control"

    def __init__(self, settings: dict[str, Any]) -> None:
        super().__init__(settings)
        if settings.keys() != {"control", "version", "plain"}:
            raise TrainingError("The modifier 'control' has three settings: control, version and plain.")
        control, version, plain = settings["control"], settings["version"], settings["plain"]
        if type(version) is not int or not 0 <= version < MAX_ROUND or type(plain) is not bool:
            raise TrainingError("version of a control must be the number of a round, and plain True or False.")
        if type(control) is not torch.Tensor or control.dim() != 1 or not control.dtype.is_floating_point:
            raise TrainingError("The control of a round must be one floating-point vector.")
        control = control.detach()
        if not bool(torch.isfinite(control).all()):
            raise TrainingError("The control of a round is not finite. Try a smaller learning rate.")
        self._control, self._version, self._plain = control, version, plain
        self._own = control
        self._pairs: Pairs = []
        self._seen = 0

    def begin(self, work: LocalRound) -> None:
        """Load the own control and check that the optimizer is plain SGD."""
        count = work.layout.parameters
        if self._control.shape != (count,):
            raise TrainingError(f"The control of this round has {len(self._control)} numbers; the model has {count}.")
        _require_plain_steps(work)
        if self._version >= work.round:
            raise TrainingError("A control can only be counted in an earlier round.")
        self._control = self._control.to(work.layout.dtype)
        if self._plain:
            work.client.memory.pop(MEMORY, None)
            return
        self._own = self._remembered(work)
        self._pairs = pieces(work, self._control - self._own)

    def _remembered(self, work: LocalRound) -> torch.Tensor:
        if self._version == 0:
            return torch.zeros_like(self._control)
        own: torch.Tensor | None = work.client.memory.get(MEMORY, {}).get(self._version)
        if own is None or own.shape != self._control.shape:
            raise StateLostError(
                f"Client {work.client.name!r} no longer has its control of round {self._version} of this run: it was "
                "restarted, perhaps. Scaffold restarts with new controls."
            )
        return own

    def gradients(self, work: LocalRound) -> None:
        """Correct each gradient."""
        self._seen += 1
        with torch.no_grad():
            for parameter, correction in self._pairs:
                add_to_gradient(parameter, correction)

    def finish(self, work: LocalRound) -> None:
        """Return the change of the own control, and store both versions."""
        require_all_steps(work, self._seen, "Scaffold")
        change = torch.zeros_like(self._control)
        if not self._plain and work.steps:
            change -= self._control
            change -= work.update[: len(change)] / (work.steps * work.learning_rate)
        work.answer["control"] = change
        if not self._plain:
            kept = {self._version: self._own} if self._version else {}
            work.client.memory[MEMORY] = {**kept, work.round: self._own + change}


def _require_plain_steps(work: LocalRound) -> None:
    """Raise if steps are not `learning rate times gradient`."""
    groups = work.optimizer.param_groups
    is_plain = type(work.optimizer) is torch.optim.SGD and all(
        not group["momentum"] and not group["maximize"] for group in groups
    )
    if not is_plain or not 0 < work.learning_rate < math.inf:
        raise TrainingError(
            "Scaffold needs plain SGD. Set optimizer='SGD' and optimizer_args={'lr': 0.1}, without momentum."
        )
