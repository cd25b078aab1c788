"""Strategies of federated learning: the training settings of clients, and how their results are combined."""

from __future__ import annotations

from syft._suggestions import one_of
from syft.exceptions import TrainingError
from syft.federated.strategies.averaging import FedAdam, FedAvg, FedAvgM, FedProx, FedYogi
from syft.federated.strategies.robust import FedMedian, Krum, TrimmedMean
from syft.federated.strategies.scaffold import Scaffold
from syft.federated.strategies.strategy import Answer, Round, Strategy, Total

__all__ = [
    "STRATEGIES", "Answer", "FedAdam", "FedAvg", "FedAvgM", "FedMedian", "FedProx", "FedYogi", "Krum", "Round",
    "Scaffold", "Strategy", "Total", "TrimmedMean", "strategy_of",
]  # fmt: skip

# Strategies by name.
STRATEGIES: dict[str, type[Strategy]] = {
    "fedavg": FedAvg,
    "fedprox": FedProx,
    "fedavgm": FedAvgM,
    "fedadam": FedAdam,
    "fedyogi": FedYogi,
    "scaffold": Scaffold,
    "fedmedian": FedMedian,
    "trimmed_mean": TrimmedMean,
    "krum": Krum,
}


def strategy_of(value: object) -> Strategy:
    """Return a strategy: the one given, or a new one of a class or a name such as "fedavg"."""
    if isinstance(value, Strategy):
        return value
    kind = STRATEGIES.get(value.lower()) if isinstance(value, str) else value
    if not (isinstance(kind, type) and issubclass(kind, Strategy)):
        raise TrainingError(
            f"The strategy {value!r:.50} is unknown. {one_of(value, STRATEGIES)} "
            "Or pass one with its settings: FedProx(mu=0.1)."
        )
    return kind()
