"""Functions that a recording refuses, naming the user's line, and functions that it accepts."""

from __future__ import annotations

import copy
import itertools
import random

import numpy as np
import pytest
import torch
from torch import nn

import syft as sy
from syft.exceptions import PlanBuildError
from tests.helpers.plans.plan_models import planned

pytestmark = pytest.mark.usefixtures("hook")
THIS_FILE = "test_recording.py"


class Doubled(torch.autograd.Function):
    """A function with a backward of its own."""

    @staticmethod
    def forward(ctx, x):
        return x * 2  # Doubled

    @staticmethod
    def backward(ctx, gradient):
        return gradient * 100


# --- refusals ------------------------------------------------------------------------------------------------------

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
    as_index: "Python index",
    iteration: r"A loop over a tensor .*unbind",
    unpacking: "A loop over a tensor",
    to_numpy: r"\.numpy\(\) .*torch calls instead of numpy",
    numpy_function: "numpy on a tensor",
    numpy_operand: "numpy",
    to_list: r"\.tolist\(\)",
    contains: "A search in the values",
    equality: "A comparison to True or False",
    largest: "A loop over a tensor",
    count_calls: "differs between two runs .*counter",
    chance: "differs between two runs .*random",
    append: "differs between two runs",
    one_more_operation: "differs between two runs",
    own_function: r"torch\.autograd\.Function",
    own_function_inside: r"torch\.autograd\.Function",
    transform: r"A transform of torch\.func",
    parameter: "made without a torch call",
    parameter_returned: "made without a torch call",
    old_tensor: "without one of torch's Python functions",
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

    with pytest.raises(PlanBuildError, match="Building another plan .*Build it outside"):
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


# --- what is fine --------------------------------------------------------------------------------------------------


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
