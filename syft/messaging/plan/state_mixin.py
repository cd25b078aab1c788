"""What a plan does with the tensors that it carries."""

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
    _following: ModuleBinding

    @property
    def is_built(self) -> bool:
        """Whether something was recorded."""
        raise NotImplementedError("a plan knows whether it is built")

    def _forget_program(self) -> None:
        raise NotImplementedError("a plan forgets what was recorded with another state")

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
            self._forget_program()
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
            of: only those of one variable of the function, without its name:
                `model.load_state_dict(plan.state_dict(of="model"))`.
        """
        self._following.update()
        prefix = "" if of is None else f"{of}."
        found = self.state.state_dict()
        return {name.removeprefix(prefix): tensor for name, tensor in found.items() if name.startswith(prefix)}

    def load_state_dict(self, state: dict[str, Any]) -> Self:
        """Take over values by name, in place: the modules that the plan was made of get them too.

        Args:
            state: what `state_dict` of this plan, or of one that came back from a worker, returned.
        """
        mine = self.state_dict()
        if mine.keys() != state.keys():
            others = sorted(mine.keys() ^ state.keys())[:10]
            raise PlanMismatchError(f"These are not the tensors of this plan; the names differ in {others}.")
        for name, tensor in mine.items():
            if not isinstance(state[name], torch.Tensor) or state[name].shape != tensor.shape:
                raise PlanMismatchError(
                    f"{name} has the shape {tuple(tensor.shape)} in this plan; nothing was changed."
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
        if any(part.training is not training for part, training in self._following.modes):
            self._forget_program()
        return self

    def eval(self) -> Self:
        """Switch the modules that are attributes of this plan to eval mode; build it again after that."""
        return self.train(False)

    def get_(self) -> Self:
        """Fetch the tensors of the state that are elsewhere, such as shares; returns the plan."""
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
        """Share the state among workers; returns the plan, which runs with one message to each of them from now on.

        Gradients need every operation by itself: autograd follows the state only with `requires_grad=True`.
        """
        self._check_built("shared")
        self.state.share_(*args, **kwargs)
        return self

    share = share_

    def _check_built(self, what: str) -> None:
        """Raise if this plan is still to be built: it would be built with what its modules hold, in the clear."""
        if not self.is_built:
            raise SyftError(
                f"A plan is {what} after it was built: plan.build(...).fix_precision_().share_(alice, bob)."
            )
