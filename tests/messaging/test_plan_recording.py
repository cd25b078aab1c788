"""What recording a function does: what it refuses, what it checks at each run, and what it keeps."""

from __future__ import annotations

import collections
import copy
import itertools
import math
import random
import threading
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from torch import nn

import syft as sy
from syft.exceptions import PlanBuildError, PlanMismatchError

THIS_FILE = "test_plan_recording.py"


@pytest.fixture(autouse=True)
def hooked(hook):
    return hook


def planned(function, *examples, **named):
    return sy.Plan(forward_func=function).build(*examples, **named)


class Doubled(torch.autograd.Function):
    """A function with a backward of its own."""

    @staticmethod
    def forward(ctx, x):
        return x * 2  # Doubled

    @staticmethod
    def backward(ctx, gradient):
        return gradient * 100


# --- refusals ---------------------------------------------------------------------------------------------------

counter = itertools.count()
seen = []


def branch(x):
    return x if x.sum() > 0 else -x


def loop(x):
    while x.sum() < 10:
        x = x * 2
    return x


def item(x):
    return x * x.sum().item()


def as_float(x):
    return x * float(x.sum())


def as_int(x):
    return x[int(x.sum())]


def as_index(x):
    return [1, 2, 3, 4][x.sum().long()]


def iteration(x):
    return sum(row for row in x)


def unpacking(x):
    first, *_ = x
    return first


def to_numpy(x):
    return torch.from_numpy(x.numpy() * 2)


def numpy_function(x):
    return np.sin(x)


def numpy_operand(x):
    return x * np.ones(3)


def to_list(x):
    return torch.tensor(x.tolist())


def contains(x):
    return x if 1.0 in x else -x


def equality(x):
    return x if torch.equal(x, x * 2) else -x


def largest(x):
    return max(x)


def count_calls(x):
    return x * next(counter)


def chance(x):
    return x * random.random()


def append(x):
    seen.append(1)
    return x + len(seen)


def one_more_operation(x):
    seen.append(1)
    for _ in seen:
        x = x + 1
    return x


def own_function(x):
    return Doubled.apply(x)


def own_function_inside(x):
    return Doubled.apply(x * 3) + 1


def transform(x):
    return torch.func.grad(lambda y: (y**2).sum())(x)


def mapped(x):
    return torch.vmap(lambda row: row * 2)(x)


def parameter(x):
    return nn.Parameter(x) * 2


def parameter_returned(x):
    return nn.Parameter(x)


def old_tensor(x):
    return torch.Tensor(x) * 2


def generator(x):
    return torch.rand(3, generator=torch.Generator()) * x


def yields(x):
    return (row for row in [x])


def autocast(x):
    with torch.autocast("cpu", dtype=torch.bfloat16):
        return x[None] @ x[:, None]


def inference(x):
    with torch.inference_mode():
        return x * 2


def address(x):
    return x * x.data_ptr()


def hooks(x):
    x.register_hook(lambda gradient: gradient * 2)
    return x


def deep_copy(x):
    return copy.deepcopy(x)


def a_set(x):
    return {x.dtype}


def numbered_keys(x):
    return {1: x}


def an_object(x):
    return object()


def caught(x):
    """Ask, and hide that asking failed."""
    try:
        factor = x.sum().item()
    except Exception:
        factor = 1.0
    return x * factor


REFUSED = {
    branch: r"A branch on the value of a tensor .* torch\.where",
    loop: "A branch on the value",
    item: r"\.item\(\) can't be recorded.*Keep it a tensor",
    as_float: r"float\(\) of a tensor",
    as_int: r"int\(\) of a tensor",
    as_index: "index of Python",
    iteration: r"A loop over a tensor .*unbind",
    unpacking: "A loop over a tensor",
    to_numpy: r"\.numpy\(\) .*torch calls instead of numpy",
    numpy_function: "numpy on a tensor",
    numpy_operand: "numpy",
    to_list: r"\.tolist\(\)",
    contains: "A search in the values",
    equality: "A comparison to True or False",
    largest: "A loop over a tensor",
    count_calls: "something else the second time .*counter",
    chance: "something else the second time .*random",
    append: "something else the second time",
    one_more_operation: "something else the second time",
    own_function: r"torch\.autograd\.Function",
    own_function_inside: r"torch\.autograd\.Function",
    transform: r"A transform of torch\.func",
    parameter: "that the recording can't see",
    parameter_returned: "that the recording can't see",
    old_tensor: "that torch does not show",
    generator: "type Generator",
    yields: "type generator",
    autocast: "inference_mode or autocast .*around the call",
    inference: "inference_mode or autocast .*around the call",
    address: "data_ptr",
    hooks: "register_hook",
    deep_copy: "__deepcopy__",
    a_set: "type set",
    numbered_keys: "key of type int",
    an_object: "type object",
    caught: r"\.item\(\)",
}
# Seen only after the function has returned.
AFTERWARDS = {parameter_returned, yields, a_set, numbered_keys, an_object}


@pytest.mark.parametrize("function", list(REFUSED), ids=lambda f: f.__name__)
def test_refused_with_the_line_of_the_user(function):
    with pytest.raises(PlanBuildError, match=f"(?s){REFUSED[function]}") as caught_error:
        planned(function, torch.ones(3, requires_grad=function in (own_function, own_function_inside, hooks)))
    text = str(caught_error.value)
    assert "can't be recorded in a plan" in text
    if function not in AFTERWARDS:
        first = (Doubled.forward if "own_function" in function.__name__ else function).__code__.co_firstlineno
        lines = range(first, first + 12)
        where = [line for line in text.splitlines() if line.startswith("File ")]
        assert len(where) == 1 and THIS_FILE in where[0], text
        assert any(f"line {line}:" in where[0] for line in lines), text


def test_the_line_is_shown_in_full():
    with pytest.raises(PlanBuildError, match=r"return x if x\.sum\(\) > 0 else -x"):
        planned(branch, torch.ones(3))


def test_a_seed_set_inside():
    def seeds(x):
        torch.manual_seed(0)
        return x + torch.rand(3)

    for seed in (0, 1):  # also if it is the one that was set before
        torch.default_generator.manual_seed(seed)
        before = torch.get_rng_state()
        with pytest.raises(PlanBuildError, match="manual_seed .*outside of the plan"):
            planned(seeds, torch.ones(3))
        assert torch.equal(torch.get_rng_state(), before) and torch.initial_seed() == seed


def test_torch_func_transforms_and_script_modules():
    layer = nn.Linear(3, 3)
    for function in (
        mapped,
        torch.jit.script(layer).forward,
        lambda x: torch.jit.trace(layer, torch.ones(1, 3))(x),
        lambda x: torch.func.jacrev(torch.sin)(x),
        lambda x: torch.func.functional_call(layer, {"weight": x, "bias": x[0]}, (x,)).item(),
    ):
        with pytest.raises(PlanBuildError, match="can't be recorded in a plan"):
            planned(function, torch.ones(3, 3))


def test_remote_tensors_from_outside(bob):
    far = torch.ones(3).send(bob)
    with pytest.raises(PlanBuildError, match="A remote tensor from outside .*as an argument"):
        planned(lambda x: x + far, torch.ones(3))


def test_modules_as_arguments():
    with pytest.raises(PlanBuildError, match="A module as an argument .*forward_func=model"):
        planned(lambda model, x: model(x), nn.Linear(2, 2), torch.ones(2))


def test_a_learned_average_of_batch_norm():
    """Without momentum, batch norm reads how many batches it has seen; that is a value."""
    norm = nn.BatchNorm1d(3, momentum=None)
    with pytest.raises(PlanBuildError, match=r"float\(\) of a tensor"):
        planned(norm, torch.ones(4, 3))


def test_building_inside_of_building():
    def builds(x):
        return planned(lambda y: y * 2, x)(x)

    with pytest.raises(PlanBuildError, match="Building another plan .*Build it before"):
        planned(builds, torch.ones(2))


def test_no_function():
    with pytest.raises(PlanBuildError, match=r"has no function.*forward_func"):
        sy.Plan().build(torch.ones(1))


def test_errors_of_the_function_come_through():
    def broken(x):
        return x @ torch.ones(7, 7)

    with pytest.raises(RuntimeError, match="mat1 and mat2"):
        planned(broken, torch.ones(2, 3))
    with pytest.raises(ZeroDivisionError):
        planned(lambda x: x / (1 // 0), torch.ones(2))
    assert planned(lambda x: x * 2, torch.ones(2))(torch.ones(1)) == 2  # the next one is none the worse


def test_a_refused_build_leaves_an_older_one():
    flag = [False]

    def function(x):
        return x * x.sum().item() if flag[0] else x * 2

    plan = planned(function, torch.ones(2))
    flag[0] = True
    with pytest.raises(PlanBuildError):
        plan.build(torch.ones(2))
    assert plan.is_built and torch.equal(plan(torch.ones(2)), torch.full((2,), 2.0))


# --- what is fine -----------------------------------------------------------------------------------------------


def shows(x):
    print(x, x.shape, f"{x}", repr(x), x.dtype, len(x.shape))
    print(f"{x.sum():.3f}")
    return x * 2


def numpy_number(x):
    return x * np.float32(2.5) + np.int64(3)


def made_inside(x):
    return torch.tensor([1.0, 2.0, 3.0]) * x + torch.tensor(2) + torch.as_tensor(x)


def of_tensors(x):
    return torch.tensor([x.sum(), 1.0]) + torch.stack([x[0], x[1]])


def by_identity(x):
    table = {x: 3, x + 1: 4}
    return x * table[x]


def checkpointed(x):
    return torch.utils.checkpoint.checkpoint(lambda y: torch.sin(y) * 2, x, use_reentrant=False)


def with_distribution(x):
    return torch.distributions.Normal(x, torch.ones(3), validate_args=False).log_prob(x + 1)


def types_and_forms(x):
    assert isinstance(x, torch.Tensor) and torch.is_tensor(x) and torch.is_floating_point(x)
    assert x.dim() == 1 and x.device.type == "cpu" and not x.is_sparse and x.layout is torch.strided
    assert hasattr(x, "shape") and x.is_contiguous() and type(x) is torch.Tensor
    return x * (2 if x.dtype is torch.float32 else 3)


FINE = [shows, numpy_number, made_inside, of_tensors, by_identity, checkpointed, with_distribution, types_and_forms]


@pytest.mark.parametrize("function", FINE, ids=lambda f: f.__name__)
def test_like_the_function(function, make_worker):
    bob = make_worker("bob", "bytes")
    plan = planned(function, torch.rand(3))
    x = torch.rand(3)
    assert torch.equal(plan(x), function(x))
    assert torch.equal(plan.send(bob)(x.send(bob)).get(), function(x))


def test_printing_is_of_the_build_only(capsys):
    plan = planned(shows, torch.ones(3))
    shown = capsys.readouterr().out
    assert "<recorded tensor (3,) torch.float32>" in shown and "1." not in shown  # a form, no values
    plan(torch.ones(3))
    assert capsys.readouterr().out == ""


# --- checks of forms --------------------------------------------------------------------------------------------


def by_length(x):
    return x * len(x)


def by_range(x):
    return sum(x[i] * i for i in range(x.shape[0]))


def by_dtype(x):
    return x * 2 if x.dtype is torch.float32 else x * 3


def by_dim(x):
    return x.sum(-1) if x.dim() == 2 else x * 5


def by_ndim(x):
    return x.sum(-1) if x.ndim == 2 else x * 5


def by_shape(x):
    return x * 2 if x.shape[0] > 2 else x * 3


def by_shapes(x):
    return x * 2 if x.shape == (3, 2) else x * 3


def by_whole_shape(x):
    return x * 2 if x.shape[-1] == x.shape[0] else x * 3


def by_unpacking(x):
    rows, columns = x.shape
    return x.reshape(columns, rows)


def by_remainder(x):
    return x[::2] if x.shape[0] % 2 else x


def by_truth(x):
    return x.sum(0) if x.shape[0] else x.new_zeros(x.shape[1:])


def by_flag(x):
    return x * 2 if x.requires_grad else x * 3


def by_layout(x):
    return x * 2 if x.is_contiguous() else x.contiguous() * 3


def by_float(x):
    return x * math.sqrt(x.shape[0])


def by_text(x):
    return x * {"3": 2, "4": 3}.get(str(int(x.shape[0])), 1)


def by_list_of_sizes(x):
    return x * sum(list(x.shape))


def by_min(x):
    return x[: min(x.shape[0], 3)]


def by_numel(x):
    return x * 2 if x.numel() > 6 else x


def by_empty(x):
    return x.sum(0) if not x.nelement() else x.sum(1)


def by_comparison_of_two(x):
    y = torch.cat([x, x])
    return y if x.size(0) * 2 == y.size(0) else None


def by_type_of_size(x):
    return x * 2 if isinstance(x.shape[0], int) and isinstance(x.shape[0] / 2, float) else x * 3


def by_type_of_shape(x):
    return x * 2 if isinstance(x.shape, torch.Size) and isinstance(x.shape[:1], torch.Size) else x * 3


def by_bits(x):
    return x * (x.shape[0] & 1 | x.shape[0] << 2) * (7 ^ x.shape[0])


def by_word(x):
    return x * {"3": 5}.get(str(x.shape[0]), 1) + {"3": 5}.get(f"{x.shape[0]}", 1)


def by_made_size(x):
    return (
        x.new_ones(torch.Size([x.shape[0], 2])) * x.shape[1:].numel() + x.new_zeros(x.shape[:1] + torch.Size([2])) * 1
    )


def by_membership(x):
    return x * 2 if x.shape[0] in (3, 4) else x


def by_power(x):
    return x / x.size(0) ** 0.5


def by_rounding(x):
    return x[: math.ceil(x.shape[0] / 2)] * round(x.shape[0] / 2)


def by_key(x):
    return {2: x, 3: x * 2}[int(x.shape[0])]


CHECKED = [
    by_length, by_range, by_dtype, by_dim, by_ndim, by_shape, by_shapes, by_whole_shape, by_unpacking, by_remainder,
    by_truth, by_flag, by_layout, by_float, by_text, by_list_of_sizes, by_min, by_numel, by_empty,
    by_comparison_of_two, by_key, by_type_of_size, by_type_of_shape, by_bits, by_word, by_made_size, by_membership,
    by_power, by_rounding,
]  # fmt: skip
# For these, no decision depends on the number of rows.
FREE = {
    by_unpacking,
    by_comparison_of_two,
    by_dtype,
    by_dim,
    by_ndim,
    by_flag,
    by_layout,
    by_list_of_sizes,
    by_truth,
    by_type_of_size,
    by_type_of_shape,
    by_made_size,
}


def other_inputs():
    yield from (torch.rand(rows, 2) for rows in (0, 1, 2, 3, 4, 5, 9))
    yield from (torch.rand(rows, rows) for rows in (1, 2, 3, 4))
    yield torch.rand(3, 2, requires_grad=True)
    yield torch.rand(3, 2, dtype=torch.float64)
    yield torch.rand(2, 3).t()
    yield torch.rand(3)
    yield torch.rand(3, 2, 2)
    yield torch.ones(3, 2, dtype=torch.int64)


@pytest.mark.parametrize("function", CHECKED, ids=lambda f: f.__name__)
def test_right_or_refused(function, make_worker):
    """For any other input the plan gives what the function gives, or says that it was built for something else."""
    bob = make_worker("bob", "bytes")
    plan = planned(function, torch.rand(3, 2))
    pointer, rebuilt = plan.send(bob), sy.deserialize(sy.serialize(plan))
    x = torch.rand(3, 2)
    assert torch.equal(plan(x), function(x))
    refused = 0
    for x in other_inputs():
        try:
            expected = function(x)
        except Exception:
            expected = None
        runs = [plan, rebuilt]
        if x.is_contiguous():  # strides do not travel
            runs.append(lambda x: pointer(x.send(bob)).get())
        for run in runs:
            try:
                result = run(x)
            except PlanMismatchError as error:
                assert "built" in str(error)
                refused += 1
                continue
            except Exception:
                assert expected is None
                continue
            assert expected is not None, (function.__name__, x.shape)
            assert result.dtype == expected.dtype and torch.equal(result, expected), (function.__name__, x.shape)
    assert refused or function in FREE
    if function in FREE:
        x = torch.rand(7, 2)
        assert torch.equal(plan(x), function(x))


def test_what_a_check_says():
    plan = planned(by_shape, torch.rand(3, 2))
    with pytest.raises(PlanMismatchError, match=r"1 > 2 is False.*built.*was True.*Build a plan") as caught_error:
        plan(torch.rand(1, 2))
    notes = "\n".join(caught_error.value.__notes__)
    assert THIS_FILE in notes and "x.shape[0] > 2" in notes
    with pytest.raises(PlanMismatchError, match=r"dtype is torch\.float32.*torch\.float64"):
        planned(by_dtype, torch.rand(3))(torch.rand(3, dtype=torch.float64))
    with pytest.raises(PlanMismatchError, match="another number of results"):
        planned(lambda x: x.unbind()[0], torch.rand(3))(torch.rand(4))


def test_sizes_compute():
    """Arithmetic on sizes is recorded, so the plan holds for all of them."""

    def sizes(x, y):
        rows, columns = x.shape
        whole = (rows * 3 - 1) // 2 + rows % 2 + divmod(rows, 2)[0] + columns
        part = rows / 2 + 0.5 - columns / (rows + 1) + -rows
        flat = torch.zeros(rows * columns + 2).view(-1)
        return whole * y + part, flat, x.reshape(rows * columns), torch.arange(rows, rows + 5), x.view(-1, columns)

    plan = planned(sizes, torch.rand(3, 2), torch.rand(4))
    for shape in [(1, 1), (5, 2), (64, 3), (7, 7), (0, 2)]:
        args = torch.rand(shape), torch.rand(4)
        if 0 in shape:
            continue
        for got, expected in zip(plan(*args), sizes(*args), strict=True):
            assert got.dtype == expected.dtype and torch.equal(got, expected), shape


def test_sizes_as_results():
    plan = planned(lambda x: (x.shape[0], x.shape, x.numel() / 2, x * 1), torch.rand(3, 2))
    rows, shape, half, _ = plan(torch.rand(7, 4))
    assert (rows, tuple(shape), half) == (7, (7, 4), 14.0)
    assert type(rows) is int and type(half) is float


# --- arguments ---------------------------------------------------------------------------------------------------


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
        with pytest.raises(PlanMismatchError, match="that value is part of the plan. Build another plan"):
            call()
    with pytest.raises(PlanMismatchError, match=r"A tensor was given for the argument x .*torch\.tensor"):
        plan(1.0, "sum")


def test_wrong_calls():
    plan = planned(lambda x, y: x + y, torch.ones(1), torch.ones(1))
    x = torch.ones(1)
    with pytest.raises(TypeError, match="takes 2 arguments, not 3"):
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
    with pytest.raises(PlanMismatchError, match="A tensor was given"):
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
    with pytest.raises(TypeError, match="takes 3 arguments, not 4"):
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
        (({**batch, "n": 6}, pair), "key 'n'.*that value is part of the plan.*pass a tensor"),
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


def test_results_of_any_form(make_worker, kind):
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


# --- constants and state ------------------------------------------------------------------------------------------


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
    twin = plan.copy()
    x = torch.rand(4, 2)
    assert torch.equal(plan(x), model(x)) and torch.equal(twin(x), model(x))


def test_an_input_that_is_also_a_constant():
    weight = torch.tensor([2.0])
    plan = planned(lambda x: x * weight, weight)
    assert plan(torch.tensor([5.0])) == 10


def test_a_copy_is_independent():
    weight = torch.ones(2, requires_grad=True)
    plan = planned(lambda x: x * weight, torch.ones(2))
    twin = plan.copy()
    assert twin.id != plan.id
    with torch.no_grad():
        weight.mul_(4)
    x = torch.ones(2)
    assert torch.equal(plan(x), torch.full((2,), 4.0)) and torch.equal(twin(x), torch.ones(2))
    twin(x).sum().backward()
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


# --- gradient modes -------------------------------------------------------------------------------------------------


@torch.no_grad()
def decorated(x):
    return x * 2


@torch.enable_grad()
def decorated_to_enable(x):
    return x * 2


class Quiet:
    @torch.no_grad()
    def method(self, x):
        return x * 2


def by_functions(x):
    before = torch.is_grad_enabled()
    torch.set_grad_enabled(False)
    y = x * 2
    torch.set_grad_enabled(before)
    return y, x * 3


def by_contexts(x):
    with torch.no_grad():
        a = x * 2
        with torch.enable_grad():
            b = x * 3
            with torch.set_grad_enabled(False):
                c = x * 4
            d = x * 5
        e = x * 6
    return a, b, c, d, e, x * 7


def set_and_left(x):
    torch.set_grad_enabled(False)
    return x * 2


def by_decorators(x):
    return decorated(x), decorated_to_enable(x), Quiet().method(x), x * 2


def by_inner_contexts(x):
    with torch.set_grad_enabled(True):
        y = x * 2
    try:
        with torch.no_grad():
            raise KeyError
    except KeyError:
        pass
    return y, x * 3


def flags(result):
    return [t.requires_grad for t in (result if isinstance(result, tuple) else (result,))]


@pytest.mark.parametrize("built", [True, False], ids=["built with", "built without"])
@pytest.mark.parametrize("called", [True, False], ids=["called with", "called without"])
@pytest.mark.parametrize(
    "function", [by_functions, by_contexts, by_decorators, by_inner_contexts, set_and_left], ids=lambda f: f.__name__
)
def test_gradient_modes(function, built, called, make_worker):
    """A recording keeps what the function sets, and leaves the rest to the caller."""
    bob = make_worker("bob", "bytes")
    x = torch.ones(2, requires_grad=True)
    with torch.set_grad_enabled(built):
        plan = planned(function, x)
        assert torch.is_grad_enabled() is built
    if function is by_functions and built is not called:
        return  # what torch.is_grad_enabled() says can't be seen, so it is what it was at the build
    with torch.set_grad_enabled(called):
        expected = flags(function(x))
    with torch.set_grad_enabled(called):
        assert flags(plan(x)) == expected
        assert torch.is_grad_enabled() is called or function is set_and_left
    outer = planned(lambda x: plan(x), x)
    with torch.set_grad_enabled(called):
        assert flags(outer(x)) == expected
    far, rebuilt = torch.ones(2, requires_grad=True).send(bob), sy.deserialize(sy.serialize(plan))
    with torch.set_grad_enabled(called):
        assert flags(rebuilt(x)) == expected
        assert flags(plan.send(bob)(far)) == expected
    assert torch.is_grad_enabled()


def test_an_error_leaves_the_mode_as_it_was():
    def breaks(x):
        with torch.no_grad():
            return x.view(2, -1)

    plan = planned(breaks, torch.ones(4))
    with pytest.raises(RuntimeError):
        plan(torch.ones(3))
    assert torch.is_grad_enabled()


# --- running ----------------------------------------------------------------------------------------------------------


def test_an_error_names_the_operation_and_the_line(make_worker, kind):
    def product(x, y):
        z = x * 2
        return torch.matmul(z, y)

    plan = planned(product, torch.ones(2, 3), torch.ones(3, 2))
    with pytest.raises(RuntimeError, match="cannot be multiplied") as caught_error:
        plan(torch.ones(2, 3), torch.ones(4, 2))
    notes = "\n".join(caught_error.value.__notes__)
    assert "operation 1 of the plan: torch.matmul" in notes
    assert THIS_FILE in notes and "return torch.matmul(z, y)" in notes
    bob = make_worker("bob", kind)
    with pytest.raises(RuntimeError, match="cannot be multiplied") as caught_error:
        plan.send(bob)(torch.ones(2, 3).send(bob), torch.ones(4, 2))
    text = "\n".join([str(caught_error.value), *caught_error.value.__notes__])
    assert "operation 1 of the plan: torch.matmul" in text


def test_on_pointers_op_by_op(make_worker, kind):
    """A plan that is here, called with what is there: each operation is one message."""
    bob = make_worker("bob", kind)
    scale = torch.tensor([3.0])

    def function(x, y):
        a, b = (x @ y).chunk(2)
        with torch.no_grad():
            c = torch.relu(a - b) * x.shape[0]
        return c.sum(), {"max": x.max(dim=1)[0] * 2}

    plan = planned(function, torch.rand(4, 3), torch.rand(3, 2))
    x, y = torch.rand(6, 3), torch.rand(3, 2)
    total, rest = plan(x.send(bob), y.send(bob))
    expected, other = function(x, y)
    assert torch.equal(total.get(), expected) and torch.equal(rest["max"].get(), other["max"])
    plan = planned(lambda x: x * 2 + 1, scale)
    assert plan(scale.send(bob)).get() == 7


def test_built_with_pointers(bob):
    x = torch.arange(4.0).send(bob)
    plan = planned(lambda x: x * 2 + 1, x)
    assert torch.equal(plan(torch.arange(3.0)), torch.arange(3.0) * 2 + 1)
    assert torch.equal(plan(x).get(), torch.arange(4.0) * 2 + 1)
    assert torch.equal(plan.send(bob)(torch.ones(1).send(bob)).get(), torch.full((1,), 3.0))


def test_plans_run_and_are_built_in_threads_at_the_same_time():
    barrier = threading.Barrier(4)
    weight = torch.rand(3, requires_grad=True)
    shared = planned(lambda x: (x * weight).sum(), torch.ones(3))

    def work(number):
        def function(x):
            y = x * number
            with torch.no_grad():
                y = y + x.shape[0]
            for _ in range(number):
                y = torch.sin(y)
            return y, torch.zeros(x.shape[0], number)

        barrier.wait()
        for _ in range(10):
            plan = planned(function, torch.ones(3))
            x = torch.rand(5 + number)
            for got, expected in zip(plan(x), function(x), strict=True):
                assert torch.equal(got, expected)
            y = torch.rand(3)
            assert torch.equal(shared(y), (y * weight).sum())
        return len(plan.operations)

    with ThreadPoolExecutor(4) as pool:
        counts = list(pool.map(work, range(1, 5)))
    assert counts == [counts[0] + n for n in range(4)]  # nobody recorded for somebody else


def test_other_threads_are_not_recorded():
    """While one thread records, what another one computes is no part of it."""
    inside, done = threading.Event(), threading.Event()

    def elsewhere():
        inside.wait(30)
        torch.ones(2).add(1).sum().item()  # a value, which a recording would refuse
        done.set()

    thread = threading.Thread(target=elsewhere)
    thread.start()

    def function(x):
        inside.set()
        done.wait(30)
        return x * 2

    plan = planned(function, torch.ones(2))
    thread.join()
    assert done.is_set() and [o.cmd_name for o in plan.operations] == ["torch.Tensor.mul"]


def test_plans_in_plans_in_plans(make_worker):
    bob = make_worker("bob", "bytes")
    weight = torch.tensor([2.0])
    inner = planned(lambda x: x * weight + x.shape[0], torch.ones(3))
    middle = planned(lambda x: {"y": inner(x), "z": inner(x * 2)}, torch.ones(3))
    outer = planned(lambda x: middle(x)["y"] - middle(x)["z"] + torch.arange(x.shape[0]), torch.ones(3))
    for size in (1, 3, 8):
        x = torch.rand(size)
        expected = (x * 2 + size) - (x * 4 + size) + torch.arange(size)
        torch.testing.assert_close(outer(x), expected)
        torch.testing.assert_close(outer.send(bob)(x.send(bob)).get(), expected)
    with torch.no_grad():
        weight.mul_(0)
    assert torch.equal(inner(torch.ones(1)), torch.ones(1))
    torch.testing.assert_close(outer(torch.ones(2)), torch.arange(2).float())


def test_a_plan_that_is_not_built_inside_of_one():
    inner = sy.func2plan()(lambda x: x * 3)
    plan = planned(lambda x: inner(x) + 1, torch.ones(2))
    assert torch.equal(plan(torch.ones(3)), torch.full((3,), 4.0)) and not inner.is_built


def test_training_of_a_plan_inside_of_one():
    layer = nn.Linear(2, 1)
    twin = copy.deepcopy(layer)
    optimizer = torch.optim.SGD(layer.parameters(), lr=0.1)

    def step(x):
        optimizer.zero_grad()
        loss = layer(x).square().sum()
        loss.backward()
        optimizer.step()
        return loss

    x = torch.ones(3, 2)
    inner = planned(step, x)
    outer = planned(lambda x: inner(x) + inner(x * 2), x)
    losses = outer(x)
    other = torch.optim.SGD(twin.parameters(), lr=0.1)
    expected = torch.zeros(())
    for factor in (1, 2):
        other.zero_grad()
        loss = twin(x * factor).square().sum()
        loss.backward()
        other.step()
        expected = expected + loss.detach()
    torch.testing.assert_close(losses.detach(), expected)
    torch.testing.assert_close(layer.weight, twin.weight)


def test_in_place_on_an_input_reaches_the_caller(make_worker, kind):
    bob = make_worker("bob", kind)

    def change(x):
        x[0] = 7
        x.add_(1)

    plan = planned(change, torch.zeros(2))
    x = torch.zeros(2)
    assert plan(x) is None and torch.equal(x, torch.tensor([8.0, 1.0]))
    far = torch.zeros(2).send(bob)
    assert plan.send(bob)(far) is None and torch.equal(far.get(), torch.tensor([8.0, 1.0]))


def test_gradients_of_inputs():
    def function(x, y):
        loss = (x * y).sum()
        loss.backward()
        return x.grad * 2, y.grad

    plan = planned(function, torch.ones(2, requires_grad=True), torch.ones(2))
    x, y = torch.rand(2, requires_grad=True), torch.rand(2)
    doubled, none = plan(x, y)
    assert none is None and torch.equal(doubled, y * 2) and torch.equal(x.grad, y)


def test_second_derivatives():
    def function(x):
        (first,) = torch.autograd.grad((x**3).sum(), x, create_graph=True)
        (second,) = torch.autograd.grad(first.sum(), x)
        return first, second

    plan = planned(function, torch.ones(3, requires_grad=True))
    x = torch.rand(5, requires_grad=True)
    for got, expected in zip(plan(x), function(x), strict=True):
        assert torch.equal(got, expected)


def test_random_numbers_are_drawn_at_each_run():
    plan = planned(lambda x: x + torch.rand(x.shape) + F.dropout(x, 0.5), torch.ones(64))
    before = torch.get_rng_state()
    first, second = plan(torch.ones(64)), plan(torch.ones(64))
    assert not torch.equal(first, second)
    torch.set_rng_state(before)
    assert torch.equal(plan(torch.ones(64)), first)
