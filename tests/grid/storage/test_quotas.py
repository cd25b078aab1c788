"""How much a user may hold: every way to store something counts, and what is released counts no more."""

from __future__ import annotations

import contextlib
import gc
import os
import time
from pathlib import Path

import pytest
import torch

import syft as sy
from syft.core.references import Ref
from syft.exceptions import CommandNotAllowedError, ObjectNotFoundError, QuotaExceededError, SyftError
from syft.grid.storage import ObjectManager, Quota, Usage
from syft.grid.storage.quotas import OBJECT_BYTES, memory_of
from syft.messaging import message as m
from tests.helpers.grid.storage import StoredNode
from tests.helpers.nodes import forget
from tests.helpers.nodes import node as node_process

ROOMY = Quota(10**6, 10**9)


@pytest.fixture
def make(tmp_path):
    made = []

    def build(objects=None, size=None, node=ROOMY, stored=True, **kwargs):
        made.append(
            StoredNode(
                tmp_path / f"store {len(made)}" if stored else None,
                quota=Quota(objects, size),
                node_quota=node,
                **kwargs,
            )
        )
        return made[-1]

    yield build
    for node in made:
        node.stop()


def held(node, user="ann"):
    return node.object_manager.ledger.usage(user)


def test_a_million_tiny_objects(make):
    """They are refused at the limit, at once, and others go on."""
    node = make(objects=2_000, stored=False)
    flood, other = node.peer("mallory"), node.peer("bob")
    ones = torch.ones(1)
    flood.ask(m.BatchMessage(tuple(m.ObjectMessage(ones, n, False, None) for n in range(2_000))))
    began = time.process_time()
    for number in range(500):
        with pytest.raises(QuotaExceededError, match="may hold at most 2000 objects"):
            flood.send(ones, f"more {number}", published=False)
    assert time.process_time() - began < 10
    other.send(torch.arange(3), "mine", published=False)
    assert other.get("mine").tolist() == [0, 1, 2] and held(node, "mallory").objects == 2_000
    second = node.peer("mallory")  # another connection of the same user
    with pytest.raises(QuotaExceededError):
        second.send(ones, "again", published=False)
    flood.session.close()
    second.send(ones, "now", published=False)
    assert held(node, "mallory") == Usage(1, OBJECT_BYTES + 4)


def test_refused_batches_keep_nothing_more(make):
    node = make(objects=3)
    peer = node.peer()
    with pytest.raises(QuotaExceededError):
        peer.ask(m.BatchMessage(tuple(m.ObjectMessage(torch.ones(1), n, True, None) for n in range(5))))
    assert len(node.objects) == held(node).objects == len(node.storage.items()) == 3


@pytest.mark.parametrize("published", [True, False])
def test_bytes_of_both_kinds_count(make, published):
    node = make(size=100_000)
    peer = node.peer()
    peer.send(torch.ones(20_000), "x", published)
    with pytest.raises(QuotaExceededError, match="100000 bytes"):
        peer.send(torch.ones(6_000), "y", published)
    assert list(node.objects) == ["x"] and held(node) == Usage(1, 80_000 + OBJECT_BYTES)
    peer.delete("x")
    peer.send(torch.ones(6_000), "y", published)
    assert held(node) == Usage(1, 24_000 + OBJECT_BYTES)


def test_results_count_and_releases_count_down(make):
    node = make(size=100_000)
    peer = node.peer()
    peer.send(torch.ones(10_000), "x", published=False)
    result = peer.call("torch.Tensor.add", Ref("x"), 1)
    with pytest.raises(QuotaExceededError):
        peer.call("torch.cat", [Ref("x"), result])
    with pytest.raises(QuotaExceededError):  # all results of a call, or none
        peer.call("torch.sort", Ref("x"))
    assert held(node).objects == 2
    peer.ask(m.ReleaseMessage((result.id,)))
    assert held(node) == Usage(1, 40_000 + OBJECT_BYTES)
    peer.get("x")
    assert held(node) == Usage()


def test_views_take_their_memory_once_and_all_of_it(make):
    node = make(size=100_000)
    peer = node.peer()
    peer.send(torch.ones(100, 200), "x", published=False)
    rows = [peer.call("torch.Tensor.__getitem__", Ref("x"), n) for n in range(30)]
    assert held(node) == Usage(31, 80_000 + 31 * OBJECT_BYTES)
    peer.ask(m.ReleaseMessage(("x", *[row.id for row in rows[1:]])))
    gc.collect()
    assert held(node) == Usage(1, 80_000 + OBJECT_BYTES)  # the last row keeps all of it alive
    with pytest.raises(QuotaExceededError):
        peer.send(torch.ones(10_000), "y", published=False)


def test_a_call_for_too_much_is_not_run(make, monkeypatch):
    node = make(size=10**6)
    peer = node.peer()
    peer.send(torch.ones(100), "x", published=False)
    peer.send(torch.ones(1_000), "line", published=False)
    huge = [
        ("torch.ones", 2**40), ("torch.zeros", (2**20, 2**20)), ("torch.eye", 10**6), ("torch.arange", 10**12),
        ("torch.arange", 0, 1, 1e-12), ("torch.Tensor.repeat", Ref("x"), 10**9), ("torch.linspace", 0, 1, 10**11),
        ("torch.combinations", Ref("x"), 5), ("torch.outer", Ref("line"), Ref("line")), ("torch.diag", Ref("line")),
        ("torch.kron", Ref("line"), Ref("line")), ("torch.nn.functional.pad", Ref("x"), (0, 10**12)),
    ]  # fmt: skip
    for name, *args in huge:
        with pytest.raises((QuotaExceededError, CommandNotAllowedError), match="was not run|can't be run"):
            peer.call(name, *args)
    assert held(node).objects == 2
    wide = peer.call("torch.Tensor.expand", peer.call("torch.ones", 1), 10**9)  # takes no memory
    assert peer.call("torch.Tensor.add", Ref("x"), 10**12) and wide


def test_an_object_that_grows_in_place(make):
    node = make(size=100_000)
    peer = node.peer()
    for name, published in (("temporary", False), ("stored", True)):
        peer.send(torch.ones(10), name, published)
        with pytest.raises(QuotaExceededError, match="grew"):
            peer.call("torch.Tensor.data.__set__", Ref(name), torch.ones(30_000))
    assert node.objects["stored"].shape == (10,) and held(node) == Usage(1, 40 + OBJECT_BYTES)
    with pytest.raises(ObjectNotFoundError, match="grew"):
        peer.get("temporary")
    peer.call("torch.Tensor.data.__set__", Ref("stored"), torch.ones(20_000))
    assert held(node).bytes == 80_000 + OBJECT_BYTES
    assert node.restart().objects["stored"].shape == (20_000,) and held(node).bytes == 80_000 + OBJECT_BYTES


def test_the_node_as_a_whole(make):
    node = make(node=Quota(3, None))
    for user in ("ann", "bob", "eve"):
        node.peer(user).send(torch.ones(1), user)
    with pytest.raises(QuotaExceededError, match="All users together"):
        node.peer("zoe").send(torch.ones(1), "zoe")
    with pytest.raises(QuotaExceededError):
        node.admin.publish(torch.ones(1))
    assert node.object_manager.ledger.usage(node=True).objects == 3


def test_owners_and_single_users_have_other_bounds(make):
    node = make(objects=1, users={"big": Quota(3, None)})
    owner, big, nobody = node.peer("boss"), node.peer("big"), node.peer(None)
    owner.session.role = "owner"
    for number in range(5):
        node.admin.publish(torch.ones(1))
        owner.send(torch.ones(1), f"owner {number}")
    for number in range(3):
        big.send(torch.ones(1), f"big {number}")
    nobody.send(torch.ones(1), "nobody")
    for peer in (big, nobody):
        with pytest.raises(QuotaExceededError):
            peer.send(torch.ones(1), "more")


def test_stored_bytes_count_after_a_restart(make):
    node = make(objects=3, size=10**6)
    for number in range(3):
        node.peer().send(torch.rand(30_000), number)
    before = held(node)
    node.restart()
    assert held(node) == before
    with pytest.raises(QuotaExceededError):
        node.peer().send(torch.ones(1), "more")
    node.objects[0]
    node.peer().delete(1)
    node.peer().send(torch.ones(1), "more")
    assert held(node).objects == 3


@pytest.mark.parametrize(
    "kind", ["parameter", "grad", "plan", "text", "sparse", "wrapper", "limbs", "residues", "array"]
)
def test_counted_objects(kind):
    tensor = torch.ones(1000, requires_grad=True)
    tensor.grad = torch.ones(1000)
    weight = torch.ones(1000)
    plan = sy.func2plan(args_shape=[(1,)])(lambda x: x + weight)
    sizes = {
        "parameter": (torch.nn.Parameter(torch.ones(1000)), 4000),
        "grad": (tensor, 8000),
        "plan": (plan, 4000),
        "text": (sy.String("x" * 1000), 1000),
        "sparse": (torch.eye(100).to_sparse(), 400 + 1600),
        "wrapper": (sy.pointers.object_wrapper.ObjectWrapper(torch.nn.Linear(10, 10)), 440),
        "limbs": (torch.ones(1000).fix_precision(storage="large", base=2, precision_fractional=310), 44_000),
        "residues": (torch.ones(1000).fix_precision(storage="crt"), 80_000),
        "array": (torch.ones(1000, 10).numpy_tensor()[:1], 40_000),
    }
    obj, size = sizes[kind]
    assert size <= sum(memory_of(obj).values()) < size + 4000


def test_workers_without_an_object_manager_are_unchanged(bob):
    assert bob.object_store.object_manager is None and type(bob.object_store.objects) is dict
    object_manager = ObjectManager(bob, quota=Quota(1, None))
    pointer = torch.ones(3).send(bob)
    with pytest.raises(QuotaExceededError):
        torch.ones(3).send(bob)
    assert pointer.get().tolist() == [1, 1, 1] and object_manager.ledger.usage(node=True) == Usage()
    object_manager.close()
    assert bob.object_store.object_manager is None and type(bob.object_store.objects) is dict


# --- memory of the process ----------------------------------------------------------------------------------------


def test_a_graph_that_takes_all_memory_ends_with_an_error_and_others_are_served(hook):
    """Each result is released, and autograd keeps it all the same: no quota counts that, the limit of a process does."""
    with node_process("graphs", users={"alice": "user", "bob": "user"}, max_process_memory=512 << 20) as process:
        alice, bob = process.connect(hook, "alice"), process.connect(hook, "bob")
        kept = torch.ones(3).send(bob)
        bob.synchronize()
        before = int(Path(f"/proc/{process.pid}/statm").read_text().split()[1])
        y = torch.ones(1 << 18, requires_grad=True).send(alice)
        with pytest.raises((SyftError, RuntimeError, MemoryError)):
            for _ in range(1000):  # a MiB each
                y = y.sin()
                alice.synchronize()
        pages = int(Path(f"/proc/{process.pid}/statm").read_text().split()[1]) - before
        assert pages * os.sysconf("SC_PAGE_SIZE") < 128 << 20
        assert torch.equal(kept.get(), torch.ones(3))
        del y
        with contextlib.suppress(SyftError, RuntimeError):
            alice.close()
        again = process.connect(hook, "alice")
        assert torch.equal((torch.ones(3).send(again) + 1).get(), torch.full((3,), 2.0))
        forget(hook, again, bob)
