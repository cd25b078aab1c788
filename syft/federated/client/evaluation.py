"""What a model does on a data set: its loss, how often it is right, and how often it says what."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch

from syft.exceptions import TrainingError
from syft.federated.client.fit_loop import (
    batches,
    in_mode,
    loss_caller,
    on_device,
    one_number,
    output_of,
    placed,
    unwrapped,
)
from syft.federated.client.train_config import TrainConfig
from syft.messaging.mutation import alters
from syft.messaging.plan.plan import Plan

MAX_BINS = 2**20


def evaluate(
    config: TrainConfig, model: object, loss_fn: object, dataset: object, device: str, wanted: Evaluation
) -> dict[str, Any]:
    """Run a model over a data set without changing it, and return what is wanted to be known of the results."""
    if isinstance(model, Plan) and alters(model.operations):
        model = model.copy()  # one recorded in train mode goes on counting, in a copy
    run, call_loss = unwrapped(model), loss_caller(unwrapped(loss_fn))
    with placed(model, device) as place, torch.no_grad(), in_mode(run, training=False):
        for data, target in batches(dataset, config.batch_size, shuffle=False):
            output, target = output_of(run(on_device(data, place))), on_device(target, place)
            if wanted.loss:
                wanted.add_loss(one_number(call_loss(output, target)), len(target))
            if wanted.predictions:
                wanted.add_predictions(output, target)
            wanted.samples += len(target)
    return wanted.result()


class Evaluation:
    """What is wanted to be known of a model on a data set, and what was counted so far.

    Args:
        histograms: how often each class was predicted, and how often it was right.
        nr_bins: the number of classes; -1 for as many as the model has outputs.
        loss: the mean loss.
        raw_accuracy: how many predictions there were, and how many were right.
    """

    def __init__(self, histograms: bool, nr_bins: int, loss: bool, raw_accuracy: bool) -> None:
        if type(nr_bins) is not int or not (nr_bins == -1 or 1 <= nr_bins <= MAX_BINS):
            raise TrainingError(f"nr_bins is a number of classes up to {MAX_BINS}, or -1, not {nr_bins!r:.50}.")
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
        """Count the mean loss of a batch of so many samples."""
        self._loss += float(loss) * samples

    def add_predictions(self, output: torch.Tensor, target: torch.Tensor) -> None:
        """Count what a batch was said to be, and what it is."""
        has_classes = output.dim() > 1 and output.shape[1] > 1
        self._classes = max(self._classes, output.shape[1] if has_classes else 2)
        predicted = output.argmax(1) if has_classes else (output > 0.5).long()
        if has_classes and target.shape == output.shape:  # one column a class
            target = target.argmax(1)
        if predicted.numel() != target.numel():
            raise TrainingError(
                f"The model gives {tuple(predicted.shape)} predictions for targets of shape {tuple(target.shape)}, so "
                "they can't be compared; ask with return_raw_accuracy=False."
            )
        self._predicted.append(predicted.flatten().cpu())
        self._targets.append(target.flatten().cpu())

    def result(self) -> dict[str, Any]:
        """Return all that was wanted, by its documented names."""
        if not self.samples:
            raise TrainingError("The data set has no samples, so there is nothing to evaluate.")
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
        return np.histogram(classes.double().numpy(), bins=bins, range=(0, bins))[0]
