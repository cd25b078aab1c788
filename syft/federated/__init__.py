"""Federated learning: data sets spread over workers, loaders for them, and runs that train where the data is."""

from typing import TYPE_CHECKING

from syft._lazy import lazy_names

if TYPE_CHECKING:
    from syft.federated import utils as utils
    from syft.federated.client import federated_client as federated_client
    from syft.federated.client import train_config as train_config
    from syft.federated.dataloader import FederatedDataLoader as FederatedDataLoader
    from syft.federated.dataset import BaseDataset as BaseDataset
    from syft.federated.dataset import FederatedDataset as FederatedDataset
    from syft.federated.floptimizer import Optims as Optims
    from syft.federated.history.records import History as History
    from syft.federated.history.round_report import RoundReport as RoundReport
    from syft.federated.history.round_report import Stop as Stop
    from syft.federated.loggers.csv_logger import CSVLogger as CSVLogger
    from syft.federated.loggers.mlflow_logger import MLflowLogger as MLflowLogger
    from syft.federated.loggers.run_logger import RunStart as RunStart
    from syft.federated.loggers.tensorboard_logger import TensorBoardLogger as TensorBoardLogger
    from syft.federated.partition import IID as IID
    from syft.federated.partition import ByLabel as ByLabel
    from syft.federated.partition import Dirichlet as Dirichlet
    from syft.federated.partition import Shards as Shards
    from syft.federated.secure_aggregation import Identity as Identity
    from syft.federated.secure_aggregation import SecureAggregation as SecureAggregation
    from syft.federated.secure_aggregation import require_secure as require_secure
    from syft.federated.server.result import Result as Result
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

# Module -> its public names.
_HOMES: dict[str, tuple[str, ...]] = {
    "dataset": ("BaseDataset", "FederatedDataset"),
    "dataloader": ("FederatedDataLoader",),
    "floptimizer": ("Optims",),
    "server.run": ("run",),
    "server.result": ("Result",),
    "server.simulation": ("Simulation",),
    "history.records": ("History",),
    "history.round_report": ("RoundReport", "Stop"),
    "loggers.run_logger": ("RunStart",),
    "loggers.csv_logger": ("CSVLogger",),
    "loggers.tensorboard_logger": ("TensorBoardLogger",),
    "loggers.mlflow_logger": ("MLflowLogger",),
    "secure_aggregation": ("SecureAggregation", "Identity", "require_secure"),
    "partition": ("IID", "Dirichlet", "ByLabel", "Shards"),
    "strategies": (
        "Strategy", "FedAvg", "FedProx", "FedAvgM", "FedAdam", "FedYogi", "Scaffold", "FedMedian", "TrimmedMean", "Krum"
    ),
}  # fmt: skip
if not TYPE_CHECKING:  # a type checker would accept any name
    __getattr__, __dir__ = lazy_names(
        __name__, _HOMES, ("dataset", "dataloader", "federated_client", "floptimizer", "train_config", "utils")
    )
