"""Role: a party of a protocol while its function is recorded."""

from __future__ import annotations

from typing import Any

import torch

from syft.core.callsite import describe_line, user_line
from syft.exceptions import PlanBuildError
from syft.hook.syft_tensor import SyftTensor
from syft.messaging.plan.arguments import example_of
from syft.messaging.plan.record.recording import Recorder, current
from syft.tensors.placeholder import PlaceHolder


class Crossings:
    """What crossed between roles in one recording.

    Attributes:
        arrivals: by the id of a placeholder, the role that the value arrived at.
        sent: by the id of the same placeholder, the placeholder that was sent.
        loaded: by the id of a tensor from outside, the role that loaded it.
        alive: keeps what is named by its id.

    Args:
        constants: what the roles loaded, by role and by the id of the tensor: the same in each recording of a build.
    """

    def __init__(self, constants: dict[tuple[int, int], torch.Tensor]) -> None:
        self.constants = constants
        self.arrivals: dict[int, int] = {}
        self.sent: dict[int, PlaceHolder] = {}
        self.loaded: dict[int, int] = {}
        self.alive: list[Any] = []


class Role:
    """A party of a protocol, as the function of the protocol sees it.

    Args:
        name: its name.
        number: its place among the roles.
        inputs: its inputs.
        state: the tensors of its state.
        crossings: what crosses between roles in this recording.
    """

    def __init__(
        self, name: str, number: int, inputs: tuple[Any, ...], state: tuple[Any, ...], crossings: Crossings
    ) -> None:
        self.name = name
        self.id = name
        self._number = number
        self._inputs = inputs
        self._state = state
        self._crossings = crossings

    @property
    def inputs(self) -> tuple[Any, ...]:
        """The tensors that this role gives: `x, y = alice.inputs`."""
        return self._inputs

    def input(self, position: int) -> Any:
        """Return one of the inputs."""
        if not -len(self._inputs) <= position < len(self._inputs):
            raise IndexError(
                f"The role {self.name!r} has {len(self._inputs)} inputs, so none is number {position}; "
                "args_shape says how many there are."
            )
        return self._inputs[position]

    def read(self) -> tuple[Any, ...]:
        """Return the state of this role: `weight, bias = alice.read()`."""
        return self._state

    def load(self, tensor: Any) -> torch.Tensor:
        """Return a tensor from outside of the function as a constant of this role."""
        recorder = self._recorder()
        if not isinstance(tensor, torch.Tensor) or isinstance(tensor, SyftTensor):
            raise TypeError(f"A role loads a local tensor, not a {type(tensor).__name__}.")
        if recorder.is_traced(tensor):
            raise PlanBuildError(
                "To load a tensor made in the function",
                describe_line(user_line()),
                f"Send it to the role: tensor.send({self.name}).",
            )
        constants = self._crossings.constants
        found = constants.get((self._number, id(tensor)))
        if found is None:
            found = constants[self._number, id(tensor)] = recorder.run(example_of, (tensor,), {})
        self._crossings.loaded[id(found)] = self._number
        self._crossings.alive += [tensor, found]
        return found

    def receive(self, tensor: Any) -> torch.Tensor:
        """Return a tensor of another role, sent to this one; the same as `tensor.send(role)`.

        Gradients do not flow back through it.
        """
        recorder = self._recorder()
        if not isinstance(tensor, torch.Tensor):
            raise TypeError(f"A role receives a tensor, not a {type(tensor).__name__}.")
        # A copy is what travels, so that changes in place on either side stay on that side.
        sent = torch.Tensor.clone(tensor)
        arrived = torch.Tensor.detach(sent)
        placeholder = recorder.symbolic(arrived)
        self._crossings.arrivals[id(placeholder)] = self._number
        self._crossings.sent[id(placeholder)] = recorder.symbolic(sent)
        self._crossings.alive += [placeholder, arrived]
        return arrived

    take_recorded = receive  # what tensor.send and tensor.move look for

    def _recorder(self) -> Recorder:
        recorder: Recorder | None = current()
        if recorder is None:
            raise PlanBuildError(
                f"The role {self.name!r} outside of its protocol's function",
                describe_line(user_line()),
                "A role is a name until protocol.deploy() gives it a worker.",
            )
        return recorder

    def __repr__(self) -> str:
        return f"<Role {self.name}>"
