"""Forged MPC programs: the parties refuse them and continue to serve."""

from __future__ import annotations

import pytest
import torch

from syft.mpc.protocols import program as programs
from syft.mpc.runtime.protocol_registry import PROTOCOLS
from tests.attacks.test_shares import SHARE, Gang
from tests.helpers.attacks.hostile_peer import still_answers

ADD = ("add", (("value", 0), ("value", 0)), (), 1)
GOOD = {"steps": (ADD,), "outputs": (1,)}


@pytest.fixture(params=["inline", "thread"])
def gang(make_worker, request):
    return Gang(*(make_worker(name, request.param) for name in ("bob", "eve", "dealer")))


def deep(levels):
    node = ("value", 0)
    for _ in range(levels):
        node = ("list", node)
    return node


STEPS = {
    "no steps at all": None,
    "a list": [ADD],
    "a text": "add",
    "a number": 7,
    "a step that is a text": ("add",),
    "a step that is a list": (list(ADD),),
    "too short": (ADD[:3],),
    "too long": ((*ADD, 1),),
    "an unknown name": (("os.system", *ADD[1:]),),
    "a name that is no text": ((3, *ADD[1:]),),
    "a name that can't be looked up": ((("add",), *ADD[1:]),),
    "a program in a program": (("program", (("value", 0),), (("steps", ()), ("outputs", ("tuple", 0))), 1),),
    "what takes a helper": (("snn_relu", (("value", 0),), (), 1),),
    "itself": (("add", (("value", 1), ("value", 0)), (), 1),),
    "what comes later": (("add", (("value", 2), ("value", 0)), (), 1), ADD),
    "what never comes": (("add", (("value", 10**9), ("value", 0)), (), 1),),
    "a negative value": (("add", (("value", -1), ("value", 0)), (), 1),),
    "a value by a truth": (("add", (("value", False), ("value", 0)), (), 1),),
    "a value by a fraction": (("add", (("value", 0.0), ("value", 0)), (), 1),),
    "a value without a number": (("add", (("value",), ("value", 0)), (), 1),),
    "a value in an option": (("add", (("value", 0), ("value", 0)), (("alpha", ("value", 5)),), 1),),
    "an unknown kind": (("add", (("module", "os"), ("value", 0)), (), 1),),
    "an empty node": (("add", ((), ("value", 0)), (), 1),),
    "a bare tuple": (("add", ((0, 1), ("value", 0)), (), 1),),
    "too deep": (("add", (deep(50), ("value", 0)), (), 1),),
    "arguments in a list": (("add", [("value", 0)], (), 1),),
    "no arguments": (("add", (), (), 1),),
    "too many arguments": (("add", (("value", 0),) * 9, (), 1),),
    "options in a list": (("add", ADD[1], [("alpha", 1)], 1),),
    "options without names": (("add", ADD[1], ((1, 1),), 1),),
    "options of three": (("add", ADD[1], (("alpha", 1, 1),), 1),),
    "an option that takes the party's place": (("add", ADD[1], (("party", 1),), 1),),
    "an option that nobody knows": (("add", ADD[1], (("beta", 1),), 1),),
    "an option of another type": (("add", ADD[1], (("alpha", "2"),), 1),),
    "no results": ((*ADD[:3], 0),),
    "minus one result": ((*ADD[:3], -1),),
    "more results than it gives": ((*ADD[:3], 2),),
    "fewer results than it gives": (("local", (("value", 0),), (("call", "unbind.int"),), 1),),
    "very many results": ((*ADD[:3], 10**12),),
    "results by a truth": ((*ADD[:3], True),),
    "shapes that do not fit": (("product", (("value", 0), ("value", 0)), (("operation", "conv"),), 1),),
    "lists that do not fit": (("local", (("list", ("value", 0), 3), 7), (("call", "cat.default"),), 1),),
    "a call that is not linear": (("local", (("value", 0),), (("call", "exp.default"),), 1),),
    "a call that reads beyond": (("local", (("value", 0), 0, 99), (("call", "select.int"),), 1),),
    "more memory than there is": (("local", (("value", 0), ("list", 2**31, 2**31)), (("call", "repeat.default"),), 1),),
}


@pytest.mark.parametrize("name", STEPS)
def test_malformed_steps(gang, name):
    mine, theirs = gang.put(SHARE)
    errors = gang.refused("program", ((mine,), (theirs,)), {"steps": STEPS[name], "outputs": (1,)})
    assert set(errors) <= {"ProtocolError", "UnsupportedOperationError", "SerdeError"}


@pytest.mark.parametrize(
    "outputs", [None, (), (2,), (-1,), (True,), (0.0,), ("1",), [1], 1, ((1,),), (1,) * 70_000, (10**30,)], ids=str
)
def test_malformed_outputs(gang, outputs):
    mine, theirs = gang.put(SHARE)
    errors = gang.refused("program", ((mine,), (theirs,)), {"steps": (ADD,), "outputs": outputs})
    assert set(errors) <= {"ProtocolError", "SerdeError"}


@pytest.mark.parametrize(
    "options", [{}, {"steps": (ADD,)}, {"outputs": (1,)}, {**GOOD, "more": 1}, {**GOOD, "given": 1}]
)
def test_other_options(gang, options):
    mine, theirs = gang.put(SHARE)
    gang.refused("program", ((mine,), (theirs,)), options)


@pytest.mark.parametrize("given", [(5,), ("share",), ((SHARE,),), (None,), ([SHARE],)], ids=repr)
def test_references_to_other_objects_than_shares_are_refused(gang, given):
    gang.refused("program", (given, given), GOOD)


def test_parties_with_different_arguments_abort(gang):
    mine, theirs = gang.put(SHARE)
    other = {"steps": (ADD, ADD), "outputs": (1,)}
    gang.refused("program", ((mine,), (theirs,)), (GOOD, other))
    gang.refused("program", ((mine,), (theirs,)), (GOOD, {"steps": (ADD,), "outputs": (0,)}))
    gang.refused(("program", "open"), ((mine,), (theirs,)), (GOOD, {}))
    mine, theirs = gang.put(SHARE, SHARE[:3])
    gang.refused("program", ((mine,), (theirs,)), GOOD)


def test_no_more_steps_than_the_limit(gang):
    mine, theirs = gang.put(SHARE)
    many = tuple([ADD] * 20_001)
    assert set(gang.refused("program", ((mine,), (theirs,)), {"steps": many, "outputs": (1,)})) <= {
        "ProtocolError",
        "SerdeError",
    }


def test_a_long_program_is_quick_and_right(gang):
    mine, theirs = gang.put(torch.ones(2, dtype=torch.int64))
    chain = tuple([("add", (("value", n), ("value", 0)), (), 1) for n in range(2000)])
    answers, result = gang.run("program", ((mine,), (theirs,)), {"steps": chain, "outputs": (2000,)})
    assert answers == [None, None] or all(answer is None for answer in answers)
    assert [worker.object_store.objects[result].tolist() for worker in gang.workers] == [[2001, 2001]] * 2


def test_a_failure_in_the_middle_leaves_nothing(gang):
    mine, theirs = gang.put(SHARE)
    before = [len(worker.object_store.objects) for worker in gang.workers]
    broken = (ADD, ("square", (("value", 1),), (), 1), ("local", (("value", 2), 0, 99), (("call", "select.int"),), 1))
    gang.refused("program", ((mine,), (theirs,)), {"steps": broken, "outputs": (1, 2, 3)})
    assert [len(worker.object_store.objects) for worker in gang.workers] == before
    for worker in gang.workers:
        still_answers(worker)


def test_results_of_earlier_runs_can_not_be_referenced():
    # Values are those of this run alone: what a step may name is checked before anything runs.
    for name in PROTOCOLS:
        with pytest.raises(programs.ProtocolError):
            programs.read(((name, (("value", 1),), (), 1),), (1,), 1, 2)
