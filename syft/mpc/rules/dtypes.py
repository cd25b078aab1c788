"""The dtype that results are decoded to: that of the operands, promoted as torch does.

Rules compute with integers and ignore dtypes. The dtype is derived from the arguments of the call where the rule is
registered, so that intermediate values of a rule do not affect it.
"""

from __future__ import annotations

import functools
from typing import Any

import torch

from syft.core.tensor import Rule
from syft.core.trees import iter_tensors
from syft.tensors.precision import FLOATS, FixedPrecisionTensor


def dtype_of(args: tuple[object, ...], kwargs: dict[str, Any]) -> torch.dtype:
    """Return the dtype of the result of a call: its dtype argument, or the promoted dtype of its operands."""
    for given in (kwargs.get("dtype"), *args):
        if type(given) is torch.dtype and given in FLOATS:
            return given
    dtypes: dict[bool, torch.dtype] = {}
    for leaf in iter_tensors((args, kwargs)):
        if isinstance(leaf, FixedPrecisionTensor):
            dtype = leaf.decodes_to
        elif isinstance(leaf, torch.Tensor) and leaf.is_floating_point():
            dtype = leaf.dtype
        else:
            continue
        has_dimensions = bool(len(leaf.shape))
        previous = dtypes.get(has_dimensions)
        dtypes[has_dimensions] = (
            dtype if previous is None or previous is dtype else torch.promote_types(previous, dtype)
        )
    found = dtypes.get(True, dtypes.get(False, torch.float32))  # tensors without dimensions promote no others
    return found if found in FLOATS else torch.float32


def with_dtype(rule: Rule) -> Rule:
    """Give the results of a rule the dtype of the call."""

    @functools.wraps(rule)
    def run(*args: object, **kwargs: object) -> Any:
        result = rule(*args, **kwargs)
        made = [leaf for leaf in iter_tensors(result) if isinstance(leaf, FixedPrecisionTensor)]
        if made:
            dtype = dtype_of(args, kwargs)
            for link in made:
                if link.decodes_to is not dtype and not any(link is arg for arg in args):  # written in place
                    link.decodes_to = dtype
        return result

    return run
