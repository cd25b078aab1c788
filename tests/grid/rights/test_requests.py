"""Users ask, owners decide, grants end."""

from __future__ import annotations

import json
import threading

import pytest
import torch

import syft as sy
from syft.core.references import Ref
from syft.exceptions import GetNotPermittedError, SyftError
from syft.grid.rights import MemoryRecords, NodePolicy
from syft.grid.rights import requests as asking
from syft.messaging import message as m
from tests.attacks.hostile import error_name
from tests.grid.rights.people import Peer, denied


def test_ask_approve_get(node, hook):
    data = node.search("#1")[0]
    mean = data.mean()
    with pytest.raises(GetNotPermittedError, match=r"ptr.request\(reason="):
        mean.get()
    request = mean.request(reason="for a paper")
    assert request.status() == "pending" and request.wait(0.05) == "pending" and "pending" in repr(request)
    (row,) = node.policy.requests.list("pending")
    assert (row["user"], row["reason"], row["shape"]) == ("me", "for a paper", [])
    assert [source["id"] for source in row["sources"]] == [1]
    node.policy.requests.approve(request.id, answer="with thanks")
    assert request.wait(60) == "approved" and request.answer == "with thanks"
    assert mean.item() == pytest.approx(7 / 3) and mean.get().item() == pytest.approx(7 / 3)
    with pytest.raises(GetNotPermittedError):
        data.mean().get()  # this result was granted, not the data


def test_a_plan_can_be_asked_for(node, hook):
    weight = torch.ones(3)

    @sy.func2plan(args_shape=[(3,)])
    def learn(x):
        weight.add_(x)
        return weight.sum()

    pointer = learn.send(node)
    pointer(node.search("#1")[0])
    with pytest.raises(GetNotPermittedError):
        pointer.get()
    request = pointer.request(reason="the model")
    assert node.policy.requests.list()[0]["kind"] == "plan"
    node.policy.requests.approve(request.id)
    assert pointer.get().state.tensors()[0].tolist() == [2, 3, 5]


def test_waiting_ends_with_the_answer(node, hook):
    total = node.search("#1")[0].sum()
    request = total.request(reason="now")
    timer = threading.Timer(0.1, lambda: node.policy.requests.deny(request.id, "no\x1b[2J"))
    timer.start()
    assert request.wait(60) == "denied" and request.answer == "no?[2J"
    timer.join()


def test_only_owners_decide(node, alice, carol, owner):
    request = alice.request(alice.keep("torch.Tensor.sum", Ref(1)).id)
    for peer in (alice, carol):
        for message in (
            m.ListRightsMessage("requests"), m.ListRightsMessage("audit"), m.DecideRequestMessage(request["id"], True),
            m.DecideRequestMessage(request["id"], False), m.RevokeGrantMessage("x"),
        ):  # fmt: skip
            assert error_name(peer.ask(message)) == "NotPermittedError"
    assert error_name(carol.ask(m.RequestStatusMessage(request["id"]))) == "ObjectNotFoundError"
    assert alice.status(request) == "pending"
    rows = owner.ask(m.ListRightsMessage("requests", "pending"))
    assert [row["id"] for row in rows] == [request["id"]]
    assert owner.ask(m.DecideRequestMessage(request["id"], True))["status"] == "approved"
    assert alice.status(request) == "approved"
    assert error_name(owner.ask(m.DecideRequestMessage(request["id"], False))) == "SyftError"  # decided already
    assert error_name(owner.ask(m.ListRightsMessage("passwords"))) == "SyftError"


def test_what_was_granted_is_what_was_asked_for(node, alice, owner):
    """Values that are written into it afterwards are not granted."""
    total = alice.keep("torch.Tensor.sum", Ref(1))
    request = alice.request(total.id)
    node.policy.requests.approve(request["id"])
    alice.call("torch.Tensor.copy_", total, Ref(1, "data"))
    alice.call("torch.Tensor.copy_", total, alice.keep("torch.Tensor.max", Ref(2)))
    assert denied(alice.get(total.id))
    leaf = alice.keep("torch.zeros", 3, requires_grad=True)
    alice.call("torch.Tensor.backward", alice.keep("torch.Tensor.sum", alice.keep("torch.mul", leaf, 1.0)))
    alice.call("torch.Tensor.add_", Ref(leaf.id, "data"), alice.keep("torch.Tensor.mul", Ref(1), 0))
    node.policy.requests.approve(alice.request(leaf.id)["id"])
    alice.call("torch.Tensor.copy_", Ref(leaf.id, "grad"), Ref(2))  # a gradient leaves along with its tensor
    assert denied(alice.get(leaf.id))


def test_grants_are_for_one_user(node, alice, carol):
    node.policy.requests.approve(alice.request(1)["id"])
    assert alice.get(1).tolist() == [1, 2, 4] and denied(carol.get(1))


def test_grants_expire(node, alice, clock):
    total = alice.keep("torch.Tensor.sum", Ref(1))
    request = alice.request(total.id)
    node.policy.requests.approve(request["id"], expires=60)
    assert alice.call("torch.Tensor.item", total) == 7
    clock.now += 59.9
    assert alice.call("torch.Tensor.item", total) == 7
    clock.now += 0.2
    assert denied(alice.call("torch.Tensor.item", total)) and alice.status(request) == "expired"
    again = alice.request(total.id)
    assert again["id"] != request["id"] and alice.status(again) == "pending"
    for bad in (0, -1, float("nan"), float("inf")):
        with pytest.raises(SyftError):
            node.policy.requests.approve(again["id"], expires=bad)


def test_a_grant_of_the_sources_reaches_everything_derived(node, alice, clock):
    request = alice.request(alice.keep("torch.Tensor.sum", Ref(1)).id)
    node.policy.requests.approve(request["id"], expires=10, scope="sources")
    assert alice.get(alice.keep("torch.Tensor.mul", Ref(1), 2).id).tolist() == [2, 4, 8]
    assert alice.get(alice.keep("torch.Tensor.nonzero", Ref(1)).id).shape == (3, 1)  # and forms that tell values
    assert denied(alice.get(alice.keep("torch.Tensor.add", Ref(1), Ref(2)).id))
    clock.now += 10
    assert denied(alice.get(1))


def test_grants_are_taken_back(node, alice, owner):
    request = alice.request(1)
    node.policy.requests.approve(request["id"], scope="sources")
    assert alice.get(1).tolist() == [1, 2, 4]
    (grant,) = owner.ask(m.ListRightsMessage("grants"))
    owner.ask(m.RevokeGrantMessage(grant["id"]))
    assert denied(alice.get(1)) and alice.status(request) == "revoked"
    with pytest.raises(SyftError, match="no grant"):
        node.policy.requests.revoke("nonsense")


def test_grants_and_shares_are_not_for_what_comes_later_under_the_same_id(node, alice, carol):
    kept = alice.keep("torch.Tensor.mul", Ref(1), 2)
    node.policy.requests.approve(alice.request(1)["id"], scope="sources")
    node.policy.share(node, 1, allowed_users=["carol"])
    assert alice.get(1).tolist() == carol.get(1).tolist() == [1, 2, 4]
    node.object_store.remove(1)
    data = torch.full((3,), 41.5).tag("#again")
    data.id = 1
    node.load_data([data])
    assert denied(alice.get(1)) and denied(carol.get(1))
    assert alice.get(kept.id).tolist() == [2, 4, 8]


def test_what_another_user_sent_is_not_granted_as_a_source(node, alice, carol):
    alice.send_tensor(torch.ones(3), 7)
    alice.ask(m.Operation("torch.Tensor.add", None, (Ref(7), Ref(1)), {}, (8,)))
    alice.ask(m.PublishMessage(8))
    request = carol.request(carol.keep("torch.Tensor.sum", Ref(8)).id)
    with pytest.raises(SyftError, match='scope="result"'):
        node.policy.requests.approve(request["id"], scope="sources")
    node.policy.requests.approve(request["id"])
    assert carol.get(request["object"]).item() == 10


def test_requests_are_bounded(node, alice, monkeypatch):
    monkeypatch.setattr(asking, "MAX_PENDING", 3)
    ids = [alice.keep("torch.Tensor.mul", Ref(1), number).id for number in range(5)]
    assert error_name(alice.request(ids[0], "x" * 100_000)) == "SerdeError"
    first = alice.request(ids[0], "x" * 200 + "\x1b[31m\n\nfor you")
    assert first["reason"] == "x" * 200 + "?[31m for you"
    assert alice.request(ids[0])["id"] == first["id"]  # asking twice is asking once
    for number in (1, 2):
        assert alice.request(ids[number])["status"] == "pending"
    assert error_name(alice.request(ids[3])) == "NotPermittedError"
    node.policy.requests.deny(first["id"])
    assert alice.request(ids[3])["status"] == "pending"
    assert error_name(alice.request(ids[4], " \n\t")) == "SyftError"
    assert "fingerprint" not in first and "values" not in first


def test_where_nobody_can_be_asked(bob):
    pointer = torch.ones(2).send(bob)
    with pytest.raises(SyftError, match="no owner to ask"):
        pointer.request(reason="x")
    with pytest.raises(SyftError, match="on a pointer"):
        torch.ones(2).request(reason="x")


def test_requests_and_grants_are_plain_rows(bob, clock):
    """So that any store can keep them: here one is written as JSON and read again by another policy."""

    class Written(MemoryRecords):
        def list(self):
            return json.loads(json.dumps(super().list()))

    requests, grants = Written(), Written()
    data = torch.ones(2).tag("#data")
    data.id = "data"
    bob.load_data([data])
    bob.policy = NodePolicy(requests=requests, grants=grants, clock=clock)
    alice = Peer(bob, "alice")
    bob.policy.requests.approve(alice.request("data")["id"], scope="sources")
    bob.policy = NodePolicy(requests=requests, grants=grants, clock=clock)
    assert alice.get(alice.keep("torch.Tensor.sum", Ref("data")).id).item() == 2
    bob.policy = sy.workers.policy.ALLOW_ALL


def test_who_does_not_get_it_is_told_why(node, owner, clock, hook):
    total = node.search("#1")[0].sum()
    policy = node.policy.requests

    def refused():
        with pytest.raises(GetNotPermittedError) as told:
            total.get()
        return str(told.value)

    request = total.request(reason="why")
    assert "waits for its owner" in refused()
    policy.deny(request.id, "too few")
    assert "was denied: too few." in refused()
    policy.approve(total.request(reason="why").id, expires=10)
    copy = total.clone()
    with pytest.raises(GetNotPermittedError, match="the very object that you asked for"):
        copy.get()  # equal values must not open anything: whether they are equal is a secret too
    clock.now += 11
    assert "has expired: ask again" in refused()
    grant = policy.approve(total.request(reason="why").id)["grants"][0]
    policy.revoke(grant)
    assert "was revoked." in refused()
    policy.approve(total.request(reason="why").id)
    total.add_(1)
    assert "changed since" in refused()
