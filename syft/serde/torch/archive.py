"""Reads `torch.save` files without running code that they contain.

Such a file is a zip with a small pickle that describes how to rebuild a tensor from raw bytes stored next to it.
The pickle is never loaded: its opcodes are read as a description, only the description of a plain CPU tensor is
accepted, and every number in it is checked before memory is allocated. (`torch.load` with `weights_only=True` runs no
code of the file either, but allocates any size that the pickle declares.)
"""

from __future__ import annotations

import io
import pickletools  # reads opcodes, executes none
import zipfile
from typing import Any, NamedTuple

import torch

from syft.exceptions import SerdeError
from syft.serde.torch.dtypes import MAX_DIMENSIONS, data_dtype, tensor_from

MAX_ENTRIES = 16
MAX_DESCRIPTION_BYTES = 16 * 1024

_STORAGES = {
    "torch BoolStorage": "bool",
    "torch ByteStorage": "uint8",
    "torch CharStorage": "int8",
    "torch ShortStorage": "int16",
    "torch IntStorage": "int32",
    "torch LongStorage": "int64",
    "torch HalfStorage": "float16",
    "torch BFloat16Storage": "bfloat16",
    "torch FloatStorage": "float32",
    "torch DoubleStorage": "float64",
    "torch ComplexFloatStorage": "complex64",
    "torch ComplexDoubleStorage": "complex128",
}
_UNTYPED = "torch.storage UntypedStorage"
_REBUILD = {"torch._utils _rebuild_tensor_v2": 6, "torch._utils _rebuild_tensor_v3": 7}


class _Name(NamedTuple):
    text: str


class _Call(NamedTuple):
    function: Any
    arguments: Any


class _Stored(NamedTuple):
    key: Any


class _Description(NamedTuple):
    """The contents of a checked description; sizes are in elements."""

    dtype: torch.dtype
    storage_key: str
    storage_bytes: int
    offset: int
    size: tuple[int, ...]
    stride: tuple[int, ...]


def read_tensor(data: bytes) -> torch.Tensor:
    """Rebuild the one plain tensor a `torch.save` file holds."""
    try:
        with zipfile.ZipFile(io.BytesIO(data)) as archive:
            entries = _entries(archive, len(data))
            prefix = _prefix(entries)
            description = _description(archive.read(prefix + "data.pkl"))
            order = prefix + "byteorder"
            if order in entries and archive.read(order) != b"little":
                raise _bad("its bytes are not little-endian")
            storage = f"{prefix}data/{description.storage_key}"
            if storage not in entries or entries[storage] != description.storage_bytes:
                raise _bad("its storage does not have the declared size")
            return _rebuild(archive.read(storage), description)
    except SerdeError:
        raise
    except Exception as error:
        raise _bad(f"it can't be read ({type(error).__name__})") from error


def _entries(archive: zipfile.ZipFile, size: int) -> dict[str, int]:
    infos = archive.infolist()
    if len(infos) > MAX_ENTRIES or len({info.filename for info in infos}) != len(infos):
        raise _bad("it has too many entries")
    for info in infos:
        stored = info.compress_type == zipfile.ZIP_STORED and info.compress_size == info.file_size
        if not stored or info.flag_bits & 1:
            raise _bad("it has compressed or encrypted entries")
    if sum(info.file_size for info in infos) > size:
        raise _bad("its entries declare more bytes than it has")
    return {info.filename: info.file_size for info in infos}


def _prefix(entries: dict[str, int]) -> str:
    names = [name for name in entries if name.endswith("/data.pkl") and name.count("/") == 1]
    if len(names) != 1 or entries[names[0]] > MAX_DESCRIPTION_BYTES:
        raise _bad("it does not hold the description of one tensor")
    return names[0].removesuffix("data.pkl")


def _description(pickled: bytes) -> _Description:
    """Check that the description is a plain CPU tensor's, and return its numbers."""
    call = _describe(pickled)
    called = isinstance(call, _Call) and isinstance(call.function, _Name) and type(call.arguments) is tuple
    if not called or len(call.arguments) != _REBUILD.get(call.function.text):
        raise _bad("it does not describe a plain tensor")
    stored, offset, size, stride, _requires_grad, hooks, *typed = call.arguments
    if hooks != _Call(_Name("collections OrderedDict"), ()) or not isinstance(stored, _Stored):
        raise _bad("it does not describe a plain tensor")
    tag, kind, key, device, length = stored.key
    if tag != "storage" or device != "cpu" or not isinstance(kind, _Name):
        raise _bad("its storage is not in plain memory")
    if type(key) is not str or not key.isdecimal():
        raise _bad("its storage has no number")
    dtype = _dtype(kind.text, typed)
    _check_numbers(offset, length, size, stride)
    unit = 1 if typed else dtype.itemsize
    return _Description(dtype, key, length * unit, offset, size, stride)


def _dtype(storage: str, typed: list[Any]) -> torch.dtype:
    if not typed:
        return data_dtype(_STORAGES.get(storage))
    (name,) = typed
    if storage != _UNTYPED or not isinstance(name, _Name):
        raise _bad("its dtype is unknown")
    return data_dtype(name.text.removeprefix("torch "))


def _check_numbers(offset: object, length: object, size: object, stride: object) -> None:
    if type(size) is not tuple or type(stride) is not tuple or len(size) != len(stride):
        raise _bad("its sizes and strides do not match")
    numbers = (offset, length, *size, *stride)
    if len(size) > MAX_DIMENSIONS or any(type(n) is not int or not 0 <= n < 2**63 for n in numbers):
        raise _bad("its sizes are not non-negative integers")


def _rebuild(data: bytes, description: _Description) -> torch.Tensor:
    flat = tensor_from(memoryview(data), description.dtype, (len(data) // description.dtype.itemsize,))
    elements = 1
    for size in description.size:
        elements *= size
    last = description.offset + sum(
        (size - 1) * step for size, step in zip(description.size, description.stride, strict=True)
    )
    if elements > flat.numel() or (elements and last >= flat.numel()):
        raise _bad("it describes more values than it holds")
    if not elements:
        return torch.empty(description.size, dtype=description.dtype)
    return torch.as_strided(flat, description.size, description.stride, description.offset)


def _describe(pickled: bytes) -> Any:
    """Read the opcodes of a pickle into plain values, names and calls, without making the calls."""
    stack: list[Any] = []
    marks: list[int] = []
    memo: dict[Any, Any] = {}
    argument: Any
    for opcode, argument, _ in pickletools.genops(pickled):
        name = opcode.name
        if name in _CONSTANTS:
            stack.append(_CONSTANTS[name])
        elif name in _LITERALS:
            stack.append(argument)
        elif name in _TUPLES:
            _fold(stack, len(stack) - _TUPLES[name])
        elif name == "GLOBAL":
            stack.append(_Name(argument))
        elif name == "MARK":
            marks.append(len(stack))
        elif name == "TUPLE":
            _fold(stack, marks.pop())
        elif name in ("BINPUT", "LONG_BINPUT"):
            memo[argument] = stack[-1]
        elif name in ("BINGET", "LONG_BINGET"):
            stack.append(memo[argument])
        elif name == "BINPERSID":
            stack.append(_Stored(stack.pop()))
        elif name == "REDUCE":
            arguments = stack.pop()
            stack.append(_Call(stack.pop(), arguments))
        elif name not in ("PROTO", "STOP"):
            raise _bad(f"its description uses {name}, which no plain tensor needs")
    (result,) = stack
    return result


_CONSTANTS: dict[str, Any] = {"EMPTY_TUPLE": (), "NEWTRUE": True, "NEWFALSE": False}
_LITERALS = frozenset({"BINUNICODE", "BININT", "BININT1", "BININT2", "LONG1"})
_TUPLES = {"TUPLE1": 1, "TUPLE2": 2, "TUPLE3": 3}


def _fold(stack: list[Any], start: int) -> None:
    """Replace everything on the stack from `start` by one tuple."""
    if start < 0:
        raise _bad("its description is damaged")
    stack[start:] = [tuple(stack[start:])]


def _bad(reason: str) -> SerdeError:
    return SerdeError(f"The message holds a tensor in torch.save format that is refused: {reason}.")
