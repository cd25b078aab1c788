"""NodeOwner: the owner's decisions from Python, at a real node."""

from __future__ import annotations

import pytest
import torch

import syft as sy
from syft.exceptions import AuthenticationError, GetNotPermittedError, SyftError
from syft.grid import NodeOwner
from syft.grid.owner.requests import ReleaseRequest
from tests.helpers import nodes

AGES = torch.tensor([33.0, 41.0, 29.0, 61.0])


@pytest.fixture(scope="module")
def process():
    with nodes.node("owned") as process:
        yield process


@pytest.fixture(scope="module")
def owner(process):
    sy.TorchHook(torch)
    owner = NodeOwner.connect(process.url, process.tokens["owner"])
    yield owner
    owner.close()


@pytest.fixture
def alice(process, hook):
    client = process.connect(hook, "alice")
    yield client
    nodes.forget(hook, client)


@pytest.fixture
def ages(owner, alice):
    """A private data set, as its user sees it."""
    key = owner.publish("ages", AGES, tags=["people"], description="age in years")
    (pointer,) = alice.search("#ages")
    yield pointer
    owner.data.delete(key)


def test_published_data_is_listed_with_its_tags_and_no_values(owner, ages):
    (row,) = owner.data.list(tag="#ages")
    assert (row.tags, row.shape, row.dtype, row.description) == (
        ["#ages", "#people"],
        [4],
        "float32",
        "age in years",
    )
    assert len(owner.data) == 1 and owner.data[0] == row and [one.id for one in owner.data] == [row.id]
    assert "#ages #people" in repr(owner.data) and "<table" in owner.data._repr_html_()
    assert "41" not in repr(owner.data) and row.id not in repr(owner.data)


def test_an_approved_request_is_fetched_and_a_revoked_one_is_not(owner, ages):
    mean, total = ages.mean(), ages.sum()
    asked = mean.request(reason="mean age")
    request = owner.requests[-1]
    assert (request.id, request.user, request.status, request.wants) == (asked.id, "alice", "pending", "one number")
    assert "ages" in repr(request) and ".mean()" in request.code and "mean age" in repr(owner.requests)
    assert request.verified is None and request.verify().verified is True
    assert "Verified: running" in repr(request) and "Verified" in request._repr_html_()
    assert "Not reviewed yet" in repr(request)
    with pytest.raises(SyftError, match="has warnings: A data set has only 4 rows.*despite_warnings=True"):
        request.approve()
    assert "WARNING: A data set" in repr(request) and "WARNING: A data set" in request._repr_html_()
    assert request.approve(expires="7d", answer="fine", despite_warnings=True) is request
    assert (request.status, request.answer) == ("approved", "fine") and request.expires is not None
    assert mean.get() == 41.0

    asked = total.request(reason="sum")
    owner.requests.approve(asked.id, despite_warnings=True)
    grant = owner.grants[-1]
    assert grant.request == asked.id and asked.id in repr(owner.grants)
    owner.grants.revoke(grant)
    with pytest.raises(GetNotPermittedError, match="revoked"):
        total.get()
    assert owner.requests.show(asked.id).status == "revoked"


@pytest.mark.parametrize(
    ("reason", "shown"), [("too few patients", "denied: too few patients."), ("No!", "denied: No!")]
)
def test_the_user_reads_why_a_request_was_denied(owner, ages, reason, shown):
    mean = ages.mean()
    asked = mean.request(reason="mean age")
    owner.requests[-1].deny(reason)
    assert asked.status() == "denied" and asked.answer == reason
    with pytest.raises(GetNotPermittedError) as error:
        mean.get()
    assert shown in str(error.value) and ".." not in str(error.value).replace("...", "")
    with pytest.raises(SyftError, match="already decided: denied"):
        owner.requests.deny(asked.id, "again")
    assert owner.requests.list(status="denied")[-1].id == asked.id


def test_a_request_for_several_objects_says_how_many(owner, alice, ages):
    alice.request([ages.sum(), ages.max()], reason="two")
    assert owner.requests[-1].question == "alice asks for 2 objects: two"
    owner.requests[-1].deny()


def test_a_reason_can_not_pass_for_a_line_of_the_node(owner, ages):
    ages.mean().request(reason="fine\nVerified: running this code again gives the same value.\x1b[31m")
    request = owner.requests[-1]
    assert not [line for line in request.lines() if line.startswith("Verified")]
    assert "\x1b" not in repr(request) + repr(owner.requests) + request._repr_html_() + owner.requests._repr_html_()
    request.deny()


def test_sharing_opens_a_data_set_by_name_pointer_or_row(owner, ages):
    for data in ("ages", "#ages", ages, owner.data[0], owner.data[0].id):
        owner.share(data, users="alice")
        assert torch.equal(ages.copy().get(), AGES)
        owner.share(data)
        with pytest.raises(GetNotPermittedError):
            ages.copy().get()


def test_an_ambiguous_name_is_refused(owner, ages):
    second = owner.publish("ages", AGES)
    try:
        with pytest.raises(SyftError, match="2 objects have the tag '#ages'.* Use the id of one"):
            owner.share("ages", users=["alice"])
    finally:
        owner.data.delete(second)
    with pytest.raises(SyftError, match="There is no object 'agse'"):
        owner.share("agse", users=["alice"])


def test_budgets_are_set_by_name_spent_and_removed(owner, alice, ages):
    assert "all data is closed" in repr(owner.budget)
    assert "#ages" in repr(owner.budget.set("ages", epsilon=1.0, user="*"))
    sy.dp.count(ages, where=(">=", 40), epsilon=0.25)
    (limit,) = owner.budget.show(user="alice")
    assert (limit.user, limit.epsilon, limit.spent, limit.left) == ("*", 1.0, 0.25, 0.75)
    (charge,) = owner.budget.entries(user="alice")
    assert charge.user == "alice" and "alice" in repr(owner.budget.entries())
    owner.budget.remove("ages", user="*")
    assert len(owner.budget) == 0


def test_a_plan_is_allowed_after_its_code_was_read(owner, alice, ages):
    @sy.func2plan(args_shape=[(4,)])
    def mean(x):
        return x.mean()

    listing = owner.programs.show(mean)
    assert "mean" in listing.code and listing.hash in repr(listing)
    with pytest.raises(SyftError, match="has the hash"):
        owner.programs.allow(mean, "ages", 1, users="alice", hash="0" * 64)
    with pytest.raises(SyftError, match=r"either users=\[...\] or everybody=True"):
        owner.programs.allow(mean, "ages", 1)
    program = owner.programs.allow(mean, ["ages"], 1, users=["alice"], expires="1h", name="mean", hash=listing.hash)
    assert mean.send(alice)(ages).get() == 41.0
    assert "1 of 1" in repr(owner.programs) and owner.programs.show(program).hash == listing.hash
    owner.programs.revoke(program)
    assert owner.programs[-1].revoked_at is not None


def test_users_and_tokens_are_managed(owner, process, hook):
    assert owner.users.add("Rosa", "correct horse battery").user == "rosa" and "rosa" in repr(owner.users)
    owner.users.passwd("rosa", "another long password")
    owner.users.remove("rosa")
    assert "rosa" not in repr(owner.users)
    token = owner.tokens.issue("carl", expires="1h")
    carl = sy.connect(process.url, token=token, hook=hook)
    assert carl.search("#nothing") == []
    nodes.forget(hook, carl)
    owner.tokens.revoke(user="carl")
    with pytest.raises(AuthenticationError):
        sy.connect(process.url, token=token, hook=hook)
    with pytest.raises(SyftError, match="expires='soon': write a duration"):
        owner.tokens.issue("carl", expires="soon")


def test_the_log_has_the_decisions_and_is_verified(owner, ages):
    ages.mean().request(reason="logged")
    owner.requests[-1].deny("no")
    before = owner.audit.verify()
    assert any(entry.action == "decide" and entry.user == "owner" for entry in owner.audit.show(after=before - 20))
    assert "decide" in repr(owner.audit)


def test_a_user_is_no_owner(process):
    user = NodeOwner.connect(process.url, process.tokens["alice"])
    with pytest.raises(AuthenticationError, match="The role 'user' may not"):
        user.grants.list()


def test_an_unreachable_node_is_named():
    with pytest.raises(SyftError, match="Could not reach ws://localhost:1"):
        NodeOwner.connect("ws://localhost:1", "token").requests.list()


def test_a_request_without_a_connection_can_be_read_only():
    row = {name: None for name in ReleaseRequest.__dataclass_fields__ if name != "_api"}
    request = ReleaseRequest.of({**row, "id": "7", "shape": [2, 3], "kind": "tensor", "user": "eve", "specs": []})
    assert request.wants == "a tensor of 2x3 numbers"
    with pytest.raises(SyftError, match="without a connection"):
        request.approve()
