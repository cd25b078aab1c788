"""The line between a client and a node: how slow, how large and how much at once it may be, and what is said first."""

import contextlib
import json
import socket
import threading
import types
import urllib.request

import pytest
import torch

import syft as sy
from syft import config
from syft.exceptions import NodeLostError, SerdeError, SyftError
from syft.messaging.message import ObjectMessage, ObjectRequestMessage
from syft.serde import deserialize, serialize
from syft.workers.transport import framing, greeting, handshake, reconnecting_stream, resend_buffer
from syft.workers.transport.framing import BYE, HEADER, HELLO, REQUEST, WELCOME, FramedConnection
from syft.workers.transport.greeting import VERSION
from syft.workers.transport.pipe import SocketPipe
from syft.workers.transport.request_codec import write_request
from syft.workers.transport.websocket import Endpoint, WebsocketPipe
from tests.helpers.attacks.live_client import Visitor
from tests.helpers.nodes import forget, node, resident, soon

MiB = 1 << 20
LIMIT = 4 * MiB


@pytest.fixture(scope="module")
def small():
    """A node that reads no large messages."""
    with node("small", max_message_bytes=LIMIT) as process:
        yield process


@pytest.fixture
def alice(hook, small):
    client = small.connect(hook)
    yield client
    forget(hook, client)


# --- how slow ----------------------------------------------------------------------------------------------------


class SlowPipe:
    """A pipe whose pieces arrive one after the other, each after some seconds of its own clock."""

    def __init__(self, monkeypatch, pieces, patience=60.0):
        self.now, self.pause_timeout, self._pieces = 0.0, patience, iter(pieces)
        monkeypatch.setattr(framing, "time", types.SimpleNamespace(monotonic=lambda: self.now))

    def recv(self, within=None):
        seconds, piece = next(self._pieces)
        if within is not None and seconds > within:
            self.now += within
            return b""
        self.now += seconds
        return piece


def frame_of(size):
    return HEADER.pack(REQUEST, 1, size)


def trickle(size, piece, seconds):
    """A frame whose contents come in pieces."""
    yield 0.0, frame_of(size)
    for start in range(0, size, piece):
        yield seconds, bytes(min(piece, size - start))


def test_a_frame_that_trickles_is_given_up(monkeypatch):
    pipe = SlowPipe(monkeypatch, trickle(MiB, 1, 1.0))
    assert FramedConnection(pipe, MiB).read() is None
    assert pipe.now < 62


def test_a_header_that_trickles_is_given_up(monkeypatch):
    pipe = SlowPipe(monkeypatch, [(1000.0, b"\0"), *((10.0, b"\0") for _ in range(16))])
    assert FramedConnection(pipe, MiB).read() is None
    assert 1000 < pipe.now < 1062  # it may begin whenever it likes


def test_a_frame_that_stops_is_given_up_however_much_has_arrived(monkeypatch):
    pipe = SlowPipe(monkeypatch, [(0.0, frame_of(20 * MiB)), (0.0, bytes(10 * MiB)), (1e9, b"")])
    assert FramedConnection(pipe, 20 * MiB).read() is None
    assert pipe.now == 60


def test_a_slow_line_carries_a_large_tensor(monkeypatch):
    pipe = SlowPipe(monkeypatch, trickle(8 * MiB, 1 << 16, 10.0))  # which takes 20 minutes
    assert FramedConnection(pipe, 8 * MiB).read() == (REQUEST, 1, bytearray(8 * MiB))
    assert pipe.now > 1000


def test_a_frame_that_is_awaited_must_be_whole_in_time(monkeypatch):
    for pieces in (trickle(100, 1, 1.0), [(1e9, b"")], [(0.0, frame_of(100)), (1e9, b"")]):
        pipe = SlowPipe(monkeypatch, pieces)
        assert FramedConnection(pipe, MiB).read(within=20.0) is None
        assert pipe.now == 20


def test_the_handshake_of_a_process_has_a_deadline(monkeypatch):
    """A token that trickles is not waited for byte by byte."""
    clock = [0.0]
    monkeypatch.setattr(handshake, "time", types.SimpleNamespace(monotonic=lambda: clock[0]))

    class Trickling:
        def settimeout(self, seconds):
            assert seconds > 0

        def recv(self, size):
            clock[0] += 1.0
            return b"s"

    with pytest.raises(TimeoutError):
        handshake.receive_hello(Trickling())
    assert clock[0] <= handshake.HANDSHAKE_SECONDS


# --- how large ---------------------------------------------------------------------------------------------------


def test_a_header_takes_no_memory():
    with node("roomy") as process:
        visitors = [Visitor(process.url, process.tokens["bob"]) for _ in range(20)]
        before = resident(process.pid)
        for visitor in visitors:
            visitor.frame(REQUEST, 1, 512 * MiB, b"x")
        other = Visitor(process.url, process.tokens["alice"])  # by the time it is answered, all were read
        assert other.ask(ObjectMessage(torch.ones(3), "ones")) is None
        assert resident(process.pid) - before < 64 * MiB
        for visitor in (*visitors, other):
            visitor.close()


def test_a_header_takes_no_memory_between_processes():
    pairs = [socket.socketpair() for _ in range(8)]
    connections = [framing.FramedConnection(SocketPipe(ours), 1 << 30) for ours, _ in pairs]
    before = resident()
    readers = [threading.Thread(target=connection.read, daemon=True) for connection in connections]
    for reader, (_, theirs) in zip(readers, pairs, strict=True):
        reader.start()
        theirs.sendall(framing.HEADER.pack(REQUEST, 1, 1 << 29) + bytes(100))
    soon(lambda: False, 0.5)
    assert resident() - before < 64 * MiB
    for connection, (_, theirs) in zip(connections, pairs, strict=True):
        theirs.close()
        connection.close()
    for reader in readers:
        reader.join(60)


@pytest.mark.parametrize("size", [0, 1, 65_535, 65_536, 65_537, (1 << 18) + 1, 5 * MiB + 3])
def test_frames_between_processes_arrive_whole(size):
    ours, theirs = socket.socketpair()
    sender, receiver = (
        framing.FramedConnection(SocketPipe(ours), 1 << 30),
        framing.FramedConnection(SocketPipe(theirs), 1 << 30),
    )
    value = torch.randint(0, 256, (size,), dtype=torch.uint8).numpy().tobytes()
    thread = threading.Thread(target=lambda: [sender.write(REQUEST, n, value) for n in (1, 2)], daemon=True)
    thread.start()
    for number in (1, 2):
        assert receiver.read() == (REQUEST, number, bytearray(value))
    thread.join(60)
    sender.close()
    receiver.close()


def test_a_message_above_the_limit_of_the_node_is_not_sent(hook, alice, small):
    stream = sy.local_worker.stream_to(alice)
    kept = torch.ones(3).send(alice)
    alice.synchronize()
    large = torch.zeros(LIMIT // 4 + 1).random_()
    places = large.long().tolist()

    @sy.func2plan(args_shape=[(1,)], state=(large,))
    def plan(x, state):
        (weights,) = state.read()
        return x + weights.sum()

    written = stream._connection.written_bytes
    for send in (
        lambda: large.send(alice),
        lambda: plan.send(alice),
        lambda: kept[places],
    ):
        with pytest.raises(SerdeError, match=rf"'small' reads at most {LIMIT} \(max_message_bytes\)"):
            send()
    assert stream._connection.written_bytes - written < MiB
    assert stream.reconnects == 0 and sy.local_worker.stream_to(alice) is stream
    parts = [part.send(alice) for part in large.chunk(2)]
    assert torch.equal(torch.cat(parts).sum().get(), large.sum())
    assert torch.equal(kept.get(), torch.ones(3))


def test_released_ids_are_kept_when_a_message_is_not_sent(alice):
    held = torch.ones(3).send(alice)
    obj_id = held.id_at_location
    alice.synchronize()
    del held
    with pytest.raises(SerdeError):
        torch.zeros(LIMIT).random_().send(alice)
    alice.synchronize()
    assert obj_id not in alice._objects


def test_a_message_above_the_limit_does_not_lose_a_process(hook):
    with config.override(max_message_bytes=LIMIT):
        worker = sy.ProcessWorker(hook, id="frugal")
        try:
            x = torch.ones(3).send(worker)
            with pytest.raises(SerdeError, match="max_message_bytes"):
                torch.zeros(LIMIT).random_().send(worker)
            assert torch.equal(x.get(), torch.ones(3))
        finally:
            forget(hook, worker)


def test_a_request_that_breaks_every_connection_ends_the_stream(hook, small):
    client = small.connect(hook)
    stream = sy.local_worker.stream_to(client)
    torch.ones(3).send(client)
    client.synchronize()
    stream.largest = None  # as with a node that does not say what it reads
    with pytest.raises(NodeLostError, match=r"sent over 4 connections.*send less in one message"):
        torch.zeros(2 * LIMIT).random_().send(client)
        client.synchronize()
    assert stream.reconnects == resend_buffer.MAX_RESENDS
    assert torch.equal((torch.ones(2).send(client) + 1).get(), torch.full((2,), 2.0))  # by a fresh stream
    forget(hook, client)


# --- what is said first ------------------------------------------------------------------------------------------


@contextlib.contextmanager
def line_to(process):
    pipe = WebsocketPipe(Endpoint(process.url, process.tokens["bob"]).at("/stream"), 60)
    try:
        yield FramedConnection(pipe, MiB)
    finally:
        pipe.close()


@pytest.mark.parametrize(
    ("version", "who"), [(VERSION - 1, "upgrade resyft here"), (VERSION + 1, "upgrade resyft at the worker")]
)
@pytest.mark.parametrize("rest", [("", b""), (), ("another", "kind", 7)])
def test_a_client_of_another_version_gets_the_reason(small, version, who, rest):
    with line_to(small) as connection:
        connection.write(HELLO, 0, serialize((version, *rest)))
        kind, _, contents = connection.read()
        assert kind == BYE
        said = contents.decode()
        assert f"client uses version {version} of the stream and the worker version {VERSION}" in said
        assert who in said
        assert connection.read() is None


@pytest.mark.parametrize("hello", [(VERSION,), (VERSION, 1, b""), ("2", "", b""), (True, "", b""), 7])
def test_an_invalid_hello_gets_the_reason(small, hello):
    with line_to(small) as connection:
        connection.write(HELLO, 0, serialize(hello))
        assert connection.read()[0] == BYE
        assert connection.read() is None


def test_a_client_shows_the_reason_of_a_node_of_another_version(hook, small, monkeypatch):
    monkeypatch.setattr(reconnecting_stream, "VERSION", VERSION + 1)
    with pytest.raises(SyftError, match=f"version {VERSION + 1} .* version {VERSION}; upgrade resyft at the worker"):
        small.connect(hook)


@pytest.mark.parametrize(
    ("version", "who"), [(VERSION - 1, "upgrade resyft at the worker"), (VERSION + 1, "upgrade resyft here")]
)
def test_a_welcome_of_another_version_is_refused(version, who):
    with pytest.raises(SyftError, match=f"version {VERSION} .* version {version}; {who}"):
        greeting.read_welcome(WELCOME, bytearray(serialize((version, "anything"))))


@pytest.mark.parametrize(
    "welcome", [(), (VERSION,), (VERSION, "s", b"", "node"), (VERSION, "s", b"", "node", -1), (VERSION, "s", 1, "n", 1)]
)
def test_a_welcome_that_says_too_little_is_refused(welcome):
    with pytest.raises(SerdeError):
        greeting.read_welcome(WELCOME, bytearray(serialize(welcome)))


def test_the_welcome_states_the_limit(small, hook, alice):
    with line_to(small) as connection:
        connection.write(HELLO, 0, serialize((VERSION, "", b"")))
        kind, _, contents = connection.read()
        assert kind == WELCOME
        version, _, _, name, largest = deserialize(contents)
    assert (version, name, largest) == (VERSION, "small", LIMIT)
    assert sy.local_worker.stream_to(alice).largest == LIMIT


def test_version_returns_the_running_version(small):
    with urllib.request.urlopen(f"http://127.0.0.1:{small.port}/version", timeout=60) as answer:
        said = json.load(answer)
    assert said == {"resyft": sy.__version__, "torch": torch.__version__, "stream": str(VERSION)}


# --- how much at once --------------------------------------------------------------------------------------------


def test_a_node_that_stops_does_not_fill_the_client(hook, monkeypatch):
    """A client of a node that reads nothing waits, and gets a TimeoutError; later it can go on."""
    monkeypatch.setattr(reconnecting_stream, "MAX_UNCONFIRMED", 32 * MiB)
    part = torch.zeros(MiB).random_()  # 4 MiB
    with node("paused") as process:
        client = process.connect(hook)
        sent = [part.send(client)]
        client.synchronize()
        before = resident()
        process.pause()
        try:
            with config.override(stream_timeout=1.0), pytest.raises(TimeoutError, match="'paused' did not accept"):
                for _ in range(100):
                    sent.append(part.send(client))
            assert 8 <= len(sent) <= 12
            assert resident() - before < 128 * MiB
        finally:
            process.go_on()
        client.synchronize()
        assert torch.equal(sent[-1].get(), part)
        assert len({pointer.id_at_location for pointer in sent}) == len(sent)
        forget(hook, client)


def test_a_client_that_does_not_read_does_not_fill_the_node():
    """Answers are made when there is room for them, not when they are asked for."""
    with node("asked") as process:
        visitor = Visitor(process.url, process.tokens["bob"])
        assert visitor.ask(ObjectMessage(torch.zeros(4 * MiB).random_(), "much")) is None  # 16 MiB
        before = resident(process.pid)
        for number in range(2, 42):
            request = write_request(None, (), ObjectRequestMessage(("much", None, "")), True)
            visitor.connection.write_soon(REQUEST, number, request)
        visitor.connection.flush()
        soon(lambda: resident(process.pid) - before > 128 * MiB, 3.0)
        assert resident(process.pid) - before < 128 * MiB
        other = Visitor(process.url, process.tokens["alice"])
        assert other.ask(ObjectMessage(torch.ones(3), "ones")) is None
        visitor.close()
        other.close()
