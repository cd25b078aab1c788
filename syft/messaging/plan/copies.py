"""Copies of plans: a copy shares no tensor with its original."""

from __future__ import annotations

import copy
from typing import TYPE_CHECKING, Any

import torch

from syft.core.id_provider import ID_PROVIDER
from syft.core.object_storage import ObjectStorage
from syft.messaging.plan.record.module_binding import ModuleBinding
from syft.messaging.plan.state import CAPTURED, State

if TYPE_CHECKING:
    from syft.messaging.plan.plan import Plan


def copy_unbuilt(plan: Plan) -> Any:
    """Return a copy of a plan that is not built."""
    proxy: Plan = object.__new__(type(plan))
    proxy.__dict__.update(plan.__dict__)
    proxy.__dict__.update(_id=None, state=State(), pointers={}, _sent_to={}, tags=set(plan.tags))
    proxy.__dict__.update(optimizers=[], _lines=[], _placeholders={}, _binding=ModuleBinding())
    ObjectStorage.__init__(proxy, plan.name)
    memo: dict[int, Any] = {}  # one for all: tied tensors stay tied
    for name, value in plan.__dict__.items():
        if isinstance(value, torch.Tensor | torch.nn.Module):
            setattr(proxy, name, copy.deepcopy(value, memo))
    for tensor in [p.child for p in plan.state.state_placeholders if p.description is None]:
        proxy.state.add(copy.deepcopy(tensor, memo))
    return proxy


def copy_built(plan: Plan) -> Any:
    """Return a copy of a built plan, with copies of its attributes that hold the copied state.

    A function that uses tensors from outside still uses the originals of these, so the copy has no function.
    """
    memo: dict[int, Any] = {}
    parts = list(plan.simplify(None, plan))
    parts[0] = ID_PROVIDER.pop()
    state = State(None, [p.copy() for p in plan.state.state_placeholders])
    for placeholder in state.state_placeholders:
        placeholder.child = copy.deepcopy(placeholder.child, memo)
    parts[5] = state
    parts[6] = copy.deepcopy(parts[6])
    proxy = plan.detail(plan._owner, tuple(parts))
    proxy._input_specs = plan._input_specs
    if proxy.translations:
        proxy._translations = plan._translations.copied(proxy.state)
    proxy.__class__ = type(plan)
    proxy.include_state = plan.include_state
    is_own = not any(CAPTURED in p.tags for p in state.state_placeholders)
    for name, value in plan.__dict__.items():
        if isinstance(value, torch.Tensor | torch.nn.Module):
            proxy.__dict__[name] = copy.deepcopy(value, memo)
        elif name not in proxy.__dict__ or (name == "forward_func" and is_own):
            proxy.__dict__[name] = value
    proxy._bind([value for value in proxy.__dict__.values() if isinstance(value, torch.nn.Module)])
    return proxy
