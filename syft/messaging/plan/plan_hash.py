"""plan_hash: a hash of what a plan computes; names and labels do not count."""

from __future__ import annotations

import hashlib
import struct
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import torch

from syft.core.references import Ref
from syft.exceptions import MalformedPlanError
from syft.hook.syft_tensor import SyftTensor
from syft.messaging.plan import optimizers as plan_optimizers
from syft.messaging.plan.program import RETURN_TYPES
from syft.messaging.plan.state import KINDS

if TYPE_CHECKING:
    from syft.messaging.plan.plan import Plan

_NAMED = (torch.dtype, torch.device, torch.layout, torch.memory_format)


def plan_hash(plan: Plan) -> str:
    """Return the SHA-256 of the computation of a built plan: operations, constants, state values and optimizers.

    Ids, tags, descriptions, the name of the plan and the names of its state do not count. Two recordings of one
    function have the same hash, also after serialization.

    Args:
        plan: a plan that is built.

    Raises:
        MalformedPlanError: the plan is not built, or its state is remote.
    """
    if not plan.is_built:
        raise MalformedPlanError("plan_hash() needs a built plan. Build it first: plan.build(*examples).")
    program = plan.program
    arguments, operations, outputs = program.to_rows()
    # A name counts only for keyword-only arguments.
    signature = tuple(
        (name if by_name else None, pattern, by_name, optional) for name, pattern, by_name, optional in arguments
    )
    state = tuple((tuple(sorted(p.tags & KINDS)), p.child) for p in program.state)
    steps = tuple(plan_optimizers.to_row(o, [p.child for p in program.state]) for o in plan.optimizers)
    digest = hashlib.sha256(b"syft plan 1\n")
    for part in _encoded((len(program.inputs), signature, operations, outputs, state, steps)):
        digest.update(part)
    return digest.hexdigest()


def _encoded(value: Any) -> Iterator[bytes]:
    """Yield an unambiguous encoding of a value: a tag for its type, its length, its contents."""
    kind = type(value)
    if value is None or value is Ellipsis:
        yield b"n" if value is None else b"e"
    elif kind is bool:
        yield b"T" if value else b"F"
    elif kind is int:
        yield _counted(b"i", str(value).encode())
    elif kind is float:
        yield b"f" + struct.pack(">d", value)
    elif kind is complex:
        yield b"c" + struct.pack(">dd", value.real, value.imag)
    elif kind is str:
        yield _counted(b"s", value.encode())
    elif kind is Ref:
        yield _counted(b"r", str(value.id).encode())
    elif isinstance(value, _NAMED):
        yield _counted(b"a", f"{kind.__name__} {value}".encode())
    elif isinstance(value, torch.Tensor):
        yield from _encoded_tensor(value)
    elif kind is slice:
        yield from _encoded_items(b"l", (value.start, value.stop, value.step))
    elif kind is dict:
        items = sorted(value.items(), key=lambda item: str(item[0]))
        yield from _encoded_items(b"d", [part for item in items for part in item])
    elif kind in (tuple, list) or kind in RETURN_TYPES:
        yield from _encoded_items(b"t" if kind is tuple else b"[" if kind is list else kind.__name__.encode(), value)
    else:
        raise MalformedPlanError(f"A plan that holds a {kind.__name__} has no hash.")


def _encoded_items(tag: bytes, items: Any) -> Iterator[bytes]:
    yield _counted(tag, str(len(items)).encode())
    for item in items:
        yield from _encoded(item)


def _encoded_tensor(tensor: torch.Tensor) -> Iterator[bytes]:
    if isinstance(tensor, SyftTensor) or tensor.layout is not torch.strided or tensor.is_meta or tensor.is_quantized:
        raise MalformedPlanError("plan_hash() needs plain local tensors as state. Fetch them first: plan.get().")
    plain = tensor.detach().cpu().resolve_conj().resolve_neg().contiguous()
    header = f"{plain.dtype} {tuple(plain.shape)} {tensor.requires_grad} {isinstance(tensor, torch.nn.Parameter)}"
    yield _counted(b"x", header.encode())
    if plain.numel():
        yield plain.reshape(-1).view(torch.uint8).numpy().tobytes()


def _counted(tag: bytes, data: bytes) -> bytes:
    return b"%s%d:%s" % (tag, len(data), data)
