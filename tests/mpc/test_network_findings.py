"""What reviews of parties on sockets found: each of these went wrong once."""

from __future__ import annotations

import errno
import os
import socket
import struct
import threading
import time

import pytest
import torch

from syft import config
from syft.exceptions import PartyLostError, ProtocolError, SerdeError
from syft.messaging.message import RunMessage
from syft.mpc.dealer import wire_protocol
from syft.mpc.dealer.wire_protocol import DealerLink, Deals, generator_for, label_of
from syft.mpc.protocols import securenn
from syft.mpc.protocols.arithmetic import multiply
from syft.mpc.runtime import dealer_service, network
from syft.workers.process.worker import ProcessWorker
from syft.workers.transport import framing, socket_stream
from syft.workers.transport.request_codec import read_answer
from syft.workers.transport.socket_stream import PeerIdentity
from tests import warm
from tests.mpc.mesh_world import AT_ONCE, Client, is_right, opened, shares, soon


@pytest.fixture
def dealt():
    """Make connections to one dealer."""
    made, dealer = [], dealer_service.Provider()

    def link(who):
        ours, theirs = socket.socketpair()
        threading.Thread(target=dealer.serve, args=(PeerIdentity(who), theirs), daemon=True).start()
        made.append(DealerLink(ours, "dealer", "g", ("a", "b"), who == "b"))
        made[-1].dealer = dealer
        return made[-1]

    yield link
    for one in made:
        one.close()


def deal(link, base, *size, kind="square"):
    """Have a square dealt in a run of its own, and say whether it is right."""
    deals = Deals(base, lambda: link)
    a, aa = deals.deal(kind, (size,))
    deals.end()
    seeds = next(iter(link.dealer._groups.values())).seeds
    label = label_of(deals.key, deals.instance, 0, kind, (size,))
    drawn = [generator_for(seed, label) for seed in seeds]
    first, second = drawn[0].words(*size), drawn[1].words(*size)
    return torch.equal(a, second) and torch.equal(drawn[0].words(*size) + aa, (first + second) ** 2)


# --- runs with a helper -------------------------------------------------------------------------------------------


async def _ahead(party, x):
    """Fail after one party has taken from the dealer and the other has not."""
    if party.index == 0:
        raise RuntimeError("before it was dealt to")
    if party.index == 1:
        await party.deal("triple", "mul", (5,), (5,), ())
    await party.exchange({}, (0,))


async def _relu(party, x):
    return await securenn.relu(party, x)


def _relu_is_right(world):
    value = torch.tensor([3, -2, 0, 5, -7])
    (first,) = shares(1, 5)
    results, errors = world.run("ab", _relu, [first, value - first, (5,)], helper=True, name="relu")
    return not errors and torch.equal(results[0] + results[1], value.relu())


def test_a_run_with_a_helper_after_one_that_failed(make_world):
    world = make_world("a", "b", "dealer")
    began = time.monotonic()
    for _ in range(2):
        assert _relu_is_right(world)
        assert len(world.run("ab", _ahead, [None, None, None], helper=True, name="relu")[1]) == 3
        assert _relu_is_right(world) and _relu_is_right(world)
    assert time.monotonic() - began < AT_ONCE


def test_parties_that_disagree_with_a_helper_give_up_at_once(make_world):
    world = make_world("a", "b", "dealer")
    assert _relu_is_right(world)
    (group,) = world.workers["b"].mpc_runtime._groups.values()
    for key in group._dealer.instances:
        group._dealer.instances[key] += 3  # nobody else was told
    began = time.monotonic()
    _, errors = world.run("ab", _relu, [*shares(2, 5), (5,)], helper=True, name="relu")
    assert {0, 1} <= set(errors) and not any(isinstance(error, PartyLostError) for error in errors.values())
    assert time.monotonic() - began < AT_ONCE
    assert _relu_is_right(world) and _relu_is_right(world)


def test_nothing_is_opened_to_a_helper(make_world):
    world = make_world("a", "b", "dealer")
    _, errors = world.run("ab", opened, [*shares(2, 5), torch.zeros(5).long()], helper=True)
    assert any("knows the masks" in str(error) for error in errors.values()) and len(errors) == 3
    assert world.cost("a").bytes == 0


# --- the dealer ---------------------------------------------------------------------------------------------------


def test_a_party_comes_again_while_the_dealer_writes(dealt):
    """The last party does not read what is dealt ahead, so the dealer is in the middle of writing it."""
    with config.override(stream_timeout=60.0):
        dealt("a"), (last := dealt("b"))
        for _ in range(3):
            deals = Deals(b"base", lambda: last)
            deals.deal("triple", ("mul", (300_000,), (300_000,), ()))
            deals.end()
            time.sleep(0.2)
        assert dealt("a").generation != last.generation
        assert soon(lambda: not last.is_open() or last._sock.recv(1 << 20) == b"")


def test_closing_wakes_who_writes():
    ours, theirs = socket.socketpair()
    connection = framing.Connection(ours, 1 << 30)
    failed = []

    def write():
        try:
            connection.write(0, 0, bytes(50_000_000))
        except OSError as error:
            failed.append(error)

    writer = threading.Thread(target=write, daemon=True)
    writer.start()
    time.sleep(0.1)
    closer = threading.Thread(target=connection.close, daemon=True)
    closer.start()
    closer.join(60)
    writer.join(60)
    assert not closer.is_alive() and failed
    theirs.close()


def test_an_answer_to_another_question(dealt):
    """What a run that failed left in the line is not what the next one asked for."""
    link = dealt("b")
    link._say(wire_protocol.LEARN, (b"k" * 16, 1, "nonsense"))
    link._say(wire_protocol.ASK, (b"k" * 16, 1, 0, "square", ((3,),)))
    for number in range(4):
        assert deal(link, b"base %d" % (number % 2), 3)


@pytest.mark.parametrize("kind", [wire_protocol.PACK, wire_protocol.DROP, wire_protocol.SEED, wire_protocol.DEALT, 99])
def test_what_is_not_understood_closes_the_connection_to_the_dealer(kind):
    ours, theirs = socket.socketpair()
    dealer = framing.Connection(theirs, 1000)
    dealer.write(wire_protocol.SEED, 0, wire_protocol.SEEDS.pack(1, bytes(16)))
    with config.override(stream_timeout=60.0):
        link = DealerLink(ours, "dealer", "g", ("a", "b"), True)
    dealer.write(kind, 1000 if kind == wire_protocol.DEALT else 0, b"\x01")
    with pytest.raises(PartyLostError, match="No shares are gone"):
        Deals(b"base", lambda: link).deal("square", ((3,),))
    assert not link.is_open()
    dealer.close()


def test_frames_over_the_limit_are_not_sent():
    ours, theirs = socket.socketpair()
    connection = framing.Connection(ours, 100)
    with pytest.raises(SerdeError, match="limit"):
        connection.write_pieces(0, 0, [bytes(60), bytes(60)])
    theirs.setblocking(False)
    with pytest.raises(BlockingIOError):
        theirs.recv(1)
    connection.close(), theirs.close()


def test_packs_are_bounded_and_computed_once(dealt, monkeypatch):
    monkeypatch.setattr(dealer_service, "AHEAD_BYTES", 1000)
    computed, sent = [], []
    compute, write = dealer_service.DealQueue._compute, framing.Connection.write_pieces
    monkeypatch.setattr(dealer_service.DealQueue, "_compute", lambda *args: computed.append(args[2]) or compute(*args))

    def watched(self, kind, number, pieces):
        if kind == wire_protocol.PACK:
            sent.append(sum(map(len, pieces)))
        return write(self, kind, number, pieces)

    monkeypatch.setattr(framing.Connection, "write_pieces", watched)
    link = dealt("b")
    for _ in range(6):
        assert deal(link, b"base", 1000)
        time.sleep(0.05)
    assert len(computed) <= 7 and sent and max(sent) < 1000


def test_a_part_of_a_run_is_dealt_ahead(dealt, monkeypatch):
    monkeypatch.setattr(dealer_service, "PACK_BYTES", 2000)
    asked = []
    ask = dealer_service.DealQueue._asked
    monkeypatch.setattr(dealer_service.DealQueue, "_asked", lambda *args: asked.append(args[4]) or ask(*args))
    link = dealt("b")
    for _ in range(4):
        deals = Deals(b"base", lambda: link)
        for _ in range(5):
            deals.deal("square", ((100,),))
        deals.end()
    assert asked == [*range(5), *[2, 3, 4] * 3]


def test_a_dealer_that_is_gone_at_the_end(make_world, monkeypatch):
    """What was computed stays right though the dealer does not hear what it took."""
    world = make_world("a", "b", "dealer")
    end = DealerLink.end
    monkeypatch.setattr(DealerLink, "end", lambda self, *args: self.close() or end(self, *args))
    for _ in range(2):
        x = shares(2, 5)
        results, errors = world.run("ab", multiply, x, x)
        assert not errors and torch.equal(results[0] + results[1], sum(x) * sum(x))
        assert is_right(world, "ab")


def test_keys_are_forgotten_together(dealt, monkeypatch):
    desks = []
    init = dealer_service.DealQueue.__init__
    monkeypatch.setattr(
        dealer_service.DealQueue, "__init__", lambda self, *args: desks.append(self) or init(self, *args)
    )
    for module in (wire_protocol, dealer_service):
        monkeypatch.setattr(module, "MAX_KEYS", 3)
    link = dealt("b")
    for number in (*range(8), 0, 0, 7, 7, 7):
        assert deal(link, b"base %d" % number, 4)
    assert len(link._learned) <= 3 and len({key for key, _ in link._packs}) <= 3
    assert soon(lambda: not desks[0]._ahead and desks[0]._frames.empty())
    assert len(desks[0]._known) <= 3 and len({key for key, _ in desks[0]._waiting}) <= 3


def test_a_party_that_claims_to_be_far_ahead(make_world):
    world = make_world("a", "b", "dealer")
    for far in (2**32 - 2, 5000, 10):
        x = shares(2, 5)
        assert not world.run("ab", multiply, x, x)[1]
        (group,) = world.workers["b"].mpc_runtime._groups.values()
        for key in group._dealer.instances:
            group._dealer.instances[key] = far
        for _ in range(5):  # how soon they agree again depends on who notices first
            results, errors = world.run("ab", multiply, x, x, wait=3)
            if not errors:
                break
        assert not errors and torch.equal(results[0] + results[1], sum(x) * sum(x))


# --- groups -------------------------------------------------------------------------------------------------------


def test_parties_that_were_told_different_options(make_world):
    world = make_world("a", "b", "dealer")
    x = shares(2, 5)
    results, errors = {}, {}

    def take_part(index, name):
        message = RunMessage((3,), "one run", "multiply", ("a", "b"), "dealer", {"divisor": index + 1}, 0)
        try:
            world.workers[name].mpc_runtime.run(
                Client(), message, index, 2, lambda party: multiply(party, x[index], x[index]),
                lambda result: results.__setitem__(index, result),
            )  # fmt: skip
        except ProtocolError as error:
            errors[index] = error

    threads = [threading.Thread(target=take_part, args=pair) for pair in enumerate("ab")]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(20)
    assert set(errors) == {0, 1} and not results
    assert is_right(world, "ab")


def test_a_group_that_is_left_before_its_run_begins(make_world, monkeypatch):
    monkeypatch.setattr(network, "MAX_GROUPS", 1)
    world = make_world("a", "b", "dealer")
    assert is_right(world, "ab")
    runtime = world.workers["a"].mpc_runtime
    (left,) = runtime._groups.values()
    waiting = RunMessage((), "waits", "opened", ("a", "b"), "dealer", {}, 0)
    found = []

    def wait():
        with runtime._group(Client(), waiting, 2) as group:
            found.append(group)

    with left.lock:
        thread = threading.Thread(target=wait)
        thread.start()
        time.sleep(0.1)
        runtime._groups.clear()
        left.close()
    thread.join(60)
    assert found and found[0] is not left and list(runtime._groups.values()) == found


@pytest.mark.parametrize("how", ["late", "dealer"])
def test_what_is_said_of_shares_that_are_still_there(make_world, how):
    world = make_world("a", "b", "dealer")
    if how == "late":
        _, errors = world.run("ab", opened, shares(2, 3), without=(1,), wait=1)
    else:
        world.listeners["dealer"].close()
        _, errors = world.run("ab", multiply, shares(2, 3), shares(2, 3))
    lost = [str(error) for error in errors.values() if isinstance(error, PartyLostError)]
    assert lost and not any("are gone with it; share" in text for text in lost)


# --- sockets and processes ----------------------------------------------------------------------------------------


class _Failing:
    """A listening socket that fails to accept now and then."""

    def __init__(self, sock):
        self._sock = sock
        self.failures = [errno.ECONNABORTED, errno.EMFILE]

    def accept(self):
        if self.failures:
            raise OSError(self.failures.pop(), "as if")
        return self._sock.accept()

    def __getattr__(self, name):
        return getattr(self._sock, name)


def test_a_listener_goes_on_after_it_failed(make_world):
    world = make_world("a", "b")
    listener = socket_stream.Listener(_Failing(framing.listen()))
    address = framing.Address.fresh(listener.port)
    listener.announce(world.workers["a"], "me", address)
    framing.connect(address, "mpc-knock", timeout=60).close()
    listener.close()


def test_who_is_gone_is_not_let_in_for_ever(hook):
    before = len(socket_stream.hub()._announced)
    bob = ProcessWorker(hook, id="findings-bob")
    torch.ones(2).send(bob).get()
    admitted = len(bob._admitted)  # this client, and whoever else is known
    for _ in range(3):
        torch.ones(2).send(bob).get()
        for stream in list(bob._incoming):
            stream.close()
            stream.client._streams.pop(bob.id, None)
    torch.ones(2).send(bob).get()
    assert len(bob._incoming) == 1 and len(bob._admitted) == admitted
    bob.stop()
    assert len(socket_stream.hub()._announced) == before


def test_a_stream_says_at_once_that_it_is_lost(hook):
    bob = ProcessWorker(hook, id="findings-lost")
    torch.ones(2).send(bob).get()
    (stream,) = bob._incoming
    asked, go_on = threading.Event(), threading.Event()
    bob.why_lost = lambda: asked.set() or str(go_on.wait(100))
    stream._connection._sock.shutdown(socket.SHUT_RDWR)
    assert asked.wait(60)
    free = stream._order.acquire(timeout=30)
    go_on.set()
    assert free
    stream._order.release()
    bob.stop()


def test_a_process_is_started_with_the_path_of_its_maker(hook):
    with warm.cold():
        bob = ProcessWorker(hook, id="findings-path")
    torch.ones(2).send(bob).get()
    with open(f"/proc/{bob.pid}/environ", "rb") as file:
        environment = dict(entry.partition(b"=")[::2] for entry in file.read().split(b"\0") if entry)
    assert environment.get(b"PYTHONPATH") == os.environb.get(b"PYTHONPATH")
    bob.stop()


def test_an_answer_that_is_too_large(make_world):
    world = make_world("a")
    ours, theirs = socket.socketpair()
    connection, other = framing.Connection(ours, 300), framing.Connection(theirs, 1000)
    socket_stream._write_answer(connection, 7, bytes(500))
    kind, number, written = other.read()
    assert (kind, number) == (framing.ANSWER, 7)
    with pytest.raises(SerdeError, match="limit"):
        read_answer(None, world.workers["a"], bytes(written))
    connection.close(), other.close()


def test_an_abort_that_is_cut_off(make_world):
    world = make_world("a", "b", "dealer")
    assert is_right(world, "ab")
    (group,) = world.workers["b"].mpc_runtime._groups.values()
    over = next(iter(group.over))
    for reason in (b"", b"\x00", struct.pack("<h16s", 7, bytes(16))):
        header = network.mesh._HEADER.pack(1, len(reason), over, 0, 2**32 - 1, 1, 0)
        group._links[0].sock.sendall(header + reason)
    x = shares(2, 5)
    results, errors = world.run("ab", multiply, x, x)
    assert not errors and torch.equal(results[0] + results[1], sum(x) * sum(x))


def test_who_hears_that_another_lost_the_dealer_is_told_whom(make_world):
    world = make_world("a", "b", "dealer")
    assert is_right(world, "ab")

    async def lose(party, x):
        if party.index == 1:
            raise PartyLostError("dealer", "it is gone")
        return await party.open(x)

    _, errors = world.run("ab", lose, shares(2, 3))
    assert len(errors) == 2 and all(isinstance(error, PartyLostError) for error in errors.values())
    assert all("'dealer'" in str(error) for error in errors.values())
    assert is_right(world, "ab")
