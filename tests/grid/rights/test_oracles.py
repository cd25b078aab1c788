"""Answers about rights tell nothing of values: what is granted is an object with its history, not what it happens to be."""

from __future__ import annotations

import pytest
import torch
from torch.utils.data import TensorDataset

import syft as sy
from syft.core.references import Ref
from syft.exceptions import QuotaExceededError
from syft.messaging import hosting
from syft.messaging import message as m
from tests.attacks.hostile import error_name
from tests.attacks.live import Visitor
from tests.grid.rights.people import denied
from tests.nodes import forget
from tests.nodes import node as node_process


def cell_of(alice, value=0.0):
    """A number of alice's own."""
    cell = 7000 + len(alice.worker.object_store.objects)
    alice.send_tensor(torch.tensor([value]), cell)
    return cell


def run(peer, name, *args):
    """Let somebody run a call; returns the id of its result."""
    run.last += 1
    answer = peer.ask(m.Operation(name, None, args, {}, (run.last,)))
    assert type(answer) is not m.ErrorMessage, answer
    return run.last


run.last = 90_000


def test_a_request_about_what_was_written_to_is_another_one(node, alice):
    cell = cell_of(alice)
    first = alice.request(cell)
    assert alice.request(cell)["id"] == first["id"]  # nothing has happened to it
    run(alice, "torch.Tensor.mul_", Ref(cell), 1.0)  # the same value, written
    assert alice.request(cell)["id"] != first["id"]


@pytest.mark.parametrize("flag", [False, True])
def test_what_was_granted_is_gone_when_something_is_written_whatever_it_is(node, alice, flag):
    cell = cell_of(alice)
    node.policy.requests.approve(alice.request(cell)["id"])
    bit = run(alice, "torch.Tensor.lt", run_ref(alice, "torch.Tensor.sum", Ref(1)), 100.0 if flag else 0.0)
    run(alice, "torch.Tensor.copy_", Ref(cell), Ref(bit))
    assert denied(alice.get(cell))


def run_ref(*call):
    return Ref(run(*call))


WRITES = {
    "in place": lambda a, x: run(a, "torch.Tensor.add_", Ref(x), 1.0),
    "through a view": lambda a, x: run(a, "torch.Tensor.add_", run_ref(a, "torch.Tensor.view", Ref(x), -1), 1.0),
    "through its data": lambda a, x: run(a, "torch.Tensor.add_", Ref(x, "data"), 1.0),
    "a gradient": lambda a, x: run(
        a, "torch.Tensor.backward", run_ref(a, "torch.Tensor.sum", run_ref(a, "torch.Tensor.mul", Ref(x), 2.0))
    ),
}  # fmt: skip


@pytest.mark.parametrize("write", WRITES.values(), ids=WRITES)
def test_every_write_takes_the_grant_away(node, alice, write):
    result = run(alice, "torch.Tensor.mul", Ref(1), 2.0)
    if write is WRITES["a gradient"]:
        run(alice, "torch.Tensor.requires_grad_", Ref(result))
    node.policy.requests.approve(alice.request(result)["id"])
    other = run(alice, "torch.Tensor.mul", Ref(2), 2.0)
    node.policy.requests.approve(alice.request(other)["id"])
    write(alice, result)
    assert denied(alice.get(result))
    assert torch.equal(alice.get(other), torch.tensor([20.0, 40.0, 80.0]))  # nothing was written to that


def test_a_grant_does_not_pass_to_another_object_of_the_same_id(node, alice):
    cell = cell_of(alice, 1.0)
    node.policy.requests.approve(alice.request(cell)["id"])
    assert torch.equal(alice.get(cell), torch.ones(1))
    clone = m.Operation("torch.Tensor.__getitem__", None, (Ref(1), slice(0, 1)), {}, (cell,))  # it is 1.0, too
    assert type(alice.ask(clone)) is not m.ErrorMessage
    assert denied(alice.get(cell))


def test_a_model_that_was_granted_tells_nothing_of_data(node, hook):
    node.add_dataset(TensorDataset(torch.tensor([[37.0, 1.0]]), torch.zeros(1)), "patients")
    model = torch.nn.Linear(2, 2, bias=False)
    pointer = sy.Plan(forward_func=model).build(torch.zeros(1, 2)).send(node)
    loss = sy.Plan(forward_func=lambda target, pred: pred[0, 0] + 0 * target.sum()).build(
        torch.zeros(1), torch.zeros(1, 2)
    )
    sent = loss.send(node)
    node.policy.requests.approve(pointer.request(reason="my own").id)
    config = sy.TrainConfig(None, None, model_id=pointer.id_at_location, loss_fn_id=sent.id_at_location, batch_size=1)
    config.send(node)
    with pytest.raises(sy.exceptions.GetNotPermittedError, match="evaluate"):
        node.evaluate("patients", return_raw_accuracy=False)


def test_who_keeps_something_derived_does_not_get_the_source(node, alice, owner):
    kept, other = run(alice, "torch.Tensor.clone", Ref(1)), run(alice, "torch.Tensor.clone", Ref(1))
    owner.ask(m.ForceObjectDeleteMessage(1))
    taken = m.Operation("torch.Tensor.clone", None, (Ref(kept),), {}, (1,))  # the id is free now
    assert type(alice.ask(taken)) is not m.ErrorMessage
    assert error_name(alice.ask(m.ShareSourceMessage(1, ("alice",), True))) == "NotPermittedError"
    assert denied(alice.get(other))
    assert error_name(owner.ask(m.ShareSourceMessage(1, ("alice",), True))) == "NotPermittedError"  # it is not the data


def test_a_request_is_revoked_when_its_last_grant_is(node, alice):
    total = run(alice, "torch.add", Ref(1), Ref(2))
    request = alice.request(total)
    row = node.policy.requests.approve(request["id"], scope="sources")
    first, second = row["grants"]
    node.policy.requests.revoke(first)
    assert alice.status(request) == "approved" and denied(alice.get(total))
    node.policy.requests.revoke(second)
    assert alice.status(request) == "revoked" and all(denied(alice.get(number)) for number in (1, 2))


# --- nodes --------------------------------------------------------------------------------------------------------


def test_a_session_does_not_go_on_with_another_role():
    prepare = 'extra = {"lesser": node.identity.tokens.issue("owner", "user", 3600)}'
    with node_process("roles", prepare=prepare) as process:
        boss = Visitor(process.url, process.tokens["owner"])
        assert type(boss.ask(m.ListRightsMessage("audit"))) is list
        boss.close()
        lesser = Visitor(process.url, process.tokens["lesser"], session=(boss.session_id, boss.secret))
        assert lesser.session_id != boss.session_id
        assert error_name(lesser.ask(m.ListRightsMessage("audit"))) == "NotPermittedError"
        lesser.close()


def test_what_was_granted_is_there_after_a_restart(hook, tmp_path):
    prepare = """
from syft.grid.storage import Shelf
if not node.keeper.objects:
    Shelf(node.keeper).publish(torch.tensor([37.0, 91.0]), tags=("#patients",))
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
        with pytest.raises(QuotaExceededError, match="You may hold 200000 bytes"):
            stream.ask(hosting.HostModelMessage(plan(100_000), "mine", False, True, ()))
        stream.ask(hosting.HostModelMessage(plan(20), "mine", False, True, ()))  # the first one is still counted right
        bob = process.connect(hook, "bob")
        assert torch.ones(10).send(bob).get().sum() == 10
        forget(hook, alice, bob)
