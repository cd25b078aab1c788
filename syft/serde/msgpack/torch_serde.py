"""Codecs of torch's types: tensors, parameters, and the values that describe them.

A tensor is (id, bin, chain, grad, tags, description, serializer); a last item True is added if it
requires a gradient. `bin` holds the values in the format named by `serializer`, chosen by the sending
worker's `serializer`; quantized tensors are always "raw". Tensors with a chain have their own class and codec; here
`chain` is None.
"""

from __future__ import annotations

import io
import warnings
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import torch
from torch.jit._trace import TopLevelTracedModule

from syft._suggestions import one_of
from syft.codes import TENSOR_SERIALIZATION
from syft.exceptions import SerdeError
from syft.serde.buffer import Buffer, as_view, element_count
from syft.serde.registry import Detailer, Simplifier, TypeCodec
from syft.serde.torch.dtypes import (
    DTYPE_BY_NAME,
    INTEGER_OF_WIDTH,
    MAX_DIMENSIONS,
    NAMES,
    PYTHON_TYPE,
    data_dtype,
    plain,
    tensor_bytes,
    tensor_from,
)
from syft.serde.torch.quantized import INTEGERS, read_quantized, write_quantized
from syft.serde.torch.serde import (
    numpy_tensor_deserializer,
    numpy_tensor_serializer,
    torch_tensor_deserializer,
    torch_tensor_serializer,
)

if TYPE_CHECKING:
    from syft.workers.base import BaseWorker

Parts = tuple[Any, ...]
Strategy = tuple[Callable[[Any, torch.Tensor], Any], Callable[[Any, Any], torch.Tensor]]


def raw_tensor_serializer(worker: BaseWorker | None, tensor: torch.Tensor) -> Parts:
    """Write the values as raw bytes: (dtype name, shape, bytes outside the header, rule of a quantized tensor)."""
    if tensor.is_quantized:
        return write_quantized(tensor)
    data = tensor_bytes(tensor)
    return NAMES[tensor.dtype], tuple(tensor.shape), data


def raw_tensor_deserializer(worker: BaseWorker | None, tensor_bin: Parts) -> torch.Tensor:
    """Read raw bytes."""
    name, shape, data, *rule = tensor_bin
    if type(name) is str and name in INTEGERS and len(rule) == 1:
        return read_quantized(worker, name, shape, data, rule[0])  # type: ignore[no-any-return]
    if rule not in ([], [None]):
        raise SerdeError("The message holds a tensor with parts that only quantized tensors have.")
    return tensor_from(as_view(data), data_dtype(name), shape)


def simplified_tensor_serializer(worker: BaseWorker | None, tensor: torch.Tensor) -> tuple[Parts, str, list[Any]]:
    """Write the values as python numbers: (shape, dtype name, flat list)."""
    values = plain(tensor).reshape(-1)
    if PYTHON_TYPE[tensor.dtype] is bytes:
        values = values.view(INTEGER_OF_WIDTH[tensor.dtype.itemsize])
    return tuple(tensor.shape), NAMES[tensor.dtype], values.tolist()


def simplified_tensor_deserializer(worker: BaseWorker | None, tensor_tuple: Parts) -> torch.Tensor:
    """Read python numbers."""
    shape, name, values = tensor_tuple
    dtype = data_dtype(name)
    kind = PYTHON_TYPE[dtype]
    bits = INTEGER_OF_WIDTH[dtype.itemsize] if kind is bytes else None
    if not isinstance(values, list | tuple) or len(values) != element_count(shape, MAX_DIMENSIONS):
        raise SerdeError("The message holds a tensor whose list of values does not fit its shape.")
    if set(map(type, values)) - {int if bits else kind}:
        raise SerdeError(f"The message holds a tensor of dtype {name} with values of another type.")
    flat = torch.tensor(values, dtype=bits or dtype)
    return (flat.view(dtype) if bits else flat).reshape(shape)


STRATEGIES: dict[str, Strategy] = {
    TENSOR_SERIALIZATION.RAW: (raw_tensor_serializer, raw_tensor_deserializer),
    TENSOR_SERIALIZATION.TORCH: (torch_tensor_serializer, torch_tensor_deserializer),
    TENSOR_SERIALIZATION.NUMPY: (numpy_tensor_serializer, numpy_tensor_deserializer),
    TENSOR_SERIALIZATION.ALL: (simplified_tensor_serializer, simplified_tensor_deserializer),
}


def _strategy(name: object) -> Strategy:
    strategy = STRATEGIES.get(name) if isinstance(name, str) else None
    if strategy is None:
        raise SerdeError(f"There is no tensor format {str(name)[:40]!r}. {one_of(name, STRATEGIES)}")
    return strategy


def _format_of(worker: BaseWorker | None, tensor: torch.Tensor) -> str:
    name = getattr(worker, "serializer", None)
    return TENSOR_SERIALIZATION.RAW if name is None or tensor.is_quantized else name


def _serialize_tensor(worker: BaseWorker | None, tensor: torch.Tensor) -> Any:
    """Write a tensor's values in the format the worker uses."""
    return _strategy(_format_of(worker, tensor))[0](worker, tensor)


def _deserialize_tensor(worker: BaseWorker | None, serializer: str, tensor_bin: object) -> torch.Tensor:
    """Read a tensor's values in the named format."""
    return _strategy(serializer)[1](worker, tensor_bin)


def _simplify_torch_tensor(worker: BaseWorker | None, tensor: torch.Tensor) -> Parts:
    """Simplify a plain tensor."""
    name = _format_of(worker, tensor)
    values = _strategy(name)[0](worker, tensor)
    attributes = tensor.__dict__
    grad = _grad_of(tensor)
    tensor_id = tags = description = None
    if attributes:
        tensor_id, tags = attributes.get("_syft_id"), attributes.get("_syft_tags")
        description = attributes.get("_syft_description")
    parts = (tensor_id, values, None, grad, tags, description, name)
    # The autograd graph is not sent, so the copy of a result does not require a gradient.
    return (*parts, True) if tensor.requires_grad and tensor.is_leaf else parts


def _detail_torch_tensor(worker: BaseWorker | None, tensor_tuple: Parts) -> torch.Tensor:
    """Rebuild a plain tensor."""
    tensor_id, values, chain, grad, tags, description, serializer, *more = tensor_tuple
    if chain is not None or more not in ([], [True]):
        raise SerdeError("The message holds a plain tensor with parts that only other tensors have.")
    tensor = _deserialize_tensor(worker, serializer, values)
    if more:
        tensor.requires_grad_()
    _set_grad(tensor, grad)
    _set_labels(tensor, tensor_id, tags, description)
    return tensor


def _grad_of(tensor: torch.Tensor) -> torch.Tensor | None:
    # Reading .grad of an inner node of a graph makes torch warn.
    return tensor.grad if tensor.is_leaf or tensor.retains_grad else None


def _set_grad(tensor: torch.Tensor, grad: object) -> None:
    if grad is None:
        return
    if not isinstance(grad, torch.Tensor):
        raise SerdeError(f"The message holds a tensor whose gradient is {type(grad).__name__}.")
    tensor.grad = grad


def _set_labels(tensor: torch.Tensor, tensor_id: object, tags: object, description: object) -> None:
    if tensor_id is not None:
        if type(tensor_id) not in (int, str):
            raise SerdeError(f"The message holds a tensor whose id is {type(tensor_id).__name__}.")
        tensor.__dict__["_syft_id"] = tensor_id
    if tags is not None:
        if type(tags) is not set or not all(type(tag) is str for tag in tags):
            raise SerdeError("The message holds a tensor whose tags are not a set of strings.")
        tensor.__dict__["_syft_tags"] = tags
    if description is not None:
        if type(description) is not str:
            raise SerdeError("The message holds a tensor whose description is not text.")
        tensor.__dict__["_syft_description"] = description


def _simplify_torch_parameter(worker: BaseWorker | None, param: torch.nn.Parameter) -> Parts:
    """Simplify a parameter: its tags and description are sent with the tensor inside."""
    tensor = param.detach()
    attributes = param.__dict__
    for key in ("_syft_tags", "_syft_description"):
        if attributes.get(key) is not None:
            tensor.__dict__[key] = attributes[key]
    return attributes.get("_syft_id"), tensor, param.requires_grad, _grad_of(param)


def _detail_torch_parameter(worker: BaseWorker | None, param_tuple: Parts) -> torch.nn.Parameter:
    """Rebuild a parameter."""
    param_id, tensor, requires_grad, grad = param_tuple
    if type(tensor) is not torch.Tensor or type(requires_grad) is not bool:
        raise SerdeError("The message holds a parameter without a plain tensor inside.")
    attributes = tensor.__dict__
    param = torch.nn.Parameter(tensor.detach(), requires_grad=requires_grad)
    _set_grad(param, grad)
    _set_labels(param, param_id, attributes.get("_syft_tags"), attributes.get("_syft_description"))
    return param


def _simplify_torch_device(worker: BaseWorker | None, device: torch.device) -> Parts:
    return device.type, device.index


def _detail_torch_device(worker: BaseWorker | None, parts: Parts) -> torch.device:
    kind, index = parts
    if type(kind) is not str or ":" in kind or not (index is None or type(index) is int):
        raise SerdeError("The message holds a device without a kind and a number.")
    return torch.device(kind) if index is None else torch.device(kind, index)


def _simplify_torch_size(worker: BaseWorker | None, size: torch.Size) -> Parts:
    return tuple(size)


def _detail_torch_size(worker: BaseWorker | None, parts: Parts) -> torch.Size:
    element_count(parts, MAX_DIMENSIONS)
    return torch.Size(parts)


_MEMORY_FORMATS = {
    "contiguous_format": torch.contiguous_format,
    "preserve_format": torch.preserve_format,
    "channels_last": torch.channels_last,
    "channels_last_3d": torch.channels_last_3d,
}
_LAYOUTS = {str(value): value for value in vars(torch).values() if isinstance(value, torch.layout)}
_RETURN_TYPES: dict[str, Any] = {cls.__name__: cls for cls in torch.return_types.all_return_types}


def _named(table: dict[str, Any], parts: Parts, what: str) -> Any:
    (name,) = parts
    if type(name) is not str or name not in table:
        raise SerdeError(f"The message holds an unknown {what}: {str(name)[:40]!r}.")
    return table[name]


def _simplify_torch_mem_format(worker: BaseWorker | None, mem_format: object) -> Parts:
    """Simplify a memory format, or a dtype, to its name."""
    return (str(mem_format).removeprefix("torch."),)


def _detail_torch_mem_format(worker: BaseWorker | None, parts: Parts) -> torch.memory_format:
    return _named(_MEMORY_FORMATS, parts, "memory format")  # type: ignore[no-any-return]


def _simplify_script_module(worker: BaseWorker | None, module: torch.nn.Module) -> Parts:
    """Write a scripted or traced module or function with its code."""
    out = io.BytesIO()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)
        torch.jit.save(module, out)
    return (Buffer(out.getbuffer()),)


def _detail_script_module(worker: BaseWorker | None, parts: Parts) -> Any:
    """Read a scripted module, only at a worker that trusts code of its clients."""
    (data,) = parts
    if getattr(worker, "trusts_script_modules", False) is not True:
        raise SerdeError(
            "A script module is code of its sender, which this worker does not accept. "
            "Send a plan instead: sy.Plan(forward_func=module).build(example). If its owner trusts everyone who can "
            "reach it: python -m syft node start --trust-script-modules at a node, "
            "worker.trusts_script_modules = True at another worker; pass that worker to deserialize."
        )
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)
        load: Callable[..., Any] = torch.jit.load
        return load(io.BytesIO(as_view(data)), map_location="cpu")


MAP_TORCH_SIMPLIFIERS_AND_DETAILERS: dict[type, tuple[Simplifier, Detailer]] = {
    torch.Tensor: (_simplify_torch_tensor, _detail_torch_tensor),
    torch.nn.Parameter: (_simplify_torch_parameter, _detail_torch_parameter),
    torch.Size: (_simplify_torch_size, _detail_torch_size),
    torch.device: (_simplify_torch_device, _detail_torch_device),
    torch.dtype: (_simplify_torch_mem_format, lambda worker, parts: _named(DTYPE_BY_NAME, parts, "dtype")),
    torch.memory_format: (_simplify_torch_mem_format, _detail_torch_mem_format),
    torch.layout: (
        lambda worker, layout: (str(layout),),
        lambda worker, parts: _named(_LAYOUTS, parts, "layout"),
    ),
    torch.jit.ScriptModule: (_simplify_script_module, _detail_script_module),
    torch.jit.ScriptFunction: (_simplify_script_module, _detail_script_module),
    TopLevelTracedModule: (_simplify_script_module, _detail_script_module),
    torch.return_types.max: (
        lambda worker, result: (type(result).__name__, *result),
        lambda worker, parts: _named(_RETURN_TYPES, parts[:1], "torch return type")(parts[1:]),
    ),
}
_EXTRA: dict[type, dict[str, Any]] = {
    torch.jit.ScriptModule: {"exact": False},
    torch.return_types.max: {
        "aliases": tuple(cls for cls in _RETURN_TYPES.values() if cls is not torch.return_types.max)
    },
}
CODECS: dict[type, TypeCodec] = {
    cls: TypeCodec(*functions, **_EXTRA.get(cls, {})) for cls, functions in MAP_TORCH_SIMPLIFIERS_AND_DETAILERS.items()
}
REFUSALS: dict[type, str] = {
    torch.Generator: "a random generator is bound to its process; send its seed or get_state() instead.",
    torch.nn.Module: "a module is sent with module.send(worker), or as module.state_dict().",
}
