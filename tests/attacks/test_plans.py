"""Malformed plans from a peer are refused before any of their operations run."""

from __future__ import annotations

import re

import pytest
import torch
from torch import nn

import syft as sy
from syft import config
from syft.core.references import Ref, TensorMeta
from syft.exceptions import GetNotPermittedError, MalformedPlanError, NotPermittedError
from syft.messaging import message as m
from syft.messaging.plan import Plan
from syft.pointers.pointer_plan import PLAN_PARAMETERS, RUN_PLAN
from syft.serde.msgpack.serde import _simplify
from tests.helpers.attacks.forged_plans import PLAN_CODE, ROWS, STATE, op, parts_of, program, put, send, trained
from tests.helpers.attacks.hostile_peer import OBJECT, error_name, still_answers


def test_an_honest_plan_is_taken(mallory, bob, honest):
    assert send(mallory, parts_of(honest)) is None
    assert isinstance(bob._objects["forged"], Plan)
    assert send(mallory, parts_of(honest, ROWS=program(op("torch.Tensor.add", Ref(0), Ref(1)))), "second") is None


NESTED = Ref(0)
for _ in range(40):
    NESTED = (NESTED,)

MALFORMED = {
    "unknown operation": program(op("torch.load", Ref(0))),
    "operation of python": program(op("os.system", "true")),
    "operation of the builtins": program(op("builtins.eval", "1")),
    "refused operation": program(op("torch.Tensor.register_hook", Ref(0), 1)),
    "label": program(op("syft.tag", Ref(0), "#mine", results=())),
    "call of an object": program(op("syft.call", Ref(0))),
    "plan in a plan": program(op("syft.run_plan", Ref(0))),
    "reading of values": program(op("torch.Tensor.item", Ref(0))),
    "reading of lists": program(op("torch.Tensor.tolist", Ref(0))),
    "reading of arrays": program(op("torch.Tensor.numpy", Ref(0))),
    "check of a value": program(("syft.plan.expect", ("==", Ref(0), 41.4375, True), {}, ()), outputs=Ref(0)),
    "check of a value in the place of a size": program(
        op("syft.plan.numel", Ref(0)),
        op("torch.Tensor.sum", Ref(0)),
        ("syft.plan.expect", ("==", Ref(2), 41.4375, True), {}, ()),
    ),
    "arithmetic on values": program(op("syft.plan.mul", Ref(0), Ref(0))),
    "a dunder": program(op("torch.Tensor.__reduce_ex__", Ref(0), 2)),
    "too few arguments": program(op("torch.Tensor.add", Ref(0))),
    "too many arguments": program(op("torch.Tensor.abs", Ref(0), 1, 2, 3, 4)),
    "unknown keyword": program(op("torch.Tensor.abs", Ref(0), banana=1)),
    "keyword that is code": program(op("torch.Tensor.sum", Ref(0), **{"dim=0) or exit(": 1})),
    "keyword of python": program(op("torch.Tensor.sum", Ref(0), **{"lambda": 1})),
    "dangling value": program(op("torch.Tensor.abs", Ref(7))),
    "value from later": program(op("torch.Tensor.abs", Ref(2)), op("torch.Tensor.abs", Ref(0), results=(Ref(3),))),
    "circle": program(
        op("torch.Tensor.add", Ref(0), Ref(3)), op("torch.Tensor.add", Ref(2), 1, results=(Ref(3),)), outputs=Ref(3)
    ),
    "negative value": program(op("torch.Tensor.abs", Ref(-1))),
    "value named by text": program(op("torch.Tensor.abs", Ref("0"))),
    "value with an attribute": program(op("torch.Tensor.abs", Ref(0, "grad"))),
    "result out of order": program(op("torch.Tensor.abs", Ref(0), results=(Ref(9),))),
    "dangling output": program(op("torch.Tensor.abs", Ref(0)), outputs=Ref(77)),
    "output that is an object": program(op("torch.Tensor.abs", Ref(0)), outputs={1, 2}),
    "deep nesting": program(op("torch.Tensor.abs", NESTED)),
    "a range": program(op("torch.tensor", range(10**9))),
    "an array": program(op("torch.Tensor.add", Ref(0), b"bytes")),
    "number as a name": program((7, (Ref(0),), {}, (Ref(2),))),
    "list of operations": ((), [op("torch.Tensor.abs", Ref(0))], Ref(2)),
    "operation with three parts": program(("torch.Tensor.abs", (Ref(0),), {})),
    "no operations at all": (((None, Ref(0), False, False),), None, Ref(0)),
    "argument twice": program(arguments=((None, Ref(0), False, False), (None, Ref(0), False, False)), outputs=Ref(0)),
    "argument that is state": program(arguments=((None, Ref(1), False, False),), outputs=Ref(1)),
    "argument with a wrong name": program(arguments=((5, Ref(0), False, False),), outputs=Ref(0)),
    "optimizer that is not there": program(("syft.plan.optimizer_step", (0,), {}, ())),
    "optimizer by a value": program(("syft.plan.optimizer_step", (Ref(0),), {}, ())),
    "mode that is a value": program(("syft.plan.grad_mode", (Ref(0),), {}, ())),
    "mode with a result": program(("syft.plan.grad_mode", (True,), {}, (Ref(2),))),
    "unknown form": program(("syft.plan.expect_form", (Ref(0), "__class__", 1), {}, ())),
    "unknown relation": program(("syft.plan.expect", ("is", 1, 2, True), {}, ())),
    "arithmetic on texts": program(op("syft.plan.mul", "x", 10**9)),
    "huge tuple of results": program(op("torch.Tensor.abs", Ref(0), results=(Ref(2), Ref(3)))),
    "result that is a number": program(op("torch.Tensor.abs", Ref(0), results=(5,))),
}


@pytest.mark.parametrize("case", MALFORMED)
def test_a_malformed_program_is_refused_before_it_is_kept(case, mallory, bob, honest):
    answer = send(mallory, parts_of(honest, ROWS=MALFORMED[case]))
    assert error_name(answer) in ("MalformedPlanError", "CommandNotAllowedError", "SerdeError"), answer
    assert "forged" not in bob._objects
    still_answers(bob)


def test_too_many_operations_are_refused(mallory, bob, honest):
    simplified = [_simplify(None, part) for part in parts_of(honest)]
    arguments, operations, outputs = simplified[ROWS][1:]
    many = (operations[0], *(operations[1:2] * 30_000))  # the same row many times: written at once
    simplified[ROWS] = (simplified[ROWS][0], arguments, many, outputs)
    answer = mallory.raw((OBJECT, (PLAN_CODE, *simplified), "forged", False, None))
    assert error_name(answer) == "MalformedPlanError" and "at most 20000 operations" in str(answer.contents)
    assert "forged" not in bob._objects
    with config.override(max_plan_operations=1):
        assert error_name(send(mallory, parts_of(honest))) == "MalformedPlanError"


STATES = {
    "no state": None,
    "a list": [torch.ones(1)],
    "one tensor too few": (),
    "a text in it": ((None, ("#state",), "text"),),
    "a plan in it": ((None, ("#state",), "plan"),),
    "an unknown kind": ((None, ("#anything",), torch.ones(1)),),
    "a name that is no text": ((3, ("#state",), torch.ones(1)),),
    "a row too short": ((torch.ones(1),),),
}


@pytest.mark.parametrize("case", STATES)
def test_a_forged_state_is_refused(case, mallory, bob, honest):
    rows = STATES[case]
    if case == "a plan in it":
        rows = ((None, ("#state",), honest),)
    parts = parts_of(honest)
    simplified = [_simplify(None, part) for part in parts]
    simplified[STATE] = (101, *[_simplify(None, row) for row in rows]) if type(rows) is tuple else _simplify(None, rows)
    answer = mallory.raw((OBJECT, (PLAN_CODE, *simplified), "forged", False, None))
    assert error_name(answer) in ("MalformedPlanError", "SerdeError"), answer
    assert "forged" not in bob._objects
    still_answers(bob)


OPTIMIZER_ROWS = {
    "unknown kind": ("Hacked", (((0, 1), {"lr": 0.1}),), {}),
    "kind of python": ("__class__", (((0, 1), {"lr": 0.1}),), {}),
    "parameter that is not there": ("SGD", (((0, 9), {"lr": 0.1}),), {}),
    "negative parameter": ("SGD", (((-1,), {"lr": 0.1}),), {}),
    "parameter twice": ("SGD", (((0, 0), {"lr": 0.1}),), {}),
    "no groups": ("SGD", (), {}),
    "setting that is an object": ("SGD", (((0,), {"lr": torch.ones(1)}),), {}),
    "fused": ("Adam", (((0,), {"lr": 0.1, "fused": True}),), {}),
    "foreach": ("Adam", (((0,), {"lr": 0.1, "foreach": True}),), {}),
    "memory of a wrong shape": ("Adam", (((0,), {"lr": 0.1}),), {"0": {"exp_avg": torch.ones(50)}}),
    "memory of nobody": ("Adam", (((0,), {"lr": 0.1}),), {"77": {"exp_avg": torch.ones(1, 3)}}),
    "memory that is a text": ("Adam", (((0,), {"lr": 0.1}),), {"0": {"exp_avg": "text"}}),
    "too short": ("Adam", ()),
}


@pytest.mark.parametrize("case", OPTIMIZER_ROWS)
def test_a_forged_optimizer_is_refused(case, mallory, bob, hook):
    answer = send(mallory, parts_of(trained(), OPTIMIZERS=(OPTIMIZER_ROWS[case],)))
    assert error_name(answer) in ("MalformedPlanError", "SerdeError"), answer
    assert "forged" not in bob._objects
    still_answers(bob)


def test_an_optimizer_that_lies_about_its_memory_fails_cleanly(mallory, bob, hook):
    row = ("Adam", (((0, 1), {"lr": 0.1}),), {"0": {"exp_avg": torch.ones(1, 3)}})
    assert send(mallory, parts_of(trained(), OPTIMIZERS=(row,))) is None
    answer = mallory.call(RUN_PLAN, Ref("forged"), torch.ones(2, 3))
    assert isinstance(answer, m.ErrorMessage | TensorMeta)
    still_answers(bob)


def test_sizes_can_not_grow_without_bound(mallory, bob, honest):
    start = op("syft.plan.numel", Ref(0))
    squares = [op("syft.plan.mul", Ref(n + 2), Ref(n + 2), results=(Ref(n + 3),)) for n in range(1, 60)]
    first = op("syft.plan.add", Ref(2), 10**6, results=(Ref(3),))
    forged = program(start, first, *squares, outputs=Ref(0))
    assert send(mallory, parts_of(honest, ROWS=forged)) is None
    answer = mallory.call(RUN_PLAN, Ref("forged"), torch.ones(3))
    assert error_name(answer) == "MalformedPlanError" and "no tensor can have" in str(answer.contents)


def test_generated_code_holds_no_text_of_the_plan(mallory, bob, honest):
    parts = parts_of(honest, NAME="'); import os #", TAGS={"#'); import os"}, DESCRIPTION="'''\nimport os\n")
    parts[ROWS] = program(
        op("torch.functional.einsum", "i,i->i');import os#", Ref(0), Ref(1), results=(Ref(2),)),
        arguments=(("import os", Ref(0), False, False),),
    )
    assert send(mallory, parts) is None
    plan = bob._objects["forged"]
    with pytest.raises(RuntimeError, match="einsum.*invalid subscript"):  # what matters is the code
        plan(torch.ones(3))
    assert re.fullmatch(r"[\w\s(),.=:;{}*\[\]]*", plan._compiled.source, re.ASCII)
    assert "import" not in plan._compiled.source


# Under a policy ---------------------------------------------------------------------------------------------


def test_errors_of_plans_reveal_no_values(mallory, bob, secret, honest):
    # A size made of a value: the text of the error would have it.
    forged = program(op("torch.Tensor.sum", Ref(0)), op("torch.Tensor.view", Ref(0), Ref(2), results=(Ref(3),)))
    assert send(mallory, parts_of(honest, ROWS=forged)) is None
    assert isinstance(mallory.call(RUN_PLAN, Ref("forged"), Ref(secret.id)), m.ErrorMessage)
    unpacked = program(op("torch.Tensor.unbind", Ref(0), results=((Ref(2), Ref(3)),)))
    assert send(mallory, parts_of(honest, ROWS=unpacked), "second") is None
    answer = mallory.call(RUN_PLAN, Ref("second"), Ref(secret.id))
    assert error_name(answer) == "PlanMismatchError"
    texts = [seen.replace(bob.id.encode(), b"") for seen in mallory.seen]  # the number of a worker may be any
    assert all(b"41.43" not in text and b"7341" not in text and b"7297" not in text for text in texts)


def test_other_things_are_not_run_as_plans(mallory, bob):
    mallory.ask(m.ObjectMessage(torch.ones(3), "tensor"))
    for name in (RUN_PLAN, PLAN_PARAMETERS):
        assert error_name(mallory.call(name, Ref("tensor"))) == "CommandNotAllowedError"
        assert error_name(mallory.call(name, 5)) == "CommandNotAllowedError"
    for contents in ((), ("id",), ("id", 1), ([], True), ("no such id", False)):
        assert error_name(mallory.ask(m.PlanCommandMessage(contents, "fetch_plan")))
    still_answers(bob)


def test_recurrent_layers_inside_plans_are_checked(mallory, bob, hook):
    lstm = nn.LSTM(4, 3)
    plan = sy.Plan(forward_func=lstm).build(torch.randn(2, 1, 4))
    with torch.no_grad():
        plan.state.state_placeholders[0].child = torch.ones(1, 1)  # too small: torch would read beyond it
    ref = put(mallory, plan)
    answer = mallory.call(RUN_PLAN, ref, torch.randn(2, 1, 4))
    assert error_name(answer) == "CommandNotAllowedError"
    still_answers(bob)


def test_the_errors_have_one_base():
    assert issubclass(MalformedPlanError, sy.exceptions.SyftError)
    assert issubclass(GetNotPermittedError, NotPermittedError)
