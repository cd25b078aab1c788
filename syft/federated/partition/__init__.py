"""Partitions: how a data set is split over simulated clients."""

from typing import Any

from syft.exceptions import TrainingError
from syft.federated.partition.by_label import ByLabel
from syft.federated.partition.dirichlet import Dirichlet
from syft.federated.partition.iid import IID
from syft.federated.partition.partition import Partition
from syft.federated.partition.shards import Shards

__all__ = ["IID", "PARTITIONS", "ByLabel", "Dirichlet", "Partition", "Shards", "partition_of"]

# Partitions by name.
PARTITIONS: dict[str, type[Partition]] = {
    "iid": IID,
    "dirichlet": Dirichlet,
    "by_label": ByLabel,
    "shards": Shards,
}


def partition_of(value: object) -> Any:
    """Return a partition: the one given, or a new one of a class or name.

    Args:
        value: an object with `split`, its class, or its name such as "iid"; None for IID.
    """
    if value is None:
        return IID()
    kind = PARTITIONS.get(value.lower()) if isinstance(value, str) else value
    if isinstance(kind, type) and issubclass(kind, Partition):
        return kind()
    if isinstance(kind, type) or not hasattr(kind, "split"):
        raise TrainingError(
            f"The partition {value!r:.50} is unknown. Use one of {', '.join(PARTITIONS)}, or pass one with its "
            "settings: partition=sy.federated.Dirichlet(alpha=0.5)."
        )
    return kind
