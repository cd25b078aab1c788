"""Model averaging, accuracy, and two small data sets for examples."""

from __future__ import annotations

import copy
from collections.abc import Iterable, Mapping
from typing import Any

import torch

from syft.core.tensor import Level, below
from syft.exceptions import TensorsNotCollocatedError
from syft.federated.dataloader import FederatedDataLoader
from syft.hook.syft_tensor import SyftTensor
from syft.messaging.plan.plan import Plan
from syft.pointers.object_wrapper import ObjectWrapper


def extract_batches_per_worker(federated_train_loader: FederatedDataLoader) -> dict[Any, list[Any]]:
    """Iterate over a loader once, and return its batches by worker.

    Args:
        federated_train_loader: the loader.
    """
    datasets = federated_train_loader.federated_dataset
    found: dict[Any, list[Any]] = {datasets[worker].location: [] for worker in datasets.workers}
    for batch in federated_train_loader:
        given = batch if isinstance(batch, dict) else {batch[0].location: batch}
        for worker, pair in given.items():
            found[worker].append(pair)
    return found


def add_model(dst_model: Any, src_model: Any) -> Any:
    """Add the parameters of one model to those of another and return the latter; its parameters get new memory.

    Args:
        dst_model: the model to change.
        src_model: the model whose parameters are added.
    """
    source = dict(src_model.named_parameters())
    with torch.no_grad():
        for name, parameter in dst_model.named_parameters():
            if name in source:
                _with_own_memory(parameter).add_(source[name].detach())
    return dst_model


def scale_model(model: Any, scale: float) -> Any:
    """Multiply the parameters of a model by a number and return it; its parameters get new memory.

    Args:
        model: the model.
        scale: the number.
    """
    with torch.no_grad():
        for _, parameter in model.named_parameters():
            _with_own_memory(parameter).mul_(scale)
    return model


def _with_own_memory(parameter: Any) -> Any:
    """Give a parameter a copy of its values, so that tensors noted before (`before = p.data`) keep theirs."""
    if not isinstance(parameter, SyftTensor) or below(parameter).level is Level.API:  # links below autograd copy anyway
        parameter.data = parameter.detach().clone()
    return parameter


def federated_avg(models: object, weights: object = None) -> Any:
    """Return the average of models of the same kind, over parameters and buffers, as a new model.

    The models are not changed. Integer buffers, such as the batch counts of norms, are averaged and rounded. Models at
    a worker are averaged there, and the result stays there.

    Args:
        models: modules, script modules or plans, in a dict (by worker, for example) or a sequence.
        weights: the weight of each model, such as its number of samples, in a dict with the same keys or in the same
            order; equal weights if None.

    Example:
        >>> import torch
        >>> from syft.federated.utils import federated_avg
        >>> models = {"bob": torch.nn.Linear(2, 1), "alice": torch.nn.Linear(2, 1)}
        >>> mean = federated_avg(models, weights={"bob": 1, "alice": 3})
    """
    keys, parts = _listed(models)
    shares = _shares(keys, len(parts), weights)
    states = [_state(part) for part in parts]
    _check_alike(keys, states)
    average = parts[0].copy() if isinstance(parts[0], Plan) else copy.deepcopy(parts[0])
    with torch.no_grad():
        for name, tensor in _state(average).items():
            tensor.copy_(_mean([state[name] for state in states], shares))
            tensor.grad = None
    return average


def _listed(models: object) -> tuple[list[Any], list[Any]]:
    """Return the keys of models and the models, unwrapped."""
    if not isinstance(models, Mapping | Iterable) or isinstance(models, torch.nn.Module | str):
        raise TypeError("federated_avg needs several models: a dict or a list of them.")
    given = dict(models) if isinstance(models, Mapping) else dict(enumerate(models))
    if not given:
        raise ValueError("federated_avg needs at least one model.")
    parts = [part.obj if isinstance(part, ObjectWrapper) else part for part in given.values()]
    for part in parts:
        if not isinstance(part, torch.nn.Module | Plan):
            raise TypeError(f"A {type(part).__name__} is not a model. federated_avg needs modules or plans.")
    return list(given), parts


def _shares(keys: list[Any], count: int, weights: Any) -> list[float]:
    """Return the normalized weights."""
    if weights is None:
        return [1 / count] * count
    by_key = weights if isinstance(weights, Mapping) else dict(zip(keys, list(weights), strict=False))
    if by_key.keys() != set(keys) or len(weights) != count:
        raise ValueError(f"weights must match the {count} models; a dict needs the same keys.")
    numbers = [float(by_key[key]) for key in keys]
    total = sum(numbers)
    if not all(0 <= number < float("inf") for number in numbers) or not total > 0:
        raise ValueError("weights must be finite, non-negative, and not all 0.")
    return [number / total for number in numbers]


def _state(model: Any) -> dict[str, Any]:
    """Return the parameters and buffers of a model by name, without copies."""
    if isinstance(model, Plan):
        model.state_dict()  # synchronizes replaced parameters
        return {p.description or f"state_{n}": p.child for n, p in enumerate(model.state.state_placeholders)}
    return {**dict(model.named_parameters()), **dict(model.named_buffers())}


def _check_alike(keys: list[Any], states: list[dict[str, Any]]) -> None:
    first = states[0]
    for key, state in zip(keys, states, strict=True):
        if state.keys() != first.keys():
            raise ValueError(
                f"Model {key!r} has different tensors than {keys[0]!r}: {sorted(state.keys() ^ first.keys())[:5]}"
            )
        for name, tensor in state.items():
            if tensor.shape != first[name].shape:
                raise ValueError(
                    f"{name} has shape {tuple(tensor.shape)} in model {key!r}, but {tuple(first[name].shape)} in "
                    f"{keys[0]!r}."
                )
    places = {
        key: next((_place(tensor) for tensor in state.values()), None) for key, state in zip(keys, states, strict=True)
    }
    if len(set(places.values())) > 1:
        where = [f"model {key!r} is {'here' if place is None else f'on {place!r}'}" for key, place in places.items()]
        raise TensorsNotCollocatedError(
            "federated_avg", where, "Bring them together first, with model.get() or model.move(worker)."
        )


def _place(tensor: torch.Tensor) -> Any:
    """Return the id of the worker that holds a tensor; None if it is local."""
    return getattr(getattr(tensor, "location", None), "id", None)


def _mean(tensors: list[Any], shares: list[float]) -> Any:
    """Return the weighted mean of tensors, computed in double precision, in their own dtype."""
    dtype = tensors[0].dtype
    wide = torch.complex128 if dtype.is_complex else torch.float64
    total = tensors[0].to(wide) * shares[0]
    for tensor, share in zip(tensors[1:], shares[1:], strict=True):
        total = total + tensor.to(wide) * share
    return (total if dtype.is_floating_point or dtype.is_complex else total.round()).to(dtype)


def accuracy(pred_softmax: torch.Tensor, target: torch.Tensor) -> float:
    """Return the share of samples whose largest output is that of their target class.

    Args:
        pred_softmax: an output for each sample and class.
        target: the class of each sample.
    """
    if not len(target):
        raise ValueError("accuracy() needs at least one prediction.")
    predicted = pred_softmax.argmax(dim=1)
    return float((predicted == target.view(predicted.shape)).sum()) / predicted.numel()


def create_gaussian_mixture_toy_data(nr_samples: int) -> tuple[torch.Tensor, torch.Tensor]:
    """Return points of a plane around two centers, and the index of the center of each.

    Args:
        nr_samples: number of points.
    """
    first = nr_samples // 2
    labels = torch.cat([torch.zeros(first), torch.ones(nr_samples - first)]).long()
    return torch.randn(nr_samples, 2) + (labels * 10.0 - 5.0).unsqueeze(1), labels


# Lengths and widths of sepals and petals in millimetres: ten flowers of each of three species (Fisher, 1936).
_IRIS = """
51 35 14 2  49 30 14 2  47 32 13 2  46 31 15 2  50 36 14 2  54 39 17 4  46 34 14 3  50 34 15 2  44 29 14 2  49 31 15 1
70 32 47 14  64 32 45 15  69 31 49 15  55 23 40 13  65 28 46 15  57 28 45 13  63 33 47 16  49 24 33 10  66 29 46 13
52 27 39 14
63 33 60 25  58 27 51 19  71 30 59 21  63 29 56 18  65 30 58 22  76 30 66 21  49 25 45 17  73 29 63 18  67 25 58 18
72 36 61 25
"""


def iris_data_partial() -> tuple[torch.Tensor, torch.Tensor]:
    """Return measurements of 30 flowers, and their species: ten of each of three."""
    measures = torch.tensor([int(number) for number in _IRIS.split()], dtype=torch.float32).view(30, 4) / 10
    return measures, torch.arange(3).repeat_interleave(10)
