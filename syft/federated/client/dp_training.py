"""Private training at a client. `syft.dp`, a higher layer, registers the implementation."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from syft.exceptions import TrainingError
from syft.federated.client.dp_settings import SampleSettings
from syft.federated.client.train_config import TrainConfig

# Method of private training -> its factory. Registered by `syft.dp.registration`.
PRIVATE_TRAININGS: dict[str, Callable[..., Any]] = {}
DP_SGD = "dp_sgd"
_MOST_SECONDS = 3600.0


def prepare(
    model: object,
    loss_fn: object,
    pair: tuple[Any, Any],
    settings: SampleSettings,
    config: TrainConfig,
    spent: object = None,
    times: int = 1,
    apart: bool = False,
    step_seconds: float | None = None,
) -> Any:
    """Return a validated private training with its privacy loss; see `syft.dp.training.dp_sgd.PrivateTraining`."""
    return PRIVATE_TRAININGS[DP_SGD](model, loss_fn, pair, settings, config, spent, times, apart, step_seconds)


def step_seconds_of(worker: Any) -> float | None:
    """Return the duration in seconds that the worker's owner set for a private step; None to measure it."""
    return check_step_seconds(None if worker is None else getattr(worker.policy, "step_seconds", None))


def check_step_seconds(seconds: Any) -> float | None:
    """Return the duration of a private step if it is valid; None to measure it."""
    if seconds is None:
        return None
    if type(seconds) not in (int, float) or not 0 < seconds <= _MOST_SECONDS:
        raise TrainingError(f"step_seconds must be a number above 0, at most {_MOST_SECONDS:g}, got {seconds!r}.")
    return float(seconds)
