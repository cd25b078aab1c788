"""Arguments of plans: the accepted types, and the values that become part of the plan."""

from __future__ import annotations

import collections

import pytest
import torch
from torch import nn

import syft as sy
from syft.exceptions import PlanMismatchError
from tests.helpers.plans.plan_models import planned

pytestmark = pytest.mark.usefixtures("hook")

# --- arguments -----------------------------------------------------------------------------------------------------


def test_twelve_inputs_in_order(make_worker, kind):
    """The historic bug: from eleven inputs on, they arrived in the order of their texts."""
    bob = make_worker("bob", kind)

    def weighted(a, b, c, d, e, f, g, h, i, j, k, m):
        return sum(n * t for n, t in enumerate((a, b, c, d, e, f, g, h, i, j, k, m)))

    numbers = [torch.tensor([float(n)]) for n in range(1, 13)]
    plan = planned(weighted, *numbers)
    assert plan(*numbers).item() == 572
    assert plan.send(bob)(*[n.send(bob) for n in numbers]).get().item() == 572
    assert sy.deserialize(sy.serialize(plan))(*numbers).item() == 572


def test_twelve_results_in_order(make_worker, kind):
    bob = make_worker("bob", kind)
    plan = planned(lambda x: [x * n for n in range(12)], torch.ones(1))
    assert [t.item() for t in plan(torch.ones(1))] == list(range(12))
    assert [t.get().item() for t in plan.send(bob)(torch.ones(1).send(bob))] == list(range(12))


def test_numbers_texts_and_none_are_part_of_the_plan():
    def reduce(x, how, factor=2, scale=None, *, keep=False):
        result = x.sum() if how == "sum" else x.mean()
        result = result if scale is None else result * scale
        return result * factor + (1 if keep else 0)

    x = torch.ones(3)
    plan = planned(reduce, x, "sum")
    assert plan(x, "sum") == plan(x, how="sum") == plan(x, "sum", 2, None, keep=False) == 6
    for call in (
        lambda: plan(x, "mean"),
        lambda: plan(x, "sum", 3),
        lambda: plan(x, "sum", factor=2.0),
        lambda: plan(x, "sum", scale=torch.ones(1)),
        lambda: plan(x, "sum", keep=True),
        lambda: plan(x, torch.ones(1)),
        lambda: plan(x, None),
        lambda: plan(x, "sum", True),
    ):
        with pytest.raises(PlanMismatchError, match="which is part of the plan. Build another plan"):
            call()
    with pytest.raises(PlanMismatchError, match=r"A tensor is needed for the argument x .*torch\.tensor"):
        plan(1.0, "sum")


def test_wrong_calls():
    plan = planned(lambda x, y: x + y, torch.ones(1), torch.ones(1))
    x = torch.ones(1)
    with pytest.raises(TypeError, match="takes 2 arguments, got 3"):
        plan(x, x, x)
    with pytest.raises(TypeError, match="needs the argument y"):
        plan(x)
    with pytest.raises(TypeError, match="has no argument z"):
        plan(x, x, z=x)
    with pytest.raises(TypeError, match="two values for the argument x"):
        plan(x, x, x=x)
    with pytest.raises(TypeError):
        planned(lambda x: x, x, x)
    assert plan(y=x * 3, x=x) == 4


def test_wrong_calls_of_a_pointer(bob):
    pointer = planned(lambda x, y: x + y, torch.ones(1), torch.ones(1)).send(bob)
    x = torch.ones(1).send(bob)
    with pytest.raises(TypeError, match="needs the argument y"):
        pointer(x)
    with pytest.raises(PlanMismatchError, match="A tensor is needed"):
        pointer(x, 1.0)
    assert pointer(x, y=x).get() == 2


def test_defaults():
    bias = torch.tensor([2.0])

    def shifted(x, y=bias, z=None, n=3):
        return x * n + y + (0 if z is None else z)

    x = torch.ones(1)
    plan = planned(shifted, x)
    assert plan(x, bias) == 5
    plan = planned(shifted, x, z=torch.ones(1))
    assert plan(x, bias, x) == plan(x, bias, z=x) == 6


def test_a_tensor_as_a_default_has_to_be_given():
    """It is an input of the plan, and the plan does not keep examples."""
    bias = torch.tensor([2.0])

    def shifted(x, y=bias):
        return x + y

    x = torch.ones(1)
    plan = planned(shifted, x)
    assert plan(x, x) == 2
    with pytest.raises(TypeError, match="needs the argument y"):
        plan(x)


def test_star_arguments(make_worker):
    bob = make_worker("bob", "bytes")

    def everything(first, *rest, scale, **named):
        return first + sum(rest) * scale + named["a"] - named["b"]

    one, two, three, four, five, six = (torch.tensor([float(2**n)]) for n in range(6))
    plan = planned(everything, one, two, three, scale=four, a=five, b=six)
    expected = everything(one, two, three, scale=four, a=five, b=six)
    assert plan(one, two, three, b=six, a=five, scale=four) == expected
    pointer = plan.send(bob)
    assert pointer(one.send(bob), two, three.send(bob), b=six.send(bob), a=five, scale=four).get() == expected
    with pytest.raises(TypeError, match="takes 3 arguments, got 4"):
        plan(one, two, three, four, scale=four, a=five, b=six)
    with pytest.raises(TypeError, match="needs the argument a"):
        plan(one, two, three, scale=four, b=six)


def test_nested_arguments(make_worker):
    bob = make_worker("bob", "bytes")

    def nested(batch, pair):
        return batch["x"] * batch["more"][0] + pair[0] - pair[1][0] * batch["n"]

    def example(factor):
        one, two, three, four = (torch.tensor([factor * n]) for n in (1.0, 2.0, 3.0, 4.0))
        return {"x": one, "more": [two], "n": 5}, (three, [four])

    plan = planned(nested, *example(1))
    assert plan(*example(3)) == nested(*example(3))
    batch, pair = example(2)
    sent = {"x": batch["x"].send(bob), "more": [batch["more"][0]], "n": 5}
    assert plan.send(bob)(sent, pair).get() == nested(*example(2))
    for wrong, text in (
        (({"x": batch["x"], "n": 5}, pair), r"dictionary with the keys \['more', 'n', 'x'\]"),
        (({**batch, "n": 6}, pair), "key 'n'.*which is part of the plan.*pass a tensor"),
        (({**batch, "more": []}, pair), "a sequence of 1"),
        ((batch, pair[0]), "a sequence of 2"),
        (([batch["x"]], pair), "dictionary"),
    ):
        with pytest.raises(PlanMismatchError, match=text):
            plan(*wrong)


def test_named_tuples_as_arguments():
    pair = collections.namedtuple("pair", "left right")
    plan = planned(lambda p: p.left - p.right, pair(torch.ones(1), torch.ones(1)))
    assert plan(pair(torch.tensor([5.0]), torch.tensor([3.0]))) == 2
    assert plan((torch.tensor([5.0]), torch.tensor([3.0]))) == 2


def test_a_changed_input_as_a_result(make_worker, kind):
    """What travelled along and was changed there is a result like any other."""
    bob = make_worker("bob", kind)

    def change(x):
        x.add_(1)
        return x, x * 2

    plan = planned(change, torch.ones(2))
    x = torch.ones(2)
    for given in (x, x.send(bob)):
        same, double = plan.send(bob)(given)
        assert torch.equal(same.copy().get(), torch.full((2,), 2.0))
        assert torch.equal(double.get(), torch.full((2,), 4.0))
    assert torch.equal(x, torch.ones(2))


def test_the_state_as_a_result(make_worker, kind):
    bob = make_worker("bob", kind)
    weight = torch.ones(2)
    pointer = planned(lambda x: (weight, x * weight), torch.ones(2)).send(bob)
    for _ in range(2):
        kept, product = pointer(torch.full((2,), 3.0).send(bob))
        assert torch.equal(kept.copy().get(), torch.ones(2)) and torch.equal(product.get(), torch.full((2,), 3.0))
        del kept  # the plan still has it


def test_no_inputs_and_no_results(make_worker):
    bob = make_worker("bob", "bytes")
    total = torch.zeros(2)
    plan = planned(lambda: total + 1)
    assert torch.equal(plan(), torch.ones(2)) and torch.equal(plan.send(bob)().get(), torch.ones(2))

    def count():
        total.add_(1)

    plan = planned(count)
    assert torch.equal(total, torch.zeros(2))
    assert plan() is None and torch.equal(total, torch.ones(2))


def test_results_of_any_structure(make_worker, kind):
    bob = make_worker("bob", kind)

    def several(x):
        y = x * 2
        return {"a": [y, (x, None)], "b": {"c": y, "d": ["text", 3, 2.5, True]}, "e": (), "f": [[[x + 1]]]}

    def check(result, fetch):
        assert list(result) == list("abef") and result["e"] == ()
        assert result["b"]["d"] == ["text", 3, 2.5, True] and result["a"][1][1] is None
        tensors = [result["a"][0], result["a"][1][0], result["b"]["c"], result["f"][0][0][0]]
        assert [fetch(t).item() for t in tensors] == [4, 2, 4, 3]

    plan = planned(several, torch.ones(1))
    check(plan(torch.full((1,), 2.0)), lambda t: t)
    check(plan.send(bob)(torch.full((1,), 2.0).send(bob)), lambda t: t.copy().get())


# --- constants and state -------------------------------------------------------------------------------------------


def test_constants_are_seen_by_reference(bob):
    scale, table = torch.ones(2), {"bias": torch.zeros(2)}

    def function(x):
        return x * scale + table["bias"]

    plan = planned(function, torch.ones(2))
    pointer = plan.send(bob)
    with torch.no_grad():
        scale.mul_(3)
        table["bias"][0] = 5
    x = torch.ones(2)
    assert torch.equal(plan(x), torch.tensor([8.0, 3.0]))
    assert torch.equal(pointer(x).get(), torch.ones(2))  # that was sent before
    assert torch.equal(plan.send(bob)(x).get(), torch.tensor([8.0, 3.0]))


def test_numbers_of_python_are_fixed():
    factor = [2]
    plan = planned(lambda x: x * factor[0], torch.ones(1))
    factor[0] = 5
    assert plan(torch.ones(1)) == 2
    assert plan.build(torch.ones(1))(torch.ones(1)) == 5


def test_a_constant_that_the_plan_changes(make_worker):
    bob = make_worker("bob", "bytes")
    total = torch.zeros(2)

    def add(x):
        total.add_(x)
        return total * 1

    plan = planned(add, torch.ones(2))
    pointer = plan.send(bob)
    for n in range(1, 4):
        assert torch.equal(plan(torch.ones(2)), torch.full((2,), float(n)))
        assert torch.equal(pointer(torch.full((2,), 10.0)).get(), torch.full((2,), 10.0 * n))
    assert torch.equal(total, torch.full((2,), 3.0))
    assert torch.equal(pointer.get()(torch.zeros(2)), torch.full((2,), 30.0))


def test_the_same_tensor_twice():
    shared = nn.Linear(2, 2, bias=False)
    model = nn.Sequential(shared, nn.Tanh(), shared)
    plan = planned(model, torch.ones(1, 2))
    assert len(plan.parameters()) == 1
    proxy = plan.copy()
    x = torch.rand(4, 2)
    assert torch.equal(plan(x), model(x)) and torch.equal(proxy(x), model(x))


def test_an_input_that_is_also_a_constant():
    weight = torch.tensor([2.0])
    plan = planned(lambda x: x * weight, weight)
    assert plan(torch.tensor([5.0])) == 10


def test_a_copy_is_independent():
    weight = torch.ones(2, requires_grad=True)
    plan = planned(lambda x: x * weight, torch.ones(2))
    proxy = plan.copy()
    assert proxy.id != plan.id
    with torch.no_grad():
        weight.mul_(4)
    x = torch.ones(2)
    assert torch.equal(plan(x), torch.full((2,), 4.0)) and torch.equal(proxy(x), torch.ones(2))
    proxy(x).sum().backward()
    assert weight.grad is None


def test_build_again():
    plan = planned(lambda x: x.sum() if x.dim() == 2 else x * 3, torch.ones(2, 2))
    assert plan(torch.ones(2, 2)) == 4
    with pytest.raises(PlanMismatchError):
        plan(torch.ones(2))
    plan.build(torch.ones(2))
    assert torch.equal(plan(torch.ones(2)), torch.full((2,), 3.0))
    with pytest.raises(PlanMismatchError):
        plan(torch.ones(2, 2))


def test_building_again_finds_the_constants_of_now():
    constants = [torch.ones(2)]
    plan = planned(lambda x: x * constants[0], torch.ones(2))
    constants[0] = torch.zeros(2)
    assert torch.equal(plan(torch.ones(2)), torch.ones(2))
    plan.build(torch.ones(2))
    assert torch.equal(plan(torch.ones(2)), torch.zeros(2)) and len(plan.state.tensors()) == 1
