"""Requests of users, decisions of owners, and ends of approvals."""

from __future__ import annotations

import threading
import time

import pytest
import torch

import syft as sy
from syft.core.references import Ref
from syft.exceptions import GetNotPermittedError, ObjectNotFoundError, SyftError
from syft.grid.rights import AuditLog, Requests, RowStore
from syft.grid.rights import requests as asking
from syft.grid.rights.requests import Subject
from syft.messaging import message as m
from tests.helpers.attacks.hostile_peer import error_name
from tests.helpers.grid.storage import memory_records
from tests.helpers.nodes import forget
from tests.helpers.rights.users import denied


@pytest.fixture
def client(place, hook):
    """The node as alice's notebook sees it."""
    worker = place.connect(hook, "alice")
    yield worker
    forget(hook, worker)


def data_at(client, obj_id):
    return client.search(f"#{obj_id}")[0]


def test_an_approved_request_can_be_fetched(data, client, owner):
    mean = data_at(client, data[0]).mean()
    with pytest.raises(GetNotPermittedError, match=r"ptr.request\(reason="):
        mean.get()
    request = mean.request(reason="for a paper")
    assert request.status() == "pending" and request.wait(0.05) == "pending" and "pending" in repr(request)
    (row,) = [row for row in owner.ask(m.ListRightsMessage("requests", "pending")) if row["id"] == request.id]
    assert (row["user"], row["reason"], row["shape"]) == ("alice", "for a paper", [])
    assert [source["id"] for source in row["data"]] == [data[0]] and "mean" in row["code"]
    owner.ask(m.DecideRequestMessage(request.id, True, answer="with thanks"))
    assert request.wait(60) == "approved" and request.answer == "with thanks"
    assert mean.get().item() == pytest.approx(7 / 3)
    with pytest.raises(GetNotPermittedError):
        data_at(client, data[0]).mean().get()  # this result was released, not the data


def test_a_request_is_found_again_by_its_id(place, data, client, owner, hook):
    """Another program of the same user fetches the copy; other users do not find the request."""
    request = data_at(client, data[0]).mean().request(reason="for a paper")
    owner.ask(m.DecideRequestMessage(request.id, True, answer="with thanks"))
    later, other = place.connect(hook, "alice"), place.connect(hook, "carol")
    found = later.find_request(request.id)
    assert (found.id, found.reason, found.answer) == (request.id, "for a paper", "with thanks")
    assert found.status() == "approved" and found.get().item() == pytest.approx(7 / 3)
    with pytest.raises(ObjectNotFoundError, match="no such request of yours"):
        other.find_request(request.id)
    forget(hook, later, other)


def test_a_plan_can_be_requested(data, client, owner):
    weight = torch.ones(3)

    @sy.func2plan(args_shape=[(3,)])
    def learn(x):
        weight.add_(x)
        return weight.sum()

    pointer = learn.send(client)
    pointer(data_at(client, data[0]))
    with pytest.raises(GetNotPermittedError):
        pointer.get()
    request = pointer.request(reason="the model")
    (row,) = [row for row in owner.ask(m.ListRightsMessage("requests")) if row["id"] == request.id]
    assert row["kind"] == "plan"
    owner.ask(m.DecideRequestMessage(request.id, True))
    assert pointer.get().state.tensors()[0].tolist() == [2, 3, 5]


def test_waiting_ends_with_the_decision(data, client, owner):
    request = data_at(client, data[0]).sum().request(reason="now")
    timer = threading.Timer(0.1, lambda: owner.ask(m.DecideRequestMessage(request.id, False, answer="no\x1b[2J")))
    timer.start()
    assert request.wait(60) == "denied" and request.answer == "no?[2J"
    timer.join()


def test_only_owners_decide(data, alice, carol, owner):
    request = alice.request(alice.keep("torch.Tensor.sum", Ref(data[0])).id)
    for peer in (alice, carol):
        for message in (
            m.ListRightsMessage("requests"), m.ListRightsMessage("audit"), m.DecideRequestMessage(request["id"], True),
            m.DecideRequestMessage(request["id"], False), m.RevokeGrantMessage("x"),
        ):  # fmt: skip
            assert error_name(peer.ask(message)) == "NotPermittedError"
    assert error_name(carol.ask(m.RequestStatusMessage(request["id"]))) == "ObjectNotFoundError"
    assert alice.status(request) == "pending"
    assert request["id"] in [row["id"] for row in owner.ask(m.ListRightsMessage("requests", "pending"))]
    assert owner.approve(request)["status"] == "approved" and alice.status(request) == "approved"
    assert error_name(owner.deny(request)) == "SyftError"  # decided already
    assert error_name(owner.ask(m.ListRightsMessage("passwords"))) == "SyftError"


def test_the_sealed_copy_holds_the_requested_values(data, alice, owner):
    """Values that are written into the object afterwards are not released, and do not end the approval."""
    first, second = data
    total = alice.keep("torch.Tensor.sum", Ref(first))
    request = alice.request(total.id)
    alice.call("torch.Tensor.copy_", total, alice.keep("torch.Tensor.max", Ref(second)))
    owner.approve(request)
    alice.call("torch.Tensor.copy_", total, alice.keep("torch.Tensor.min", Ref(second)))
    assert alice.get(total.id).item() == 7
    assert denied(alice.call("torch.Tensor.item", total))  # the object itself is in the vault still
    assert denied(alice.get(alice.keep("torch.Tensor.clone", total).id))


def test_the_sealed_copy_can_not_be_named_or_replaced(data, alice, carol, owner):
    total = alice.keep("torch.Tensor.sum", Ref(data[0]))
    request = alice.request(total.id)
    for peer in (alice, carol):
        for prefix in ("sealed:", "slice:"):
            name = f"{prefix}{request['id']}"
            assert error_name(peer.get(name)) == "ObjectNotFoundError"
            assert error_name(peer.call("torch.Tensor.sum", Ref(name))) == "ObjectNotFoundError"
            assert type(peer.ask(m.ObjectMessage(torch.zeros(()), name, True))) is m.ErrorMessage
            peer.ask(m.ForceObjectDeleteMessage(name))
    owner.approve(request)
    assert alice.get(total.id).item() == 7


def test_approvals_are_for_one_user(data, alice, carol, owner):
    owner.approve(alice.request(data[0]))
    assert alice.get(data[0]).tolist() == [1, 2, 4] and denied(carol.get(data[0]))
    assert denied(alice.get(alice.keep("torch.Tensor.sum", Ref(data[0])).id))


def test_approvals_expire(data, alice, owner):
    total = alice.keep("torch.Tensor.sum", Ref(data[0]))
    request = alice.request(total.id)
    for bad in (0, -1, float("nan"), float("inf")):
        assert error_name(owner.approve(request, expires=bad)) == "SyftError"
    owner.approve(request, expires=1.0)
    assert alice.get(total.id).item() == 7
    time.sleep(1.0)
    assert denied(alice.get(total.id)) and alice.status(request) == "expired"
    again = alice.request(total.id)
    assert again["id"] != request["id"] and alice.status(again) == "pending"


def test_data_sets_are_shared_not_approved(data, alice, owner):
    answer = owner.approve(alice.request(data[0]), scope="sources")
    assert error_name(answer) == "SyftError" and "data share" in answer.contents[1]


def test_approvals_are_revoked(data, alice, owner):
    request = alice.request(data[0])
    owner.approve(request)
    assert alice.get(data[0]).tolist() == [1, 2, 4]
    (grant,) = [row for row in owner.ask(m.ListRightsMessage("grants")) if row["request"] == request["id"]]
    owner.ask(m.RevokeGrantMessage(grant["id"]))
    assert denied(alice.get(data[0])) and alice.status(request) == "revoked"
    assert "no approval" in owner.ask(m.RevokeGrantMessage("nonsense")).contents[1]


def test_a_result_of_shared_work_needs_a_request(data, alice, carol, owner, fresh):
    """Results from private data can't be published; published objects stay private to other users."""
    mine = fresh()
    alice.send_tensor(torch.ones(3), mine, published=True)
    both = carol.keep("torch.Tensor.sum", carol.keep("torch.Tensor.add", Ref(mine), Ref(data[0])))
    request = carol.request(both.id)
    owner.approve(request)
    assert carol.get(both.id).item() == 10


def test_requests_are_bounded(data, connect, alice, owner):
    peer = connect("carol")
    for row in owner.ask(m.ListRightsMessage("requests", "pending")):
        owner.deny(row)
    ids = [peer.keep("torch.Tensor.mul", Ref(data[0]), number).id for number in range(asking.MAX_PENDING + 1)]
    assert error_name(peer.request(ids[0], "x" * 100_000)) == "SerdeError"
    assert error_name(peer.request(ids[0], " \n\t")) == "SyftError"
    first = peer.request(ids[0], "x" * 200 + "\x1b[31m\n\nfor you")
    assert first["reason"] == "x" * 200 + "?[31m for you"
    assert peer.request(ids[0])["id"] == first["id"]  # asking twice is asking once
    for number in range(1, asking.MAX_PENDING):
        assert peer.request(ids[number])["status"] == "pending"
    assert error_name(peer.request(ids[-1])) == "NotPermittedError"
    owner.deny(first)
    assert peer.request(ids[-1])["status"] == "pending"
    assert "code" not in first and "sealed" not in first
    for row in owner.ask(m.ListRightsMessage("requests", "pending")):
        owner.deny(row)


def test_requests_need_a_node_with_an_owner(bob):
    pointer = torch.ones(2).send(bob)
    with pytest.raises(SyftError, match="has no owner"):
        pointer.request(reason="x")
    with pytest.raises(SyftError, match="needs a pointer"):
        torch.ones(2).request(reason="x")


def test_requests_are_plain_rows():
    """The store writes JSON, and another process reads it again."""
    records = memory_records()
    first = Requests(RowStore(records, "requests"), AuditLog(records))
    row = first.add("alice", Subject("x", ids=("x",), shape=(3,), tags=("#a",)), "why", 10)
    first.approve(row["id"])
    again = Requests(RowStore(records, "requests"), AuditLog(records))
    assert again.released("alice", "x")["id"] == row["id"] and again.released("carol", "x") == ""


def test_the_error_gives_the_status_of_the_request(data, client, owner):
    total = data_at(client, data[0]).sum()

    def refused():
        with pytest.raises(GetNotPermittedError) as error:
            total.get()
        return str(error.value)

    def decide(approved, expires=None, answer=""):
        request = total.request(reason="why")
        owner.ask(m.DecideRequestMessage(request.id, approved, "result", expires, answer))
        return request

    total.request(reason="why")
    assert "is pending" in refused()
    decide(False, answer="too few")
    assert "was denied: too few." in refused()
    decide(True, expires=0.05)
    time.sleep(0.05)
    assert "has expired. Request it again" in refused()
    owner.ask(m.RevokeGrantMessage(decide(True).id))
    assert "was revoked." in refused()
