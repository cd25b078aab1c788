"""Delegation: no access to the delegation of another client, and no connections to arbitrary addresses."""

from __future__ import annotations

import contextlib
import socket
import threading
import time
import types

import pytest
import torch

import syft as sy
from syft.core.context import acting_as
from syft.exceptions import (
    AuthenticationError,
    CommandNotAllowedError,
    GetNotPermittedError,
    NodeLostError,
    NotPermittedError,
    ObjectNotFoundError,
    SyftError,
)
from syft.grid.identity.node_identity import NodeIdentity
from syft.grid.server.token_auth import TokenAuthenticator
from syft.grid.websocket_server import WebsocketServerWorker
from syft.messaging.message import Operation
from syft.mpc.dealer import wire_protocol
from syft.serde import serialize
from syft.workers.delegation import dialer, grants, introduction
from syft.workers.delegation.grants import ADMIT, MEET
from syft.workers.delegation.peer import DelegatedNode, OutboundPolicy
from syft.workers.transport import framing, handshake
from syft.workers.transport.pipe import SocketPipe
from syft.workers.transport.websocket import Endpoint
from syft.workers.websocket_client import WebsocketClientWorker

NAME = "0123456789abcdef" * 2
SECRET = bytes(range(32))


@pytest.fixture(scope="module")
def nodes(tmp_path_factory):
    """Three servers with tokens in threads of this process, where delegation runs in process too."""
    with contextlib.ExitStack() as closing:
        made = []
        for name in ("peer-a", "peer-b", "peer-dealer"):
            identity = closing.enter_context(NodeIdentity(tmp_path_factory.mktemp(name), name))
            worker = WebsocketServerWorker(None, port=0, id=name, authenticator=TokenAuthenticator(identity))
            worker.start(background=True)
            closing.callback(worker.stop)
            context, settings = worker._context, types.SimpleNamespace(id=name)
            made.append(types.SimpleNamespace(
                worker=worker, port=worker.port, identity=identity, context=context, settings=settings
            ))  # fmt: skip
        yield made


@contextlib.contextmanager
def client(hook, nodes, user):
    """The nodes as a client of a user sees them."""
    me = sy.VirtualWorker(hook, id=f"me-{user}", auto_add=False)
    with acting_as(me):
        made = []
        for node in nodes:
            token = node.identity.tokens.issue(user, "user", 3600)
            made.append(
                WebsocketClientWorker(
                    None, "localhost", node.port, False, node.settings.id, token=token, auto_add=False
                )
            )
            me._known_workers[node.settings.id] = made[-1]
        try:
            yield made
        finally:
            for worker in made:
                worker.close()


@pytest.fixture
def alice(hook, nodes):
    with client(hook, nodes, "alice") as workers:
        yield workers


def ask(worker, what, *args):
    return sy.local_worker.stream_to(worker).ask(Operation(what, None, args, {}, ()))


def knock(node, token, purpose="mpc-knock", shown=None, headers=""):
    """Come to a node by hand; returns the status of its answer, and the proof that it shows then."""
    sock = socket.create_connection(("127.0.0.1", node.port), timeout=60)
    sock.sendall(
        f"GET /peer HTTP/1.1\r\nHost: localhost\r\nConnection: Upgrade\r\nUpgrade: syft-peer\r\n"
        f"Authorization: Peer {token.hex() if isinstance(token, bytes) else token}\r\n{headers}\r\n".encode()
    )
    head = b""
    with contextlib.suppress(OSError):
        while b"\r\n\r\n" not in head and (data := sock.recv(4096)):
            head += data
    status = int(head.split(b" ")[1]) if head else 0
    proof = b""
    if status == 101:
        sock.sendall(handshake.hello(token if shown is None else shown, purpose))
        with contextlib.suppress(OSError):
            proof = sock.recv(32)
    return sock, status, proof


def answer_of(node, token, **how):
    """Return the status of the answer to somebody who comes, and goes again."""
    sock, status, _ = knock(node, token, **how)
    sock.close()
    return status


def admissions(node):
    return len(node.worker.delegations)


# --- who comes in -----------------------------------------------------------------------------------------------------


def test_only_introduced_peers_connect(nodes, alice):
    a, b, _ = nodes
    ((token, proof, seconds),) = ask(alice[0], ADMIT, NAME, "peer-b")
    assert len(token) == len(proof) == 32 and 0 < seconds <= 12 * 3600
    sock, status, shown = knock(a, token)
    assert (status, shown) == (101, proof)
    sock.close()
    user = a.identity.tokens.issue("alice", "user", 60)
    for forged in (SECRET, b"\x00" * 32, token[:31], token + b"x", "", "zz" * 32, user, proof):
        assert answer_of(a, forged) == 401
    assert answer_of(a, token, headers="Origin: http://evil.example\r\n") == 401
    # A secret of one node opens no door of another, and no other path of the same one.
    assert answer_of(b, token) == 401
    with pytest.raises((AuthenticationError, NodeLostError, SyftError)):
        WebsocketClientWorker(None, "localhost", a.port, False, "peer-a", token=token.hex(), auto_add=False)


def test_the_secret_is_shown_twice_and_is_the_same(nodes, alice):
    a = nodes[0]
    ((token, _, _),) = ask(alice[0], ADMIT, NAME, "peer-b")
    sock, status, shown = knock(a, token, shown=SECRET)
    assert status == 101 and shown == b""  # closed without a proof
    sock.close()


def test_nothing_is_sent_before_the_challenge_is_answered(nodes, alice):
    ((token, _, _),) = ask(alice[0], ADMIT, NAME, "peer-b")
    sock = socket.create_connection(("127.0.0.1", nodes[0].port), timeout=60)
    head = (
        "GET /peer HTTP/1.1\r\nHost: localhost\r\nConnection: Upgrade\r\nUpgrade: syft-peer\r\n"
        f"Authorization: Peer {token.hex()}\r\n\r\n"
    )
    sock.sendall(head.encode() + handshake.hello(token, "mpc-knock"))
    assert sock.recv(100).startswith(b"HTTP/1.1 401")
    sock.close()


def test_other_purposes_are_not_served(nodes, alice):
    """A worker that was introduced is no invited client of a served model, and nothing that is not in the table."""
    ((token, proof, _),) = ask(alice[0], ADMIT, NAME, "peer-b")
    for purpose in ("mpc-serve:" + "0" * 32, "", "control", "é" * 100):
        sock, _, shown = knock(nodes[0], token, purpose)
        assert shown in (proof, b"")
        assert sock.recv(1) == b""
        sock.close()


def test_secrets_end_with_time_and_with_the_session(hook, nodes, monkeypatch):
    a = nodes[0]
    before = admissions(a)
    with client(hook, nodes, "alice") as workers:
        monkeypatch.setattr(grants, "LIFETIME", 0.2)
        ((late, _, _),) = ask(workers[0], ADMIT, NAME, "peer-b")
        monkeypatch.undo()
        ((replaced, _, _),) = ask(workers[0], ADMIT, NAME, "peer-c")
        ((good, _, _),) = ask(workers[0], ADMIT, NAME, "peer-c")
        sock, status, _ = knock(a, good, purpose="mpc:waits")
        assert status == 101 and answer_of(a, replaced) == 401
        time.sleep(0.3)
        assert answer_of(a, late) == 401
    soon(lambda: admissions(a) <= before)  # those of clients that left before may have ended too
    assert answer_of(a, good) == 401
    assert sock.recv(1) == b""  # what was open is closed
    sock.close()


def test_revoking_a_user_ends_its_delegations(hook, nodes):
    a = nodes[0]
    with client(hook, nodes, "mallory") as workers:
        ((token, _, _),) = ask(workers[0], ADMIT, NAME, "peer-b")
        sock, status, _ = knock(a, token, purpose="mpc:waits")
        assert status == 101
        a.identity.tokens.revoke_user("mallory")
        a.context.sweep()
        assert answer_of(a, token) == 401
        assert sock.recv(1) == b""
        sock.close()


def soon(condition):
    end = time.monotonic() + 60
    while not condition():
        assert time.monotonic() < end
        time.sleep(0.02)


# --- delegations of other clients -----------------------------------------------------------------------------------------------------


def test_another_client_gets_no_seeds(hook, nodes, alice):
    """Bob knows all names of alice's group; the dealer still gives him seeds of a group of his own."""
    a, b, dealer = alice
    x = torch.tensor([2, 3]).share(a, b, crypto_provider=dealer)
    assert (x * x).get().tolist() == [4, 9]
    provider = nodes[2].worker.mpc_runtime.provider

    def found():
        return [item for item in list(provider._groups.items()) if not item[0][0].is_over]

    soon(lambda: len(found()) == 1)  # groups of clients that left end a moment later
    (((delegation, name, parties, keys), group),) = found()
    generation, seeds = group.generation, list(group.seeds)
    with client(hook, nodes, "bob") as workers:
        ((token, _, _),) = ask(workers[2], ADMIT, NAME, "peer-a")
        sock, _, _ = knock(nodes[2], token, wire_protocol.PURPOSE)
        connection = framing.FramedConnection(SocketPipe(sock), 1000)
        connection.write(wire_protocol.HELLO, 0, serialize((name, parties)))
        kind, _, contents = connection.read()
        assert kind == wire_protocol.SEED
        assert wire_protocol.SEEDS.unpack(contents)[1] not in seeds
        connection.close()
    assert provider._groups[delegation, name, parties, keys].generation == generation  # nobody was replaced
    assert (x * x).get().tolist() == [4, 9]


def test_another_client_does_not_take_the_place_of_a_party(hook, nodes, alice):
    a, b, dealer = alice
    x = torch.tensor([2, 3]).share(a, b, crypto_provider=dealer)
    assert (x * x).get().tolist() == [4, 9]

    def found():
        groups = list(nodes[0].worker.mpc_runtime._groups.values())
        return {group.name for group in groups if group.delegation.user == "alice"}

    soon(lambda: len(found()) == 1)  # groups of clients that left end a moment later
    (group,) = found()
    with client(hook, nodes, "bob") as workers:
        ((token, _, _),) = ask(workers[0], ADMIT, NAME, "peer-b")
        sock, status, _ = knock(nodes[0], token, f"mpc:{group}")
        assert status == 101
        soon(lambda: nodes[0].worker.mpc_runtime.pending._arrived)
        sock.sendall(b"\x00" * 100)
        for _ in range(3):
            assert (x * x).get().tolist() == [4, 9]
        sock.close()
    soon(lambda: not nodes[0].worker.mpc_runtime.pending._arrived)


def circles_of(node, user):
    return [
        s.delegation for s in node.worker._sessions[:] if s.delegation is not None and s.client_id == user and not s.via
    ]


def test_an_introduction_is_that_of_one_session(hook, nodes, alice):
    """What alice made known to a node, bob can't use, see or overwrite."""
    a, b, _ = alice
    pointer = torch.tensor([1.0]).send(a).move(b)
    soon(lambda: len(circles_of(nodes[0], "alice")) == 1)  # those of clients that left end a moment later
    (mine,) = circles_of(nodes[0], "alice")
    known = mine.peers["peer-b"]._secrets
    with client(hook, nodes, "bob") as workers:
        ask(workers[0], MEET, NAME, 5.0, ("peer-b", "ws://localhost:9", SECRET, SECRET))
        assert mine.peers["peer-b"]._secrets == known and mine.timeout != 5.0
        there = torch.tensor([2.0]).send(workers[0])
        with pytest.raises(NodeLostError, match="can't be reached from 'peer-a'"):
            sy.local_worker.stream_to(workers[0]).hand_over(
                there.child.id_at_location, DelegatedNode("peer-b", None, None), 12345, False
            )
        assert there.get().tolist() == [2.0]  # it stayed
    assert "peer-b" not in nodes[0].worker._known_workers
    assert (pointer + 1).get().tolist() == [2.0]


def test_a_pointer_of_another_client_leads_nowhere(hook, nodes, alice):
    a, b, _ = alice
    published = torch.tensor([7.0]).send(b).send(a, garbage_collect_data=False)
    target = published.child.id_at_location
    with client(hook, nodes, "bob") as workers:
        stream = sy.local_worker.stream_to(workers[0])
        with pytest.raises((GetNotPermittedError, ObjectNotFoundError, NotPermittedError)):
            stream.fetch_there(target)
    session = nodes[0].worker.open_session("bob")
    token = circles_serving(session)
    try:
        held = nodes[0].worker.object_store.objects[target]
        with pytest.raises(GetNotPermittedError, match="another client"):
            held.child.get()
    finally:
        token()
        session.close()
    assert published.get().get().tolist() == [7.0]


def circles_serving(session):
    from syft.workers.execution.session import serving

    token = serving.set(session)
    return lambda: serving.reset(token)


def test_a_node_acts_with_the_rights_of_a_user_and_does_not_introduce_others(hook, nodes):
    soon(lambda: not [s for s in nodes[1].worker._sessions[:] if s.via])  # visits for clients that left are over
    with client(hook, nodes, "alice") as (a, b, _):
        (torch.tensor([1.0]).send(a)).move(b)
        (visit,) = [s for s in nodes[1].worker._sessions if s.via == "peer-a"]
        assert (visit.client_id, visit.role) == ("alice", "user")
        for what, args in ((ADMIT, (NAME, "x")), (MEET, (NAME, 1.0))):
            with pytest.raises(SyftError, match="Only a client itself"):
                grants.WORKER_COMMANDS[what](nodes[1].worker, visit, *args)


def test_delegations_are_limited_per_user(hook, nodes, alice, monkeypatch):
    monkeypatch.setattr(grants, "MAX_PEERS", 3)
    ask(alice[0], ADMIT, NAME, "p1", "p2", "p3")
    with pytest.raises(SyftError, match="up to 3"):
        ask(alice[0], ADMIT, NAME, "p4")
    ask(alice[0], ADMIT, NAME, "p3")  # again is not one more
    monkeypatch.setattr(grants, "MAX_CONNECTIONS", 2)
    ((token, _, _),) = ask(alice[0], ADMIT, NAME, "p1")
    socks = [knock(nodes[0], token, purpose=f"mpc:{n}") for n in range(3)]
    assert [status for _, status, _ in socks] == [101, 101, 401]
    with client(hook, nodes, "bob") as workers:  # somebody else is not concerned
        ((token, _, _),) = ask(workers[0], ADMIT, NAME, "p1")
        sock, status, _ = knock(nodes[0], token)
        assert status == 101
        sock.close()
    for sock, _, _ in socks:
        sock.close()


@pytest.mark.parametrize(
    "what, args",
    [
        (ADMIT, ()), (ADMIT, (NAME,)), (ADMIT, ("short", "p")), (ADMIT, (NAME, "peer-a")), (ADMIT, (NAME, "p", "p")),
        (ADMIT, (NAME, 1.5)), (ADMIT, (NAME.upper(), "p")), (ADMIT, (3, "p")),
        (MEET, (NAME,)), (MEET, (NAME, -1.0)), (MEET, (NAME, "1")), (MEET, (NAME, float("nan"))),
        (MEET, (NAME, 1.0, ("p", "ws://localhost:1", SECRET))), (MEET, (NAME, 1.0, ("p", 5, SECRET, SECRET))),
        (MEET, (NAME, 1.0, ("p", "ws://localhost:1", SECRET, b"short"))), (MEET, (NAME, 1.0, "p")),
    ],
)  # fmt: skip
def test_bad_introductions(nodes, alice, what, args):
    soon(lambda: admissions(nodes[0]) == 0)  # those of clients that left end a moment later
    with pytest.raises((SyftError, TypeError)):
        ask(alice[0], what, *args)
    assert admissions(nodes[0]) == 0


def test_workers_without_a_server_do_not_introduce_peers(hook):
    worker = sy.VirtualWorker(hook, id="no-server", auto_add=False)
    with pytest.raises(CommandNotAllowedError):
        grants.WORKER_COMMANDS[ADMIT](worker, worker.open_session("me"), NAME, "p")


# --- where a node connects to -----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "url",
    [
        "ws://169.254.169.254:80", "ws://10.0.0.1:8777", "ws://localhost.evil.example:1", "http://localhost:1",
        "file:///etc/passwd", "ws://user:pw@localhost:1", "ws://localhost:1/v1/login", "ws://localhost:1?x=1",
        "ws://localhost:99999", "wss://127.0.0.1:8777", "ws://", "", "ws://127.0.0.1@10.0.0.1:1", "ws://[::ffff:10.0.0.1]:1",
        "ws://loc\nalhost:1", "ws://löcalhost:1", "ws://0.0.0.0:1", "x" * 1000,
    ],
)  # fmt: skip
def test_a_node_of_this_machine_stays_on_this_machine(nodes, alice, url):
    """Without an authority it speaks to loopback only, at one path, whatever a client says."""
    with pytest.raises(SyftError):
        ask(alice[0], MEET, NAME, 1.0, ("p", url, SECRET, SECRET))
    for session in [s for s in nodes[0].worker._sessions[:] if s.client_id == "alice"]:
        assert session.delegation is None or "p" not in session.delegation.peers


def test_a_node_that_others_reach_speaks_tls_only(tmp_path):
    from syft.grid import certificates

    authority = str(certificates.make_authority(tmp_path, "team").certificate)
    rules = OutboundPolicy(ca=authority, local=False)
    assert rules.place("wss://hospital.example:8777").context is not None
    for url in ("ws://localhost:1", "ws://127.0.0.1:1", "ws://hospital.example:1"):
        with pytest.raises(SyftError, match="over TLS only"):
            rules.place(url)
    listed = OutboundPolicy(ca=authority, allowed=("hospital.example:8777",))
    assert listed.place("wss://HOSPITAL.example:8777").url == "wss://hospital.example:8777"
    for url in ("wss://hospital.example:8778", "wss://other.example:8777"):
        with pytest.raises(SyftError, match="owner's list"):
            listed.place(url)
    with pytest.raises(SyftError, match="authority"):
        OutboundPolicy().place("wss://hospital.example:8777")


def served(answer):
    """Open a port that answers every client with some bytes; yields it, and the bytes received."""
    listener = socket.create_server(("127.0.0.1", 0))
    came = []

    def serve():
        with contextlib.suppress(OSError):
            while True:
                sock, _ = listener.accept()
                came.append(sock.recv(4096))
                sock.sendall(answer)
                sock.close()

    threading.Thread(target=serve, daemon=True).start()
    return listener, came


@pytest.mark.parametrize(
    "answer",
    [
        b"HTTP/1.1 200 OK\r\n\r\nthe secret of an internal service",
        b"HTTP/1.1 401 no\r\n\r\nthe secret of an internal service",
        b"HTTP/1.1 101 x\r\n\r\n" + b"\x00" * 32,
        b"SSH-2.0-secret\r\n",
        b"x" * 10000,
        b"",
    ],
)
def test_errors_do_not_reveal_what_listens_at_an_address(nodes, alice, answer):
    a = alice[0]
    listener, came = served(answer)
    url = f"ws://127.0.0.1:{listener.getsockname()[1]}"
    ask(a, MEET, introductions().name, 5.0, ("peer-x", url, SECRET, SECRET))
    there = torch.tensor([2.0]).send(a)
    with pytest.raises(NodeLostError) as caught:
        sy.local_worker.stream_to(a).hand_over(
            there.child.id_at_location, DelegatedNode("peer-x", None, None), 4711, False
        )
    assert "can't be reached from 'peer-a'" in str(caught.value) and "secret" not in str(caught.value)
    assert len(came) == 1 and came[0].startswith(b"GET /peer HTTP/1.1\r\n")
    listener.close()


def introductions():
    me = sy.local_worker
    return introduction._made.setdefault(me, introduction.Introductions())


def test_a_node_that_can_not_prove_itself(nodes, alice):
    """Somebody who took the place of a node does not have its proof."""
    ((token, proof, _),) = ask(alice[0], ADMIT, NAME, "peer-b")
    where = Endpoint(f"ws://127.0.0.1:{nodes[0].port}")
    dialer.connect(where, token, proof, "mpc-knock", 60).close()
    with pytest.raises(ConnectionError, match="answered in its place"):
        dialer.connect(where, token, SECRET, "mpc-knock", 60)
    with pytest.raises(ConnectionError, match="answered in its place"):
        dialer.open_pipe(where, token, SECRET, 60)
    with pytest.raises(AuthenticationError):
        dialer.connect(where, SECRET, proof, "mpc-knock", 60)


def test_secrets_are_not_shown(nodes, alice):
    a, b, _ = alice
    torch.tensor([1.0]).send(a).move(b)
    session = next(s for s in nodes[0].worker._sessions if s.delegation is not None)
    shown = repr(session.delegation) + repr(list(session.delegation.peers.values())) + repr(nodes[0].worker.delegations)
    for admission in nodes[1].worker.delegations._admitted.values():
        shown += repr(admission)
        assert admission.proof.hex() not in shown and repr(admission.proof) not in shown
    assert all(secret.hex() not in shown for peer in session.delegation.peers.values() for secret in peer._secrets)
