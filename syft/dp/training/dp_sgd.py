"""DP-SGD at the data: batches are drawn in secret, gradients clipped one by one, and noise added to their sum.

The output is the trained model and its privacy loss. The training loss is not returned, as it is not private; nor is
the size of any batch. The rate and the number of steps reveal the rounded size of the data set.
The charge is for two data sets of the same size that differ in one sample (replace-one row).
"""

from __future__ import annotations

import dataclasses
import math
import time
from collections.abc import Callable
from typing import Any

import torch

from syft.dp.accounting.accountant import Accountant, noise_for
from syft.dp.accounting.events import GaussianNoise, PoissonSampled
from syft.dp.mechanisms.noise import add_gaussian, rounding_l2
from syft.dp.training.pacing import LEAST_SECONDS, MARGIN, Clock, ReleaseTime, flushed_denormals
from syft.dp.training.per_sample import PerSample, reseed
from syft.dp.training.per_sample_checks import check_rows, step_duration
from syft.dp.training.sampling import poisson
from syft.exceptions import BudgetExceededError, TrainingError
from syft.federated.client.dp_settings import SampleSettings
from syft.federated.client.rng import own_generator
from syft.federated.client.train_config import TrainConfig
from syft.messaging.plan.plan import Plan

# Number of significant bits of the size of a data set that are revealed.
_DIGITS = 3
# Maximum number of steps of a training. A tiny rate with much noise is almost free, and would run for days.
MAX_STEPS = 10**6
# Planned seconds of the optimizer in a step, apart from gradients and noise.
_STEP_SECONDS = 0.002


@dataclasses.dataclass(frozen=True, slots=True)
class StepSchedule:
    """The sampling schedule; it does not depend on the values of the samples.

    Attributes:
        size: the size of the data set, rounded down.
        rate: the probability that a sample is in a batch.
        steps: number of batches.
        expected: expected number of samples in a batch, by which gradients are divided.
    """

    size: int
    rate: float
    steps: int
    expected: float


def schedule(size: int, config: TrainConfig, rate: float | None = None) -> StepSchedule:
    """Return the sampling schedule."""
    size = rounded_down(size)
    rate = min(1.0, config.batch_size / size) if rate is None else rate
    steps = config.epochs * max(1, math.ceil(1.0 / rate - 1e-6))
    if config.max_nr_batches > 0:
        steps = min(steps, config.max_nr_batches)
    return StepSchedule(size, rate, steps, rate * size)


def rounded_down(size: int) -> int:
    """Return a size with its first three binary digits, and zeros after them."""
    if size < 1:
        raise TrainingError("The data set has no samples to train on.")
    shift = max(0, size.bit_length() - _DIGITS)
    return size >> shift << shift


class PrivateTraining:
    """One training of a model, validated and with its privacy loss before a sample is read.

    Args:
        model: the model, a plan, which is trained in place.
        loss_fn: its loss, a plan.
        pair: the samples and their targets.
        settings: the noise and the clipping norm.
        config: the batch size, the number of epochs, and the maximum number of batches.
        spent: the previous privacy loss, from `Accountant.to_dict`; it counts for `settings.target_epsilon`.
        times: number of planned trainings, for which the noise is found if none is given.
        apart: whether the plans are untrusted: each sample is then run by itself, sizes that depend on values are
            refused, and the duration of `run` does not depend on the data.
        step_seconds: planned seconds of a step in that case; None to measure it with synthetic samples.
        clock: returns seconds.
        sleep: waits for a number of seconds.

    Attributes:
        schedule: the sampling schedule.
        noise_multiplier: the noise, in units of the clipping norm.
        spent: the privacy loss after this training.
        seconds: planned duration of `run`; None if it is not padded.
    """

    def __init__(
        self,
        model: Any,
        loss_fn: Any,
        pair: tuple[Any, Any],
        settings: SampleSettings,
        config: TrainConfig,
        spent: dict[str, Any] | None = None,
        times: int = 1,
        apart: bool = False,
        step_seconds: float | None = None,
        clock: Clock = time.monotonic,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        data, target = pair
        for part in (model, loss_fn):
            if not isinstance(part, Plan):
                raise TrainingError(
                    "Private training needs a model and a loss that are plans: sy.Plan(forward_func=...).build(...)."
                )
        if not isinstance(data, torch.Tensor) or not isinstance(target, torch.Tensor) or len(data) != len(target):
            raise TrainingError("Private training needs a tensor of samples and a tensor of as many targets.")
        self.settings, self._data, self._target = settings, data.detach(), target.detach()
        self.schedule = schedule(len(data), config, settings.rate)
        if self.schedule.steps > MAX_STEPS:
            raise TrainingError(
                f"A private training can have at most {MAX_STEPS:,} steps, got {self.schedule.steps:,}. "
                "Set fewer epochs, a larger batch_size or rate, or max_nr_batches."
            )
        self.noise_multiplier = noise_of(settings, self.schedule, times)
        self.spent = self._after(Accountant() if spent is None else Accountant.from_dict(spent))
        self._samples = PerSample(model, loss_fn, apart)
        with own_generator():
            is_mean = check_rows(self._samples, self._data, self._target)
            self._clock, self._sleep = clock, sleep
            self.seconds = self._planned(step_seconds) if apart else None
        self._divisor = self.schedule.expected if is_mean else 1.0

    def _planned(self, step_seconds: float | None) -> float:
        """Return the planned duration of the training, from shapes and synthetic samples alone."""
        if step_seconds is not None:
            return self.schedule.steps * step_seconds
        one, rest = step_duration(self._samples, self._data, self._target, self._clock)
        # The size is rounded down by at most a fifth, and the total number of samples is at most Poisson.
        drawn = 1.25 * self.schedule.expected * self.schedule.steps
        samples = drawn + 6 * math.sqrt(drawn) + 20
        return max(LEAST_SECONDS, MARGIN * (samples * one + self.schedule.steps * (4 * rest + _STEP_SECONDS)))

    def _after(self, spent: Accountant) -> Accountant:
        """Return the privacy loss after this training; raises if it exceeds the target."""
        try:
            event = PoissonSampled(self.schedule.rate, GaussianNoise(self.noise_multiplier))
            after = spent.after(event, self.schedule.steps)
        except ValueError as error:
            raise TrainingError(f"The privacy loss of this training can't be computed: {error}") from None
        target = self.settings.target_epsilon
        reached = 0.0 if target is None else after.epsilon(self.settings.delta)
        if target is not None and reached > target * (1 + 1e-9):
            raise BudgetExceededError(
                f"This training would reach epsilon {reached:.4g} ({spent.neighbours}), but its target_epsilon "
                f"is {target:g}; "
                f"{spent.epsilon(self.settings.delta):.4g} is already spent. Train less, or with more noise."
            )
        return after

    @property
    def event(self) -> dict[str, Any]:
        """The privacy loss of this training as plain values, for a ledger."""
        return {"mechanism": "dp_sgd", **self.report, "delta": self.settings.delta}

    @property
    def report(self) -> dict[str, Any]:
        """The training settings that are reported."""
        return {
            "noise_multiplier": self.noise_multiplier,
            "rate": self.schedule.rate,
            "steps": self.schedule.steps,
        }

    def run(
        self,
        optimizer: torch.optim.Optimizer,
        check_cancelled: Callable[[], None] = lambda: None,
        before_step: Callable[[], None] = lambda: None,
        torch_device: torch.device | None = None,
    ) -> None:
        """Train; for untrusted plans, until the planned time is over.

        Args:
            optimizer: makes the steps.
            check_cancelled: called before each batch; raises if the result is no longer needed.
            before_step: called after the noisy gradients are set, before each step.
            torch_device: the device of the model.
        """
        if self.seconds is None:
            self._steps(optimizer, check_cancelled, before_step, torch_device)
            return
        pace = ReleaseTime(self.seconds, self._clock, self._sleep)
        try:
            with flushed_denormals():
                self._steps(optimizer, check_cancelled, before_step, torch_device)
        finally:  # an error must not end it sooner
            pace.wait(check_cancelled)

    def _steps(
        self,
        optimizer: torch.optim.Optimizer,
        check_cancelled: Callable[[], None],
        before_step: Callable[[], None],
        torch_device: torch.device | None,
    ) -> None:
        if torch_device is not None:
            self._data, self._target = self._data.to(torch_device), self._target.to(torch_device)
        for _ in range(self.schedule.steps):
            check_cancelled()
            with own_generator():  # per step, so that others can run in between
                optimizer.zero_grad()
                self._set_gradients(self.noisy_sum() / self._divisor)
                reseed()
                before_step()
                optimizer.step()
        optimizer.zero_grad()

    def noisy_sum(self) -> torch.Tensor:
        """Draw a batch; return the noisy sum of its clipped gradients: flat, in float64."""
        rows = poisson(len(self._data), self.schedule.rate).to(self._data.device)
        bound = self.settings.max_grad_norm
        total = self._samples.clipped_sum(self._data[rows], self._target[rows], bound)
        # Rounding to the grid of the noise can move neighbours apart by slightly more than the bound.
        grown = bound + rounding_l2(self.noise_multiplier * bound, len(total))
        return add_gaussian(total, self.noise_multiplier * grown)

    def _set_gradients(self, flat: torch.Tensor) -> None:
        parameters = self._samples.parameters
        pieces = torch.split(flat, [parameter.numel() for parameter in parameters])
        for parameter, piece in zip(parameters, pieces, strict=True):
            parameter.grad = piece.view_as(parameter).to(parameter)


def noise_of(settings: SampleSettings, drawn: StepSchedule, times: int) -> float:
    """Return the noise: the given one, or the minimum for the target."""
    if settings.noise_multiplier is not None:
        return settings.noise_multiplier
    if settings.target_epsilon is None:
        raise TrainingError("Differentially private training needs noise_multiplier or target_epsilon.")
    try:
        return noise_for(settings.target_epsilon, settings.delta, drawn.rate, drawn.steps * times)
    except ValueError as error:
        raise TrainingError(str(error)) from None
