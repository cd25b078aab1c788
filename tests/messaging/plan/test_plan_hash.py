"""plan_hash: the same for the same recorded function, another one for everything that a plan does differently."""

import pytest
import torch

import syft as sy
from syft.core.labels import add_tags
from syft.exceptions import MalformedPlanError
from syft.messaging.plan.plan_hash import plan_hash
from syft.serde import deserialize, protobuf, serialize


def _built(function, *examples, **kwargs):
    return sy.Plan(name="plan", forward_func=function).build(*(examples or (torch.zeros(3, 2),)), **kwargs)


def _model(seed=0):
    torch.manual_seed(seed)
    return torch.nn.Sequential(torch.nn.Linear(2, 4), torch.nn.ReLU(), torch.nn.BatchNorm1d(4), torch.nn.Linear(4, 1))


def _training():
    model = _model().train()
    optimizer = torch.optim.Adam(model.parameters(), lr=0.1)

    @sy.func2plan()
    def train(x, y):
        optimizer.zero_grad()
        loss = torch.nn.functional.mse_loss(model(x), y)
        loss.backward()
        optimizer.step()
        return loss

    return train.build(torch.zeros(3, 2), torch.zeros(3, 1))


def _several(x):
    top = x.max(dim=0)
    return {"values": top.values, "rows": [x[0, :1], x[..., None].to(torch.float64)]}, (x * 1.5 + 1j).abs()


CONSTANT = torch.arange(6.0).reshape(3, 2)
PLANS = {
    "function": lambda: _built(lambda x: x.mean(dim=0) * 2),
    "model": lambda: _built(_model().eval()),
    "training": _training,
    "containers": lambda: _built(_several),
    "constants": lambda: _built(lambda x: x * CONSTANT),
    "random": lambda: _built(lambda x: torch.nn.functional.dropout(x, 0.25)),
}


@pytest.mark.parametrize("make", PLANS.values(), ids=PLANS)
def test_hash_survives_recording_again_and_the_wire(make):
    first, second = make(), make()
    assert first.id != second.id
    found = plan_hash(first)
    assert len(found) == 64
    assert plan_hash(second) == found
    there = deserialize(serialize(first))
    assert plan_hash(there) == found
    assert plan_hash(deserialize(serialize(there))) == found
    written = serialize(first, strategy=protobuf.serialize)
    assert plan_hash(deserialize(written, strategy=protobuf.deserialize)) == found
    assert plan_hash(first.copy()) == found


def test_names_tags_and_ids_do_not_count():
    one = _built(lambda x: x + 1)
    other = sy.Plan(name="another", forward_func=lambda value: value + 1, id="mine").build(torch.zeros(3, 2))
    add_tags(other, "#tag")
    other.description = "text"
    assert plan_hash(one) == plan_hash(other)


def test_names_of_the_state_do_not_count():
    class Renamed(torch.nn.Module):
        def __init__(self):
            super().__init__()
            torch.manual_seed(0)
            self.anything = torch.nn.Linear(2, 4)

        def forward(self, x):
            return self.anything(x)

    torch.manual_seed(0)
    assert plan_hash(_built(torch.nn.Linear(2, 4))) == plan_hash(
        sy.Plan(forward_func=Renamed()).build(torch.zeros(3, 2))
    )


DIFFERENT = {
    "operation": lambda: _built(lambda x: x.sum(dim=0) * 2),
    "number": lambda: _built(lambda x: x.mean(dim=0) * 3),
    "type of a number": lambda: _built(lambda x: x.mean(dim=0) * 2.0),
    "argument": lambda: _built(lambda x: x.mean(dim=1) * 2),
    "keyword": lambda: _built(lambda x: x.mean(dim=0, keepdim=True) * 2),
    "output": lambda: _built(lambda x: (x.mean(dim=0) * 2, x)),
    "order": lambda: _built(lambda x: (x * 2).mean(dim=0)),
    "constant": lambda: _built(lambda x: x.mean(dim=0) * torch.tensor([2.0, 2.0])),
    "grad mode": lambda: _built(torch.no_grad()(lambda x: x.mean(dim=0) * 2)),
    "more inputs": lambda: _built(lambda x, y: x.mean(dim=0) * 2, torch.zeros(3, 2), torch.zeros(1)),
    "swapped inputs": lambda: _built(lambda x, y: y.mean(dim=0) * 2, torch.zeros(3, 2), torch.zeros(3, 2)),
}  # fmt: skip


def test_everything_that_a_plan_does_counts():
    found = {plan_hash(make()) for make in (PLANS["function"], *DIFFERENT.values())}
    assert len(found) == 1 + len(DIFFERENT)


def test_values_of_the_state_count():
    plan = _built(_model().eval())
    before = plan_hash(plan)
    assert before != plan_hash(_built(_model(1).eval()))
    with torch.no_grad():
        next(iter(plan.parameters())).view(-1)[0] += 1e-6
    assert plan_hash(plan) != before


def test_the_hash_includes_optimizer_state():
    plan = _training()
    before = plan_hash(plan)
    plan(torch.ones(3, 2), torch.ones(3, 1))
    assert plan_hash(plan) != before
    assert plan_hash(deserialize(serialize(plan))) == plan_hash(plan)


def test_plans_without_a_hash():
    with pytest.raises(MalformedPlanError, match="needs a built plan"):
        plan_hash(sy.Plan(name="x"))


def test_translations_do_not_count():
    plan = _built(lambda x: x.mean(dim=0) * 2)
    before = plan_hash(plan)
    plan.add_translation("torchscript")
    assert plan_hash(plan) == before
