"""Which objects of a node a user can name at all."""

from __future__ import annotations

import pytest
import torch

from syft.core.references import Ref
from syft.messaging import message as m
from tests.attacks.hostile import error_name
from tests.grid.rights.people import Peer, denied

NAMING = {
    "get": lambda i: m.ObjectRequestMessage((i, None, "")),
    "get as its owner": lambda i: m.ObjectRequestMessage((i, "alice", "")),
    "shape": lambda i: m.GetShapeMessage(Ref(i)),
    "shape of the gradient": lambda i: m.GetShapeMessage(Ref(i, "grad")),
    "is none": lambda i: m.IsNoneMessage(Ref(i)),
    "delete": lambda i: m.ForceObjectDeleteMessage(i),
    "retain": lambda i: m.RetainMessage(i),
    "publish": lambda i: m.PublishMessage(i),
    "hand over": lambda i: m.HandOverMessage(i, "me", 77, True),
    "fetch there": lambda i: m.FetchThereMessage(i),
    "fetch a plan": lambda i: m.PlanCommandMessage((i, False), "fetch_plan"),
    "fetch a protocol": lambda i: m.PlanCommandMessage((i, True), "fetch_protocol"),
    "a call": lambda i: m.Operation("torch.Tensor.sum", None, (Ref(i),), {}, (50,)),
    "a call, nested": lambda i: m.Operation("torch.cat", None, ([Ref(i)],), {}, (50,)),
    "a call by keyword": lambda i: m.Operation("torch.neg", None, (), {"input": Ref(i)}, (50,)),
    "a call in place": lambda i: m.Operation("torch.Tensor.zero_", None, (Ref(i),), {}, (50,)),
    "out": lambda i: m.Operation("torch.ones", None, (3,), {"out": Ref(i)}, (50,)),
    "label": lambda i: m.Operation("syft.tag", None, (Ref(i), "#mine"), {}, ()),
    "a plan": lambda i: m.Operation("syft.run_plan", None, (Ref(i), 1), {}, (50,)),
    "in a batch": lambda i: m.BatchMessage((m.IsNoneMessage(Ref(i)),)),
    "a run on shares": lambda i: m.RunMessage((Ref(i),), 5, "open", ("x", "y"), None, {}, 6),
    "request": lambda i: m.RequestReleaseMessage(i, "please"),
    "share": lambda i: m.ShareSourceMessage(i, ("carol",), True),
}


@pytest.mark.parametrize("way", list(NAMING))
def test_the_object_of_another_user_is_not_there(node, alice, carol, way):
    alice.send_tensor(torch.ones(3), "theirs")
    before = alice.ask(m.GetShapeMessage(Ref("theirs")))
    theirs, absent = carol.ask(NAMING[way]("theirs")), carol.ask(NAMING[way]("absent"))
    assert isinstance(absent, m.ErrorMessage)
    assert [text.replace("absent", "theirs") for text in absent.contents] == list(theirs.contents)
    assert alice.ask(m.GetShapeMessage(Ref("theirs"))) == before
    assert 77 not in node._objects and 50 not in node._objects
    assert alice.get("theirs").tolist() == [1, 1, 1]


def test_nobody_hears_what_became_of_the_objects_of_others(node, alice, carol):
    alice.send_tensor(torch.ones(3), 7)
    alice.get(7)
    assert "alice" in alice.get(7).contents[1]
    assert carol.get(7).contents[1] == carol.get("x").contents[1].replace("'x'", "7")


def test_search_lists_ones_own_and_what_is_published(node, alice, carol, owner):
    alice.send_tensor(torch.ones(3).tag("#data"), 7)
    alice.send_tensor(torch.ones(3).tag("#data"), 8, published=True)
    found = {peer: {row[0] for row in peer.ask(m.SearchMessage(["#data"]))} for peer in (alice, carol, owner)}
    assert found == {alice: {1, 2, 7, 8}, carol: {1, 2, 8}, owner: {1, 2, 7, 8}}
    assert carol.ask(m.SearchMessage([7])) == []


def test_all_sessions_of_a_user_are_the_user(node, alice):
    """The name counts, not the connection: two notebooks of one person work on the same things."""
    second = Peer(node, "alice")
    alice.send_tensor(torch.ones(3), 7)
    total = second.keep("torch.Tensor.sum", Ref(7))
    assert second.get(total.id).item() == 3
    assert not isinstance(second.call("torch.Tensor.add_", Ref(7), 1), m.ErrorMessage)
    alice.session.close()
    assert error_name(second.get(7)) == "ObjectNotFoundError"  # it lives as long as the session that sent it


def test_nobody_without_a_name_is_somebody_else(node):
    first, second = Peer(node, None), Peer(node, None)
    first.send_tensor(torch.ones(3), 7)
    assert error_name(second.ask(m.GetShapeMessage(Ref(7)))) == "ObjectNotFoundError"
    assert first.get(7).tolist() == [1, 1, 1]
    assert error_name(first.request(1)) == "NotPermittedError"


def test_a_taken_id_does_not_become_what_its_predecessor_was(node, alice):
    """A user who had an object of this id has no rights in the one that the owner loads under it later."""
    alice.send_tensor(torch.ones(3), "patients")
    alice.get("patients")
    data = torch.tensor([41.5]).tag("#late")
    data.id = "patients"
    node.load_data([data])
    assert denied(alice.get("patients"))
