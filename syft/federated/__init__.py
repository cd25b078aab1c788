"""Federated learning: data sets that are spread over workers, loaders over them, and runs that train where data is."""

import importlib
from typing import TYPE_CHECKING, Any

from syft.federated import utils as utils
from syft.federated.client import federated_client as federated_client
from syft.federated.client import train_config as train_config
from syft.federated.dataloader import FederatedDataLoader as FederatedDataLoader
from syft.federated.dataset import BaseDataset as BaseDataset
from syft.federated.dataset import FederatedDataset as FederatedDataset
from syft.federated.floptimizer import Optims as Optims

if TYPE_CHECKING:
    from syft.federated.history.records import History as History
    from syft.federated.partition import IID as IID
    from syft.federated.partition import ByLabel as ByLabel
    from syft.federated.partition import Dirichlet as Dirichlet
    from syft.federated.partition import Shards as Shards
    from syft.federated.secure_aggregation import Identity as Identity
    from syft.federated.secure_aggregation import SecureAggregation as SecureAggregation
    from syft.federated.secure_aggregation import require_secure as require_secure
    from syft.federated.server.run import Result as Result
    from syft.federated.server.run import run as run
    from syft.federated.server.simulation import Simulation as Simulation
    from syft.federated.strategies import FedAdam as FedAdam
    from syft.federated.strategies import FedAvg as FedAvg
    from syft.federated.strategies import FedAvgM as FedAvgM
    from syft.federated.strategies import FedMedian as FedMedian
    from syft.federated.strategies import FedProx as FedProx
    from syft.federated.strategies import FedYogi as FedYogi
    from syft.federated.strategies import Krum as Krum
    from syft.federated.strategies import Scaffold as Scaffold
    from syft.federated.strategies import Strategy as Strategy
    from syft.federated.strategies import TrimmedMean as TrimmedMean

# What is loaded when it is first asked for: importing syft stays quick.
_HOMES = {
    "syft.federated.server.run": ("run", "Result"),
    "syft.federated.server.simulation": ("Simulation",),
    "syft.federated.history.records": ("History",),
    "syft.federated.secure_aggregation": ("SecureAggregation", "Identity", "require_secure"),
    "syft.federated.partition": ("IID", "Dirichlet", "ByLabel", "Shards"),
    "syft.federated.strategies": (
        "Strategy", "FedAvg", "FedProx", "FedAvgM", "FedAdam", "FedYogi", "Scaffold", "FedMedian", "TrimmedMean", "Krum"
    ),
}  # fmt: skip
_LAZY = {name: home for home, names in _HOMES.items() for name in names}


def __getattr__(name: str) -> Any:
    if name in _LAZY:
        return getattr(importlib.import_module(_LAZY[name]), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted({*globals(), *_LAZY})
