"""Checks the number and names of the arguments of a call, without calling it.

`inspect` has no signatures of torch's C functions. Their operator schemas and torch's testing overrides have some; a
call is refused only if no known signature accepts it.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import torch
from torch.overrides import get_testing_overrides


class Signature(NamedTuple):
    """How a function may be called."""

    required: int
    positional: int
    names: frozenset[str]
    open_ended: bool


# Names of numpy that torch accepts too.
_ALIASES = frozenset(
    {"axis", "keepdims", "x", "x1", "x2", "a", "out", "inplace", "dim", "input", "self", "other", "size"}
)

# Modules whose name is a prefix of their operators' names.
_PREFIXES = {f"torch.{module}": f"{module}_" for module in ("fft", "linalg", "special")}


def accepts(name: str, function: Callable[..., Any], positional: int, keywords: tuple[str, ...]) -> bool:
    """Say whether a function can be called with this number of arguments and these keywords."""
    known = _signatures(name, function)
    return not known or any(_fits(signature, positional, keywords) for signature in known)


def _fits(signature: Signature, positional: int, keywords: tuple[str, ...]) -> bool:
    if positional + len(keywords) < signature.required:
        return False
    if signature.open_ended:
        return True
    unknown = set(keywords) - signature.names - _ALIASES
    return positional <= signature.positional and not unknown and positional + len(keywords) <= len(signature.names) + 1


@functools.cache
def _signatures(name: str, function: Callable[..., Any]) -> tuple[Signature, ...]:
    found = [*_inspected(function), *_inspected(get_testing_overrides().get(function)), *_schemas(name)]
    return tuple(dict.fromkeys(found))


def _inspected(function: Any) -> Iterator[Signature]:
    if function is None:
        return
    try:
        parameters = inspect.signature(function).parameters.values()
    except (TypeError, ValueError):
        return
    positional = [p for p in parameters if p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD)]
    open_ended = any(p.kind in (p.VAR_POSITIONAL, p.VAR_KEYWORD) for p in parameters)
    required = sum(p.default is p.empty and p.kind not in (p.VAR_POSITIONAL, p.VAR_KEYWORD) for p in parameters)
    yield Signature(required, len(positional), frozenset(p.name for p in parameters), open_ended)


def _schemas(name: str) -> Iterator[Signature]:
    """Yield the operator schemas of a function or method in C; a list of numbers may be passed one by one."""
    module, _, last = name.rpartition(".")
    prefix = _PREFIXES.get(module, "")
    packet = getattr(torch.ops.aten, prefix + last, None) if name.startswith("torch.") else None
    if not isinstance(packet, torch._ops.OpOverloadPacket):
        return
    for overload in packet.overloads():  # type: ignore[no-untyped-call]
        arguments = getattr(packet, overload)._schema.arguments
        spread = any(str(a.type).startswith(("List[int]", "List[SymInt]", "Optional[List[int]]")) for a in arguments)
        required = sum(not a.has_default_value() for a in arguments)
        yield Signature(required, len(arguments), frozenset(a.name for a in arguments), spread)
