"""Answers about rights do not depend on values."""

from __future__ import annotations

import pytest
import torch

import syft as sy
from syft.core.references import Ref
from syft.exceptions import GetNotPermittedError, QuotaExceededError
from syft.messaging import hosting
from syft.messaging import message as m
from tests.helpers.attacks.hostile_peer import error_name
from tests.helpers.attacks.live_client import Visitor
from tests.helpers.nodes import forget
from tests.helpers.nodes import node as node_process
from tests.helpers.rights.users import denied


def test_a_request_after_another_call_is_a_new_request(data, alice):
    """A write between two requests gives another sealed copy, whatever the values are."""
    total = alice.keep("torch.Tensor.sum", Ref(data[0]))
    first = alice.request(total.id)
    assert alice.request(total.id)["id"] == first["id"]  # the vault ran no call since
    alice.call("torch.Tensor.mul_", total, 1.0)
    assert alice.request(total.id)["id"] != first["id"]


WRITES = {
    "in place": lambda a, x: a.call("torch.Tensor.add_", x, 1.0),
    "through a view": lambda a, x: a.call("torch.Tensor.add_", a.keep("torch.Tensor.view", x, -1), 1.0),
    "through its data": lambda a, x: a.call("torch.Tensor.add_", Ref(x.id, "data"), 1.0),
    "a gradient": lambda a, x: a.call(
        "torch.Tensor.backward", a.keep("torch.Tensor.sum", a.keep("torch.Tensor.mul", x, 2.0))
    ),
}  # fmt: skip


@pytest.mark.parametrize("write", WRITES.values(), ids=WRITES)
def test_a_release_is_not_reached_by_later_writes(data, alice, owner, write):
    result = alice.keep("torch.Tensor.mul", Ref(data[0]), 2.0)
    if write is WRITES["a gradient"]:
        alice.call("torch.Tensor.requires_grad_", result)
    owner.approve(alice.request(result.id))
    assert not isinstance(write(alice, result), m.ErrorMessage)
    found = alice.get(result.id)
    assert found.tolist() == [2, 4, 8] and found.grad is None


def test_a_release_does_not_pass_to_another_object_of_the_same_id(data, alice, owner, fresh):
    name, (first, second) = fresh(), data
    alice.call("torch.Tensor.sum", Ref(first), return_id=name)
    owner.approve(alice.request(name))
    assert alice.get(name).item() == 7
    alice.ask(m.ForceObjectDeleteMessage(name))
    alice.call("torch.Tensor.sum", Ref(second), return_id=name)
    found = alice.get(name)
    assert isinstance(found, m.ErrorMessage) or found.item() == 7  # never the other sum, which is 70


def test_a_readable_model_reveals_no_private_data(hook):
    prepare = """
from torch.utils.data import TensorDataset
node.worker.add_dataset(TensorDataset(torch.tensor([[37.0, 1.0]]), torch.zeros(1)), "patients")
"""
    with node_process("evaluating", prepare=prepare) as process:
        alice = process.connect(hook, "alice")
        model = sy.Plan(forward_func=torch.nn.Linear(2, 2, bias=False)).build(torch.zeros(1, 2)).send(alice)
        loss = sy.Plan(forward_func=lambda target, pred: pred[0, 0] + 0 * target.sum()).build(
            torch.zeros(1), torch.zeros(1, 2)
        )
        sent = loss.send(alice)
        ids = {"model_id": model.id_at_location, "loss_fn_id": sent.id_at_location}
        sy.TrainConfig(None, None, **ids, batch_size=1).send(alice)
        with pytest.raises(GetNotPermittedError, match="evaluate"):
            alice.evaluate("patients", return_raw_accuracy=False)
        forget(hook, alice)


def test_a_copy_under_the_id_of_deleted_data_is_not_the_data(data, alice, owner):
    first, _ = data
    kept = alice.keep("torch.Tensor.clone", Ref(first))
    owner.ask(m.ForceObjectDeleteMessage(first))
    taken = m.Operation("torch.Tensor.clone", None, (kept,), {}, (first,))  # the id is free now
    assert type(alice.ask(taken)) is not m.ErrorMessage
    assert type(alice.share(first, "alice", public=True)) is m.ErrorMessage
    assert denied(alice.get(first)) and denied(alice.get(kept.id))
    assert type(owner.share(first, "alice", public=True)) is m.ErrorMessage  # it is not the data


# --- nodes --------------------------------------------------------------------------------------------------------


def test_a_session_does_not_resume_with_another_role():
    prepare = 'extra = {"lesser": node.identity.tokens.issue("owner", "user", 3600)}'
    with node_process("roles", prepare=prepare) as process:
        boss = Visitor(process.url, process.tokens["owner"])
        assert type(boss.ask(m.ListRightsMessage("audit"))) is list
        boss.close()
        lesser = Visitor(process.url, process.tokens["lesser"], session=(boss.session_id, boss.secret))
        assert lesser.session_id != boss.session_id
        assert error_name(lesser.ask(m.ListRightsMessage("audit"))) == "NotPermittedError"
        lesser.close()


def test_grants_survive_a_restart(hook, tmp_path):
    prepare = """
from syft.grid.storage import ObjectAdmin
if not node.object_manager.objects:
    ObjectAdmin(node.object_manager).publish(torch.tensor([37.0, 91.0]), tags=("#patients",))
"""
    with node_process("granting", prepare=prepare, store=str(tmp_path)) as process:
        alice, owner = process.connect(hook, "alice"), process.connect(hook, "owner")
        (data,) = alice.search("#patients")
        request = data.request(reason="all of it")
        decided = m.DecideRequestMessage(request.id, True)
        assert hook.local_worker.stream_to(owner).ask(decided)["status"] == "approved"
        forget(hook, alice, owner)
        process.kill()
        process.start()
        alice = process.connect(hook, "alice")
        (data,) = alice.search("#patients")
        assert torch.equal(data.get(), torch.tensor([37.0, 91.0]))
        forget(hook, alice)


def test_hosting_again_under_a_name_is_within_the_quota(hook):
    def plan(size):
        @sy.func2plan(args_shape=[(1,)], state=(torch.zeros(size),))
        def model(x, state):
            (weight,) = state.read()
            return x + weight.sum()

        return model

    with node_process("hosting", max_user_bytes=200_000, max_bytes=400_000) as process:
        alice = process.connect(hook, "alice")
        stream = hook.local_worker.stream_to(alice)
        stream.ask(hosting.HostModelMessage(plan(10), "mine", False, True, ()))
        with pytest.raises(QuotaExceededError, match="You may hold at most 200000 bytes"):
            stream.ask(hosting.HostModelMessage(plan(100_000), "mine", False, True, ()))
        stream.ask(hosting.HostModelMessage(plan(20), "mine", False, True, ()))  # the first one is still counted right
        bob = process.connect(hook, "bob")
        assert torch.ones(10).send(bob).get().sum() == 10
        forget(hook, alice, bob)
