"""Plans against plain Python: random programs, and each allowed torch call by itself."""

from __future__ import annotations

import gc
import warnings

import hypothesis.strategies as st
import pytest
import torch
from hypothesis import HealthCheck, given, settings

import syft as sy
from syft.core.trees import map_tensors
from syft.exceptions import PlanBuildError, PlanMismatchError
from syft.hook.allowed_functions import allowed
from syft.serde import protobuf
from tests.helpers.depth import deep
from tests.helpers.plans.programs import (
    INPUT_KINDS,
    RETURNS,
    TEMPLATES,
    Pool,
    Skip,
    build_inner_plans,
    make_inputs,
    make_program,
)
from tests.helpers.remote.sample import replaced, tensors
from tests.helpers.remote.samples import samples, unlisted_samples
from tests.remote.test_table import BY_METHOD

BATCHES = (1, 2, 5, 64, 0)
LARGEST = 300_000
SHARDS = 8


def same(got, expected, where, note):
    """Same structure, same dtypes and shapes, the same numbers to the bit (nan is nan)."""
    if isinstance(expected, torch.Tensor):
        assert isinstance(got, torch.Tensor), (where, note)
        assert (got.dtype, got.shape) == (expected.dtype, expected.shape), (where, note)
        got, expected = (t.detach().resolve_conj().resolve_neg() for t in (got, expected))
        if expected.is_floating_point() or expected.is_complex():
            torch.testing.assert_close(got, expected, rtol=0, atol=0, equal_nan=True, msg=f"{where} {note}")
        else:
            assert torch.equal(got, expected), (where, note)
    elif isinstance(expected, list | tuple):
        assert isinstance(got, list | tuple) and len(got) == len(expected), (where, note)
        for one, other in zip(got, expected, strict=True):
            same(one, other, where, note)
    elif isinstance(expected, dict):
        assert list(got) == list(expected), (where, note)
        for key in expected:
            same(got[key], expected[key], where, note)
    else:
        assert (type(got), got) == (type(expected), expected), (where, note)


def fetched(value):
    return map_tensors(lambda t: t.detach().copy().get() if hasattr(t, "child") else t, value)


class Places:
    """A plan in each of the places where it may run: here, rebuilt from bytes, and on workers."""

    def __init__(self, plan, workers):
        copy = sy.deserialize(sy.serialize(plan))
        self.here = {"local": plan, "msgpack": copy, "protobuf": protobuf.deserialize(protobuf.serialize(plan))}
        self.there = {name: (plan if name == "inline" else copy).send(worker) for name, worker in workers.items()}
        self.workers = workers

    def run(self, place, inputs, by_name):
        """Return the results and the inputs as they are afterwards."""
        torch.default_generator.manual_seed(1)
        if place in self.here:
            plan, given = self.here[place], inputs
        else:
            plan, given = self.there[place], [tensor.send(self.workers[place]) for tensor in inputs]
        results = plan(*given[: len(given) - by_name], **named(given, by_name))
        return fetched(results), fetched(given)


def named(inputs, by_name):
    return {f"x{n}": value for n, value in enumerate(inputs[len(inputs) - by_name :])}


@st.composite
def programs(draw):
    count = draw(st.sampled_from([2, 1, 3, 5, 12, 0, 50]))
    kinds = draw(st.lists(st.sampled_from(INPUT_KINDS), min_size=count, max_size=count))
    choices = draw(
        st.lists(st.tuples(st.sampled_from(list(TEMPLATES)), st.integers(0, 2**20)), min_size=1, max_size=30)
    )
    batch = draw(st.sampled_from([3, 2, 4]))
    return kinds, batch, make_program(kinds, choices, batch, draw(st.sampled_from(RETURNS)), draw(st.integers(0, 2)))


def plain_run(program, inputs):
    """Return what plain Python gives: results and inputs afterwards, or the error."""
    torch.default_generator.manual_seed(1)
    try:
        return program(Pool(list(inputs)), LARGEST), inputs, None
    except Skip:
        raise
    except Exception as error:
        return None, None, error


def check_program(kinds, batch, program, workers):
    note = f"{program.names} of {kinds}"

    def function(*args, **kwargs):
        return program(Pool([*args, *kwargs.values()], plans=True))

    examples = make_inputs(kinds, batch, 0)
    given = examples[: len(examples) - program.by_name]
    plan = sy.Plan(forward_func=function).build(*given, **named(examples, program.by_name))
    places = Places(plan, workers)
    for size in dict.fromkeys((batch, *BATCHES)):
        try:
            expected, after, error = plain_run(program, make_inputs(kinds, size, size))
        except Skip:
            continue
        for place in (*places.here, *places.there):
            inputs = make_inputs(kinds, size, size)
            try:
                results, given = places.run(place, inputs, program.by_name)
            except PlanMismatchError:
                assert size != batch and (program.fixes or error is not None), (place, size, note)
                continue
            except Exception as raised:
                if error is None:
                    raised.add_note(f"{place}, batch of {size}: {note}")
                    raise
                continue
            assert error is None, f"{place}, batch of {size}: {note}: no error, and Python raises {error!r}"
            same(results, expected, (place, size), note)
            same(given, after, (place, size), f"the inputs of {note}")
            if place in places.here:
                flags = map_tensors(lambda t: t.requires_grad, results)
                assert flags == map_tensors(lambda t: t.requires_grad, expected), (place, size, note)


class TestRandomPrograms:
    @pytest.fixture
    def places(self, make_worker):
        build_inner_plans()
        return {"inline": make_worker(kind="inline"), "bytes": make_worker(kind="bytes")}

    @pytest.mark.timeout(300)
    @given(drawn=programs())
    @settings(
        deadline=None,
        derandomize=True,
        max_examples=deep(15, 50),
        database=None,
        suppress_health_check=list(HealthCheck),
    )
    def test_like_plain_python(self, places, drawn):
        kinds, batch, program = drawn
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # torch's about odd inputs (no elements, prototype dtypes)
            check_program(kinds, batch, program, places)
            gc.collect(0)

    @pytest.mark.parametrize("name", list(TEMPLATES))
    def test_each_kind_of_step(self, places, name):
        """Every option of every template at least with some seeds, by itself."""
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            taken = 0
            for seed in range(24):
                kinds = ["leaf", "cube", "rows", "whole"]
                choices = [("start", 0), ("scalar", seed), (name, seed)]
                program = make_program(kinds, choices, 3, "tuple", 0)
                taken += name in program.names
                check_program(kinds, 3, program, {"bytes": places["bytes"]} if seed % 4 == 0 else {})
            assert taken > 9


# --- each allowed call by itself -----------------------------------------------------------------------------------

# Torch does not show the first; the second decides by values, in Python.
NOT_RECORDED = {"torch.Tensor.set_", "torch.lobpcg"}


def everything():
    return {**samples(), **unlisted_samples()}


def as_function(function, sample):
    """Return the call as a function of the tensors of its sample."""
    originals = tensors(sample)

    def call(*given):
        by_id = {id(tensor): proxy for tensor, proxy in zip(originals, given, strict=True)}
        args, kwargs = replaced(sample, lambda tensor: by_id[id(tensor)])
        return function(*args, **kwargs)

    return call


def arguments(sample):
    def proxy(tensor):
        copy = tensor.detach().clone()
        return copy.requires_grad_() if sample.needs_grad and copy.is_floating_point() else copy

    return [proxy(tensor) for tensor in tensors(sample)]


def run_seeded(function, given):
    torch.default_generator.manual_seed(0)
    result = function(*given)
    result = list(result) if hasattr(result, "__next__") else result
    return tuple(result) if isinstance(result, torch.Size) else result


def check_sample(function, sample, bob, note):
    """Return whether the call can be part of a plan; if so it gives the same there, here and far."""
    call = as_function(function, sample)
    plain = arguments(sample)
    expected = run_seeded(call, plain)
    try:
        plan = sy.Plan(forward_func=call).build(*arguments(sample))
    except PlanBuildError:
        return False
    rebuilt = sy.deserialize(sy.serialize(plan))
    given = arguments(sample)
    got = run_seeded(plan, given)
    sent = [tensor.send(bob) if sample.mutates or sample.needs_grad else tensor for tensor in arguments(sample)]
    far = run_seeded(rebuilt.send(bob), sent)
    for place, results, after in (("local", got, given), ("bytes", fetched(far), fetched(sent))):
        if sample.uninitialised:
            same(map_tensors(torch.zeros_like, results), map_tensors(torch.zeros_like, expected), place, note)
        else:
            same(results, expected, place, note)
            if sample.mutates:
                same(after, plain, place, note)
    return True


@pytest.mark.timeout(300)
@pytest.mark.parametrize("shard", range(SHARDS))
def test_every_allowed_call(shard, make_worker):
    table, functions = everything(), {**allowed(), **BY_METHOD}
    bob, failures, recorded = make_worker(kind="bytes"), [], 0
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for name in sorted(table.keys() & functions.keys())[shard::SHARDS]:
            for position, sample in enumerate(table[name]):
                try:
                    done = check_sample(functions[name], sample, bob, (name, position))
                except Exception as error:
                    failures.append(f"{name} [{position}] {type(error).__name__}: {str(error)[:200]}")
                    continue
                recorded += done
                if not done and not sample.value and name not in NOT_RECORDED:
                    failures.append(f"{name} [{position}] can't be in a plan")
    assert not failures, "\n".join(failures)
    assert recorded > 400
