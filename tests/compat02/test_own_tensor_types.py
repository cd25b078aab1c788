"""A tensor type in a user's file, written as the tutorial on one's own tensor does."""

from __future__ import annotations

import pytest
import torch
from torch.nn import functional as F

import syft as sy
from syft.core.tensor import AbstractTensor
from syft.exceptions import UnsupportedOperationError
from syft.hook.overload import overloaded

pytestmark = pytest.mark.usefixtures("hook")
calls: list[object] = []


@pytest.fixture(autouse=True)
def no_calls():
    calls.clear()


class Noting(AbstractTensor):
    """Notes calls; defines on_function_call, and says nothing about calls without a rule."""

    def __init__(self, owner=None, id=None, tags=None, description=None):
        super().__init__(id=id, owner=owner, tags=tags, description=description)

    @overloaded.method
    def add(self, _self, *args, **kwargs):
        calls.append(("method add", args, kwargs))
        return _self.add(*args, **kwargs)

    @overloaded.method
    def norm(self, _self, *args, **kwargs):
        calls.append(("method norm", args, kwargs))
        return _self.norm(*args, **kwargs)

    @staticmethod
    @overloaded.module
    def torch(module):
        def add(x, y):
            calls.append("function add")
            return x.add(y)

        module.add = add

        @overloaded.module
        def nn(module):
            @overloaded.module
            def functional(module):
                def relu(x):
                    calls.append("function relu")
                    return x * (x > 0)

                module.relu = relu

                @overloaded.function
                def dropout(x, p):
                    calls.append(("dropout", p))
                    return x

                module.dropout = dropout

                @overloaded.function
                def softmax(*args, **kwargs):
                    calls.append(("softmax", args[1:], kwargs))
                    return F.softmax(*args, **kwargs)

                module.softmax = softmax

            module.functional = functional

        module.nn = nn

    @classmethod
    def on_function_call(cls, command):
        calls.append(command[0])


class Silent(AbstractTensor):
    """Defines nothing."""


class Strict(Noting):
    """Refuses on purpose."""

    unregistered = "refuse"


class Derived(Noting):
    """Inherits everything."""


def below(tensor):
    return tensor.child.child


@pytest.mark.parametrize("kind", [Noting, Derived])
def test_t6_undefined_calls_are_forwarded(kind):
    x = kind().on(torch.tensor([-1.0, 2.0]))
    assert below(x - 1).tolist() == [-2, 1] and isinstance((x - 1).child, kind)
    assert below(torch.sigmoid(x)).tolist() == torch.tensor([-1.0, 2.0]).sigmoid().tolist()
    assert below(x.view(2, 1).sum(dim=0)).tolist() == [1]
    assert below(F.relu6(x)).tolist() == [0, 2]
    assert [below(part).tolist() for part in x.chunk(2)] == [[-1], [2]]
    assert [call for call in calls if "sigmoid" in call], "on_function_call sees them"


def test_t6_undefined_calls_on_the_bare_link_are_forwarded():
    link = Noting().on(torch.tensor([1.0, 2.0]), wrap=False)
    assert isinstance(link.mul(2), Noting) and link.mul(2).child.tolist() == [2, 4]
    assert (link * 2).child.tolist() == [2, 4]


def test_t6_overloaded_calls_get_what_the_user_wrote():
    x = Noting().on(torch.tensor([-1.0, 2.0]))
    assert below(F.relu(x)).tolist() == [0, 2] and calls[0] == "function relu"
    assert below(torch.nn.ReLU()(x)).tolist() == [0, 2]
    calls.clear()
    x.add(x)
    torch.add(x, x)
    assert calls[0][0] == "method add" and calls[0][2] == {} and calls[1] == "function add"
    calls.clear()
    F.dropout(x, p=0.25)
    F.softmax(x, dim=0)
    F.softmax(x, 0)
    F.softmax(x, dim=0, dtype=torch.float64)
    x.norm()
    x.norm(p=1)
    assert calls == [
        ("dropout", 0.25),
        ("softmax", (), {"dim": 0}),
        ("softmax", (), {"dim": 0}),
        ("softmax", (), {"dim": 0, "dtype": torch.float64}),
        ("method norm", (), {}),
        ("method norm", (), {"p": 1}),
    ]


def test_t6_refusals_name_the_setting():
    x = Silent().on(torch.tensor([1.0]))
    with pytest.raises(UnsupportedOperationError, match='Set unregistered = "forward" in Silent'):
        x + 1
    with pytest.raises(UnsupportedOperationError, match='unregistered = "forward" in Strict'):
        Strict().on(torch.tensor([1.0])).exp()
    with pytest.raises(UnsupportedOperationError) as caught:
        torch.tensor([1.0]).fix_precision().child.digamma()
    assert "unregistered" not in str(caught.value), "a class of the library is not the user's to change"


def test_t6_own_types_travel_and_compute_at_workers(workers):
    bob, _ = workers
    sy.serde.register(Noting, code=1010)
    try:
        pointer = Noting().on(torch.tensor([-1.0, 2.0])).send(bob)
        assert below((pointer * 2).get()).tolist() == [-2, 4]
        assert below(F.relu(pointer).get()).tolist() == [0, 2]
    finally:
        sy.serde.unregister(Noting)
