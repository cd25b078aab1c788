"""The registry of protocols that workers run by name, with their cost and accuracy."""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Callable
from typing import Any, TypeVar

import torch

from syft.core.redefinition import is_redefinition
from syft.exceptions import SyftError, UnsupportedOperationError
from syft.mpc.ring import arithmetic
from syft.mpc.runtime.party import Protocol

Shapes = Callable[..., Any]
Function = TypeVar("Function", bound=Protocol)


@dataclasses.dataclass(frozen=True, slots=True)
class ProtocolSpec:
    """One protocol.

    Attributes:
        name: the name of the protocol.
        function: the `async def`.
        shape: returns the shape of the result, or a list of shapes, from the arguments (tensors on the meta device)
            and the options.
        rounds: the number of rounds, as text.
        bytes: the bytes that each party sends to each other party, per element of the result, as text.
        error: the accuracy of the result.
        deals: whether it needs a dealer; a function of the options where that depends on them.
        helper: whether the dealer takes part as an active helper, when there are two parties.
    """

    name: str
    function: Protocol
    shape: Shapes
    rounds: str
    bytes: str
    error: str
    deals: bool | Callable[..., bool]
    helper: bool = False

    def needs_dealer(self, options: dict[str, Any]) -> bool:
        """Return whether a run with these options needs a dealer."""
        return self.deals(**options) if callable(self.deals) else self.deals


PROTOCOLS: dict[str, ProtocolSpec] = {}


def elementwise(x: torch.Tensor, *others: object, **options: object) -> torch.Size:
    """Return the shape of the first argument."""
    return x.shape


def broadcast(*tensors: torch.Tensor, **options: object) -> torch.Size:
    """Return the shape that all arguments are broadcast to."""
    return functools.reduce(arithmetic.broadcast, [tensor.shape for tensor in tensors])


def protocol(
    name: str,
    shape: Shapes = elementwise,
    rounds: str = "0",
    bytes: str = "0",
    error: str = "exact",
    deals: bool | Callable[..., bool] = True,
    helper: bool = False,
) -> Callable[[Function], Function]:
    """Register a protocol under a name; by default its result has the shape of its first argument.

    A function that is defined again, as when a notebook cell runs twice, replaces the earlier one.
    """

    def register(function: Function) -> Function:
        found = PROTOCOLS.get(name)
        if found is not None and not is_redefinition(found.function, function):
            raise SyftError(
                f"There already is a protocol {name!r}, of {found.function.__module__}. Choose another name."
            )
        PROTOCOLS[name] = ProtocolSpec(name, function, shape, rounds, bytes, error, deals, helper)
        return function

    return register


def entry_of(name: str) -> ProtocolSpec:
    """Return a registered protocol."""
    found = PROTOCOLS.get(name)
    if found is None:
        hint = (
            "It is not registered in this process. Import its module in the process of every party: "
            "sy.ProcessWorker(..., modules=[...])."
        )
        raise UnsupportedOperationError(f"The protocol {str(name)[:40]!r}", "shared tensors", hint)
    return found
