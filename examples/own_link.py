"""A link of one's own: a logging tensor written in a user's file, without touching the library.

It prints each call, passes it on, travels to a worker and comes back. Run it with: python examples/own_link.py
"""

from __future__ import annotations

import torch

import syft as sy
from syft.core.dispatch import forward
from syft.core.tensor import AbstractTensor


class Chatty(AbstractTensor):
    """Says what is done to it, and then does it."""

    unregistered = "forward"  # calls without a rule go to what is below
    lines: list[str] = []

    def __init__(self, name: str = "x", **fields):
        super().__init__(**fields)
        self.name = name

    def get_class_attributes(self):
        """Results inherit the name; the wire carries it too."""
        return {"name": self.name}

    @classmethod
    def on_function_call(cls, *args):
        """Note each call without a rule: `(name, self, args, kwargs)`."""
        cls.lines.append(f"{args[0][0]} passes through")


@Chatty.implements(torch.Tensor.add, torch.add)
def add(x, y, **kwargs):
    """A rule: the links come in, what is below is added, a link goes out."""
    Chatty.lines.append(f"adding to {x.name}")
    return forward(Chatty, torch.add, (x, y), kwargs)


# A type that travels needs a wire code: 1000 and above are free.
sy.serde.register(Chatty, code=1000)


def main() -> list[str]:
    """Use the link here, and on a worker."""
    Chatty.lines.clear()
    hook = sy.TorchHook(torch)
    bob = sy.VirtualWorker(hook, id="bob of own_link")
    x = Chatty("weight").on(torch.tensor([1.0, 2.0]))
    print(x)
    y = (x + x).relu()
    pointer = y.send(bob)  # the whole chain travels
    doubled = (pointer + pointer).get()  # the rule runs on the worker
    print(doubled, doubled.child.name)
    for line in Chatty.lines:
        print("  ", line)
    assert torch.equal(doubled.child.child, torch.tensor([4.0, 8.0]))
    return Chatty.lines


if __name__ == "__main__":
    main()
