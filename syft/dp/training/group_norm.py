"""Replaces batch norm by group norm: the output for one sample must not depend on the others of its batch."""

from __future__ import annotations

import copy

from torch import nn
from torch.nn.modules.batchnorm import _BatchNorm

from syft.exceptions import TrainingError

# Minimum number of channels of a group. A group of one value is normalised to 0 and one of two values to their order,
# so a model can't learn from them. Images have many values for each channel, rows of features have one.
_LEAST: dict[type[nn.Module], int] = {nn.BatchNorm1d: 8, nn.BatchNorm2d: 4, nn.BatchNorm3d: 4}
_MOST_GROUPS = 32
# The fewest features over which a row can be normalised.
_FEWEST = 3


def without_batch_norm(module: nn.Module) -> nn.Module:
    """Return a copy of a module with group norm in place of batch norm."""
    found = copy.deepcopy(module)
    made: dict[_BatchNorm, nn.GroupNorm] = {}  # a shared layer stays one layer
    for path, part in found.named_modules():
        if isinstance(part, _BatchNorm):
            made[part] = _group_norm(path, part)
    for part in list(found.modules()):
        for name, child in part._modules.items():
            if isinstance(child, _BatchNorm):
                part._modules[name] = made[child]
    return made[found] if isinstance(found, _BatchNorm) else found


def mixing_norms(module: nn.Module) -> list[str]:
    """Return the paths of batch norms that use a whole batch, including those without parameters."""
    return [
        name
        for name, part in module.named_modules()
        if isinstance(part, _BatchNorm) and (part.training or part.running_mean is None)
    ]


def _group_norm(path: str, norm: _BatchNorm) -> nn.GroupNorm:
    count = norm.num_features
    least = next((least for kind, least in _LEAST.items() if isinstance(norm, kind)), max(_LEAST.values()))
    if isinstance(norm, nn.BatchNorm1d) and count < _FEWEST:
        raise TrainingError(
            f"{norm!r}{f' at {path!r}' if path else ''} has {count} features, too few to normalise a single sample, so "
            "group norm can't replace it. Remove the layer from the model."
        )
    fitting = [groups for groups in range(1, _MOST_GROUPS + 1) if count % groups == 0 and count // groups >= least]
    weight = norm.weight
    made = nn.GroupNorm(max(fitting, default=1), count, eps=norm.eps, affine=norm.affine)
    if weight is not None:
        made.to(weight.device, weight.dtype).load_state_dict({"weight": weight, "bias": norm.bias})
        made.weight.requires_grad_(weight.requires_grad)
        made.bias.requires_grad_(norm.bias.requires_grad)
    return made.train(norm.training)
