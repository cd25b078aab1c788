"""SampleSettings: how a worker is to train with differential privacy, as a client asks for it."""

from __future__ import annotations

import dataclasses
import math

from syft.exceptions import TrainingError

# Name -> the least and the largest value; the least one is not allowed itself.
_LIMITS: dict[str, tuple[float, float]] = {
    "noise_multiplier": (1e-4, 1e6),  # less hides nothing
    "max_grad_norm": (1e-9, 1e6),
    "delta": (0.0, 0.5),
    "target_epsilon": (0.0, 1e4),
    "rate": (0.0, 1.0),
}
_OPTIONAL = frozenset({"noise_multiplier", "target_epsilon", "rate"})
# Below that a sample is never drawn, and an epoch never ends.
_LEAST_RATE = 1e-9


@dataclasses.dataclass(frozen=True)
class SampleSettings:
    """How each step of a training hides each sample: gradients are clipped one by one, and noise is added to their sum.

    Attributes:
        noise_multiplier: how much noise, in units of `max_grad_norm`; None to have it found from `target_epsilon`.
        max_grad_norm: to what norm the gradient of a sample is clipped.
        delta: the probability that the bound on what is told about a sample does not hold.
        target_epsilon: the largest epsilon that training may reach; None for no such limit.
        rate: with what probability a sample is in a batch; None for `batch_size` over the size of the data set.
    """

    noise_multiplier: float | None = None
    max_grad_norm: float = 1.0
    delta: float = 1e-5
    target_epsilon: float | None = None
    rate: float | None = None

    def __post_init__(self) -> None:
        for name, (least, most) in _LIMITS.items():
            value = getattr(self, name)
            if value is None and name in _OPTIONAL:
                continue
            if type(value) not in (int, float) or not math.isfinite(value) or not least < value <= most:
                raise TrainingError(
                    f"{name} of differentially private training is a number above {least:g}, at most {most:g}, "
                    f"not {value!r:.50}."
                )
            object.__setattr__(self, name, float(value))
        if self.rate is not None and self.rate < _LEAST_RATE:
            raise TrainingError(f"rate is the probability that a sample is in a batch: at least {_LEAST_RATE:g}.")
        if self.noise_multiplier is None and self.target_epsilon is None:
            raise TrainingError("Differentially private training needs a noise_multiplier, or a target_epsilon.")

    def to_dict(self) -> dict[str, float | None]:
        """Return the settings as plain numbers by name."""
        return {name: getattr(self, name) for name in _LIMITS}


def settings_from(numbers: object) -> SampleSettings:
    """Return settings that may come from anyone; refuses what is not complete, or no settings at all."""
    if type(numbers) is not dict or numbers.keys() != _LIMITS.keys():
        raise TrainingError(f"Differentially private training is told {', '.join(_LIMITS)}: numbers by name.")
    return SampleSettings(**numbers)
