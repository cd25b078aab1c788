"""The proximal term of FedProx: it keeps a client's model near the one that it started from."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, ClassVar

import torch

from syft.exceptions import TrainingError
from syft.federated.client.modifiers.modifier import Modifier, Pairs, add_to_gradient, pieces, require_all_steps

if TYPE_CHECKING:
    from syft.federated.client.local_round import LocalRound


class Proximal(Modifier):
    """Adds the gradient of `mu / 2 * |w - w_start|^2` to that of the parameters.

    Args:
        settings: `mu`, a non-negative number.
    """

    name: ClassVar[str] = "proximal"

    def __init__(self, settings: dict[str, Any]) -> None:
        super().__init__(settings)
        mu: Any = settings.get("mu")
        if settings.keys() != {"mu"} or type(mu) not in (int, float) or not 0 <= mu < math.inf:
            raise TrainingError("The modifier 'proximal' has one setting: mu, a non-negative number.")
        self.mu = float(mu)
        self._pairs: Pairs = []
        self._seen = 0

    def begin(self, work: LocalRound) -> None:
        """Record the initial parameters."""
        self._pairs = pieces(work, work.start)

    def gradients(self, work: LocalRound) -> None:
        """Pull each parameter towards its initial value."""
        self._seen += 1
        with torch.no_grad():
            for parameter, start in self._pairs:
                add_to_gradient(parameter, (parameter - start).mul_(self.mu))

    def finish(self, work: LocalRound) -> None:
        """Check that it acted in each step."""
        require_all_steps(work, self._seen, "FedProx")
