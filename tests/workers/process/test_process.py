"""Workers in child processes: errors with their lines, authentication, restarts."""

from __future__ import annotations

import gc
import os
import signal
import socket
import textwrap
import time
from pathlib import Path

import pytest
import torch

import syft as sy
from syft.exceptions import (
    GetNotPermittedError,
    SyftError,
    WorkerLostError,
    WorkerNotFoundError,
)
from syft.workers.access.policy import DenyAll
from syft.workers.process.worker import ProcessWorker
from syft.workers.transport import handshake
from syft.workers.transport.handshake import Address
from tests.helpers import warm_processes as warm
from tests.helpers.processes import end, start

pytestmark = [
    pytest.mark.skipif(os.name != "posix", reason="sockets are handed to processes"),
    pytest.mark.timeout(300),
    pytest.mark.xdist_group("processes"),
]


def is_running(pid):
    """Say whether a process is there, and not only waiting to be buried."""
    try:
        with open(f"/proc/{pid}/stat") as stat:
            return stat.read().rpartition(")")[2].split()[0] != "Z"
    except FileNotFoundError:
        return False


def wait_for(condition, seconds=60.0):
    deadline = time.monotonic() + seconds
    while not condition() and time.monotonic() < deadline:
        time.sleep(0.05)
    return condition()


@pytest.fixture(scope="module")
def pair():
    with warm.cold():  # as users' workers start
        workers = start("bob"), start("alice")
    yield workers
    end(*workers)


@pytest.fixture
def bob(pair):
    yield pair[0]
    gc.collect()


@pytest.fixture
def alice(pair):
    yield pair[1]
    gc.collect()


def held(worker):
    gc.collect()
    worker.synchronize()
    return len(worker._objects)


def test_a_worker_shows_its_process(bob):
    assert str(bob.pid) in repr(bob) and bob.id in repr(bob) and bob.is_alive()
    with pytest.raises(SyftError, match="another process"):
        bob.set_obj(torch.ones(1))


def test_the_client_does_not_wait(bob):
    x = torch.randn(70, 70).send(bob)
    bob.synchronize()
    os.kill(bob.pid, signal.SIGSTOP)  # it does nothing meanwhile
    try:
        y = x
        for _ in range(20):
            y = y @ x
        assert y.shape == (70, 70)
    finally:
        os.kill(bob.pid, signal.SIGCONT)
    bob.synchronize()


def test_large_tensors_do_not_block_the_writer(bob):
    big = torch.arange(4_000_000)
    slow = torch.randn(1500, 1500).send(bob)
    slow @ slow @ slow
    pointers = [(big + i).send(bob) for i in range(5)]  # more than any socket takes at once, while nobody reads
    for i, pointer in enumerate(pointers):
        assert torch.equal(pointer.get(), big + i)


def test_counts_are_those_of_other_workers(bob):
    model = torch.nn.Linear(3, 2)
    with sy.count_messages() as n:
        model.send(bob)
        model(torch.ones(4, 3).send(bob)).pow(2).sum().backward()
        model.get()
    assert (n.messages, n.rounds) == (7, 1)


def test_two_clients_of_this_process(bob, make_worker):
    carol = make_worker("carol")
    with sy.acting_as(carol):
        x = torch.ones(2).send(bob)
    y = torch.ones(2).send(bob)
    carol.close()
    assert wait_for(lambda: held(bob) == 1), "what one client left goes with its connection, and nothing else"
    assert torch.equal(y.get(), torch.ones(2))
    x.child.lease.owned = False


def test_workers_reach_each_other(bob, alice):
    x = torch.arange(3.0).send(bob)
    moved = x.move(alice)
    assert moved.location is alice and held(bob) == 0
    assert torch.equal((moved + 1).get(), torch.arange(3.0) + 1)
    chained = torch.ones(3).send(bob).send(alice)
    twice = chained + chained
    assert torch.equal(twice.get().get(), torch.full((3,), 2.0))
    remote = torch.ones(3).send(bob).send(alice).remote_get()
    assert torch.equal(remote.get(), torch.ones(3))
    sent = torch.ones(2).send(bob).remote_send(alice)
    assert torch.equal(sent.get().get(), torch.ones(2))
    del x, moved, chained, twice, remote, sent
    assert held(alice) == 0 and wait_for(lambda: held(bob) == 0)


def test_workers_of_this_process_and_others(bob, make_worker, nothing_left):
    carol = make_worker("carol")
    chained = torch.ones(3).send(carol).send(bob)
    assert torch.equal((chained + chained).get().get(), torch.full((3,), 2.0))
    assert torch.equal(torch.ones(2).send(bob).move(carol).get(), torch.ones(2))
    assert torch.equal(torch.ones(2).send(carol).move(bob).get(), torch.ones(2))
    back = torch.ones(2).send(bob).send(carol)
    assert torch.equal((back * 3).get().get(), torch.full((2,), 3.0))
    del chained, back
    assert wait_for(lambda: held(bob) == 0)
    nothing_left(carol)


def test_the_local_worker_only_sends(bob):
    x = torch.ones(1).send(bob)
    with pytest.raises(WorkerNotFoundError):
        x.child.lease.stream.hand_over(x.id_at_location, sy.local_worker, 1, False)


def test_policies_are_not_set_from_afar(bob):
    with pytest.raises(SyftError, match="another process"):
        bob.policy = DenyAll()
    assert issubclass(GetNotPermittedError, SyftError)


def test_the_same_id_is_the_same_worker(hook, bob):
    assert ProcessWorker(hook, id=bob.id) is bob
    with pytest.raises(RuntimeError, match="already known"):
        sy.VirtualWorker(hook, id=bob.id)


# --- strangers ------------------------------------------------------------------------------------------------------


def test_connections_without_the_token_are_refused(bob, alice):
    port = bob.port
    with pytest.raises(OSError):
        handshake.connect(Address.fresh(port), timeout=30)
    meant_for_alice = alice.admit("mallory")
    with pytest.raises(OSError):
        handshake.connect(Address(port, meant_for_alice.token, meant_for_alice.proof), timeout=30)
    with socket.create_connection(("127.0.0.1", port), timeout=30) as sock:
        sock.sendall(b"GET / HTTP/1.1\r\n\r\n" + bytes(4000))
        try:
            assert sock.recv(100) == b""
        except ConnectionResetError:
            pass
    assert torch.equal(torch.ones(1).send(bob).get(), torch.ones(1))


def test_a_server_that_does_not_know_the_token_is_refused(bob):
    good = bob.admit("carol")
    with pytest.raises(ConnectionError, match="another process"):
        handshake.connect(Address(good.port, good.token, bytes(32)))


def test_the_port_is_of_this_machine_only(bob):
    with open(f"/proc/{bob.pid}/net/tcp") as table:
        ports = [row.split()[1] for row in list(table)[1:]]
    assert f"0100007F:{bob.port:04X}" in ports and f"00000000:{bob.port:04X}" not in ports


def test_secrets_are_not_shown(bob):
    address = bob.admit("carol")
    assert "token" not in repr(address) and "proof" not in repr(address)
    with open(f"/proc/{bob.pid}/cmdline", "rb") as line, open(f"/proc/{bob.pid}/environ", "rb") as environment:
        assert address.token not in line.read() + environment.read()


@pytest.mark.parametrize(
    "sent",
    [b"\x00" * 17 + b"x", b"\x02" + b"\x01" * 8 + (3).to_bytes(8, "little") + b"abc", b"\xff" * 40],
    ids=["nothing", "an order of its maker", "too large"],
)
def test_frames_that_no_client_sends(bob, sent):
    sock = handshake.connect(bob.admit("mallory"))
    with sock:
        sock.sendall(sent)
        sock.shutdown(socket.SHUT_WR)
        sock.settimeout(60)
        while sock.recv(1 << 16):
            pass
    assert torch.equal(torch.ones(1).send(bob).get(), torch.ones(1))


# --- ends -----------------------------------------------------------------------------------------------------------


def test_a_killed_worker_can_be_started_again(hook, bob):
    with warm.cold():
        victim = start("victim")
    x = torch.ones(3).send(victim)
    y = torch.ones(3).send(bob)
    victim.synchronize()
    os.kill(victim.pid, signal.SIGKILL)
    for _ in range(3):
        with pytest.raises(WorkerLostError, match=rf"'{victim.id}' is lost.*signal 9.*Make a worker"):
            x.get()
    with pytest.raises(WorkerLostError, match=victim.id):
        x + x
        x + x  # at the latest
    with pytest.raises(WorkerLostError, match=victim.id):
        torch.ones(1).send(victim)
    with pytest.raises(WorkerLostError, match=victim.id):
        y.move(victim)
    assert torch.equal((y + y).get(), torch.full((3,), 2.0)), "others go on"
    assert "ended" in repr(victim)
    again = ProcessWorker(hook, id=victim.id)
    assert again is not victim and again.is_alive()
    assert torch.equal(y.move(again).get(), torch.ones(3)), "the others know the new one"
    pid = again.pid
    end(again)
    victim.stop()
    assert not is_running(pid)
    with pytest.raises(SyftError, match="lost|closed"):
        torch.ones(1).send(again)


def test_a_missing_answer_raises_a_timeout(bob):
    victim = start("victim")
    x = torch.ones(1200, 1200).send(victim)
    victim.synchronize()
    for _ in range(30):
        x = x @ x
    os.kill(victim.pid, signal.SIGKILL)
    began = time.monotonic()
    with pytest.raises(WorkerLostError):
        x.get()
    assert time.monotonic() - began < 60
    end(victim)


@pytest.mark.parametrize("how", ["os._exit(0)", "os.kill(os.getpid(), 9)", "sys.exit()", "raise KeyError"])
def test_it_ends_with_its_maker(how):
    script = f"""
        import os, sys, torch, syft as sy
        from syft.workers.process.worker import ProcessWorker
        bob = ProcessWorker(sy.TorchHook(torch), id="bob")
        print(torch.ones(1).send(bob).get().item(), bob.pid, flush=True)
        {how}
    """
    home = str(Path(__file__).resolve().parents[3])
    done = warm.run(textwrap.dedent(script), env={**os.environ, "PYTHONPATH": home}, timeout=120)
    value, pid = done.stdout.split()
    assert float(value) == 1
    assert wait_for(lambda: not is_running(pid))
    assert "Exception ignored" not in done.stderr
