"""Losing: what takes the place of results that a call could not give, so that nobody can tell.

Where a call on restricted data fails although forms fit, values are the reason. What stands in for its results looks
just like them, as far as anybody may look: forms, strides, graphs, who gets a gradient. Its values are zeros, and it
derives from a failure (`syft.workers.provenance.Failure`): who may have it is told that instead.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterable, Sequence
from typing import Any

import torch

from syft.core.trees import rebuild_tuple
from syft.workers.outlines import Form, blank, form_of, leaves_of


class _Lost(torch.autograd.Function):
    """Zeros that are connected to the tensors they would have been computed from; their gradients are zero too."""

    @staticmethod
    def forward(ctx: Any, form: Form, *given: torch.Tensor) -> torch.Tensor:
        ctx.forms = [(tensor.shape, tensor.dtype) for tensor in given]
        return blank(form)

    @staticmethod
    def backward(ctx: Any, *gradients: Any) -> Any:
        return (None, *(torch.zeros(shape, dtype=dtype) for shape, dtype in ctx.forms))


def lost(form: Form, given: Sequence[torch.Tensor]) -> torch.Tensor:
    """Return what stands in for a tensor.

    Args:
        form: its form.
        given: the tensors that the call was given.
    """
    if not form.requires_grad:
        return blank(form)
    if form.is_leaf:
        return blank(form).requires_grad_()
    reached = [given[place] for place in form.reaches if given[place].requires_grad]
    with torch.enable_grad():
        # One that reaches none of them has a graph all the same.
        roots = reached or [torch.zeros((), dtype=form.dtype).requires_grad_()]
        found: torch.Tensor = _Lost.apply(form, *roots)  # type: ignore[no-untyped-call]
    return found


def stand_in(outline: Any, given: Sequence[torch.Tensor]) -> Any:
    """Return what stands in for a result.

    Args:
        outline: the result, with forms in place of tensors.
        given: the tensors that the call was given.
    """
    if isinstance(outline, Form):
        return lost(outline, given) if outline.position is None else given[outline.position]
    if isinstance(outline, dict):
        return {key: stand_in(item, given) for key, item in outline.items()}
    if isinstance(outline, tuple):
        return rebuild_tuple(type(outline), [stand_in(item, given) for item in outline])
    return [stand_in(item, given) for item in outline] if isinstance(outline, list) else None


def give_form(tensor: torch.Tensor, form: Form, given: Sequence[torch.Tensor]) -> None:
    """Give a tensor the form that it would have if the call had not failed; its values are lost.

    Args:
        tensor: one of the given tensors.
        form: the form.
        given: the tensors that the call was given.
    """
    if form.has_grad:
        give_gradients(leaves_of([tensor]))
    elif tensor.is_leaf and form.is_leaf:
        tensor.grad = None
    now = form_of(tensor)
    if (now.shape, now.strides, now.dtype) != (form.shape, form.strides, form.dtype):
        tensor.data = blank(form)
    if form.requires_grad and not form.is_leaf:
        # Where autograd does not allow it, the call itself would not have been allowed either.
        with contextlib.suppress(RuntimeError), torch.enable_grad():
            tensor.copy_(lost(form, given))
    elif form.requires_grad != tensor.requires_grad and tensor.is_leaf:
        tensor.requires_grad_(form.requires_grad)


def give_gradients(tensors: Iterable[torch.Tensor]) -> None:
    """Give zeros as a gradient to each tensor that would have one and has none."""
    for tensor in tensors:
        if tensor.grad is None:
            tensor.grad = torch.zeros_like(tensor)


def is_as_foreseen(outline: Any, result: Any, given: Sequence[torch.Tensor]) -> bool:
    """Say whether just those parts of a result are given tensors of which that was foreseen."""
    if isinstance(outline, Form):
        same = next((place for place, tensor in enumerate(given) if tensor is result), None)
        return (same is None) == (outline.position is None)
    if isinstance(outline, dict) and isinstance(result, dict):
        return all(is_as_foreseen(outline.get(key), item, given) for key, item in result.items())
    if isinstance(outline, tuple | list) and isinstance(result, tuple | list):
        return all(is_as_foreseen(*pair, given) for pair in zip(outline, result, strict=False))
    return True


def laid_out(outline: Any, result: Any) -> Any:
    """Return a result whose elements lie in memory as was foreseen, so that nothing of that is due to values.

    Torch lays out some results in another way than it says beforehand. Those are copied; views are as foreseen.
    """
    if isinstance(outline, Form) and type(result) is torch.Tensor and outline.position is None:
        is_same = result.layout is torch.strided and result.stride() == outline.strides
        if is_same or result.shape != outline.shape or result._is_view():
            return result
        with torch.set_grad_enabled(result.requires_grad):
            return blank(outline).copy_(result)
    if isinstance(outline, dict) and isinstance(result, dict):
        return {key: laid_out(outline.get(key), item) for key, item in result.items()}
    if isinstance(outline, tuple) and isinstance(result, tuple) and len(outline) == len(result):
        return rebuild_tuple(type(result), [laid_out(*pair) for pair in zip(outline, result, strict=True)])
    if isinstance(outline, list) and isinstance(result, list) and len(outline) == len(result):
        return [laid_out(*pair) for pair in zip(outline, result, strict=True)]
    return result
