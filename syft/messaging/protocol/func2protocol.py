"""func2protocol: makes a protocol between roles of one function."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import torch

from syft.messaging.plan.plan import Plan
from syft.messaging.protocol.roles import RoleProtocol


class func2protocol:
    """Decorate a function to make it a protocol between roles.

    Args:
        roles: the names of the roles, which are the parameters of the function; these by default.
        args_shape: for each role the shapes of its inputs; the protocol is then built at once. -1 stands for any size;
            an example tensor may replace a shape.
        states: for each role its state tensors: `weight, = alice.read()`.

    Example:
        >>> import torch, syft as sy
        >>> hook = sy.TorchHook(torch)
        >>> @sy.func2protocol(args_shape={"alice": [(1,)], "bob": [(1,)]})
        ... def add(alice, bob):
        ...     x, = alice.inputs
        ...     y, = bob.inputs
        ...     return x.send(bob) + y
        >>> one, two = (sy.VirtualWorker(hook, id=f"roles-{n}") for n in (1, 2))
        >>> add.deploy(alice=one, bob=two).run(alice=torch.ones(1), bob=torch.ones(1)).get()
        tensor([2.])
    """

    def __init__(
        self,
        roles: Iterable[str] | None = None,
        args_shape: Mapping[str, Sequence[Any]] | None = None,
        states: Mapping[str, Iterable[torch.Tensor]] | None = None,
    ) -> None:
        self.roles = roles
        self.args_shape = args_shape
        self.states = states

    def __call__(self, function: Callable[..., Any]) -> RoleProtocol:
        """Make the protocol, and build it if shapes were passed."""
        parameters = list(inspect.signature(function).parameters)
        roles = parameters if self.roles is None else list(self.roles)
        if not roles or sorted(map(str, roles)) != sorted(parameters):
            raise ValueError(
                f"The roles ({', '.join(map(str, roles))}) are not the parameters of {function.__name__}: "
                f"({', '.join(parameters)}). Name one parameter for each role."
            )
        protocol = RoleProtocol(function, roles, self.states)
        if self.args_shape is not None:
            shapes = protocol.by_role(self.args_shape, "args_shape")
            protocol.build(**{role: tuple(Plan._create_placeholders(role_shapes)) for role, role_shapes in shapes})
        return protocol
