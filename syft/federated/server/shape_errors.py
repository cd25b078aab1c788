"""Whether a model, a loss and data fit together: what torch says of it becomes one error that says what to type."""

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
    """Make an error of torch one that names the model, the samples and the targets.

    Args:
        module: the model; None if it is a plan.
        data: some samples.
        target: their targets.
        what: what is run, "model" or "loss".
        output: what the model gave, if the loss is run.
    """
    try:
        yield
    except SyftError:
        raise
    except Exception as error:
        name = "plan" if module is None else type(module).__name__
        shown = {
            "model": f"The model ({name}) does not take samples like {_form(data)}",
            "loss": f"The loss does not take outputs like {_form(output)} with targets like {_form(target)}",
        }[what]
        raise TrainingError(f"{shown}: {_first_line(error)}{_hint(module, data, target, what, output)}") from error


def _hint(module: torch.nn.Module | None, data: torch.Tensor, target: torch.Tensor, what: str, output: object) -> str:
    """Return what to change, as far as shapes and dtypes tell."""
    if what == "model":
        dtype = next((p.dtype for p in module.parameters() if p.dtype.is_floating_point), None) if module else None
        if dtype is not None and data.dtype.is_floating_point and data.dtype is not dtype:
            return f" The model is {_name(dtype)}: give the samples as data.to({dtype}), or the model as such."
        return (
            f" A sample has shape {tuple(data.shape[1:])}, which the first layer of the model has to take (its "
            "in_features or in_channels), and each layer what the one before it gives."
        )
    if not target.dtype.is_floating_point and target.dtype is not torch.int64:
        return f" Class labels are int64, and these are {_name(target.dtype)}: give targets.long()."
    if not target.dtype.is_floating_point and isinstance(output, torch.Tensor) and output.dim() > 1:
        return (
            f" Class labels are whole numbers from 0 up to the number of outputs, {output.shape[1]}, without it: "
            "check the labels, or the width of the last layer."
        )
    return " Shapes and dtypes of both have to be what the loss takes: see its page in the manual of torch."


def _form(tensor: object) -> str:
    if not isinstance(tensor, torch.Tensor):
        return f"a {type(tensor).__name__}"
    return f"{tuple(tensor.shape)} of {_name(tensor.dtype)}"


def _name(dtype: torch.dtype) -> str:
    return str(dtype).removeprefix("torch.")


def _first_line(error: Exception) -> str:
    line = str(error).partition("\n")[0].strip()[:300]
    return line if line.endswith(".") else f"{line}." if line else f"{type(error).__name__}."
