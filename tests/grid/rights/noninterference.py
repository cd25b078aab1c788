"""Two worlds that differ in private data only: what a user gets out of them must not differ.

A program is run in both. Everything that leaves (values, shapes, errors) is written down; a difference is a leak. This
asks nothing of the code that is tested but what it does, so it finds ways that nobody thought of.
"""

from __future__ import annotations

import itertools
import re

import torch

import syft as sy
from syft.grid.rights import NodePolicy

_number = itertools.count()
PRIVATE = (
    (torch.tensor([[1.0, 2.0, 3.0], [4.0, 5.0, 6.0], [7.0, 8.0, 9.5]]), torch.tensor([0.5, -1.5, 2.5])),
    (torch.tensor([[-3.0, 0.25, 1.0], [2.0, -4.0, 0.5], [0.0, 6.0, -2.0]]), torch.tensor([3.5, 1.25, -0.5])),
)


# What can be asked about a tensor beside its values, sizes and dtype.
LOOKS = [
    lambda link: link.is_leaf, lambda link: link.stride(), lambda link: link.is_contiguous(),
    lambda link: link.storage_offset(), lambda link: link._version, lambda link: link.retains_grad,
    lambda link: link.output_nr, lambda link: link.is_conj(), lambda link: link.is_neg(), lambda link: link.dim_order(),
]  # fmt: skip


class World:
    """A node with private data, a user's tensors and plans, and a list of all that left.

    Args:
        hook: the hook.
        private: the private data.
    """

    def __init__(self, hook, private):
        self.node = sy.VirtualWorker(hook, id=f"node-{next(_number)}")
        data = [tensor.clone().tag(tag) for tensor, tag in zip(private, ("#matrix", "#vector"), strict=True)]
        self.node.load_data(data)
        self.node.policy = NodePolicy()
        torch.manual_seed(3)
        self.matrix, self.vector = self.node.search("#matrix")[0], self.node.search("#vector")[0]
        self.own = [
            torch.ones(3, 3).send(self.node), torch.arange(3.0).send(self.node),
            torch.eye(3).send(self.node).requires_grad_(), torch.full((3,), 2.0).send(self.node).requires_grad_(),
        ]  # fmt: skip
        self.pool = [self.matrix, self.vector, *self.own]
        self.plans = [plan.send(self.node) for plan in make_plans()]
        self.left = []

    def note(self, function):
        """Do something, and write down what comes out of it; returns the result if there is one."""
        try:
            result = function()
        except Exception as error:
            self.left.append((type(error).__name__, re.sub(r"\d{10,}|node-\d+", "#", str(error))))
            return None
        self.left.append(told(result))
        return result

    def add(self, function):
        """Do something that gives remote tensors, and use them from now on."""
        result = self.note(function)
        for item in result if isinstance(result, tuple | list) else (result,):
            if isinstance(item, torch.Tensor) and item.location is not None and len(self.pool) < 40:
                self.pool.append(item)
        return result

    def take_everything(self):
        """Try to get everything out, in every way."""
        for pointer in list(self.pool):
            self.note(lambda pointer=pointer: pointer.copy().get())
            self.note(lambda pointer=pointer: pointer.grad)
            self.note(lambda pointer=pointer: pointer.grad.copy().get())
            self.note(lambda pointer=pointer: pointer.data.copy().get())
            self.note(lambda pointer=pointer: pointer.tolist())
            for look in LOOKS:
                self.note(lambda pointer=pointer, look=look: look(pointer.child))
            self.note(lambda pointer=pointer: pointer.contiguous() is pointer)
        for plan in self.plans:
            self.note(lambda plan=plan: [t.detach() for t in plan.copy().get().state.tensors()])

    def close(self):
        """End it."""
        self.plans.clear(), self.pool.clear(), self.own.clear()
        self.node.stop()
        sy.local_worker._known_workers.pop(self.node.id, None)


def make_plans():
    """Plans that compute, that change what they are given, and that train."""
    weight, start = torch.ones(3, 3), torch.full((3,), 0.5)

    @sy.func2plan(args_shape=[(3, 3), (3, 3)], state=(weight,))
    def mix(x, y, state):
        (w,) = state.read()
        return x @ w + y, x.mean()

    @sy.func2plan(args_shape=[(3, 3), (3, 3)])
    def write(x, y):
        return x.add_(y)

    model = torch.nn.Linear(3, 1)
    with torch.no_grad():
        model.weight.fill_(0.5)
        model.bias.zero_()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)

    @sy.func2plan(args_shape=[(3, 3)])
    def train(x):
        optimizer.zero_grad()
        loss = model(x).pow(2).mean()
        loss.backward()
        optimizer.step()
        return loss.detach()

    @sy.func2plan(args_shape=[(3,)], state=(start,))
    def remember(x, state):
        (kept,) = state.read()
        kept.add_(x)
        return kept * 2

    return [mix, write, train, remember]


def told(result):
    """Return what a user learns from a result."""
    if isinstance(result, tuple | list):
        return [told(item) for item in result]
    if isinstance(result, torch.Tensor) and result.location is not None:
        return ("remote", tuple(result.shape), str(result.dtype), result.requires_grad)
    if isinstance(result, torch.Tensor):
        grad = None if result.grad is None else told(result.grad)
        return ("value", tuple(result.shape), result.detach().tolist(), grad)
    return repr(result) if not isinstance(result, sy.PointerPlan) else "plan"


def both(hook, program):
    """Run a program in both worlds, and return what left each."""
    outcomes = []
    for private in PRIVATE:
        world = World(hook, private)
        try:
            program(world)
            world.take_everything()
            outcomes.append(world.left)
        finally:
            world.close()
    return outcomes
