"""CallArguments: the arguments of a call on private data, as proxies here and as the vault gets them."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING, Any

import torch

from syft.core.references import Ref
from syft.core.trees import map_tensors
from syft.grid.isolation.proxies.objects import PROXIES, PlanProxy
from syft.messaging.message import Operation
from syft.messaging.mutation import alters
from syft.messaging.plan.plan import Plan
from syft.pointers.pointer_plan import RUN_PLAN

if TYPE_CHECKING:
    from syft.grid.isolation.session.vault_calls import VaultCalls


class CallArguments:
    """The arguments of a call, with proxies in place of objects in the vault.

    Args:
        calls: the calls to the vault.
        operation: the call.
    """

    def __init__(self, calls: VaultCalls, operation: Operation) -> None:
        self._calls = calls
        self._operation = operation
        self.args: tuple[Any, ...] = tuple(map_tensors(self._local, arg) for arg in operation.cmd_args)
        self.kwargs: dict[str, Any] = {key: map_tensors(self._local, arg) for key, arg in operation.cmd_kwargs.items()}

    def _local(self, leaf: object) -> object:
        if type(leaf) is not Ref:
            return leaf
        used = self._calls.resolve(leaf)
        if isinstance(used, torch.Tensor) and self._calls.worker.object_store.is_of_others(leaf.id):
            return used.detach()  # no gradients on data of other users
        return used

    def for_vault(self) -> Operation:
        """Return the call with references to objects in the vault, and copies of all other objects."""
        plan = self.args[0] if self._operation.cmd_name == RUN_PLAN else None
        alters_data = isinstance(plan, Plan | PlanProxy) and _alters(plan)

        def send(leaf: object) -> object:
            if type(leaf) is Ref and alters_data and self._calls.is_data(leaf.id):
                return Ref(self._calls.post_clone(leaf))
            if type(leaf) is not Ref or isinstance(self._calls.worker.object_store.look(leaf.id), PROXIES):
                return leaf
            value = self._calls.resolve(leaf)
            if isinstance(value, Plan):
                return Ref(self._calls.post_plan(value))  # workers run only plans that they hold
            return value.detach() if isinstance(value, torch.Tensor) else value

        operation = self._operation
        return dataclasses.replace(
            operation,
            cmd_args=tuple(map_tensors(send, arg) for arg in operation.cmd_args),
            cmd_kwargs={key: map_tensors(send, arg) for key, arg in operation.cmd_kwargs.items()},
        )


def _alters(plan: Plan | PlanProxy) -> bool:
    """Return whether a plan may write to its arguments; then it gets copies of published data."""
    program = getattr(plan, "program", None)
    return program is None or alters(program.operations)
