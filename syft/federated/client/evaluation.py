"""Evaluation of a model on a data set: loss, accuracy and class histograms."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch

from syft.exceptions import TrainingError
from syft.federated.client.train_config import TrainConfig
from syft.federated.client.training_loop import (
    batches,
    in_mode,
    loss_caller,
    moved_to,
    on_device,
    one_number,
    output_of,
    unwrapped,
)
from syft.messaging.mutation import alters
from syft.messaging.plan.plan import Plan

MAX_BINS = 2**20


def evaluate(
    config: TrainConfig, model: object, loss_fn: object, dataset: object, device: str, wanted: Evaluation
) -> dict[str, Any]:
    """Run a model over a data set without changing it, and return the requested results."""
    if isinstance(model, Plan) and alters(model.operations):
        model = model.copy()  # a plan recorded in train mode updates its running statistics
    run, call_loss = unwrapped(model), loss_caller(unwrapped(loss_fn))
    with moved_to(model, device) as torch_device, torch.no_grad(), in_mode(run, training=False):
        for data, target in batches(dataset, config.batch_size, shuffle=False):
            output, target = output_of(run(on_device(data, torch_device))), on_device(target, torch_device)
            if wanted.loss:
                wanted.add_loss(one_number(call_loss(output, target)), len(target))
            if wanted.predictions:
                wanted.add_predictions(output, target)
            wanted.samples += len(target)
    return wanted.result()


class Evaluation:
    """The requested results of an evaluation (see `FederatedClient.evaluate`), and the counts so far."""

    def __init__(self, histograms: bool, nr_bins: int, loss: bool, raw_accuracy: bool) -> None:
        if type(nr_bins) is not int or not (nr_bins == -1 or 1 <= nr_bins <= MAX_BINS):
            raise TrainingError(f"nr_bins must be -1 or a number of classes up to {MAX_BINS}, got {nr_bins!r:.50}.")
        self.histograms = bool(histograms)
        self.nr_bins = nr_bins
        self.loss = bool(loss)
        self.raw_accuracy = bool(raw_accuracy)
        self.predictions = self.histograms or self.raw_accuracy
        self.samples = 0
        self._loss = 0.0
        self._predicted: list[torch.Tensor] = []
        self._targets: list[torch.Tensor] = []
        self._classes = 0

    def add_loss(self, loss: torch.Tensor, samples: int) -> None:
        """Add the mean loss of a batch with the given number of samples."""
        self._loss += float(loss) * samples

    def add_predictions(self, output: torch.Tensor, target: torch.Tensor) -> None:
        """Add the predicted and the true classes of a batch."""
        has_classes = output.dim() > 1 and output.shape[1] > 1
        self._classes = max(self._classes, output.shape[1] if has_classes else 2)
        predicted = output.argmax(1) if has_classes else (output > 0.5).long()
        if has_classes and target.shape == output.shape:  # one-hot targets
            target = target.argmax(1)
        if predicted.numel() != target.numel():
            raise TrainingError(
                f"The model returns {tuple(predicted.shape)} predictions for targets of shape {tuple(target.shape)}: "
                "they can't be compared. Pass return_raw_accuracy=False."
            )
        self._predicted.append(predicted.flatten().cpu())
        self._targets.append(target.flatten().cpu())

    def result(self) -> dict[str, Any]:
        """Return the requested results by their documented names."""
        if not self.samples:
            raise TrainingError("The data set has no samples to evaluate.")
        found: dict[str, Any] = {}
        if self.loss:
            found["loss"] = self._loss / self.samples
        if self.predictions:
            predicted, targets = torch.cat(self._predicted), torch.cat(self._targets)
            if self.raw_accuracy:
                found["nr_correct_predictions"] = int((predicted == targets).sum())
                found["nr_predictions"] = predicted.numel()
            if self.histograms:
                found["histogram_predictions"] = self._histogram(predicted)
                found["histogram_target"] = self._histogram(targets)
        return found

    def _histogram(self, classes: torch.Tensor) -> Any:
        bins = self._classes if self.nr_bins == -1 else self.nr_bins
        return np.histogram(classes.double().numpy(), bins=bins, range=(0, bins))[0].astype(np.float64)
