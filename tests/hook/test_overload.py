"""`overloaded`: link types written as classes, with decorated methods, functions and modules."""

from typing import ClassVar

import pytest
import torch

import syft as sy
from syft.core.dispatch import run
from syft.core.tensor import AbstractTensor
from syft.exceptions import SyftError, UnsupportedOperationError
from syft.frameworks.torch import overload_torch
from syft.generic.frameworks import overload
from syft.generic.frameworks.overload import Module, Overloaded, overloaded
from tests.helpers.documented_rows import Rows

row = Rows("syft.frameworks.torch.overload_torch")


def test_every_documented_row_has_a_test():
    row.check(5)


class Counting(AbstractTensor):
    """Counts calls by name, and carries a unit along."""

    calls: ClassVar[list[str]] = []

    def __init__(self, unit="m", **kwargs):
        super().__init__(**kwargs)
        self.unit = unit

    def get_class_attributes(self):
        return {"unit": self.unit}

    @overloaded.method
    def add(self, _self, *args, **kwargs):
        """Add, and count."""
        Counting.calls.append("add")
        assert isinstance(self, Counting)
        return run(torch.Tensor.add, (_self, *args), kwargs)

    @overloaded.method
    def mul_(self, _self, other):
        Counting.calls.append("mul_")
        return run(torch.Tensor.mul_, (_self, other))

    @overloaded.method
    def chunk(self, _self, *args, **kwargs):
        return [run(torch.Tensor.chunk, (_self, *args), kwargs), {"n": _self}, 7]

    def neg(self):
        """Not overloaded: a method of this name must not catch torch's call."""
        raise AssertionError("this is not a rule")

    @staticmethod
    @overloaded.module
    def torch(module):
        @overloaded.function
        def cat(tensors, dim=0):
            Counting.calls.append("torch.cat")
            assert not any(isinstance(t, Counting) for t in tensors)
            return torch.cat(tensors, dim=dim)

        module.cat = cat

        def sub(x, y):
            Counting.calls.append("torch.sub")
            return Counting(unit="raw").on(x.child - y.child, wrap=False)

        module.sub = sub

        @overloaded.module
        def nn(module):
            @overloaded.module
            def functional(module):
                @overloaded.function
                def linear(*args, **kwargs):
                    Counting.calls.append("linear")
                    return torch.nn.functional.linear(*args, **kwargs)

                module.linear = linear

            module.functional = functional

        module.nn = nn


@pytest.fixture(autouse=True)
def calls(hook):
    Counting.calls.clear()
    return Counting.calls


def counted(values, unit="m"):
    return Counting(unit).on(torch.tensor(values))


@row("Module", "Overloaded")
def test_both_generations_are_one_module():
    assert overload_torch is overload
    assert isinstance(overloaded, Overloaded)
    assert isinstance(Counting.torch, Module)


@row("Overloaded.overload_method", "Overloaded.overload_function", "Overloaded.overload_module")
@pytest.mark.parametrize(
    ("short", "name"), [("method", "overload_method"), ("function", "overload_function"), ("module", "overload_module")]
)
def test_static_names(short, name):
    assert isinstance(vars(Overloaded)[name], staticmethod)
    assert getattr(overloaded, short) is getattr(Overloaded, name)
    assert getattr(Overloaded, name).__doc__


@pytest.mark.parametrize(
    "add",
    [
        lambda x, y: x.add(y),
        lambda x, y: x + y,
        lambda x, y: x.add(other=y),
        lambda x, y: (x.child + y.child).wrap(),
        lambda x, y: x.child.add(y.child).wrap(),
        lambda x, y: torch.Tensor.add(x, y),
    ],
)
def test_a_method_gets_the_wrapped_tensor_and_its_result_is_wrapped(calls, add):
    result = add(counted([1.0, 2.0], "km"), counted([3.0, 4.0], "km"))
    assert result.child.child.tolist() == [4, 6]
    assert type(result.child) is Counting
    assert result.child.unit == "km"
    assert calls == ["add"]


def test_arguments_of_every_form(calls):
    x = counted([1.0, 2.0])
    assert x.add(1).child.child.tolist() == [2, 3]
    assert (1 + x).child.child.tolist() == [2, 3]
    assert x.add(torch.ones(2), alpha=3).child.child.tolist() == [4, 5]
    assert x.add(x, alpha=2).child.child.tolist() == [3, 6]
    assert calls == ["add"] * 4


def test_an_in_place_method_gives_back_the_same_object():
    x = counted([1.0, 2.0])
    link = x.child
    assert x.mul_(3) is x
    assert x.child is link
    x *= 2
    assert link.child.tolist() == [6, 12]
    assert Counting.calls == ["mul_", "mul_"]


def test_nested_results_are_wrapped():
    (first, second), named, seven = counted([1.0, 2.0], "km").chunk(2)
    assert seven == 7
    assert [type(part.child) for part in (first, second, named["n"])] == [Counting] * 3
    assert second.child.child.tolist() == [2]
    assert first.child.unit == "km"


def test_functions_and_nested_modules(calls):
    x = counted([[1.0, 2.0]], "km")
    result = torch.cat([x, torch.zeros(1, 2), x], dim=0)
    assert result.child.child.tolist() == [[1, 2], [0, 0], [1, 2]]
    assert result.child.unit == "km"
    out = torch.nn.functional.linear(x, weight=counted([[1.0, 1.0]]), bias=torch.ones(1))
    assert out.child.child.tolist() == [[4]]
    assert calls == ["torch.cat", "linear"]


def test_a_plain_function_in_a_module_gets_the_links_themselves(calls):
    assert Counting.torch.sub.is_overloaded
    result = torch.sub(counted([5.0]), counted([3.0]))
    assert (result.child.child.tolist(), result.child.unit) == ([2], "raw")
    assert calls == ["torch.sub"]


def test_calls_without_an_overload_are_refused():
    x = counted([1.0])
    for call in (lambda: -x, lambda: x.neg(), lambda: torch.neg(x), lambda: torch.mul(x, x), lambda: x.sum()):
        with pytest.raises(UnsupportedOperationError, match="is not supported on Counting"):
            call()


def test_decorated_functions_keep_their_name_and_text():
    assert Counting.add.__name__ == "add"
    assert Counting.add.__doc__ == "Add, and count."
    assert Counting.add.is_overloaded
    assert Counting.torch.cat.__name__ == "cat"
    assert not hasattr(Counting.neg, "is_overloaded")


def test_a_function_without_any_link_says_so():
    with pytest.raises(SyftError, match="cat was called without any link among its arguments"):
        Counting.torch.cat([torch.ones(1)])


def test_subclasses_inherit_and_override(calls):
    class Loud(Counting):
        @overloaded.method
        def add(self, _self, *args, **kwargs):
            calls.append("loud add")
            return run(torch.Tensor.add, (_self, *args), kwargs)

    x = Loud("km").on(torch.tensor([[1.0, 2.0]]))
    assert type((x + x).child) is Loud
    assert torch.cat([x, x]).child.unit == "km"
    assert calls == ["loud add", "torch.cat"]


def test_on_a_pointer(bob, calls):
    x = Counting("km").on(torch.tensor([1.0, 2.0]).send(bob))
    result = x + x
    assert type(result.child) is Counting
    assert result.child.child.location is bob
    assert result.child.child.get().tolist() == [2, 4]
    assert calls == ["add"]


def test_modules_take_anything():
    module = Module()
    module.number = 3
    module.inner = Module()
    module.function = lambda: 4
    assert module.number == 3
    assert module.function.is_overloaded
    assert not hasattr(module.inner, "is_overloaded")


def test_the_documented_example_is_the_logging_tensor(capsys):
    assert isinstance(sy.LoggingTensor.torch, Module)
    assert sy.LoggingTensor.add.is_overloaded
    assert sy.LoggingTensor.torch.nn.functional.relu.is_overloaded
