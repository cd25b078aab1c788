"""Integers of remote calls: sizes are bounded, values are not."""

from __future__ import annotations

import pytest
import torch
import torch.nn.functional as F

import syft as sy
from syft.exceptions import CommandNotAllowedError
from syft.hook.allowed_functions import CONSTRUCTORS, allowed
from syft.hook.size_bounds import bound_size_tensors, bound_sizes, parameters_of
from syft.workers.access.policy import DenyAll
from tests.helpers.remote.samples import samples, unlisted_samples

HUGE = 2**40
WHOLE = torch.arange(6).reshape(2, 3)
X = torch.arange(6.0).reshape(2, 3)

VALUES = {
    "add": lambda x: x + HUGE,
    "reflected": lambda x: HUGE - x,
    "power": lambda x: 1**x,
    "exponent": lambda x: x**HUGE,
    "comparison": lambda x: x < HUGE,
    "function": lambda x: torch.add(x, HUGE, alpha=-HUGE),
    "modulo": lambda x: HUGE % (x + 1),
    "floor division": lambda x: (x + HUGE) // HUGE,
    "bits": lambda x: x & HUGE,
    "shift": lambda x: (x + 1) << 40,
    "fill": lambda x: x.clone().fill_(HUGE),
    "full": lambda x: x.new_full((2,), HUGE),
    "full_like": lambda x: torch.full_like(x, HUGE),
    "clamp": lambda x: x.clamp(-HUGE, HUGE),
    "where": lambda x: torch.where(x > 2, HUGE, x),
    "masked_fill": lambda x: x.masked_fill(x > 2, HUGE),
    "index_fill": lambda x: x.index_fill(1, (x > 5).long().sum(0)[:1], -HUGE),
    "scatter": lambda x: x.scatter(1, x.clamp(0, 2), HUGE),
    "pad": lambda x: F.pad(x, (1, 1), value=HUGE),
    "threshold": lambda x: F.threshold(x, HUGE, -HUGE),
    "contains": lambda x: HUGE in x,
    "new_tensor": lambda x: x.new_tensor([HUGE, [HUGE][0]]),
    "isin": lambda x: torch.isin(x, HUGE),
    "nan_to_num": lambda x: x.nan_to_num(HUGE),
    "a value in a tensor": lambda x: (x * HUGE).sum().unique(),
}


@pytest.mark.parametrize("name", VALUES)
def test_integers_that_are_values_are_not_bounded(name, bob):
    call = VALUES[name]
    expected, got = call(WHOLE.clone()), call(WHOLE.clone().send(bob))
    got = got.get() if isinstance(got, torch.Tensor) else got
    assert torch.equal(got, expected) if isinstance(expected, torch.Tensor) else got == expected


def test_assigned_values_and_random_bounds_are_not_bounded(bob):
    x = WHOLE.clone().send(bob)
    x[0, 0] = HUGE
    assert x.get()[0, 0] == HUGE
    assert WHOLE.clone().send(bob).random_(HUGE, 2 * HUGE).get().min() >= HUGE
    assert bob.remote.torch.randint(HUGE, 2 * HUGE, (3,)).get().min() >= HUGE
    assert bob.remote.torch.tensor([HUGE]).get().item() == HUGE
    assert bob.remote.torch.arange(HUGE, HUGE + 3).get().tolist() == [HUGE, HUGE + 1, HUGE + 2]
    assert bob.remote.torch.full((1,), HUGE).get().item() == HUGE


SIZES = {
    "size": lambda x: x.view(1, HUGE),
    "size in a tuple": lambda x: x.expand((HUGE, 2, 3)),
    "size in a list": lambda x: x.repeat([HUGE, 1]),
    "keyword": lambda x: x.sum(dim=HUGE),
    "negative": lambda x: x.sum(dim=-HUGE),
    "the limit": lambda x: x.sum(dim=2**31),
    "slice": lambda x: x[:, 0:3:HUGE],
    "index": lambda x: x[HUGE],
    "index of an assignment": lambda x: x.__setitem__(HUGE, 1),
    "shape of a fill": lambda x: x.new_full((HUGE,), 1),
    "kernel": lambda x: F.max_pool1d(x[None], HUGE),
    "stride": lambda x: torch.max_pool1d(x[None], 2, HUGE),
    "dilation": lambda x: torch.max_pool1d(x[None], 2, 1, 0, HUGE),
    "padding": lambda x: F.pad(x, (HUGE, 0)),
    "count": lambda x: x.topk(HUGE),
    "exponent of a matrix": lambda x: torch.linalg.matrix_power(x @ x.T, HUGE),
    "a tensor as a size": lambda x: x.expand((torch.tensor(HUGE).send(x.location), 2, 3)),
    "a tensor as a stride": lambda x: torch.max_pool1d(x[None], 2, torch.tensor(HUGE).send(x.location)),
}


@pytest.mark.parametrize("name", SIZES)
def test_sizes_beyond_the_limit_are_refused(name, bob):
    x = X.clone().send(bob)
    with pytest.raises(CommandNotAllowedError, match=r"between -2\*\*31 and 2\*\*31"):
        SIZES[name](x)
    assert torch.equal(x.get(), X)


def test_the_error_names_the_argument_and_the_number(bob):
    with pytest.raises(CommandNotAllowedError, match=f"argument 'dim' is {HUGE}"):
        X.clone().send(bob).sum(dim=HUGE)
    with pytest.raises(CommandNotAllowedError, match="a number of 20001 bits"):
        bound_sizes("torch.Tensor.sum", (X, 2**20000), {})


def test_shape_inference_at_the_client_ends_for_calls_that_the_worker_refuses(make_worker):
    """A threaded stream infers shapes before it sends a call: for this one that would take hours."""
    x = torch.ones(3).send(make_worker("bob", "thread"))
    with pytest.raises(CommandNotAllowedError, match="r must be an integer between 0 and 64"):
        torch.combinations(x, 10**5)
    assert torch.equal(x.get(), torch.ones(3))


def test_makers_of_tensors_are_bounded(bob):
    for make in (
        lambda torch: torch.zeros(HUGE),
        lambda torch: torch.full((HUGE,), 1),
        lambda torch: torch.randint(0, 5, (HUGE,)),
        lambda torch: torch.arange(0, HUGE),
        lambda torch: torch.linspace(0, 1, HUGE),
    ):
        with pytest.raises(CommandNotAllowedError, match=r"2\*\*31"):
            make(bob.remote.torch)


def test_plans_refuse_sizes_that_they_compute(bob):
    @sy.func2plan(args_shape=[(2, 3)])
    def plan(x):
        return x.new_ones(1).expand(x.shape[0] * 2**30)

    with pytest.raises(CommandNotAllowedError, match=r"between -2\*\*31 and 2\*\*31"):
        plan.send(bob)(X.send(bob))


def test_plans_at_a_worker_with_a_policy_refuse_calls_that_never_end(bob):
    @sy.func2plan(args_shape=[(3,)])
    def plan(x):
        return torch.combinations(x, 2)

    operation = next(each for each in plan.operations if each.cmd_name == "torch.combinations")
    object.__setattr__(operation, "cmd_args", (operation.cmd_args[0], 10**5))  # as if it was forged
    bob.policy = DenyAll()
    with pytest.raises(CommandNotAllowedError, match="r must be an integer between 0 and 64"):
        plan.send(bob)(torch.ones(3).send(bob))


def test_plans_refuse_constant_sizes_and_keep_values(bob):
    @sy.func2plan(args_shape=[(2, 3)])
    def values(x):
        return x + HUGE

    assert torch.equal(values.send(bob)(X.send(bob)).get(), X + HUGE)

    @sy.func2plan(args_shape=[(2, 3)])
    def sizes(x):
        return x[:, ::HUGE]

    with pytest.raises(CommandNotAllowedError, match=r"between -2\*\*31 and 2\*\*31"):
        sizes.send(bob)(X.send(bob))


def test_no_sample_of_the_table_is_refused():
    for name, several in {**samples(), **unlisted_samples()}.items():
        for sample in several:
            bound_sizes(name, sample.args, sample.kwargs)
            bound_size_tensors(name, sample.args, sample.kwargs)


def test_the_parameters_of_every_call_are_known():
    """A call of unknown parameters has all its integers bounded, values included."""
    unknown = [name for name in {**allowed(), **CONSTRUCTORS} if not parameters_of(name).values]
    assert unknown == []
    assert parameters_of("torch.Tensor.add").takes_value(1)
    assert not parameters_of("torch.Tensor.sum").takes_value(1)
