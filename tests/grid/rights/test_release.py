"""What a node releases to whom."""

from __future__ import annotations

import json
import threading

import pytest
import torch

import syft as sy
from syft.core.references import Ref
from syft.messaging import message as m
from syft.workers.provenance import known_rights, rights_from_row, rights_of, row_of
from syft.workers.router import route
from tests.attacks.hostile import error_name
from tests.grid.rights.people import Peer, denied


def test_data_of_the_owner_is_private_and_can_be_computed_with(node, alice):
    assert denied(alice.get(1))
    total = alice.keep("torch.Tensor.sum", Ref(1))
    assert denied(alice.get(total.id)) and denied(alice.call("torch.Tensor.item", total))
    assert 1 in node._objects


def test_what_is_ones_own_is_released(node, alice):
    alice.send_tensor(torch.arange(3.0), 7)
    assert alice.get(alice.keep("torch.Tensor.mul", Ref(7), 2).id).tolist() == [0, 2, 4]
    assert alice.call("torch.Tensor.tolist", Ref(7)) == [0, 1, 2]


def test_data_of_another_user_is_private_too(node, alice, carol):
    alice.send_tensor(torch.ones(3), 7, published=True)
    assert denied(carol.get(7)) and denied(carol.get(carol.keep("torch.Tensor.sum", Ref(7)).id))
    both = carol.keep("torch.Tensor.add", Ref(7), Ref(1))
    assert rights_of(node, both.id, node._objects[both.id]).sources >= {
        *rights_of(node, 7, node._objects[7]).sources, *rights_of(node, 1, node._objects[1]).sources
    }  # fmt: skip


def test_the_owner_gets_everything_and_leaves_it_there(node, alice, owner):
    total = alice.keep("torch.Tensor.sum", Ref(1))
    assert owner.get(1).tolist() == [1, 2, 4] and owner.get(total.id).item() == 7
    assert 1 in node._objects and total.id in node._objects


def test_what_the_owner_sends_is_a_data_set(node, alice, owner):
    owner.send_tensor(torch.ones(2).tag("#new"), "new", published=True)
    assert denied(alice.get("new"))
    node.policy.share(node, "new", allowed_users="alice")
    assert alice.get("new").tolist() == [1, 1] and "new" in node._objects


def test_sharing_reaches_what_was_derived_before(node, alice, carol):
    total = alice.keep("torch.Tensor.sum", Ref(1))
    node.policy.share(node, 1, allowed_users=["Alice"])  # capitals do not matter: a user is one user
    assert alice.get(total.id).item() == 7 and denied(carol.get(1))
    node.policy.share(node, 1, public=True)
    assert carol.get(1).tolist() == [1, 2, 4]
    node.policy.share(node, 1)
    assert denied(carol.get(1)) and denied(alice.get(1))


def test_every_source_counts(node, alice):
    node.policy.share(node, 1, public=True)
    mixed = alice.keep("torch.Tensor.add", Ref(1), Ref(2))
    assert denied(alice.get(mixed.id))
    node.policy.share(node, 2, public=True)
    assert alice.get(mixed.id).tolist() == [11, 22, 44]


def test_a_user_shares_what_is_the_users_own(node, alice, carol):
    alice.send_tensor(torch.ones(2), 7, published=True)
    assert error_name(carol.ask(m.ShareSourceMessage(7, ("carol",)))) == "NotPermittedError"
    assert error_name(carol.ask(m.ShareSourceMessage(1, ("carol",)))) == "NotPermittedError"
    assert alice.ask(m.ShareSourceMessage(7, ("carol",))) is None
    assert carol.get(7).tolist() == [1, 1] and denied(carol.get(1))
    derived = alice.keep("torch.Tensor.sum", Ref(1))
    assert error_name(alice.ask(m.ShareSourceMessage(derived.id, (), True))) == "NotPermittedError"


def test_nobody_changes_or_deletes_what_is_open_to_read(node, alice):
    node.policy.share(node, 1, public=True)
    for message in (
        m.ForceObjectDeleteMessage(1), m.Operation("torch.Tensor.zero_", None, (Ref(1),), {}, ()),
        m.Operation("syft.tag", None, (Ref(1), "#mine"), {}, ()), m.PublishMessage(1),
    ):  # fmt: skip
        assert denied(alice.ask(message))
    assert node._objects[1].tolist() == [1, 2, 4]


def test_the_text_of_errors_about_ones_own_is_told(node, alice):
    alice.send_tensor(torch.ones(3), 7)
    index = alice.keep("torch.tensor", [41])
    assert "out of range" in alice.call("torch.Tensor.index_select", Ref(7), 0, index).contents[1]
    told = alice.call("torch.matmul", Ref(1), alice.keep("torch.ones", 2, 2))
    assert error_name(told) == "RuntimeError" and "3" in told.contents[1]  # shapes do not fit: told from shapes alone


def test_a_call_that_fails_due_to_values_is_told_to_whoever_may_have_them(node, alice, owner):
    """Or one could find private numbers by trying which indices are in range."""
    index = alice.keep("torch.Tensor.long", Ref(2))
    picked = alice.keep("torch.Tensor.index_select", Ref(1), 0, index)
    later = alice.keep("torch.Tensor.add", picked, 1)
    assert alice.ask(m.GetShapeMessage(later)).shape == (3,) and denied(alice.get(later.id))
    assert error_name(owner.get(later.id)) == "RemoteError" and "out of" in owner.get(later.id).contents[1]
    node.policy.share(node, 1, public=True), node.policy.share(node, 2, public=True)
    assert error_name(alice.get(later.id)) == "RemoteError"
    assert error_name(alice.call("torch.Tensor.index_select", Ref(1), 0, index)) == "IndexError"  # open: told at once


def test_rights_survive_being_written(node, alice):
    node.policy.share(node, 2, allowed_users=["carol"])
    mixed = node._objects[alice.keep("torch.Tensor.add", Ref(1), Ref(2)).id]
    row = json.loads(json.dumps(row_of(known_rights(mixed))))
    assert rights_from_row(node, row) == known_rights(mixed)
    other = sy.VirtualWorker(node.hook, id="after a restart", auto_add=False)
    again = rights_from_row(other, row)
    assert again.owner == "alice" and row_of(again) == row
    assert rights_from_row(other, row).sources == again.sources  # one data set is one source


def test_without_a_policy_nothing_is_followed(bob):
    x = torch.ones(2).send(bob)
    assert known_rights(bob._objects[x.id_at_location]) is None and known_rights((x + x).get()) is None


@pytest.mark.parametrize("way", ["a view", "a gradient", "a parameter"])
def test_what_leaves_is_what_was_checked(node, alice, way):
    """Between the check and the end of its way it does not change, nor when it has to come back."""
    alice.send_tensor(torch.zeros(3, requires_grad=way == "a gradient"), 7)
    write = {
        "a view": lambda: alice.call("torch.Tensor.copy_", Ref(8), Ref(1)),
        "a gradient": lambda: alice.call("torch.Tensor.backward", Ref(8)),
        "a parameter": lambda: alice.call("syft.run_plan", Ref("plan"), Ref(1)),
    }[way]
    if way == "a view":
        alice.call("torch.Tensor.view", Ref(7), -1, return_id=8)
    elif way == "a gradient":
        alice.call("torch.Tensor.dot", Ref(7), Ref(1), return_id=8)
    else:
        kept = torch.zeros(3)
        plan = sy.Plan(name="plan", forward_func=lambda x: kept.add_(x)).build(torch.ones(3))
        alice.ask(m.ObjectMessage(plan, "plan"))
        alice.session.keep(7, node._objects["plan"].state.tensors()[0])
    leaving = route(node, alice.session, m.ObjectRequestMessage((7, None, "")))
    assert not isinstance(write(), m.ErrorMessage)
    assert leaving.obj.tolist() == [0, 0, 0] and leaving.obj.grad is None
    leaving.stay()
    assert alice.get(7).tolist() == [0, 0, 0]


def test_two_sessions_of_a_user_do_not_outrun_the_check(node, alice):
    """One session fetches, the other one writes private values into the same memory meanwhile."""
    second = Peer(node, "alice")
    left = []

    def write():
        for _ in range(60):
            alice.call("torch.Tensor.copy_", Ref(8), Ref(1))
            alice.call("torch.Tensor.zero_", Ref(8))

    for _ in range(6):
        alice.send_tensor(torch.zeros(3), 7)
        alice.call("torch.Tensor.view", Ref(7), -1, return_id=8)
        thread = threading.Thread(target=write)
        thread.start()
        for _ in range(40):
            left.append(second.call("torch.Tensor.tolist", Ref(7)))
        left.append(second.get(7))
        thread.join()
        alice.ask(m.ForceObjectDeleteMessage(7)), alice.ask(m.ForceObjectDeleteMessage(8))
    values = [item for item in left if not isinstance(item, m.ErrorMessage)]
    assert all(torch.as_tensor(item).tolist() == [0, 0, 0] for item in values)
