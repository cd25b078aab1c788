"""Workers in Ray actors: batching, runs on shares between actors, and clear errors when an actor is gone."""

from __future__ import annotations

import contextlib
import gc
import os
import re
import signal
import sys
import threading
import time
from pathlib import Path

import pytest
import torch

import syft as sy
from syft.exceptions import PartyLostError, ProtocolError, SyftError, WorkerLostError
from syft.workers.access.policy import DenyAll
from syft.workers.ray import cluster as ray_cluster
from syft.workers.ray import stream as ray_stream
from syft.workers.ray import worker as ray_worker
from syft.workers.ray.actor import Reorderer
from tests.helpers.ray_cluster import cluster as cluster
from tests.helpers.ray_cluster import marks

ray = pytest.importorskip("ray")

pytestmark = marks


@pytest.fixture(scope="module")
def trio(cluster):
    hook = sy.TorchHook(torch)
    workers = [
        sy.RayWorker(hook, id=f"ray-{name}", actor_options={"num_cpus": 0.5}) for name in ("bob", "alice", "carl")
    ]
    # On a busy machine it takes long until three actors have imported everything.
    ray.wait([worker._handle._asked for worker in workers], num_returns=len(workers), timeout=240)
    yield workers
    for worker in workers:
        end(worker)


@pytest.fixture
def bob(trio):
    yield trio[0]
    gc.collect()


@pytest.fixture
def alice(trio):
    yield trio[1]
    gc.collect()


def end(worker):
    worker.stop()
    for other in (sy.local_worker, *list(sy.local_worker._known_workers.values())):
        other._known_workers.pop(worker.id, None)


def held(worker):
    gc.collect()
    worker.synchronize()
    return len(worker._objects)


def wait_for(condition, seconds=60.0):
    deadline = time.monotonic() + seconds
    while not condition() and time.monotonic() < deadline:
        time.sleep(0.05)
    return condition()


@contextlib.contextmanager
def paused(worker):
    """Hold the process of an actor up, so that nothing is answered meanwhile."""
    pid = worker.pid
    os.kill(pid, signal.SIGSTOP)
    try:
        yield
    finally:
        os.kill(pid, signal.SIGCONT)


def test_an_actor_shows_where_it_runs(bob, hook):
    assert repr(bob) == "<RayWorker id:ray-bob>" and bob.is_alive() and bob.pid != os.getpid()
    assert bob.is_on_this_machine() and bob.node_id == ray.get_runtime_context().get_node_id()
    assert sy.RayWorker(hook, id=bob.id) is bob
    with pytest.raises(SyftError, match="in another process, where a policy"):
        bob.policy = DenyAll()


def test_load_data_stores_objects_at_the_actor(bob):
    bob.load_data([torch.ones(2).tag("#loaded")])
    assert held(bob) == 1
    bob.clear_objects()
    assert held(bob) == 0


def test_many_small_requests_are_few_calls(bob):
    x, local = torch.zeros(1).send(bob), torch.zeros(1)
    bob.synchronize()
    stream = sy.local_worker.stream_to(bob)
    before = stream.calls
    with paused(bob):  # as if it were busy: what is written meanwhile goes together
        for i in range(500):
            x = x + i % 3
            local = local + i % 3
    assert torch.equal(x.get(), local)
    assert stream.calls - before < 150
    for i in range(300):
        x = torch.ones(1).send(bob) if i == 0 else x.mul_(2).add_(i % 3)
        local = torch.ones(1) if i == 0 else local.mul_(2).add_(i % 3)
    assert torch.equal(x.get(), local)


def test_large_tensors(bob):
    """More than Ray's shared memory holds, while the worker is busy."""
    big = torch.arange(4_000_000)
    slow = torch.randn(700, 700).send(bob)
    slow @ slow @ slow
    pointers = [(big + i).send(bob) for i in range(4)]
    for i, pointer in enumerate(pointers):
        assert torch.equal(pointer.get(), big + i)


def test_a_writer_of_many_bytes_waits(bob, monkeypatch):
    monkeypatch.setattr(ray_stream, "_WAITING", 1 << 20)
    stream = sy.local_worker.stream_to(bob)
    bob.synchronize()
    sent, pointers, most = torch.randn(30, 50_000), [], []

    def write():
        for row in sent:
            pointers.append(row.send(bob))
            most.append(stream._waiting_bytes)

    with paused(bob):
        writer = threading.Thread(target=write)
        writer.start()
        assert wait_for(lambda: stream._waiting_bytes > 1 << 20)
        writer.join(0.3)
        assert writer.is_alive() and len(pointers) < 10, "a writer of more bytes waits"
    writer.join(60)
    assert len(pointers) == 30 and (1 << 20) < max(most) <= (1 << 20) + 300_000
    assert torch.equal(torch.stack([pointer.get() for pointer in pointers]), sent)


def test_bytes_of_calls():
    frames = [(0, 1, b"abc"), (0, 2, bytes(ray_stream._LARGE)), (3, 3, b""), (0, 2**60, b"x" * 5)]
    head, large = ray_stream.pack(frames)
    assert len(large) == 1 and [(*f[:2], bytes(f[2])) for f in ray_stream.unpack(head, large)] == frames
    for cut in (head[:-1], head[:5], head + b"\x00"):
        with pytest.raises(sy.exceptions.SerdeError, match="truncated"):
            list(ray_stream.unpack(cut, large))
    with pytest.raises(sy.exceptions.SerdeError, match="truncated"):
        list(ray_stream.unpack(head, []))


# --- several workers ------------------------------------------------------------------------------------------------


def test_moves_go_from_actor_to_actor(trio):
    bob, alice, carl = trio
    x = torch.arange(30_000.0).send(bob)
    with sy.count_messages() as n:
        y = x.move(alice)
    assert n.bytes < 2_000, "the client does not carry it"
    assert y.location is alice and held(bob) == 0
    assert torch.equal(y.get(), torch.arange(30_000.0))
    p = torch.ones(3).send(bob).send(alice)
    assert torch.equal(p.remote_get().get(), torch.ones(3))
    chain = torch.ones(2).send(carl).send(bob).send(alice).remote_get().remote_get()
    assert torch.equal(chain.get(), torch.ones(2)), "alice waits for bob, and then for carl"
    del p, chain
    assert wait_for(lambda: [held(worker) for worker in trio] == [0, 0, 0])


def test_workers_of_other_kinds(bob, hook, make_worker):
    virtual = make_worker("virtual")
    x = torch.arange(3.0).send(bob).move(virtual)
    assert torch.equal(virtual._objects[x.id_at_location], torch.arange(3.0))
    assert torch.equal(x.move(bob).get(), torch.arange(3.0))
    process = sy.ProcessWorker(hook, id="ray-process")
    try:
        with sy.count_messages() as n:
            y = torch.arange(3000.0).send(process).move(bob).move(process)
        assert n.bytes < 15_000 and torch.equal(y.get(), torch.arange(3000.0))
    finally:
        end(process)


def test_a_worker_on_another_machine(bob, make_worker, monkeypatch):
    """There is one machine here, so the actor is informed that the client is on another one."""
    monkeypatch.setattr(ray_cluster, "this_node", lambda: "elsewhere")
    far = make_worker("far")
    assert not bob.is_on_this_machine() and not bob.reaches(far)
    x = torch.arange(3.0).tag("#far").send(bob)
    y = x.move(far)
    assert torch.equal(far._objects[y.id_at_location], torch.arange(3.0)) and y.tags == {"#far"}, "it came by here"
    assert held(bob) == 0
    with pytest.raises(SyftError, match=r"can't hold a pointer there. Use .move\(far"):
        torch.ones(1).send(bob).remote_send(far)
    with pytest.raises(SyftError, match="another machine of the cluster, where only RayWorkers"):
        bob.admit("somebody")
    monkeypatch.undo()
    with pytest.raises(SyftError, match=r"does not reach 'far.*x.get\(\).send"):
        torch.ones(1).send(bob).move(far)


def test_two_clients(bob, make_worker):
    other = make_worker("other", "thread")
    mine, theirs = torch.ones(2).send(bob), other.send(torch.zeros(2), bob)
    bob.synchronize()
    assert other._streams[bob.id] is not sy.local_worker._streams[bob.id]
    other._streams[bob.id].synchronize()
    assert len(bob._objects) == 2
    other.stop()
    assert list(bob._objects) == [mine.id_at_location], "what a client left behind goes with it"
    del theirs


def test_threads_of_a_client(bob):
    found = []

    def work(number):
        for i in range(15):
            x = torch.tensor([float(number), float(i)]).send(bob)
            found.append(torch.equal((x * 2).get(), torch.tensor([2.0 * number, 2.0 * i])))

    threads = [threading.Thread(target=work, args=(number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert found == [True] * 60 and held(bob) == 0


# --- computing on shares --------------------------------------------------------------------------------------------


def test_sums_and_products_of_shares(trio):
    bob, alice, carl = trio
    x = torch.tensor([1.5, -2.0, 3.25]).fix_precision().share(bob, alice, crypto_provider=carl)
    y = torch.tensor([0.5, 4.0, 2.0]).fix_precision().share(bob, alice, crypto_provider=carl)
    torch.testing.assert_close((x + y).get().float_precision(), torch.tensor([2.0, 2.0, 5.25]))
    torch.testing.assert_close((x * y).get().float_precision(), torch.tensor([0.75, -8.0, 6.5]), atol=2e-3, rtol=0)
    assert (x > y).get().float_precision().tolist() == [1, 0, 1]
    del x, y
    assert wait_for(lambda: [held(worker) for worker in trio] == [0, 0, 0])


def test_parties_must_be_of_one_kind(bob, alice, make_worker):
    with pytest.raises(ProtocolError, match="Use parties of one kind"):
        torch.ones(1).fix_precision().share(bob, alice, crypto_provider=make_worker("dealer")) * 2.5


# --- ends -----------------------------------------------------------------------------------------------------------


def test_an_actor_that_finds_no_room(cluster, hook, monkeypatch):
    monkeypatch.setattr(ray_stream, "STARTUP_SECONDS", 0.5)
    monkeypatch.setattr(ray_worker, "STARTUP_SECONDS", 0.5)
    monkeypatch.setattr(ray_worker, "_DOUBT", 0.2)
    huge = sy.RayWorker(hook, id="ray-huge", actor_options={"num_cpus": 99}, auto_add=False)
    with pytest.raises(WorkerLostError, match=r"has not started its actor. It asks for {'num_cpus': 99}, and free"):
        sy.local_worker.send(torch.ones(1), huge)
    huge.stop()
    assert not huge.is_alive()


def test_bad_options(cluster, hook):
    with pytest.raises(SyftError, match="can't have lifetime, max_concurrency: leave it out"):
        sy.RayWorker(hook, id="ray-odd", actor_options={"max_concurrency": 1, "lifetime": "detached"})
    with pytest.raises(ValueError, match="nonsense"):
        sy.RayWorker(hook, id="ray-odd", actor_options={"nonsense": 1})
    assert "ray-odd" not in hook.local_worker._known_workers


def listening(pid):
    """Return the addresses at which a process listens, as the system writes them."""
    handles = [str(handle.readlink()) for handle in Path(f"/proc/{pid}/fd").iterdir() if handle.is_symlink()]
    found = []
    for table in ("tcp", "tcp6"):
        for row in Path(f"/proc/{pid}/net/{table}").read_text().splitlines()[1:]:
            _, local, _, state, _, _, _, _, _, inode, *_ = row.split()
            if state == "0A" and f"socket:[{inode}]" in handles:
                found.append(local.partition(":")[0])
    return found


def test_ray_is_reached_from_this_machine_only(trio):
    assert ray.get_runtime_context().gcs_address.startswith("127.0.0.1:")
    for worker in trio:
        found = listening(worker.pid)
        assert len(found) >= 2, "Ray's own port, and that of the worker"
        assert set(found) <= {"0100007F", "0000000000000000FFFF00000100007F"}
        assert str(worker.port) not in repr(worker)


def test_calls_in_the_order_of_their_numbers():
    taken = []
    turns = Reorderer(lambda number, item: taken.append((number, item)))
    for number in (3, 2, 1, 5, 4):
        turns.take(number, str(number))
    assert taken == [(number, str(number)) for number in range(1, 6)]


def test_without_ray(hook, monkeypatch):
    """`import syft` does not import it, and a RayWorker names what to install."""
    importing = re.compile(r"^\s*(import|from) ray\b", re.MULTILINE)
    assert not [path for path in Path(sy.__file__).parent.rglob("*.py") if importing.search(path.read_text())]
    monkeypatch.setitem(sys.modules, "ray", None)
    with pytest.raises(sy.exceptions.DependencyError, match=r"pip install 'ray==2\.60\.0'"):
        sy.RayWorker(hook, id="ray-none")
    assert "ray-none" not in hook.local_worker._known_workers


def test_an_actor_that_is_killed(trio, hook):
    bob, alice, victim = trio
    x, y = torch.ones(3).send(victim), torch.ones(3).send(bob)
    secret = torch.tensor([2.0]).fix_precision().share(bob, victim, crypto_provider=alice)
    (secret * secret).get()
    left = torch.ones(1).send(bob).send(victim)  # held at bob for victim,
    torch.ones(1).send(bob).send(victim).remote_get()  # the victim has sent bob a request since it claimed that
    victim.synchronize()
    stream = sy.local_worker.stream_to(victim)
    ray.kill(victim.actor)
    assert wait_for(lambda: not victim.is_alive())
    began = time.monotonic()
    for _ in range(2):
        with pytest.raises(WorkerLostError, match=r"'ray-carl' is lost.*killed by `ray.kill`.*Make a worker"):
            x.get()
    with pytest.raises(WorkerLostError, match="ray-carl"):
        y.move(victim)
    with pytest.raises((PartyLostError, WorkerLostError), match="ray-carl"):
        (secret * secret).get()
    with contextlib.suppress(PartyLostError):  # bob found out too
        bob.synchronize()
    assert time.monotonic() - began < 100
    assert torch.equal((y + y).get(), torch.full((3,), 2.0)), "others go on"
    stream._thread.join(60)
    assert repr(victim) == "<RayWorker id:ray-carl (its actor ended)>" and not stream._thread.is_alive()
    again = trio[2] = sy.RayWorker(hook, id=victim.id)
    ray.wait([again._handle._asked], timeout=200)
    assert again is not victim and torch.equal(y.move(again).get(), torch.ones(3)), "the others know the new one"
    with pytest.raises(SyftError, match="lost|closed"):
        torch.ones(1).send(victim)
    victim.stop()
    del secret, x, y, left
    assert wait_for(lambda: held(bob) == 0), "victim's session at bob ended with it"


def test_ray_is_shut_down(trio):
    bob = trio[0]
    x = torch.ones(1).send(bob)
    bob.synchronize()
    ray.shutdown()
    assert not bob.is_alive()
    for _ in range(2):
        with pytest.raises(WorkerLostError, match=r"'ray-bob' is lost.*Ray was shut down"):
            x.get()
    with pytest.raises(WorkerLostError, match="Ray was shut down"):
        sy.BaseWorker(None, "ray-late", auto_add=False).send(torch.ones(1), bob)
