"""Mismatches of model, loss and data: turns torch's error into one that says what to change."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any

import torch

from syft.exceptions import SyftError, TrainingError


@contextlib.contextmanager
def explained(
    module: torch.nn.Module | None, data: torch.Tensor, target: torch.Tensor, what: str, output: Any = None
) -> Iterator[None]:
    """Turn an error of torch in `what`, "model" or "loss", into one that names the model, samples and targets."""
    try:
        yield
    except SyftError:
        raise
    except Exception as error:
        name = "plan" if module is None else type(module).__name__
        shown = {
            "model": f"The model ({name}) rejects samples of {_spec(data)}",
            "loss": f"The loss rejects outputs of {_spec(output)} with targets of {_spec(target)}",
        }[what]
        raise TrainingError(f"{shown}: {_first_line(error)}{_hint(module, data, target, what, output)}") from error


def _hint(module: torch.nn.Module | None, data: torch.Tensor, target: torch.Tensor, what: str, output: object) -> str:
    """Return what to change, as far as shapes and dtypes show it."""
    if what == "model":
        dtype = next((p.dtype for p in module.parameters() if p.dtype.is_floating_point), None) if module else None
        if dtype is not None and data.dtype.is_floating_point and data.dtype is not dtype:
            return f" The model is {_name(dtype)}. Pass the samples as data.to({dtype}), or convert the model."
        return (
            f" A sample has shape {tuple(data.shape[1:])}, which must match the first layer of the model (its "
            "in_features or in_channels), and each layer must match the one before it."
        )
    if not target.dtype.is_floating_point and target.dtype is not torch.int64:
        return f" Class labels must be int64, got {_name(target.dtype)}. Pass targets.long()."
    if not target.dtype.is_floating_point and isinstance(output, torch.Tensor) and output.dim() > 1:
        return (
            f" Class labels must be integers from 0 to below the number of outputs, {output.shape[1]}. "
            "Check the labels, or the width of the last layer."
        )
    return " Check the shapes and dtypes that the loss accepts in the documentation of torch."


def _spec(tensor: object) -> str:
    if not isinstance(tensor, torch.Tensor):
        return f"a {type(tensor).__name__}"
    return f"shape {tuple(tensor.shape)} and dtype {_name(tensor.dtype)}"


def _name(dtype: torch.dtype) -> str:
    return str(dtype).removeprefix("torch.")


def _first_line(error: Exception) -> str:
    line = str(error).partition("\n")[0].strip()[:300]
    return line if line.endswith(".") else f"{line}." if line else f"{type(error).__name__}."
