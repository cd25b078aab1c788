"""Stores of nodes: what is acknowledged is there after a crash, as it was; what is damaged is never served."""

from __future__ import annotations

import dataclasses
import os
import random
import signal
import sqlite3
import stat
import subprocess
import threading
import time
from pathlib import Path

import pytest
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import syft as sy
from syft.core.references import Ref, TensorMeta
from syft.exceptions import IdNotUniqueError, NotPermittedError, ObjectNotFoundError, StorageError, StorageFullError
from syft.grid.rights import NodePolicy
from syft.grid.storage import Facts, Item, open_storage
from syft.messaging import message as m
from syft.pointers.object_wrapper import ObjectWrapper
from syft.pointers.pointer_plan import RUN_PLAN
from syft.workers.execution.router import put_back
from tests.helpers import warm_processes as warm
from tests.helpers.grid import postgres
from tests.helpers.grid.storage import StoredNode, let_go, memory_records

ROOT = Path(__file__).parents[3]
BACKENDS = ["embedded", "postgres"]


@pytest.fixture(params=BACKENDS)
def where(request, tmp_path):
    """Where a store is: a folder, or a database of a real server."""
    return tmp_path / "store" if request.param == "embedded" else postgres.server().database()


@pytest.fixture
def node(where):
    made = StoredNode(where)
    yield made
    made.stop()


@pytest.fixture
def local(tmp_path):
    """A node with a folder, where only the folder matters."""
    made = StoredNode(tmp_path / "store")
    yield made
    made.stop()


def same(left: torch.Tensor, right: torch.Tensor) -> bool:
    """Say whether two tensors are the same, bit by bit."""
    alike = type(left) is type(right) and left.dtype == right.dtype and left.shape == right.shape
    bits = [t.detach().contiguous().reshape(-1).view(torch.uint8) if t.numel() else t.numel() for t in (left, right)]
    return alike and (bits[0] == bits[1] if isinstance(bits[0], int) else torch.equal(*bits))


# --- values -------------------------------------------------------------------------------------------------

DTYPES = "bool uint8 int8 int16 int32 int64 float16 bfloat16 float32 float64 complex64 complex128".split()


@pytest.mark.parametrize("backend", BACKENDS)
def test_every_tensor_is_restored_unchanged(backend, tmp_path):
    node = StoredNode(tmp_path / "store" if backend == "embedded" else postgres.server().database())
    sent: list[torch.Tensor] = []
    shapes = st.lists(st.integers(0, 4), max_size=4).map(tuple) | st.sampled_from([(70_000,), (300, 300)])

    @settings(max_examples=30, deadline=None, database=None, suppress_health_check=list(HealthCheck))
    @given(st.sampled_from(DTYPES), shapes, st.sampled_from(["plain", "grad", "parameter"]), st.randoms())
    def check(name, shape, kind, chance):
        dtype = getattr(torch, name)
        bits = torch.randint(
            0, 256, (*shape, dtype.itemsize), dtype=torch.uint8, generator=torch.manual_seed(chance.randrange(2**31))
        )
        value = (
            (bits % 2).bool().any(-1)
            if dtype is torch.bool
            else bits.reshape(-1, dtype.itemsize).view(dtype).reshape(shape)
        )
        if (dtype.is_floating_point or dtype.is_complex) and kind != "plain":
            value = torch.nn.Parameter(value) if kind == "parameter" else value.requires_grad_()
            if chance.random() < 0.5:
                value.grad = torch.ones_like(value)
        node.peer().send(value, len(sent))
        sent.append(value)

    check()
    node.restart()
    for obj_id, value in enumerate(sent):
        back = node.objects[obj_id]
        assert same(value, back) and back.requires_grad == value.requires_grad
        assert (value.grad is None) == (back.grad is None) and (value.grad is None or same(value.grad, back.grad))
        assert node.object_manager.item(obj_id).meta == TensorMeta.of(back)
    node.stop()


def test_views_are_restored_as_separate_values(node):
    base = torch.arange(12.0).reshape(3, 4)
    for number, view in enumerate((base.t(), base[1:, ::2], base[0].expand(5, 4), base.to(torch.cfloat).conj())):
        node.admin.publish(view, obj_id=number)
        expected = view.clone().resolve_conj()
        assert same(expected, node.restart().objects[number])


def test_other_objects_than_tensors_are_restored(node):
    @sy.func2plan(args_shape=[(3,)])
    def double(x):
        return x * 2 + 1

    node.peer().send(double, "plan")
    node.peer().send(sy.String("h\u00e9llo \U0001f40d\0"), "text")
    node.peer().send(ObjectWrapper(7), "wrapped")
    node.restart()
    assert [row[:2] for row in sorted(node.peer().search(), key=lambda row: row[0])] == [
        ("plan", sy.core.references.ObjectMeta("plan")),
        ("text", sy.core.references.ObjectMeta("string")),
        ("wrapped", sy.core.references.ObjectMeta("callable")),
    ]
    peer = node.peer()
    peer.send(torch.ones(3), "x", published=False)
    result = peer.call(RUN_PLAN, Ref("plan"), Ref("x"))
    assert peer.get(result.id).tolist() == [3, 3, 3]
    assert node.objects["text"].child == "h\u00e9llo \U0001f40d\0" and node.objects["wrapped"]._obj == 7


IDS = [
    0,
    1,
    "1",
    "",
    -5,
    2**255,
    -(2**200),
    "../../etc/passwd",
    "/abs",
    "nul\0",
    "\U0001f40d" * 256,
    "a\nb",
    "'; drop table objects; --",
]


def test_ids_and_labels_are_kept_as_they_are(node):
    for obj_id in IDS:
        text = None if obj_id == 0 else f"about {obj_id!r} \u00fc"
        node.admin.publish(
            torch.tensor(IDS.index(obj_id)), {"#a", f"#{obj_id!r}"}, text, ["bob", "zo\u00eb"], "ann", obj_id
        )
    node.restart()
    assert sorted(map(repr, node.objects)) == sorted(map(repr, IDS))
    for obj_id in IDS:
        item, obj = node.object_manager.item(obj_id), node.objects[obj_id]
        assert (obj.item(), item.id, type(item.id)) == (IDS.index(obj_id), obj_id, type(obj_id))
        assert item.tags == {"#a", f"#{obj_id!r}"} and (item.description is None) == (obj_id == 0)
        assert (item.facts.owner, item.facts.allowed_users) == ("ann", ("bob", "zo\u00eb"))
        assert sy.core.labels.tags_of(obj) == item.tags and sy.core.labels.description_of(obj) == item.description
    assert len(node.peer().search("#a")) == len(IDS)
    node.peer("ann").delete("1")
    assert "1" not in node.restart().objects and 1 in node.objects


def test_publishing_later_tags_and_garbage(node):
    """An object sent with tags is published by the sender; an object published later is written then."""
    peer = node.peer()
    peer.send(torch.ones(2), "temporary", published=False)
    assert not node.storage.items()
    peer.ask(m.PublishMessage("temporary"))
    peer.send(torch.ones(2), "other", published=False)
    peer.session.close()
    assert list(node.objects) == ["temporary"]
    assert list(node.restart().objects) == ["temporary"] and node.object_manager.item("temporary").facts.owner == "ann"
    node.worker.load_data([torch.ones(1).tag("#owner")])
    (found,) = node.restart().peer().search("#owner")
    assert node.object_manager.item(found[0]).facts.owner is None


def test_only_descriptions_are_read_at_start(node, monkeypatch):
    for number in range(20):
        node.admin.publish(torch.full((30_000,), float(number)), {f"#{number}"}, obj_id=number)
    node.restart()
    reads = []
    monkeypatch.setattr(node.storage, "read", lambda item, read=node.storage.read: reads.append(item.id) or read(item))
    peer = node.peer()
    assert len(node.objects) == 20 and 3 in node.objects and list(node.objects) == list(range(20)) and not reads
    assert [(row[0], row[1].shape) for row in peer.search("#7")] == [(7, (30_000,))]
    assert "20" in repr(node.worker) and not reads
    assert peer.get(peer.call("torch.Tensor.sum", Ref(3)).id) == 90_000 and reads == [3]
    peer.delete(5)
    assert reads == [3] and len(node.objects) == 19
    assert [int(value[0]) for value in node.objects.values()] == [n for n in range(20) if n != 5] and len(reads) == 19
    assert node.objects.get("none") is None and node.objects.copy().keys() == set(range(20)) - {5}


# --- leaving ------------------------------------------------------------------------------------------------


def test_an_object_is_removed_after_it_has_arrived(node):
    peer = node.peer()
    peer.send(torch.arange(3), "x")
    value, leaving = peer.begin_get("x")
    assert value.tolist() == [0, 1, 2] and "x" not in node.objects
    assert node.restart().objects["x"].tolist() == [0, 1, 2]  # nobody knew that the answer arrived
    value, leaving = node.peer().begin_get("x")
    let_go(leaving)
    assert "x" not in node.restart().objects
    with pytest.raises(ObjectNotFoundError):
        node.peer().get("x")


def test_an_object_that_could_not_leave_stays_its_publishers(node):
    node.peer("ann").send(torch.arange(3), "x")
    before = node.object_manager.item("x")
    _, leaving = node.peer("bob").begin_get("x")
    put_back(leaving)
    assert node.object_manager.item("x") == before and node.worker.object_store.claims.publisher_of("x") == "ann"
    assert node.object_manager.ledger.usage("ann").objects == 1 and node.object_manager.ledger.usage("bob").objects == 0
    assert node.restart().objects["x"].tolist() == [0, 1, 2] and node.object_manager.item("x").facts.owner == "ann"


def test_closing_a_session_never_fails(node, monkeypatch, caplog):
    peer = node.peer()
    for name in ("taken back", "published"):
        peer.send(torch.ones(1), name)
    peer.send(torch.ones(1), "temporary", published=False)
    peer.ask(m.ClaimMessage("taken back"))

    def fail(*args):
        raise StorageError("the disk is gone")

    monkeypatch.setattr(node.storage, "remove", fail)
    with pytest.raises(StorageError, match="gone"):
        peer.delete("published")
    peer.session.close()
    assert list(node.objects) == ["published"] and "could not be removed" in caplog.text


def test_a_new_object_may_have_the_id_of_one_that_leaves(node):
    peer = node.peer()
    peer.send(torch.zeros(3), "x")
    _, leaving = peer.begin_get("x")
    peer.send(torch.ones(3), "x")
    let_go(leaving)
    assert node.restart().objects["x"].tolist() == [1, 1, 1]


def test_moving_away_and_back(hook, node, make_worker):
    other = make_worker("other")
    node.worker.add_worker(other)
    peer = node.peer()
    peer.send(torch.arange(3.0), "x")
    peer.ask(m.HandOverMessage("x", other.id, "there", True))
    assert "x" in node.objects and not node.storage.items()  # a pointer is of no use to another process
    peer.ask(m.FetchThereMessage("x"))
    assert node.restart().objects["x"].tolist() == [0, 1, 2]


# --- changes ------------------------------------------------------------------------------------------------


def test_changes_are_written_before_the_next_answer(node):
    peer = node.peer()
    for name in ("whole", "view", "data", "labels", "grown"):
        peer.send(torch.zeros(4), name)
    peer.call("torch.Tensor.add_", Ref("whole"), 1)
    peer.call("torch.Tensor.fill_", peer.call("torch.Tensor.__getitem__", Ref("view"), slice(1, 3)), 5)
    peer.call("torch.Tensor.add_", Ref("data", "data"), 1)
    peer.call("syft.tag", Ref("labels"), "#new")
    peer.call("syft.describe", Ref("labels"), "now")
    peer.send(torch.arange(9), "large", published=False)
    peer.call("torch.Tensor.data.__set__", Ref("grown"), peer.call("torch.Tensor.float", Ref("large")))
    node.restart()
    assert node.objects["whole"].tolist() == [1, 1, 1, 1] and node.objects["view"].tolist() == [0, 5, 5, 0]
    assert node.objects["data"].tolist() == [1, 1, 1, 1] and node.objects["grown"].tolist() == list(range(9))
    assert (
        node.object_manager.item("labels").tags == {"#new"} and node.object_manager.item("labels").description == "now"
    )
    assert (
        node.object_manager.item("grown").meta.shape == (9,) and node.object_manager.item("whole").facts.owner == "ann"
    )


def test_gradients_and_training_are_written(node):
    peer = node.peer()
    peer.send(torch.ones(3, requires_grad=True), "w")
    peer.send(torch.ones(3), "data")
    before = node.object_manager.item("data").stamp
    loss = peer.call("torch.Tensor.sum", peer.call("torch.mul", Ref("w"), Ref("data")))
    peer.call("torch.Tensor.backward", loss)

    model = torch.nn.Linear(3, 1)

    @sy.func2plan(args_shape=[(2, 3)])
    def train(x):
        out = (model(x) ** 2).mean()
        out.backward()
        with torch.no_grad():
            model.weight -= 0.1 * model.weight.grad
        return out

    peer.send(train, "plan")
    first = node.objects["plan"].state.tensors()[0].detach().clone()
    peer.send(torch.ones(2, 3), "x")
    kept = node.object_manager.item("x").stamp
    peer.call(RUN_PLAN, Ref("plan"), Ref("x"))
    last = node.objects["plan"].state.tensors()[0].detach().clone()
    node.restart()
    assert node.objects["w"].grad.tolist() == [1, 1, 1]
    assert not torch.equal(first, last) and torch.equal(node.objects["plan"].state.tensors()[0], last)
    assert (node.object_manager.item("data").stamp, node.object_manager.item("x").stamp) == (
        before,
        kept,
    )  # they were only read


def test_nothing_is_written_when_nothing_changed(node, monkeypatch):
    peer = node.peer()
    peer.send(torch.zeros(4), "x")
    for name in ("put", "amend", "remove"):
        monkeypatch.setattr(node.storage, name, lambda *args, **kwargs: pytest.fail("something was written"))
    held = peer.call("torch.Tensor.add", Ref("x"), 1)
    peer.call("torch.Tensor.add_", held, 1)
    peer.ask(m.ReleaseMessage((held.id,)))
    assert len(peer.search()) == 1


def test_readers_are_there_after_a_restart(node):
    """One row says who may read a data set, and what was taken back does not come again."""
    policy = NodePolicy(memory_records(), "boss")
    node.admin.publish(torch.ones(3), {"#data"}, allowed_users=["bob"], obj_id="data")
    node.admin.publish(torch.ones(3), obj_id="shared", owner="ann")
    policy.share(node.worker, "shared", allowed_users=["Eve"], public=True)
    policy.share(node.worker, "data", allowed_users=["ann"])
    node.restart()
    data, shared = node.object_manager.item("data").facts, node.object_manager.item("shared").facts
    assert (data.owner, data.allowed_users, data.is_public) == (None, ("ann",), False)
    assert (shared.owner, shared.allowed_users, shared.is_public) == ("ann", ("eve",), True)
    assert policy.may_read(data, "ann") and not policy.may_read(data, "bob") and policy.may_read(shared, "bob")
    policy.share(node.worker, "shared")
    node.admin.publish(torch.zeros(3), obj_id="data", allowed_users=["eve"], replace=True)
    node.restart()
    assert not policy.may_read(node.object_manager.item("shared").facts, "eve") and policy.may_read(
        node.object_manager.item("shared").facts, "ann"
    )
    assert node.object_manager.item("data").facts.allowed_users == ("eve",)


def source(obj_id, owner, users=(), public=False, **more):
    return {"id": obj_id, "owner": owner, "allowed_users": list(users), "public": public, "key": "k", **more}


FORMER = {
    "a data set": ("x", None, [source("x", None, ["bob"])], {"bob"}),
    "a public one": ("x", "ann", [source("x", "ann", [], True)], {"ann", "bob", "eve", "mallory"}),
    "of a user": ("x", "ann", [source(None, "ann")], {"ann"}),
    "of the user's own data": ("x", "ann", [source("y", "ann", ["bob"]), source(None, "ann")], {"ann"}),
    "computed from data of others": ("x", "ann", [source("data", None, ["ann"], True), source(None, "ann")], set()),
    "computed in part from others": ("x", "ann", [source("x", "ann", ["bob"], True), source("data", "eve")], set()),
    "a call that failed": ("x", "ann", [source(None, "ann"), source(None, None, failed="why")], set()),
    "a data set of tensors": ("dataset:x", None, [source("a", None, ["bob"]), source("b", None)], set()),
}


@pytest.mark.parametrize("case", FORMER)
def test_stores_of_the_earlier_version_open(node, case):
    """Their rows have a note of all data sets that an object was computed from; only its own row opens it."""
    obj_id, owner, sources, readers = FORMER[case]
    node.admin.publish(torch.ones(3), obj_id=obj_id, owner=owner)
    rights = {"rights": {"owner": owner, "sources": sources, "mark": ""}}
    node.storage.amend(dataclasses.replace(node.object_manager.item(obj_id), facts=Facts(owner, ("mallory",), rights)))
    node.restart()
    facts, policy = node.object_manager.item(obj_id).facts, NodePolicy(memory_records())
    assert {user for user in ("ann", "bob", "eve", "mallory") if policy.may_read(facts, user)} == readers
    assert facts.owner == owner and "rights" not in facts.notes
    foreign = any("failed" in one or one["owner"] != owner for one in sources)
    assert facts.is_derived is foreign
    if foreign:
        with pytest.raises(NotPermittedError, match="data of others"):
            policy.share(node.worker, obj_id, public=True)
        with pytest.raises(NotPermittedError, match="data of others"):
            policy.budget.set(node.worker, obj_id, 1.0)


# --- faults -------------------------------------------------------------------------------------------------

# A process that starts others which do one thing each: a new interpreter would take seconds each time.
LAUNCHER = """
import os, sys, torch
from syft.core.references import Ref
from syft.grid.storage import open_storage
from tests.helpers.grid.storage import StoredNode

def say(*words):
    print(*words, flush=True)

def write(where, first):
    peer = StoredNode(where).peer()
    for number in range(int(first), 10**6):
        peer.send(torch.rand((10, 40_000)[number % 2], generator=torch.manual_seed(number)), number)
        say("sent", number)
        if number % 5 == 4:
            peer.delete(number - 2)
            say("deleted", number - 2)
        if number % 7 == 6 and number > int(first):
            peer.call("torch.Tensor.neg_", Ref(number - 1))
            say("changed", number - 1)

def look(where, _):
    try:
        open_storage(where)
    except Exception as error:
        say(type(error).__name__, "another running node" in str(error))

StoredNode(None).peer().call("torch.ones", 10**5)  # what is imported when it is first needed
for line in sys.stdin:
    job, where, first = line.rstrip("\\n").split("\\t")
    child = os.fork()
    if not child:
        say("pid", os.getpid())
        try:
            {"write": write, "look": look}[job](where, first)
        except Exception as error:
            say(repr(error))
        finally:
            os._exit(0)
    os.waitpid(child, 0)
    say("ended", child)
"""


class Launcher:
    """Starts processes and hears what they say."""

    def __init__(self) -> None:
        environment = {**os.environ, "OMP_NUM_THREADS": "1", "PYTHONPATH": str(ROOT)}
        pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE}
        self.process = warm.popen(LAUNCHER, cwd=ROOT, text=True, env=environment, **pipes)

    def run(self, job: str, where: object, first: int = 0, lines: int | None = None) -> list[list[str]]:
        """Start a process; kill it shortly after a number of lines; return its output."""
        self.process.stdin.write(f"{job}\t{where}\t{first}\n")
        self.process.stdin.flush()
        pid = int(self._line()[1])
        told = []
        if lines is not None:
            while len(told) < lines:
                told.append(self._line())
                assert told[-1][0] in ("sent", "deleted", "changed"), told
            time.sleep(random.uniform(0, 0.02))
            os.kill(pid, signal.SIGKILL)
        while (line := self._line())[0] != "ended":
            told.append(line)
        return told

    def _line(self) -> list[str]:
        line = self.process.stdout.readline()
        assert line.endswith("\n")
        return line.split()


@pytest.fixture(scope="module")
def launcher():
    made = Launcher()
    yield made
    made.process.communicate(timeout=60)


def test_kill_9_loses_nothing_that_was_acknowledged(where, launcher):
    """The process is killed at random moments; whatever it said it had is there, and nothing else is wrong."""
    states: dict[int, str] = {}
    first = 0
    for _ in range(4):
        told = [(what, int(number)) for what, number in launcher.run("write", where, first, random.randint(12, 24))]
        states.update({number: what for what, number in told})
        last = max(number for what, number in told if what == "sent")
        begun = {
            last + 1: "sent",
            last - 2: "deleted",
            last - 1: "changed",
        }  # one of these may be done without an acknowledgement
        first = last + 2
        node = StoredNode(where)
        try:
            assert not node.storage.damaged()
            found = {number: _state(node.objects.get(number), number) for number in range(first)}
            for number, state in found.items():
                assert state in (states.get(number, "deleted"), begun.get(number)), (number, state)
                states[number] = state
            if isinstance(where, Path):
                files = {item.stamp for item in node.storage.items() if item.size > 2**16}
                assert {path.name for path in (where / "values").iterdir()} == files
        finally:
            node.stop()


def _state(obj: torch.Tensor | None, number: int) -> str | None:
    """Say what was done last with an object, by its values."""
    value = torch.rand((10, 40_000)[number % 2], generator=torch.manual_seed(number))
    if obj is None:
        return "deleted"
    return "sent" if same(obj, value) else "changed" if same(obj, -value) else "wrong"


def test_one_node_at_a_time(where, launcher):
    node = StoredNode(where)
    node.peer().send(torch.ones(1), "x")
    with pytest.raises(StorageError, match="another running node"):
        open_storage(where)
    assert launcher.run("look", where) == [["StorageError", "True"]]
    node.stop()
    assert launcher.run("look", where) == []
    again = StoredNode(where)
    assert "x" in again.objects
    again.stop()


@pytest.fixture
def small_disk(tmp_path):
    """A real file system of 3 MB."""
    folder = tmp_path / "small"
    folder.mkdir()
    done = subprocess.run(["mount", "-t", "tmpfs", "-o", "size=3m,mode=700", "tmpfs", folder], capture_output=True)
    if done.returncode:
        pytest.skip("a small file system can't be mounted here: that takes root")
    yield folder
    subprocess.run(["umount", "-l", folder], check=True)


@pytest.mark.parametrize("size", [5_000, 100_000])
def test_a_full_disk_is_one_clear_error(small_disk, size):
    node = StoredNode(small_disk / "store")
    peer, other = node.peer(), node.peer("bob")
    count, values = 0, torch.rand(100_000)
    with pytest.raises(StorageFullError, match="is full"):
        for count in range(10_000):
            peer.send(values[:size] + count, count)
    assert list(node.objects) == list(range(count)) and len(node.storage.items()) == count > 1
    assert node.object_manager.ledger.usage("ann").objects == count
    other.send(torch.ones(3), "temporary", published=False)
    assert other.get("temporary").tolist() == [1, 1, 1] and len(other.search()) == count
    with pytest.raises(StorageFullError):
        other.ask(m.BatchMessage(tuple(m.ObjectMessage(torch.rand(100_000), f"b{n}", True, None) for n in range(40))))
    node.objects[0]
    if size == 100_000:
        node.restart()
        peer = node.peer()
        for key in range(count):
            assert same(node.objects[key], values + key)
        peer.delete(0), peer.delete(1)
        peer.send(torch.rand(50_000), "last")
        with pytest.raises(StorageFullError, match="undone"):
            peer.call("torch.Tensor.data.__set__", Ref("last"), torch.rand(900_000))
        assert node.objects["last"].shape == (50_000,)
    for key in list(node.objects):
        node.peer("ann").delete(key)
    peer.send(torch.ones(size), "again")
    assert list(node.restart().objects) == ["again"] and same(node.objects["again"], torch.ones(size))
    node.stop()


def test_a_folder_that_can_not_be_written_to(tmp_path):
    (tmp_path / "file").write_text("x")
    with pytest.raises(StorageError, match="not a folder"):
        open_storage(tmp_path / "file")
    with pytest.raises(StorageError):
        open_storage(tmp_path / "file" / "below")


def _flip(path: Path, at: int = 1000) -> None:
    data = bytearray(path.read_bytes())
    data[at] ^= 1
    path.write_bytes(data)


def test_flipped_bytes_are_found_and_set_aside(local, caplog):
    folder = local.where
    for name in ("flipped", "cut", "missing", "good"):
        local.admin.publish(torch.rand(30_000), obj_id=name)
    stamps = {item.id: item.stamp for item in local.storage.items()}
    _flip(folder / "values" / stamps["flipped"])
    os.truncate(folder / "values" / stamps["cut"], 5)
    (folder / "values" / stamps["missing"]).unlink()
    local.restart()
    assert sorted(local.objects) == ["flipped", "good"]  # what shows without reading values
    with pytest.raises(StorageError, match="damaged"):
        local.peer().get("flipped")
    with pytest.raises(ObjectNotFoundError, match="damaged"):
        local.peer().get("flipped")
    assert local.peer().search("flipped") == [] and local.peer().get("good").shape == (30_000,)
    reasons = {item.id: item.reason for item in local.storage.damaged()}
    assert reasons.keys() == {"flipped", "cut", "missing"} and "checksum" in reasons["flipped"]
    assert {path.name for path in (folder / "damaged").iterdir()} == {stamps["flipped"], stamps["cut"]}
    assert sum("quarantined" in record.message for record in caplog.records) == 3
    local.restart()
    assert list(local.objects) == [] and len(local.storage.damaged()) == 3


@pytest.mark.parametrize(
    "column, value",
    [
        ("owner", '"mallory"'),
        ("allowed_users", '["mallory"]'),
        ("value", b"x" * 40),
        ("meta", "00"),
        ("id", '"y"'),
        ("blob", "../lock"),
    ],
)
def test_rows_that_were_changed_are_set_aside(local, column, value):
    local.admin.publish(torch.arange(30), obj_id="x")
    local.storage.close()
    with sqlite3.connect(local.where / "index.sqlite") as database:
        database.execute(f"update objects set {column} = ?", (value,))  # noqa: S608
    database.close()
    local.start()
    with pytest.raises((StorageError, ObjectNotFoundError)):
        local.peer().get("x")
    assert not local.objects and len(local.storage.damaged()) == 1


def test_a_check_reads_every_value_and_lists_damaged_objects(local):
    for name in range(3):
        local.admin.publish(torch.rand(30_000), obj_id=name)
    assert local.storage.check() == []
    _flip(local.where / "values" / local.object_manager.item(1).stamp)
    (found,) = local.storage.check()
    assert found.id == 1 and [item.id for item in local.storage.items()] == [0, 2]


def test_only_the_damaged_object_is_set_aside(local):
    for name in range(3):
        local.admin.publish(torch.rand(30_000), obj_id=name)
    assert all(local.storage.read(item) for item in local.storage.items()) and local.storage.damaged() == []
    _flip(local.where / "values" / local.object_manager.item(1).stamp)
    with pytest.raises(StorageError, match="is damaged"):
        local.storage.read(local.object_manager.item(1))
    (found,) = local.storage.damaged()
    assert found.id == 1 and [item.id for item in local.storage.items()] == [0, 2]


def test_a_damaged_index_is_a_clear_error(local):
    local.admin.publish(torch.ones(3), obj_id=1)
    local.stop()
    (local.where / "index.sqlite").write_bytes(b"not a database" * 1000)
    with pytest.raises(StorageError, match="SQLITE_NOTADB"):
        open_storage(local.where)


def test_only_the_owner_can_look_in(local):
    local.admin.publish(torch.rand(30_000), obj_id="../../x")
    local.admin.publish(torch.ones(3), obj_id="small")
    for path in (local.where, *local.where.rglob("*")):
        assert stat.S_IMODE(path.stat().st_mode) == (0o700 if path.is_dir() else 0o600), path
    assert {path.name for path in local.where.parent.iterdir()} == {"store"}


def test_partial_writes_are_removed(local):
    local.admin.publish(torch.rand(30_000), obj_id=1)
    for name in ("0" * 32, "1" * 32 + ".new"):
        (local.where / "values" / name).write_bytes(b"half")
    local.restart()
    assert [path.name for path in (local.where / "values").iterdir()] == [local.object_manager.item(1).stamp]


def test_eight_threads_at_once(node):
    failures = []

    def work(number):
        try:
            peer = node.peer(f"user {number}")
            for turn in range(6):
                peer.send(torch.full((5, 30_000)[turn % 2 : turn % 2 + 1], float(number)), (key := f"{number}/{turn}"))
                peer.call("torch.Tensor.add_", Ref(key), 1)
                if turn % 3 == 0:
                    assert (peer.get(key) == number + 1).all()
        except BaseException as error:
            failures.append(error)

    threads = [threading.Thread(target=work, args=(number,)) for number in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(100)
    assert not failures
    node.restart()
    assert sorted(node.objects) == sorted(f"{n}/{turn}" for n in range(8) for turn in (1, 2, 4, 5))
    assert all((node.objects[key] == float(key[0]) + 1).all() for key in node.objects)


def test_two_publishers_of_one_id(node):
    barrier, outcomes = threading.Barrier(4), []

    def work(number):
        peer = node.peer(f"user {number}")
        barrier.wait()
        try:
            peer.send(torch.tensor(number), "x")
            outcomes.append(number)
        except IdNotUniqueError:
            pass

    threads = [threading.Thread(target=work, args=(number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(100)
    assert len(outcomes) == 1 and node.restart().objects["x"].item() == outcomes[0]


# --- records ------------------------------------------------------------------------------------------------


def test_records(node):
    records = node.storage.records
    assert records.get("users", "ann") is None and records.list("users") == {}
    records.put("users", "ann", {"role": "owner", "n": [1, None, "\u00fc\0"]})
    records.put("users", "b\u00f6b\ud800", {"role": "user"})
    records.put("grants", "ann", 5)
    assert records.update("grants", "ann", lambda old: old + 1) == 6
    with pytest.raises(ZeroDivisionError):
        records.update("grants", "ann", lambda old: old / 0)
    records = node.restart().storage.records
    assert (
        records.get("users", "ann") == {"role": "owner", "n": [1, None, "\u00fc\0"]}
        and records.get("grants", "ann") == 6
    )
    assert set(records.list("users")) == {"ann", "b\u00f6b\ud800"}
    assert records.update("grants", "ann", lambda old: None) is None and records.list("grants") == {}
    threads = [
        threading.Thread(target=lambda: [records.update("n", "n", lambda old: (old or 0) + 1) for _ in range(10)])
        for _ in range(4)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert records.get("n", "n") == 40


def _sql(node, text):
    if isinstance(node.where, str):
        postgres.server().sql(node.where, text)
        return
    with sqlite3.connect(node.where / "index.sqlite") as database:
        database.execute(text)
    database.close()


@pytest.mark.parametrize(
    "attack",
    [
        "update log set value = '\"fine\"' where number = 2",
        "delete from log where number = 2",
        "delete from log where number = 4",
        "update log set number = 9 where number = 2",
        "update log set at = '0.0' where number = 1 and area = 'audit'",
        "insert into log values ('audit', 5, '0.0', '1', 'abc')",
    ],
)
def test_a_log_shows_tampering(local, attack):
    records = local.storage.records
    for number in range(4):
        assert records.append("audit", {"user": "ann", "n": number}) == number + 1
    records.append("other", 1)
    assert records.verify("audit") == 4 and records.verify("nothing") == 0
    assert [entry.value["n"] for entry in records.entries("audit", after=1, limit=2)] == [1, 2]
    local.storage.close()
    _sql(local, attack)
    local.start()
    with pytest.raises(StorageError, match="tampered"):
        local.storage.records.verify("audit")
    assert local.storage.records.verify("other") == 1


def test_a_log_of_many_writers(node):
    records = node.storage.records
    threads = [threading.Thread(target=lambda: [records.append("audit", 1) for _ in range(10)]) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert node.restart().storage.records.verify("audit") == 40 and node.storage.records.head("audit")[0] == 40


def test_a_raw_store(where):
    with open_storage(where) as storage:
        item = storage.put(
            Item("x", TensorMeta.of(torch.ones(1)), facts=Facts("ann", ("bob",), {"k": 1})), b"v" * 10**6
        )
        assert bytes(storage.read(item)) == b"v" * 10**6 and storage.items() == [item]
        again = storage.put(item, b"")
        assert again.created == item.created and again.stamp != item.stamp and bytes(storage.read(again)) == b""
        with pytest.raises(StorageError):
            storage.read(item)
        with pytest.raises(StorageError):
            storage.amend(item)
        assert not storage.remove("x", item.stamp) and storage.remove("x") and not storage.remove("x")
    with pytest.raises(StorageError, match="closed"):
        storage.items()
