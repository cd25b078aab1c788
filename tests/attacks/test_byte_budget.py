"""Memory and connections of unauthenticated clients: bounded before allocation, whatever sizes they declare."""

from __future__ import annotations

import contextlib
import http.client
import resource
import socket
import struct
import threading
import time
from pathlib import Path

import pytest
import torch

import syft as sy
from syft import config
from syft.core.context import acting_as
from syft.core.references import Ref
from syft.exceptions import CommandNotAllowedError, QuotaExceededError, SyftError
from syft.grid.certificates import issue, make_authority
from syft.messaging.message import ErrorMessage, ObjectMessage, ObjectRequestMessage, Operation
from syft.mpc.dealer import wire_protocol
from syft.serde import compression, deserialize, serialize
from syft.workers.delegation.grants import ADMIT
from syft.workers.transport import framing
from syft.workers.transport.framing import REQUEST, SEEN
from syft.workers.transport.pipe import SocketPipe
from syft.workers.websocket_client import WebsocketClientWorker
from tests.attacks.test_peers import knock
from tests.helpers.attacks.live_client import Visitor
from tests.helpers.attacks.taken_over import USER, taken_over_node
from tests.helpers.nodes import forget, node, soon

MiB = 1 << 20
MESSAGE = 32 * MiB
CIRCLE = "0123456789abcdef" * 2
# The owner's private data.
PREPARE = """
from syft.grid.storage import ObjectAdmin
ObjectAdmin(node.object_manager).publish(torch.arange(4.0).tag("#secret"), tags=("#secret",), description="four numbers")
"""


@pytest.fixture(scope="module")
def target():
    """A node that reads messages of 32 MiB; alice may have twice that in flight, and hold 128 MiB."""
    with node("budgeted", max_message_bytes=MESSAGE, max_user_bytes=128 * MiB, prepare=PREPARE) as process:
        yield process


@pytest.fixture
def alice(hook, target):
    client = target.connect(hook, "alice")
    yield client
    forget(hook, client)


@pytest.fixture
def mallory(target):
    visitor = Visitor(target.url, target.tokens["bob"])
    yield visitor
    visitor.close()


@contextlib.contextmanager
def grows_less(process, limit, only_node=False):
    """Check how much more memory a node and each of its processes take at their worst than before."""
    before = {}
    for pid in (process.pid, *(() if only_node else children(process.pid))):
        Path(f"/proc/{pid}/clear_refs").write_text("5")  # the peak counts from here
        before[pid] = peak(pid)
    assert only_node or len(before) > 2  # the node, the process that others are forked from, and forked ones
    yield
    assert peak(process.pid)
    for pid, taken in before.items():
        grown = peak(pid) - taken
        assert grown < limit, f"{'the node' if pid == process.pid else 'a child'} took {grown / MiB:.0f} MiB more"


def children(pid):
    """Return the processes that a process started, and those that they started."""
    found = []
    for task in Path(f"/proc/{pid}/task").iterdir():
        for child in (task / "children").read_text().split():
            found += [int(child), *children(int(child))]
    return found


def peak(pid):
    """Return the most memory that a process took; 0 for one that has ended."""
    with contextlib.suppress(OSError):
        text = Path(f"/proc/{pid}/status").read_text()
        return next((int(line.split()[1]) << 10 for line in text.splitlines() if line.startswith("VmHWM")), 0)
    return 0


def error_of(written):
    answer = deserialize(written)
    assert isinstance(answer, ErrorMessage)
    return answer.contents[0]


def bomb(count):
    """A small message that unfolds into a list of lists, of a given length."""
    header = b"\xdd" + struct.pack(">I", count + 1) + b"\x02" + b"\x91\x02" * count
    body = b"\x01" + struct.pack(">II", len(header), 0) + header
    return compression._compress(body, compression.apply_zstd_compression)


# --- messages ---------------------------------------------------------------------------------------------------------


def test_two_kilobytes_that_unfold_into_twelve_million_lists(target, mallory):
    message = bomb(12_000_000)
    assert len(message) < 4096
    with grows_less(target, 300 * MiB):
        began = time.monotonic()
        assert error_of(mallory.send(message)) == "SerdeError"
        assert time.monotonic() - began < 20
    assert error_of(mallory.send(b"(nothing")) == "SerdeError"  # the session goes on


def test_half_sent_messages_of_many_connections_do_not_add_up(hook, target, alice):
    visitors = [Visitor(target.url, target.tokens["bob"]) for _ in range(16)]
    piece = bytes(MiB)

    def send(visitor):
        with contextlib.suppress(OSError, SyftError), config.override(heartbeat=1.0):
            visitor.frame(REQUEST, 1, MESSAGE)
            for _ in range(30):
                visitor.raw(piece)

    with grows_less(target, 250 * MiB):
        threads = [threading.Thread(target=send, args=(visitor,), daemon=True) for visitor in visitors]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(20)
        # Other users do not notice.
        data = torch.ones(2 * MiB)
        assert torch.equal(data.send(alice).get(), data)
    for visitor in visitors:
        visitor.close()


def test_a_message_without_room_gets_an_error_and_the_session_goes_on():
    large = serialize(((), ObjectMessage(torch.rand(2 * MiB), 5), True, 0))
    small = serialize(((), ObjectMessage(torch.rand(10), 6), True, 0))
    limits = {"max_message_bytes": MESSAGE, "max_user_in_flight_bytes": 4 * MiB, "heartbeat": 2.0}
    with node("small", **limits) as process:
        visitor = Visitor(process.url, process.tokens["bob"])
        with grows_less(process, 100 * MiB):
            assert error_of(visitor.send(large)) == "ByteBudgetError"
            assert deserialize(visitor.send(small)) is None
            assert error_of(visitor.send(large)) == "ByteBudgetError"
        visitor.close()


def test_decompressed_bytes_are_charged_before_decompression():
    packed = compression._compress(bytes(24 * MiB), compression.apply_zstd_compression)
    limits = {"max_message_bytes": MESSAGE, "max_user_in_flight_bytes": 8 * MiB}
    with node("small", **limits) as process:
        visitor = Visitor(process.url, process.tokens["bob"])
        with grows_less(process, 16 * MiB):
            assert error_of(visitor.send(packed)) == "ByteBudgetError"
        visitor.close()


def metrics(process):
    """The counters of a node, by name."""
    with contextlib.closing(http.client.HTTPConnection("127.0.0.1", process.port, timeout=60)) as connection:
        connection.request("GET", "/metrics", headers={"Authorization": f"Bearer {process.tokens['owner']}"})
        rows = connection.getresponse().read().decode().splitlines()
    return {name: float(value) for name, value in (row.split() for row in rows if row and row[0] != "#")}


def test_stalled_users_do_not_block_others(hook):
    limits = {"max_message_bytes": MESSAGE, "max_in_flight_bytes": 64 * MiB, "max_user_in_flight_bytes": 40 * MiB}
    users = {"owner": "owner", **dict.fromkeys(("bob", "eve", "alice"), "user")}
    with node("crowded", users=users, **limits) as process:
        stalled = [Visitor(process.url, process.tokens[user]) for user in ("bob", "eve")]
        for visitor in stalled:
            visitor.frame(REQUEST, 1, 31 * MiB, bytes(MiB))
        assert soon(lambda: metrics(process)["syft_received_bytes_total"] >= 2 * MiB), "both have stopped"
        client = process.connect(hook, "alice")
        data = torch.ones(4 * MiB)  # 16 MiB
        assert torch.equal(data.send(client).get(), data)
        forget(hook, client)
        for visitor in stalled:
            visitor.close()


def test_answers_that_a_client_never_confirms_are_counted(mallory):
    for obj_id in range(12):  # 8 MiB each
        assert deserialize(mallory.send(serialize(((), ObjectMessage(torch.rand(2 * MiB), obj_id), True, 0)))) is None
    answers = [mallory.ask(ObjectRequestMessage((obj_id, None, ""))) for obj_id in range(12)]
    assert isinstance(answers[0], torch.Tensor)
    assert isinstance(answers[-1], ErrorMessage) and answers[-1].contents[0] == "ByteBudgetError"
    mallory.connection.write(SEEN, mallory.number, b"")
    assert isinstance(mallory.ask(ObjectRequestMessage((11, None, ""))), torch.Tensor)  # it was not lost


HALF_SENT = """
import time
from syft.grid.isolation.processes.channel import _FRAME
sock.sendall(_FRAME.pack(Kind.ANSWER, 0, 3, 30 << 20) + b"\\x92\\xc2\\x90" + bytes(29 << 20))
time.sleep(8)
"""


def test_half_sent_answers_of_a_session_process_do_not_add_up():
    limits = {"max_message_bytes": MESSAGE, "max_process_memory": 4 << 30, "call_seconds": 60.0}
    with taken_over_node("taken-over", **limits) as process:
        visitors = [Visitor(process.url, process.tokens[USER]) for _ in range(12)]
        program = HALF_SENT.encode()
        with grows_less(process, 150 * MiB, only_node=True):
            for visitor in visitors:
                visitor.connection.write(REQUEST, 1, program)
            time.sleep(9)
        for visitor in visitors:
            visitor.close()
        alone = Visitor(process.url, process.tokens[USER])
        assert alone.send(b"print(len(bytes(40 << 20)))") == b"41943040\n"
        alone.close()


# --- calls ------------------------------------------------------------------------------------------------------------


def test_a_result_that_only_its_argument_looks_small_for(target, alice):
    wide = torch.ones(1).send(alice).expand(200_000_000)
    with grows_less(target, 100 * MiB):
        for call in (wide.exp, wide.clone, wide.contiguous, lambda: wide + wide):
            with pytest.raises(QuotaExceededError):
                call().shape
                alice.search("#nothing")


def test_numbers_of_a_tensor_that_looks_large(target, alice):
    wide = torch.ones(1).send(alice).expand(60_000_000)
    with grows_less(target, 100 * MiB), pytest.raises((CommandNotAllowedError, QuotaExceededError)):
        wide.tolist()
        alice.search("#nothing")


def test_values_inside_of_a_plan(hook, target, alice):
    @sy.func2plan(args_shape=[(1,)])
    def widen(x):
        wide = x.expand(60_000_000)
        return (wide.exp() + 1).sum()

    sent, one = widen.send(alice), torch.ones(1).send(alice)
    with grows_less(target, 100 * MiB), pytest.raises(QuotaExceededError):
        sent(one).get()

    @sy.func2plan(args_shape=[(1000,)])
    def modest(x):
        return (x.exp() + 1).sum()

    assert modest.send(alice)(torch.zeros(1000).send(alice)).get() == 2000


def test_the_look_ahead_counts_pieces_first(target, alice, mallory):
    (secret,) = alice.search("#secret")
    assert len(secret.unbind()) == 4  # loads what the first look-ahead needs
    wide = secret[0].expand(300_000)
    for cut in (wide.unbind, lambda: wide.split(1), lambda: wide.chunk(300_000), lambda: wide.tensor_split(10**9)):
        began = time.monotonic()
        with pytest.raises(CommandNotAllowedError, match="values"):
            cut()
        assert time.monotonic() - began < 5
    # A client that does not count them itself.
    held = Ref(secret.id_at_location)
    assert not isinstance(mallory.ask(Operation("torch.Tensor.select", None, (held, 0, 0), {}, (1,))), ErrorMessage)
    assert not isinstance(
        mallory.ask(Operation("torch.Tensor.expand", None, (Ref(1), 300_000), {}, (2,))), ErrorMessage
    )
    for name, args in (("unbind", ()), ("split", (1,)), ("chunk", (300_000,)), ("tensor_split", (10**9,))):
        began = time.monotonic()
        answer = mallory.ask(Operation(f"torch.Tensor.{name}", None, (Ref(2), *args), {}, (3,)))
        assert isinstance(answer, ErrorMessage) and answer.contents[0] == "CommandNotAllowedError"
        assert time.monotonic() - began < 5


# --- dealing ----------------------------------------------------------------------------------------------------------


@contextlib.contextmanager
def party_at(process, hook):
    """A connection to a node as its dealer, as the last party of a group that its client made up."""
    me = sy.VirtualWorker(hook, id="me-bob", auto_add=False)
    with acting_as(me):
        worker = WebsocketClientWorker(
            None, "localhost", process.port, False, process.id, token=process.tokens["bob"], auto_add=False
        )
        ((token, _, _),) = me.stream_to(worker).ask(Operation(ADMIT, None, (CIRCLE, "last-party"), {}, ()))
        sock, status, _ = knock(process, token, purpose=wire_protocol.PURPOSE)
        assert status == 101
        connection = framing.FramedConnection(SocketPipe(sock), 1 << 30)
        connection.write(wire_protocol.HELLO, 1, serialize(("group", ("first-party", "last-party"))))
        assert connection.read()[0] == wire_protocol.SEED
        try:
            yield connection
        finally:
            connection.close()
            worker.close()


@pytest.mark.parametrize(
    "kind, spec",
    [("zero", ((40_000_000,),)), ("square", ((40_000_000,),)), ("sign", (40_000_000, 1)), ("random", ((2**62,),))],
)
def test_a_frame_to_the_dealer_with_any_shape(hook, target, kind, spec):
    with party_at(target, hook) as connection, grows_less(target, 200 * MiB):
        connection.write(wire_protocol.ASK, 2, serialize((bytes(16), 1, 0, kind, spec)))
        assert connection.read()[:2] == (wire_protocol.FAILED, 2)
        connection.write(wire_protocol.ASK, 3, serialize((bytes(16), 1, 0, "zero", ((1000,),))))
        assert connection.read()[:2] == (wire_protocol.DEALT, 3)


def test_a_partys_declared_deal_size_is_bounded(hook, target):
    with party_at(target, hook) as connection, grows_less(target, 200 * MiB):
        deals = (("zero", ((40_000_000,),)),)
        connection.write(wire_protocol.LEARN, 2, serialize((bytes(16), 1, deals)))
        connection.write(wire_protocol.ASK, 3, serialize((bytes(16), 1, 0, "zero", ((1000,),))))
        kinds = [connection.read()[0] for _ in range(2)]
        assert wire_protocol.DEALT in kinds and wire_protocol.PACK not in kinds


# --- connections ------------------------------------------------------------------------------------------------------


@contextlib.contextmanager
def many_files():
    before = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (min(before[1], 8192), before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, before)


def silent(port, count):
    return [socket.create_connection(("127.0.0.1", port), timeout=60) for _ in range(count)]


def test_silent_connections_do_not_keep_others_out(hook, target):
    with many_files():
        socks = silent(target.port, 1100)
        try:
            began = time.monotonic()
            line = http.client.HTTPConnection("127.0.0.1", target.port, timeout=8)
            line.request("GET", "/health")
            assert line.getresponse().status == 200
            line.close()
            client = target.connect(hook, "alice")
            assert torch.ones(2).send(client).get().sum() == 2
            assert time.monotonic() - began < 8  # before the silent ones are late
            forget(hook, client)
        finally:
            for sock in socks:
                sock.close()


def test_the_oldest_of_one_address_go_and_clients_stay(hook, target):
    client = target.connect(hook, "alice")
    pointer = torch.ones(3).send(client)
    socks = silent(target.port, 200)
    try:
        soon(lambda: sum(not _is_closed(sock) for sock in socks) + 1 <= 66)
        assert _is_closed(socks[0]) and not _is_closed(socks[-1])
        assert 64 <= sum(not _is_closed(sock) for sock in socks) + 1 <= 66
        assert pointer.get().sum() == 3
    finally:
        for sock in socks:
            sock.close()
        forget(hook, client)


def _is_closed(sock):
    sock.setblocking(False)
    try:
        return sock.recv(1) == b""
    except BlockingIOError:
        return False
    except OSError:
        return True


def test_connections_that_never_begin_tls(hook, tmp_path):
    authority = make_authority(tmp_path / "authority", "the team")
    made = issue(authority, ["localhost", "127.0.0.1"], tmp_path / "certificate")
    with many_files(), node("tls", certificate=str(made.certificate), key=str(made.key)) as process:
        socks = silent(process.port, 300)
        try:
            assert soon(lambda: sum(_is_closed(sock) for sock in socks) >= 236, 8)
            client = process.connect(hook, "alice", ca=authority.certificate)
            assert torch.ones(2).send(client).get().sum() == 2
            forget(hook, client)
        finally:
            for sock in socks:
                sock.close()
