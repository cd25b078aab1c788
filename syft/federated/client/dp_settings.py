"""SampleSettings: settings for differentially private training, as requested by a client."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any

from syft.exceptions import TrainingError

# Name -> exclusive minimum and inclusive maximum.
_LIMITS: dict[str, tuple[float, float]] = {
    "noise_multiplier": (1e-4, 1e6),  # less would hide nothing
    "max_grad_norm": (1e-9, 1e6),
    "delta": (0.0, 0.5),
    "target_epsilon": (0.0, 1e4),
    "rate": (0.0, 1.0),
}
_OPTIONAL = frozenset({"noise_multiplier", "target_epsilon", "rate"})
# Below this rate samples are practically never drawn, and an epoch would not end.
_LEAST_RATE = 1e-9


@dataclasses.dataclass(frozen=True)
class SampleSettings:
    """Settings of a private step: gradients are clipped per sample, and noise is added to their sum.

    Attributes:
        noise_multiplier: standard deviation of the noise in units of `max_grad_norm`; None to derive it from
            `target_epsilon`.
        max_grad_norm: the norm to which the gradient of a sample is clipped.
        delta: the probability with which the privacy guarantee may fail.
        target_epsilon: the largest epsilon that training may reach; None for no limit.
        rate: the probability that a sample is in a batch; None for `batch_size` over the size of the data set.
    """

    noise_multiplier: float | None = None
    max_grad_norm: float = 1.0
    delta: float = 1e-5
    target_epsilon: float | None = None
    rate: float | None = None

    def __post_init__(self) -> None:
        for name, value in check_limits("differentially private training", self.to_dict(), _LIMITS).items():
            object.__setattr__(self, name, value)
        if self.rate is not None and self.rate < _LEAST_RATE:
            raise TrainingError(f"rate, the probability that a sample is in a batch, must be at least {_LEAST_RATE:g}.")

    def to_dict(self) -> dict[str, float | None]:
        """Return the settings as plain numbers by name."""
        return {name: getattr(self, name) for name in _LIMITS}


def check_limits(
    owner: str, values: Mapping[str, Any], limits: Mapping[str, tuple[float, float]]
) -> dict[str, float | None]:
    """Return the settings as floats by name; raises TrainingError if one is invalid, or neither noise nor target."""
    for name, (least, most) in limits.items():
        value = values[name]
        if value is None and name in _OPTIONAL:
            continue
        if type(value) not in (int, float) or not least < value <= most:
            raise TrainingError(
                f"{name} of {owner} must be a number above {least:g} and at most {most:g}, got {value!r:.50}."
            )
    if values["noise_multiplier"] is None and values["target_epsilon"] is None:
        raise TrainingError(f"{owner[0].upper()}{owner[1:]} needs noise_multiplier or target_epsilon.")
    return {name: None if values[name] is None else float(values[name]) for name in limits}


def settings_from(numbers: object) -> SampleSettings:
    """Return settings built from untrusted values; raises TrainingError if they are incomplete."""
    if type(numbers) is not dict or numbers.keys() != _LIMITS.keys():
        raise TrainingError(f"Private training needs its settings as numbers by name: {', '.join(_LIMITS)}.")
    return SampleSettings(**numbers)
