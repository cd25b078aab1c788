"""Role: a party of a protocol while its function is recorded."""

from __future__ import annotations

import dataclasses
from typing import Any

import torch

from syft.core.callsite import describe_line, user_line
from syft.exceptions import PlanBuildError
from syft.hook.syft_tensor import SyftTensor
from syft.messaging.plan.arguments import example_of
from syft.messaging.plan.record.recording import Recorder, current
from syft.tensors.placeholder import PlaceHolder

Tensors = tuple[torch.Tensor, ...]


@dataclasses.dataclass(slots=True)
class Crossings:
    """The values that crossed between roles in one recording."""

    # The tensors that roles loaded, by role and id of the tensor; shared by all recordings of a build.
    constants: dict[tuple[int, int], torch.Tensor]
    # By the id of a placeholder, the role that the value arrived at.
    arrivals: dict[int, int] = dataclasses.field(default_factory=dict)
    # By the id of the same placeholder, the placeholder that was sent.
    sent: dict[int, PlaceHolder] = dataclasses.field(default_factory=dict)
    # By the id of a tensor from outside, the role that loaded it.
    loaded: dict[int, int] = dataclasses.field(default_factory=dict)
    alive: list[Any] = dataclasses.field(default_factory=list)  # keeps every object whose id is used as a key alive


class Role:
    """A party of a protocol, as the function of the protocol sees it.

    Attributes:
        name: its name.
        inputs: its input tensors: `x, y = alice.inputs`.
    """

    def __init__(self, name: str, number: int, inputs: Tensors, state: Tensors, crossings: Crossings) -> None:
        self.name = self.id = name
        self.inputs = inputs
        self._number = number
        self._state = state
        self._crossings = crossings

    def input(self, position: int) -> torch.Tensor:
        """Return one of the inputs."""
        if not -len(self.inputs) <= position < len(self.inputs):
            raise IndexError(
                f"The role {self.name!r} has {len(self.inputs)} inputs, got index {position}. "
                "Declare more inputs with args_shape."
            )
        return self.inputs[position]

    def read(self) -> Tensors:
        """Return the state of this role: `weight, bias = alice.read()`."""
        return self._state

    def load(self, tensor: object) -> torch.Tensor:
        """Return a tensor from outside of the function as a constant of this role."""
        recorder = self._recorder()
        if not isinstance(tensor, torch.Tensor) or isinstance(tensor, SyftTensor):
            raise TypeError(f"load() needs a local tensor, got a {type(tensor).__name__}.")
        if recorder.is_traced(tensor):
            raise PlanBuildError(
                "load() of a tensor made in the function",
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

    def receive(self, tensor: object) -> torch.Tensor:
        """Return a tensor of another role, sent to this one; the same as `tensor.send(role)`.

        Gradients do not flow back through it.
        """
        recorder = self._recorder()
        if not isinstance(tensor, torch.Tensor):
            raise TypeError(f"receive() needs a tensor, got a {type(tensor).__name__}.")
        # A copy is sent, so that changes in place on one side do not reach the other.
        sent = torch.Tensor.clone(tensor)
        arrived = torch.Tensor.detach(sent)
        placeholder = recorder.symbolic(arrived)
        self._crossings.arrivals[id(placeholder)] = self._number
        self._crossings.sent[id(placeholder)] = recorder.symbolic(sent)
        self._crossings.alive += [placeholder, arrived]
        return arrived

    take_recorded = receive  # called by tensor.send and tensor.move

    def _recorder(self) -> Recorder:
        recorder: Recorder | None = current()
        if recorder is None:
            raise PlanBuildError(
                f"The role {self.name!r} used outside of its protocol's function",
                describe_line(user_line()),
                "Use roles only in the function; protocol.deploy() gives each a worker.",
            )
        return recorder

    def __repr__(self) -> str:
        return f"<Role {self.name}>"


def local_state_tensor(tensor: object, role: str) -> torch.Tensor:
    """Return a copy of a declared state tensor; refuses anything but local tensors."""
    if not isinstance(tensor, torch.Tensor) or isinstance(tensor, SyftTensor):
        raise TypeError(f"The state of the role {role!r} must be local tensors, got a {type(tensor).__name__}.")
    return example_of(tensor)
