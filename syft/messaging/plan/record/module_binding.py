"""ModuleBinding: keeps a plan in step with the modules that it was built of.

A plan holds the tensors of its modules by reference. If a module gets another parameter object (`layer.weight =
nn.Parameter(...)`), the plan uses that one. If a module is switched between train and eval, the recorded operations no
longer apply, and the plan raises.
"""

from __future__ import annotations

import dataclasses
import inspect
from collections.abc import Callable, Iterable, Iterator
from typing import Any

import torch

from syft.exceptions import PlanMismatchError
from syft.messaging.plan.state import State
from syft.tensors.placeholder import PlaceHolder


@dataclasses.dataclass(slots=True)
class _Link:
    placeholder: PlaceHolder
    tensor: Any
    # The dicts of modules that hold it, with its key; several if weights are tied.
    holders: list[tuple[Any, str]]

    def current(self) -> Any:
        """Return the tensor that the modules hold."""
        found = [holder.get(key) for holder, key in self.holders]
        if any(tensor is not found[0] for tensor in found):
            raise PlanMismatchError(
                f"{self.placeholder.description or 'A tensor of the state'} was shared by several modules when "
                "the plan was built; now they hold different tensors. Build it again: plan.build(*examples)."
            )
        return found[0]


class ModuleBinding:
    """Where the modules hold the tensors of a state."""

    def __init__(self, modules: Iterable[torch.nn.Module] = (), state: Iterable[PlaceHolder] = ()) -> None:
        self.modules = list(modules)
        of_tensor = {id(placeholder.child): placeholder for placeholder in state}
        self.modes: list[tuple[torch.nn.Module, bool]] = []
        links: dict[int, _Link] = {}
        for part in {id(part): part for module in self.modules for part in module.modules()}.values():
            if _depends_on_mode(part):
                self.modes.append((part, part.training))
            for holder in (part._parameters, part._buffers):
                for key, tensor in holder.items():
                    if id(tensor) in of_tensor:
                        link = links.setdefault(id(tensor), _Link(of_tensor[id(tensor)], tensor, []))
                        link.holders.append((holder, key))
        self.links = list(links.values())

    def update(self) -> None:
        """Use the tensors that the modules hold now."""
        for link in self.links:
            holders = link.holders
            now = holders[0][0].get(holders[0][1]) if len(holders) == 1 else link.current()
            if now is not link.tensor and now is not None and link.placeholder.child is link.tensor:
                if now.shape != link.tensor.shape or now.dtype != link.tensor.dtype:
                    raise PlanMismatchError(
                        f"{link.placeholder.description or 'A tensor of the state'} has another shape or dtype than "
                        "when the plan was built. Build it again: plan.build(*examples)."
                    )
                link.placeholder.child = link.tensor = now
                if sum(other.tensor is now for other in self.links) > 1:
                    raise PlanMismatchError(
                        "Two tensors of the state are the same tensor now. Build it again: plan.build(*examples)."
                    )

    def replace(self, old: torch.Tensor, new: torch.Tensor) -> None:
        """Let the modules hold another tensor in place of one of the state."""
        for link in self.links:
            if link.tensor is old:
                link.tensor = new
                for holder, key in link.holders:
                    holder[key] = new

    def check_modes(self) -> None:
        """Raise if a module was switched between train and eval."""
        for part, training in self.modes:
            if part.training is not training:
                before, now = ("train", "eval") if training else ("eval", "train")
                raise PlanMismatchError(
                    f"The plan was built while {type(part).__name__} was in {before} mode, and now it is in {now} "
                    f"mode. Switch it back with .{before}(), or build the plan again: plan.build(*examples)."
                )


def _depends_on_mode(part: torch.nn.Module) -> bool:
    """Say whether a module may depend on its mode: whether its code reads `training`."""
    code = getattr(type(part).forward, "__code__", None)
    return code is None or "training" in code.co_names


def used_by(function: Callable[..., Any], kind: type) -> Iterator[tuple[str, Any]]:
    """Yield the global and enclosing variables of a function that hold an object of a type."""
    try:
        variables = inspect.getclosurevars(inspect.unwrap(function))
    except TypeError:  # a callable that is not a Python function
        return
    for name, value in {**variables.globals, **variables.nonlocals}.items():
        if isinstance(value, kind):
            yield name, value


def optimizers_of(function: Callable[..., Any]) -> list[torch.optim.Optimizer]:
    """Return the optimizers among the variables of a function, and among the attributes of its instance."""
    owner = getattr(function, "__self__", None)
    own = [v for v in getattr(owner, "__dict__", {}).values() if isinstance(v, torch.optim.Optimizer)]
    return own + [optimizer for _, optimizer in used_by(function, torch.optim.Optimizer)]


def names_in(function: Callable[..., Any]) -> Iterator[tuple[str, torch.Tensor, str]]:
    """Yield (name, tensor, kind of state) for the tensors that the variables of a function hold."""
    for name, value in used_by(function, object):
        if isinstance(value, torch.Tensor):
            yield name, value, "#constant"
        elif isinstance(value, torch.nn.Module):
            for inner, tensor in value.named_buffers():
                yield f"{name}.{inner}", tensor, "#buffer"
            for inner, tensor in value.named_parameters():
                yield f"{name}.{inner}", tensor, "#parameter"
        elif isinstance(getattr(value, "state", None), State):  # a plan that this one uses
            for number, placeholder in enumerate(value.state.state_placeholders):
                kinds = placeholder.tags & {"#parameter", "#buffer", "#constant"}
                inner = placeholder.description or f"state_{number}"
                yield f"{name}.{inner}", placeholder.child, next(iter(kinds), "#state")


def name_captured(function: Callable[..., Any], state: Iterable[PlaceHolder]) -> None:
    """Name the captured tensors of a state after the variables of the function, and tag buffers and constants."""
    unnamed = [p for p in state if p.description is None and "#captured" in p.tags]
    if not unnamed:
        return
    found = {id(tensor): (name, kind) for name, tensor, kind in names_in(function)}
    for placeholder in unnamed:
        name, kind = found.get(id(placeholder.child), (None, None))
        if name is not None and kind is not None:
            placeholder.description = name
            if "#parameter" not in placeholder.tags:
                placeholder.tags = (placeholder.tags - {"#constant"}) | {kind}
