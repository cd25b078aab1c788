"""Releases of a node to its users."""

from __future__ import annotations

import threading

import torch

from syft.core.references import Ref
from syft.messaging import message as m
from tests.helpers.attacks.hostile_peer import error_name
from tests.helpers.nodes import node as node_process
from tests.helpers.rights.users import denied


def test_data_of_the_owner_is_private_and_can_be_computed_with(data, alice):
    first, _ = data
    assert denied(alice.get(first))
    total = alice.keep("torch.Tensor.sum", Ref(first))
    assert denied(alice.get(total.id)) and denied(alice.call("torch.Tensor.item", total))
    assert alice.ask(m.GetShapeMessage(Ref(first))).shape == (3,)


def test_objects_of_the_user_are_released(alice, fresh):
    mine = fresh()
    alice.send_tensor(torch.arange(3.0), mine)
    assert alice.get(alice.keep("torch.Tensor.mul", Ref(mine), 2).id).tolist() == [0, 2, 4]
    assert alice.call("torch.Tensor.tolist", Ref(mine)) == [0, 1, 2]


def test_published_data_of_another_user_is_private(data, alice, carol, fresh):
    theirs = fresh()
    alice.send_tensor(torch.ones(3), theirs, published=True)
    assert denied(carol.get(theirs)) and denied(carol.get(carol.keep("torch.Tensor.sum", Ref(theirs)).id))
    assert denied(carol.get(carol.keep("torch.Tensor.add", Ref(theirs), Ref(data[0])).id))
    assert denied(alice.get(alice.keep("torch.Tensor.add", Ref(theirs), Ref(data[0])).id))


def test_the_owner_reads_published_data_and_leaves_it_there(data, alice, owner, fresh):
    theirs = fresh()
    alice.send_tensor(torch.ones(3), theirs, published=True)
    for _ in range(2):
        assert owner.get(theirs).tolist() == [1, 1, 1]
    assert alice.ask(m.GetShapeMessage(Ref(data[0]))).shape == (3,)
    total = alice.keep("torch.Tensor.sum", Ref(data[0]))
    assert error_name(owner.get(total.id)) == "ObjectNotFoundError"  # results are in the vault of their user


def test_sharing_opens_a_data_set_to_users(data, alice, carol, owner):
    first, _ = data
    before = alice.keep("torch.Tensor.sum", Ref(first))
    owner.share(first, "Alice")  # capitals do not matter: a user is one user
    assert alice.get(first).tolist() == [1, 2, 4] and denied(carol.get(first))
    assert alice.call("torch.Tensor.tolist", Ref(first)) == [1, 2, 4]
    assert alice.get(alice.keep("torch.Tensor.sum", Ref(first)).id).item() == 7
    assert denied(alice.get(before.id))  # it is in the vault: sharing opens data, not what was computed before
    owner.share(first, public=True)
    assert carol.get(first).tolist() == [1, 2, 4]
    owner.share(first)
    assert denied(carol.get(first)) and denied(alice.get(first))
    assert denied(alice.call("torch.Tensor.tolist", Ref(first)))


def test_a_result_is_private_if_any_argument_is(data, alice, owner):
    first, second = data
    owner.share(first, public=True)
    assert denied(alice.get(alice.keep("torch.Tensor.add", Ref(first), Ref(second)).id))
    owner.share(second, public=True)
    assert alice.get(alice.keep("torch.Tensor.add", Ref(first), Ref(second)).id).tolist() == [11, 22, 44]


def test_users_share_their_own_data_only(data, alice, carol, fresh):
    mine = fresh()
    alice.send_tensor(torch.ones(2), mine, published=True)
    assert error_name(carol.share(mine, "carol")) == "NotPermittedError"
    assert error_name(carol.share(data[0], "carol")) == "NotPermittedError"
    assert alice.share(mine, "carol") is None
    assert carol.get(mine).tolist() == [1, 1] and denied(carol.get(data[0]))
    total = alice.keep("torch.Tensor.sum", Ref(data[0]))
    assert error_name(alice.share(total.id, public=True)) == "NotPermittedError"
    assert type(alice.ask(m.PublishMessage(total.id))) is m.ErrorMessage


def test_readable_data_of_others_can_not_be_changed(data, alice, owner):
    first, _ = data
    owner.share(first, public=True)
    assert alice.get(first).tolist() == [1, 2, 4]
    for message in (
        m.ForceObjectDeleteMessage(first), m.Operation("torch.Tensor.zero_", None, (Ref(first),), {}, ()),
        m.Operation("syft.tag", None, (Ref(first), "#mine"), {}, ()), m.PublishMessage(first),
    ):  # fmt: skip
        assert type(alice.ask(message)) is m.ErrorMessage
    alice.call("torch.Tensor.zero_", alice.keep("torch.Tensor.view", Ref(first), -1))  # a view in her own process
    assert owner.get(first).tolist() == [1, 2, 4] and alice.get(first).tolist() == [1, 2, 4]


def test_errors_that_values_cause_are_not_reported(data, alice, owner, fresh):
    """Otherwise a user could find private numbers by trying which indices are in range."""
    mine, (first, second) = fresh(), data
    alice.send_tensor(torch.ones(3), mine)
    assert (
        "out of range"
        in alice.call("torch.Tensor.index_select", Ref(mine), 0, alice.keep("torch.tensor", [41])).contents[1]
    )
    reported = alice.call("torch.matmul", Ref(first), alice.keep("torch.ones", 2, 2))
    assert error_name(reported) == "RuntimeError"  # shapes do not fit, which shapes alone tell
    index = alice.keep("torch.Tensor.long", Ref(second))
    picked = alice.keep("torch.Tensor.index_select", Ref(first), 0, index)
    later = alice.keep("torch.Tensor.add", picked, 1)
    assert alice.ask(m.GetShapeMessage(later)).shape == (3,) and denied(alice.get(later.id))
    for obj_id in data:
        owner.share(obj_id, public=True)
    open_index = alice.keep("torch.Tensor.long", Ref(second))
    assert error_name(alice.call("torch.Tensor.index_select", Ref(first), 0, open_index)) == "IndexError"


def test_shares_and_their_end_survive_a_crash(connect, tmp_path):
    """A revoked share does not return, and a later object with the same id is not shared."""
    users = {"owner": "owner", "alice": "user", "carol": "user"}
    with node_process("again", users=users, store=str(tmp_path)) as process:
        owner = connect("owner", process)
        for obj_id in ("kept", "taken back", "replaced"):
            owner.send_tensor(torch.ones(2), obj_id, published=True)
            owner.share(obj_id, "alice")
        owner.share("kept", "alice", public=True)
        owner.share("taken back")
        assert owner.ask(m.ForceObjectDeleteMessage("replaced")) is None
        owner.send_tensor(torch.zeros(2), "replaced", published=True)
        process.kill()
        process.start()
        alice, carol = connect("alice", process), connect("carol", process)
        assert alice.get("kept").tolist() == carol.get("kept").tolist() == [1, 1]
        assert denied(alice.get("taken back")) and denied(alice.get("replaced"))


def test_two_sessions_of_a_user_can_not_race_the_rules(data, alice, connect, fresh):
    """One session fetches, the other one writes private values into the same memory meanwhile."""
    second, results = connect("alice"), []

    def write(view):
        for _ in range(20):
            alice.call("torch.Tensor.copy_", Ref(view), Ref(data[0]))
            alice.call("torch.Tensor.zero_", Ref(view))

    for _ in range(3):
        mine, view = fresh(), fresh()
        alice.send_tensor(torch.zeros(3), mine)
        alice.call("torch.Tensor.view", Ref(mine), -1, return_id=view)
        thread = threading.Thread(target=write, args=(view,))
        thread.start()
        for _ in range(20):
            results.append(second.call("torch.Tensor.tolist", Ref(mine)))
        results.append(second.get(mine))
        thread.join()
    values = [item for item in results if not isinstance(item, m.ErrorMessage)]
    assert all(torch.as_tensor(item).tolist() == [0, 0, 0] for item in values)
