"""SecureAggregation: how many clients have to be left, and which numbers have to fit."""

from __future__ import annotations

import dataclasses
import math
from typing import TYPE_CHECKING

from syft.exceptions import TrainingError
from syft.federated.client.secure_aggregation.packing import check_range
from syft.federated.client.secure_aggregation.participants import LEAST, MOST

if TYPE_CHECKING:
    from syft.federated.secure_aggregation.collector import SecureCollector


@dataclasses.dataclass(frozen=True, slots=True)
class SecureAggregation:
    """Lets the server of a run see only the sum of what the clients of a round give.

    Clients mask what they give such that masks cancel in the sum; if clients drop out, the others help to take the
    masks off, as long as enough are left (Bonawitz et al., 2017). What this protects against: docs/how-to/federated.md.

    Args:
        threshold: how many clients have to be left at the end of a round: a number, or a share of the round's clients.
            More than two thirds by default; always more than half.
        min_clients: how many clients a round has to begin with; 3 at least.
        timeout: how many seconds each of the short steps may take, apart from training.
        max_update: the largest number in an update that has to fit; a larger one is an error at the client.
        max_samples: the largest number of samples of a client that has to fit together with it.

    Example:
        >>> import torch, syft as sy
        >>> data = torch.linspace(-1, 1, 40).view(-1, 1)
        >>> result = sy.federated.run(
        ...     "fedavg", sy.federated.Simulation((data, 3 * data), 4), 2, model=torch.nn.Linear(1, 1),
        ...     loss_fn=torch.nn.functional.mse_loss, secure=sy.federated.SecureAggregation(), seed=1
        ... )
        >>> result.rounds
        2
    """

    threshold: int | float | None = None
    min_clients: int = LEAST
    timeout: float = 60.0
    max_update: float = 1024.0
    max_samples: int = 2**20

    def __post_init__(self) -> None:
        check_range(self.max_update, self.max_samples)
        given = self.threshold
        is_share = type(given) is float and 0.5 < given <= 1
        if not (given is None or is_share or (type(given) is int and 2 <= given <= MOST)):
            raise TrainingError(
                "threshold of SecureAggregation is a number of clients from 2, or a share of them above 0.5 and up to "
                f"1.0, not {given!r:.50}."
            )
        if type(self.min_clients) is not int or not LEAST <= self.min_clients <= MOST:
            raise TrainingError(
                f"min_clients of SecureAggregation is a whole number from {LEAST} to {MOST}: the sum of fewer clients "
                "tells too much of each."
            )
        if type(self.timeout) not in (int, float) or not 0 < self.timeout < math.inf:
            raise TrainingError("timeout of SecureAggregation is a number of seconds.")

    def threshold_of(self, clients: int) -> int:
        """Return how many of so many clients have to be left."""
        if self.threshold is None:
            return 2 * clients // 3 + 1
        if type(self.threshold) is float:
            return max(clients // 2 + 1, math.ceil(self.threshold * clients))
        return int(self.threshold)

    def collector(self, run: str) -> SecureCollector:
        """Return what collects the answers of a run.

        Args:
            run: the id of the run.
        """
        from syft.federated.secure_aggregation.collector import SecureCollector

        return SecureCollector(self, run)
