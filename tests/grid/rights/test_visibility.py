"""The objects of a node that a user can name."""

from __future__ import annotations

import pytest
import torch

from syft.core.references import Ref
from syft.messaging import message as m
from tests.helpers.attacks.hostile_peer import error_name
from tests.helpers.rights.users import denied

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
def test_the_object_of_another_user_does_not_exist(alice, carol, fresh, way):
    theirs, absent = fresh(), fresh()
    alice.send_tensor(torch.ones(3), theirs)
    before = alice.ask(m.GetShapeMessage(Ref(theirs)))
    found, missing = carol.ask(NAMING[way](theirs)), carol.ask(NAMING[way](absent))
    if isinstance(missing, m.ErrorMessage):
        assert [text.replace(absent, theirs) for text in missing.contents] == list(found.contents)
    else:
        assert way == "delete" and found == missing
    assert alice.ask(m.GetShapeMessage(Ref(theirs))) == before
    assert alice.get(theirs).tolist() == [1, 1, 1]


def test_errors_do_not_reveal_the_fate_of_other_users_objects(alice, carol, fresh):
    mine, absent = fresh(), fresh()
    alice.send_tensor(torch.ones(3), mine)
    alice.get(mine)
    assert "alice" in alice.get(mine).contents[1]
    assert carol.get(mine).contents[1] == carol.get(absent).contents[1].replace(absent, mine)


def test_search_lists_own_and_published_objects(data, alice, carol, owner, fresh):
    mine, published, tag = fresh(), fresh(), f"#{fresh()}"
    alice.send_tensor(torch.ones(3).tag(tag), mine)
    alice.send_tensor(torch.ones(3).tag(tag), published, published=True)
    found = {peer.name: {row[0] for row in peer.ask(m.SearchMessage([tag]))} for peer in (alice, carol, owner)}
    assert found == {"alice": {mine, published}, "carol": {published}, "owner": {published}}
    assert carol.ask(m.SearchMessage([mine])) == []
    assert {row[0] for row in carol.ask(m.SearchMessage(["#data"]))} >= set(data)


def test_all_sessions_of_a_user_share_objects(alice, connect, fresh):
    """Objects belong to the user, not the connection: two notebooks of one user work on the same objects."""
    second, mine = connect("alice"), fresh()
    alice.send_tensor(torch.ones(3), mine)
    assert second.get(second.keep("torch.Tensor.sum", Ref(mine)).id).item() == 3
    assert not isinstance(second.call("torch.Tensor.add_", Ref(mine), 1), m.ErrorMessage)
    assert second.get(mine).tolist() == [2, 2, 2]


def test_an_id_that_another_user_has_can_be_used(alice, carol, fresh):
    """Unpublished objects are in the processes of their users, so trying an id reveals nothing."""
    name = fresh()
    alice.send_tensor(torch.ones(3), name)
    carol.send_tensor(torch.zeros(3), name)
    assert alice.get(name).tolist() == [1, 1, 1] and carol.get(name).tolist() == [0, 0, 0]


def test_a_reused_id_does_not_inherit_rights(alice, owner, fresh):
    """A user who had an object of this id has no rights to the object that the owner publishes under it later."""
    name = fresh()
    data = m.ObjectMessage(torch.tensor([41.5]), name, True)
    alice.send_tensor(torch.ones(3), name, published=True)
    assert error_name(owner.ask(data)) == "IdNotUniqueError"  # or it would be alice's to read
    assert alice.ask(m.ForceObjectDeleteMessage(name)) is None
    assert owner.ask(data) is None
    assert denied(alice.get(name))
    assert owner.get(name).tolist() == [41.5]


def test_users_can_not_store_objects_for_other_users(alice, carol, fresh):
    """An object belongs to the user who sends it, whatever the message says."""
    name = fresh()
    alice.ask(m.ObjectMessage(torch.ones(1), name, False, "carol"))
    assert error_name(carol.get(name)) == "ObjectNotFoundError" and carol.ask(m.SearchMessage([name])) == []
