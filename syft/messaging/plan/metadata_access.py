"""Reads of recorded tensors: a property becomes a size or a check; reading a value is refused."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch

from syft.messaging.plan.commands import PROPERTIES

if TYPE_CHECKING:
    from collections.abc import Callable

    from syft.messaging.plan.record.recording import Recorder
    from syft.tensors.placeholder import PlaceHolder

_Tensor: Any = torch.Tensor


def _getter(name: str) -> Any:
    return getattr(_Tensor, name).__get__


_GRAD_FN = _getter("grad_fn")
# A size or a property of PROPERTIES -> the calls that read it.
_READS: dict[str, list[Any]] = {
    "shape": [_getter("shape"), _Tensor.size],
    "numel": [_Tensor.numel, _Tensor.nelement, torch.numel],
    "length": [_Tensor.__len__],
    "nbytes": [_getter("nbytes")],
    "ndim": [_Tensor.dim, _Tensor.ndimension, _getter("ndim")],
    "dtype": [
        _getter("dtype"), _getter("itemsize"), _Tensor.element_size, _Tensor.is_floating_point, _Tensor.is_complex,
        _Tensor.is_signed, torch.is_floating_point, torch.is_complex, torch.is_signed,
    ],
    "device": [
        _getter("device"), _Tensor.get_device, torch.get_device,
        *(_getter(f"is_{name}") for name in "cuda cpu meta mps xpu xla ipu maia mtia vulkan".split()),
    ],
    "layout": [
        _getter("layout"),
        *(_getter(f"is_{name}") for name in ("sparse", "sparse_csr", "mkldnn", "quantized", "nested")),
    ],
    "requires_grad": [_getter("requires_grad"), _GRAD_FN],
    "is_leaf": [_getter("is_leaf")],
    "stride": [_Tensor.stride, _Tensor.dim_order],
    "is_contiguous": [_Tensor.is_contiguous],
    "storage_offset": [_Tensor.storage_offset],
    "is_conj": [_Tensor.is_conj, torch.is_conj],
    "is_neg": [_Tensor.is_neg, torch.is_neg],
}  # fmt: skip
READS: dict[Any, str] = {function: name for name, functions in _READS.items() for function in functions}


def read(
    recorder: Recorder,
    func: Callable[..., Any],
    placeholder: PlaceHolder,
    args: tuple[Any, ...],
    kwargs: dict[str, Any],
) -> Any:
    """Return the result of a call of READS on a recorded tensor; records the size that it reads, or a check."""
    name, tensor = READS[func], args[0]
    if name == "shape":
        shape = recorder.shape_of(placeholder, tensor)
        dim = args[1] if len(args) > 1 else kwargs.get("dim")
        return shape if dim is None else shape[dim]
    if name == "numel":
        return recorder.numel_of(placeholder, func(*args, **kwargs))
    if name == "length":
        return int(recorder.shape_of(placeholder, tensor)[0])  # Python needs a plain number, so the size is fixed
    if name == "nbytes":
        return recorder.numel_of(placeholder, tensor.numel()) * read(
            recorder, _Tensor.element_size, placeholder, args, {}
        )
    if name == "is_contiguous" and (len(args) > 1 or kwargs):
        raise recorder._refuse("is_contiguous with a memory format")
    for each in (name, "is_leaf") if func == _GRAD_FN else (name,):
        recorder.check_property(placeholder, each, recorder.run(PROPERTIES[each], (tensor,), {}))
    return func(*args, **kwargs)


_BRANCH = "Use torch.where(condition, a, b), or branch outside of the plan."
_NUMBER = "Keep it a tensor; torch calls take tensors of no dimension as numbers."
_ARRAY = "Use torch calls instead of numpy's."
VALUE_READS: dict[Any, tuple[str, str]] = {
    _Tensor.__bool__: ("A branch on the value of a tensor", _BRANCH),
    _Tensor.is_nonzero: ("A branch on the value of a tensor", _BRANCH),
    torch.is_nonzero: ("A branch on the value of a tensor", _BRANCH),
    _Tensor.__contains__: ("A search in the values of a tensor", _BRANCH),
    _Tensor.equal: ("A comparison to True or False", "Use torch.eq and torch.where."),
    torch.equal: ("A comparison to True or False", "Use torch.eq and torch.where."),
    torch.allclose: ("A comparison to True or False", "Use torch.isclose and torch.where."),
    _Tensor.allclose: ("A comparison to True or False", "Use torch.isclose and torch.where."),
    _Tensor.item: (".item()", _NUMBER),
    _Tensor.tolist: (".tolist()", _NUMBER),
    _Tensor.__int__: ("int() of a tensor", _NUMBER),
    _Tensor.__float__: ("float() of a tensor", _NUMBER),
    _Tensor.__complex__: ("complex() of a tensor", _NUMBER),
    _Tensor.__index__: ("A tensor as a Python index", _NUMBER),
    _Tensor.numpy: (".numpy()", _ARRAY),
    _Tensor.__array__: ("numpy on a tensor", _ARRAY),
    _Tensor.__array_wrap__: ("numpy on a tensor", _ARRAY),
}
