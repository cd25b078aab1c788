"""Opacus with noise and batches from the cryptographic generator.

Imported by privacy_engine.py if Opacus is installed. The classes only change the source of random numbers.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import torch
from opacus import PrivacyEngine
from opacus.accountants import create_accountant
from opacus.data_loader import DPDataLoader, dtype_safe, shape_safe, wrap_collate_with_empty
from opacus.optimizers import DPOptimizer, DPOptimizerFastGradientClipping, DPPerLayerOptimizer
from opacus.optimizers.optimizer import _check_processed_flag, _mark_as_processed
from torch.utils.data import DataLoader, IterableDataset, Sampler

from syft.dp.mechanisms.noise import add_gaussian, rounding_l2
from syft.dp.training.sampling import poisson
from syft.exceptions import TrainingError


class SecureRandom:
    """Adds noise to summed gradients; a mixin for optimizer classes of Opacus."""

    params: Any
    noise_multiplier: float
    max_grad_norm: float

    def add_noise(self) -> None:
        """Set the gradients to the sums of the clipped gradients, with noise of the cryptographic generator."""
        bound = float(self.max_grad_norm)
        sigma = float(getattr(self, "_adjusted_noise_multiplier", self.noise_multiplier)) * bound
        # Rounding to the grid of the noise can move neighbours apart by slightly more than the bound.
        size = sum(parameter.numel() for parameter in self.params)
        sigma *= 1.0 + rounding_l2(sigma, size) / bound
        for parameter in self.params:
            total = parameter.summed_grad
            _check_processed_flag(total)
            if not bool(torch.isfinite(total).all()):
                raise TrainingError("The gradient of a sample is not finite. Try a smaller learning rate.")
            noisy = add_gaussian(total.detach().to("cpu", torch.float64), sigma) if sigma else total
            parameter.grad = noisy.to(parameter).view_as(parameter)
            _mark_as_processed(total)


class SecretOptimizer(SecureRandom, DPOptimizer):  # type: ignore[misc]
    """Clips the gradient of each sample over all parameters together."""


class SecretPerLayerOptimizer(SecureRandom, DPPerLayerOptimizer):  # type: ignore[misc]
    """Clips the gradient of each sample for each parameter separately."""


class SecretGhostOptimizer(SecureRandom, DPOptimizerFastGradientClipping):  # type: ignore[misc]
    """Adds noise to gradients that are clipped while they are summed."""


# (clipping, whether norms are computed without per-sample gradients) -> optimizer.
OPTIMIZERS: dict[tuple[str, bool], type] = {
    ("flat", False): SecretOptimizer,
    ("per_layer", False): SecretPerLayerOptimizer,
    ("flat", True): SecretGhostOptimizer,
}


class SecretSampler(Sampler[list[int]]):
    """Poisson batches: each contains each sample with the same probability, drawn independently."""

    def __init__(self, count: int, rate: float, steps: int) -> None:
        self.num_samples, self.sample_rate, self.steps = count, rate, steps

    def __len__(self) -> int:
        return self.steps

    def __iter__(self) -> Iterator[list[int]]:
        for _ in range(self.steps):
            yield poisson(self.num_samples, self.sample_rate).tolist()


class SecretLoader(DPDataLoader):  # type: ignore[misc]
    """A data loader that draws its batches in secret, as many as the one that it replaces has."""

    def __init__(self, loader: Any, batch_first: bool) -> None:
        if isinstance(loader.dataset, IterableDataset):
            raise TrainingError("Private batches need a data set with a length and an order.")
        if len(loader.dataset) == 0 or len(loader) == 0:
            raise TrainingError("The data loader has no batches to train on.")
        self.sample_rate, self.distributed = 1 / len(loader), False
        first = loader.dataset[0]
        DataLoader.__init__(
            self,
            dataset=loader.dataset,
            batch_sampler=SecretSampler(len(loader.dataset), self.sample_rate, len(loader)),
            collate_fn=wrap_collate_with_empty(
                collate_fn=loader.collate_fn,
                batch_first=batch_first,
                sample_empty_shapes=[(0, *shape_safe(part)) for part in first],
                dtypes=[dtype_safe(part) for part in first],
            ),
            num_workers=loader.num_workers,
            pin_memory=loader.pin_memory,
            timeout=loader.timeout,
            worker_init_fn=loader.worker_init_fn,
            multiprocessing_context=loader.multiprocessing_context,
            prefetch_factor=loader.prefetch_factor,
            persistent_workers=loader.persistent_workers,
        )


class SecretEngine(PrivacyEngine):  # type: ignore[misc]
    """The engine of Opacus with the parts above. It only keeps the history; the caller computes epsilon."""

    def __init__(self, accountant: str) -> None:
        # Not that of Opacus, which warns about a generator that is not used here.
        self.accountant = create_accountant(mechanism=accountant)
        self.secure_mode = False
        self.secure_rng = None
        self.dataset = None

    def _prepare_data_loader(self, data_loader: object, *, batch_first: bool = True, **kwargs: object) -> Any:
        return SecretLoader(data_loader, batch_first)

    def _prepare_optimizer(
        self,
        *,
        optimizer: object,
        clipping: str = "flat",
        grad_sample_mode: str = "hooks",
        distributed: bool = False,
        noise_generator: object = None,
        **kwargs: object,
    ) -> Any:
        if distributed:
            raise TrainingError("Modules of torch.distributed are not supported: each process would add its own noise.")
        kind = OPTIMIZERS.get((clipping, grad_sample_mode == "ghost"))
        if kind is None:
            raise TrainingError(f"clipping={clipping!r} is not supported with grad_sample_mode={grad_sample_mode!r}.")
        inner = optimizer.original_optimizer if isinstance(optimizer, DPOptimizer) else optimizer
        return kind(optimizer=inner, generator=None, secure_mode=False, **kwargs)
