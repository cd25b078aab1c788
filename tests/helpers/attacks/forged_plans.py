"""Plans with any parts, whether they fit together or not. Shared by the attack tests."""

from __future__ import annotations

import torch
from torch import nn

import syft as sy
from syft.core.references import Ref
from syft.messaging import message as m
from syft.messaging.plan import Plan
from syft.serde.msgpack.serde import _simplify
from tests.helpers.attacks.hostile_peer import OBJECT

PLAN_CODE = 100
ID, NAME, BUILT, INPUTS, ROWS, STATE, OPTIMIZERS, TAGS, DESCRIPTION = range(9)


def parts_of(plan, **changes):
    parts = list(Plan.simplify(None, plan))
    for name, value in changes.items():
        parts[globals()[name]] = value
    return parts


def send(mallory, parts, obj_id="forged"):
    """Have the worker keep a plan with these parts; returns its answer."""
    return mallory.raw((OBJECT, (PLAN_CODE, *[_simplify(None, part) for part in parts]), obj_id, False, None))


FIRST_RESULT = Ref(2)  # after the input and the tensor of the state
ONE_INPUT = ((None, Ref(0), False, False),)


def program(*operations, outputs=FIRST_RESULT, arguments=ONE_INPUT):
    return (arguments, operations, outputs)


def op(name, *args, results=(FIRST_RESULT,), **kwargs):
    return (name, args, kwargs, results)


def put(mallory, plan, obj_id="mine"):
    assert mallory.ask(m.ObjectMessage(plan, obj_id)) is None
    return Ref(obj_id)


def trained(kind=torch.optim.Adam):
    """Return a training plan that has taken a step already."""
    model = nn.Linear(3, 1)
    optimizer = kind(model.parameters(), lr=0.1)

    @sy.func2plan(args_shape=[(2, 3)])
    def step(x):
        optimizer.zero_grad()
        loss = model(x).pow(2).sum()
        loss.backward()
        optimizer.step()
        return loss

    step(torch.ones(2, 3))
    return step
