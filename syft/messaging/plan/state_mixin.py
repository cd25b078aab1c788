"""StateMixin: the methods of a plan that read and change its state."""

from __future__ import annotations

from typing import Any, Self

import torch

from syft.core.object import AbstractObject
from syft.exceptions import PlanMismatchError, SyftError
from syft.messaging.plan.record.module_binding import ModuleBinding
from syft.messaging.plan.state import State


class StateMixin(AbstractObject):
    """The state of a plan: set by attributes, read by name, encoded, shared, fetched."""

    state: State
    _binding: ModuleBinding

    @property
    def is_built(self) -> bool:
        """Whether the operations are recorded."""
        raise NotImplementedError("Plan defines is_built")

    def _discard_program(self) -> None:
        raise NotImplementedError("Plan defines _discard_program")

    def __setattr__(self, name: str, value: object) -> None:
        """Set an attribute; tensors and modules become part of the state."""
        if isinstance(value, torch.Tensor | torch.nn.Module):
            self.state.remove(name)
            if isinstance(value, torch.Tensor):
                self.state.add(value, name)
                self._register(value)
            else:
                prefix = "" if name == "forward_func" else f"{name}."
                for inner, parameter in value.named_parameters():
                    self.state.add(parameter, prefix + inner, "#parameter")
                    self._register(parameter)
                for inner, buffer in value.named_buffers():
                    self.state.add(buffer, prefix + inner, "#buffer")
            self._discard_program()
        object.__setattr__(self, name, value)

    def _register(self, tensor: torch.Tensor) -> None:
        owner = self.owner
        if owner is not None:
            owner.register_obj(tensor)

    def parameters(self) -> list[Any]:
        """Return the tensors that training changes, as nn.Module.parameters does."""
        return self.state.parameters()

    def state_dict(self, of: str | None = None) -> dict[str, Any]:
        """Return the tensors of the state by name, as nn.Module.state_dict does.

        Args:
            of: return only the tensors of one variable of the function, without its name:
                `model.load_state_dict(plan.state_dict(of="model"))`.
        """
        self._binding.update()
        prefix = "" if of is None else f"{of}."
        found = self.state.state_dict()
        return {name.removeprefix(prefix): tensor for name, tensor in found.items() if name.startswith(prefix)}

    def load_state_dict(self, state: dict[str, Any]) -> Self:
        """Copy values by name, in place: the modules that the plan was made of change too.

        Args:
            state: the result of `state_dict` of this plan, or of one fetched from a worker.
        """
        mine = self.state_dict()
        if mine.keys() != state.keys():
            others = sorted(mine.keys() ^ state.keys())[:10]
            raise PlanMismatchError(f"load_state_dict() needs the names of this plan; the names differ in {others}.")
        for name, tensor in mine.items():
            if not isinstance(state[name], torch.Tensor) or state[name].shape != tensor.shape:
                raise PlanMismatchError(
                    f"load_state_dict() needs shape {tuple(tensor.shape)} for {name}. Nothing was changed."
                )
        with torch.no_grad():
            for name, tensor in mine.items():
                tensor.copy_(state[name])
        return self

    def train(self, mode: bool = True) -> Self:
        """Switch the modules that are attributes of this plan to train or eval mode; build it again after that."""
        for value in list(self.__dict__.values()):
            if isinstance(value, torch.nn.Module):
                value.train(mode)
        if any(part.training is not training for part, training in self._binding.modes):
            self._discard_program()
        return self

    def eval(self) -> Self:
        """Switch the modules that are attributes of this plan to eval mode; build it again after that."""
        return self.train(False)

    def get_(self) -> Self:
        """Fetch the remote tensors of the state, such as shares; returns the plan."""
        self.state.get_()
        return self

    get = get_

    def fix_precision_(self, *args: object, **kwargs: object) -> Self:
        """Encode the state in fixed precision; returns the plan."""
        self._check_built("encoded")
        self.state.fix_precision_(*args, **kwargs)
        return self

    fix_precision = fix_prec_ = fix_prec = fix_precision_

    def float_precision_(self) -> Self:
        """Decode the state; returns the plan."""
        self.state.float_precision_()
        return self

    float_precision = float_prec_ = float_prec = float_precision_

    def share_(self, *args: object, **kwargs: object) -> Self:
        """Share the state among workers; returns the plan, which then runs with one message to each worker.

        Autograd records operations on the state only with `requires_grad=True`, which sends each one separately.
        """
        self._check_built("shared")
        self.state.share_(*args, **kwargs)
        return self

    share = share_

    def _check_built(self, what: str) -> None:
        """Raise unless this plan is built: building reads the unencrypted tensors of its modules."""
        if not self.is_built:
            raise SyftError(
                f"A plan must be built before it is {what}: plan.build(...).fix_precision_().share_(alice, bob)."
            )
