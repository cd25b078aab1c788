"""Data, models and losses that the tests of federated learning share."""

from __future__ import annotations

import warnings
from typing import Any

import torch
from torch import nn

import syft as sy

XOR = torch.tensor([[0.0, 0.0], [0.0, 1.0], [1.0, 0.0], [1.0, 1.0]])
XOR_TARGET = torch.tensor([[0.0], [1.0], [1.0], [0.0]])


def network() -> nn.Module:
    """A network that can learn xor."""
    torch.manual_seed(1)
    return nn.Sequential(nn.Linear(2, 8), nn.Tanh(), nn.Linear(8, 1))


def mean_square(target, pred):
    return ((target.view(pred.shape).float() - pred.float()) ** 2).mean()


def planned(model: nn.Module | None = None, example: Any = XOR) -> Any:
    """A model as a plan."""
    return sy.Plan(forward_func=model if model is not None else network()).build(example)


def planned_loss(pred: Any = XOR_TARGET, target: Any = XOR_TARGET) -> Any:
    """The mean square error as a plan, whose first argument is the target."""
    return sy.Plan(name="loss", forward_func=mean_square).build(target, pred)


def traced(model: nn.Module | None = None, example: Any = XOR) -> Any:
    """A model as a script module."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)
        return torch.jit.trace(model if model is not None else network(), example)


def scripted(part: Any) -> Any:
    """A module or a function with its code, as torch compiles it."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)
        return torch.jit.script(part)


def scripted_loss() -> Any:
    """The mean square error as a script function."""
    return scripted(mean_square)


def xor() -> Any:
    return sy.BaseDataset(XOR.clone(), XOR_TARGET.clone())


def config(model: Any = None, loss_fn: Any = None, **changes: Any) -> Any:
    """A config that learns xor in half a second."""
    settings = {"batch_size": 4, "epochs": 150, "optimizer": "Adam", "optimizer_args": {"lr": 0.05}, **changes}
    return sy.TrainConfig(
        model if model is not None else planned(), loss_fn if loss_fn is not None else planned_loss(), **settings
    )
