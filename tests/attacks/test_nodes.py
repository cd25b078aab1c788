"""Attacks on a live node with TLS and tokens; each is refused, and nothing has changed."""

import contextlib
import os
import random
import secrets
import socket
import ssl
import struct
import time
import warnings
from pathlib import Path

import pytest
import torch

import syft as sy
from syft.core.references import Ref
from syft.exceptions import (
    AuthenticationError,
    GetNotPermittedError,
    NodeLostError,
    NotPermittedError,
    ObjectNotFoundError,
    PlanCommandUnknownError,
    QuotaExceededError,
    SyftError,
)
from syft.grid.certificates import issue, make_authority
from syft.messaging import message as m
from syft.messaging.hosting import HostModelMessage, InferenceMessage
from syft.messaging.message import ErrorMessage
from syft.pointers.pointer_plan import RUN_PLAN
from syft.serde import compression, deserialize, serialize
from syft.serde.msgpack.serde import _simplify
from syft.workers.transport.framing import HEADER, HELLO, REQUEST, SEEN
from syft.workers.transport.request_codec import write_request
from syft.workers.transport.tls import client_context
from syft.workers.transport.websocket import Endpoint, WebsocketPipe
from tests.attacks.test_code_execution import _payloads
from tests.helpers.attacks import forged_plans as forged
from tests.helpers.attacks import message_fuzzing as fuzzing
from tests.helpers.attacks.hostile_peer import request as hand_made
from tests.helpers.attacks.live_client import Visitor, is_ended, listen, objects_of, state_of, trickle
from tests.helpers.attacks.message_samples import linear
from tests.helpers.depth import deep
from tests.helpers.nodes import forget, node

SECRET = (41.4375, -7341.625, 0.0078125)
# Two small ones together: the four bytes of one are in random ids, by chance.
NEEDLES = (
    *(struct.pack(f"{order}d", value) for order in "<>" for value in SECRET[:2]),
    *(struct.pack(f"{order}ff", *SECRET[:2]) for order in "<>"),
    b"41.43",
    b"7341.6",
)
# Set-up of the node's process before it serves: the owner's data, and invalid tokens.
PREPARE = f"""
import time
import warnings
from pathlib import Path
from syft.grid.identity import NodeIdentity
from tests.helpers.grid.identities import signed_again
secret = torch.tensor({list(SECRET)}, dtype=torch.float64).tag("#secret").describe("three numbers")
from syft.grid.storage import ObjectAdmin
ObjectAdmin(node.object_manager).publish(secret, tags=("#secret",), description="three numbers")
own = node.identity.tokens
extra = {{}}
real, own._clock = own._clock, lambda: time.time() - 7200
extra["expired"] = own.issue("alice", "user", 60)
own._clock = real
extra["revoked"] = own.issue("eve", "user", 3600)
own.revoke_user("eve")
extra["other purpose"] = signed_again(own, use="peer")
other = NodeIdentity(settings["store"] + "-other", "another-node")
extra["other node"] = other.tokens.issue("owner", "owner", 3600)
other.close()
"""


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("attacked")


@pytest.fixture(scope="module")
def authority(folder):
    return make_authority(folder / "authority", "the team")


@contextlib.contextmanager
def attacked(folder, authority, **settings):
    """A node with a secret, a certificate and tokens."""
    made = issue(authority, ["localhost", "127.0.0.1"], folder / "certificate")
    with node(
        "attacked",
        store=str(folder / "store"),
        certificate=str(made.certificate),
        key=str(made.key),
        max_user_objects=2000,
        max_message_bytes=64 << 20,
        prepare=PREPARE,
        tokens=True,
        **settings,
    ) as process:
        process.ca = authority.certificate
        process.state = state_of(process)
        yield process


@pytest.fixture(scope="module")
def target(folder, authority):
    """The node under attack. It has patience with visitors that are silent because this machine is slow."""
    with attacked(folder, authority) as process:
        yield process


@pytest.fixture
def hasty(tmp_path, authority):
    """A node that does not wait long for silent clients."""
    with attacked(tmp_path, authority, heartbeat=2.0) as process:
        yield process


@pytest.fixture
def alice(hook, target):
    client = target.connect(hook, "alice", ca=target.ca)
    yield client
    forget(hook, client)


@pytest.fixture
def mallory(target):
    """Somebody with a user's token, and programs of their own."""
    visitor = Visitor(target.url, target.tokens["bob"], client_context(target.ca))
    yield visitor
    assert not any(needle in written for written in visitor.seen for needle in NEEDLES)
    visitor.close()


def still_there(hook, target):
    """The node serves, and has what it had: objects with their tags, users, grants, requests, files, and values."""
    assert state_of(target) == target.state
    owner = target.connect(hook, "owner", ca=target.ca)
    try:
        (found,) = owner.search("#secret")
        assert found.copy().get().tolist() == list(SECRET)
    finally:
        forget(hook, owner)


def is_error(answer, *names):
    return isinstance(answer, ErrorMessage) and (not names or answer.contents[0] in names)


def secret_id(visitor):
    ((obj_id, *_),) = visitor.ask(m.SearchMessage(["#secret"]))
    return obj_id


# --- the historic ones --------------------------------------------------------------------------------------------


def test_values_do_not_leave_through_texts(hook, target, alice, mallory):
    """Values of private tensors once came out through __str__, the list of objects and attributes of attributes."""
    (found,) = alice.search("#secret")
    texts = [str(found), repr(found), f"{found}", alice.list_objects_remote(), found._repr_html_(), str(alice._objects)]
    assert not any(needle.decode("latin-1") in text for text in texts for needle in (b"41.43", b"7341", b"0.0078"))
    obj_id = secret_id(mallory)
    for name in ("__repr__", "__str__", "__format__", "tolist", "item", "numpy", "__float__", "__array__", "__len__"):
        answer = mallory.ask(m.Operation(f"torch.Tensor.{name}", None, (Ref(obj_id),), {}, (f"r-{name}",)))
        assert is_error(answer) or answer == 3  # a length is a shape
    for attribute in (
        "child",
        "child.child",
        "data.child",
        "__dict__",
        "grad_fn",
        "_backward_hooks",
        "data.data.storage",
    ):
        assert is_error(mallory.ask(m.GetShapeMessage(Ref(obj_id, attribute))))
        assert is_error(mallory.ask(m.Operation("torch.Tensor.tolist", None, (Ref(obj_id, attribute),), {}, ("x",))))
    still_there(hook, target)


def test_pickles_are_not_loaded(hook, target, mallory, tmp_path):
    """A tensor's bytes once were a pickle."""
    marker = tmp_path / "owned"
    for payload in _payloads(marker).values():
        for data in (payload, b"\x28" + payload, hand_made((122, payload, "obj", False, None)), serialize(payload)):
            assert mallory.send(data) is not None
        for strategy in ("torch", "numpy", "all", "raw"):
            tensor = (40, "t", payload, None, None, (4,), None, strategy)
            assert is_error(mallory.ask(m.SearchMessage([0]))) is False
            assert mallory.send(hand_made((122, tensor, f"obj-{strategy}", False, None))) is not None
    assert not marker.exists()
    still_there(hook, target)


def test_code_in_plans_and_methods_by_name(hook, target, mallory, tmp_path):
    marker = tmp_path / "owned"
    names = (
        "eval", "exec", "__import__", "builtins.eval", "os.system", "torch.load", "torch.save", "torch.hub.load",
        "torch.Tensor.__reduce_ex__", "torch.ops.load_library", "syft.workers.base.BaseWorker.clear_objects",
        "clear_objects", "self.clear_objects", "object_store.clear", "policy.__set__", "torch.jit.load", "torch.classes",
    )  # fmt: skip
    for name in names:
        code = f"__import__('pathlib').Path({str(marker)!r}).touch()"
        for owner in (None, "worker", Ref("self")):
            answer = mallory.ask(m.Operation(name, owner, (code,), {}, ("r",)))
            assert is_error(answer)
        with pytest.raises(PlanCommandUnknownError):  # the client's side does not write such a message
            mallory.ask(m.Operation(name, "self", (code,), {}, ("r",)))
        assert is_error(mallory.ask(m.PlanCommandMessage((1, True), name)))

    @sy.func2plan(args_shape=[(3,)])
    def honest(x):
        return x + torch.ones(3)

    for name in names:
        parts = forged.parts_of(honest, ROWS=forged.program(forged.op(name, Ref(0))))
        message = (forged.OBJECT, (forged.PLAN_CODE, *[_simplify(None, part) for part in parts]), "evil", False, None)
        assert is_error(deserialize(mallory.send(hand_made(message)))), name
    assert is_error(mallory.ask(m.GetShapeMessage(Ref("evil"))), "ObjectNotFoundError")
    assert not marker.exists()
    still_there(hook, target)


# --- names that are paths -----------------------------------------------------------------------------------------


def test_paths_in_ids_tags_and_keys(hook, target, alice, mallory, folder):
    outside = sorted(p.name for p in folder.iterdir())
    for number, name in enumerate(
        ("../../owned", "/tmp/owned", "..", "store/../../owned", "a\0b", "C:\\owned", "%2e%2e%2fowned", "‮gpj.exe", "~")
    ):
        tagged = torch.ones(2)
        tagged.__dict__["_syft_tags"] = {name}
        answer = mallory.ask(m.ObjectMessage(tagged, name, True))
        assert answer is None or is_error(answer)
        answer = mallory.ask(m.ObjectMessage(torch.full((70_000,), 1.0), f"{name}-{number}", True))
        assert answer is None or is_error(answer)
        mallory.ask(m.Operation("syft.tag", None, (Ref(name), name), {}, ()))
        mallory.ask(m.ForceObjectDeleteMessage(name))
        mallory.ask(m.ForceObjectDeleteMessage(f"{name}-{number}"))
    assert sorted(p.name for p in folder.iterdir()) == outside
    assert not Path("/tmp/owned").exists() and not (folder.parent / "owned").exists()
    still_there(hook, target)


# --- who somebody is ----------------------------------------------------------------------------------------------


def test_names_in_messages_count_for_nothing(hook, target, mallory):
    obj_id = secret_id(mallory)
    for user in ("owner", "alice", "attacked", None):
        assert is_error(mallory.ask(m.ObjectRequestMessage((obj_id, user, "I am the owner"))), "GetNotPermittedError")
    for number, user in enumerate(("owner", "alice", "attacked")):
        for published in (False, True):
            given = m.ObjectMessage(torch.ones(1).tag("#given"), f"given {number}", published, user)
            assert is_error(mallory.ask(given), "NotPermittedError")
    assert mallory.ask(m.ObjectMessage(torch.ones(1).tag("#given"), "kept", True, "bob")) is None
    for user in ("owner", "alice", "bob"):
        rows = [row for row in objects_of(target, user) if row["id"] == "kept" or row["id"].startswith("given")]
        assert [(row["id"], row["owner"]) for row in rows] == [("kept", "bob")]
    with contextlib.closing(Visitor(target.url, target.tokens["alice"], client_context(target.ca))) as alice:
        alice.ask(m.ForceObjectDeleteMessage("kept"))
        alice.ask(m.ReleaseMessage(("kept",) * 3))
    assert mallory.ask(m.GetShapeMessage(Ref("kept"))).shape == (1,)
    assert mallory.ask(m.ForceObjectDeleteMessage("kept")) is None
    assert is_error(mallory.ask(m.ForceObjectDeleteMessage(obj_id)))
    assert is_error(mallory.ask(m.PublishMessage(obj_id)))
    assert is_error(mallory.ask(m.Operation("torch.Tensor.zero_", None, (Ref(obj_id),), {}, ("z",))))
    still_there(hook, target)


# The refusals of invalid tokens, where they differ from that of a token of another node.
WHY = {
    "none": "requires a token",
    "expired": "expired",
    "revoked": "revoked",
    "other purpose": "another purpose",
}


def test_invalid_tokens_are_refused(hook, target):
    good = target.tokens["alice"]
    head, body, signature = good.split(".")
    forged = {
        "none": None,
        "rubbish": "x.y.z",
        "signature of nothing": f"{head}.{body}.",
        "another signature": f"{head}.{body}.{signature[:-6]}AAAAAA",
        "another body": f"{head}.{target.tokens['owner'].split('.')[1]}.{signature}",
        "alg none": f"eyJhbGciOiJub25lIn0.{body}.",
    }
    for name, token in forged.items():
        with pytest.raises(AuthenticationError, match=WHY.get(name, "not a valid token of this node")):
            sy.connect(target.url, token=token, ca=target.ca, hook=hook)
    with pytest.raises(AuthenticationError, match=WHY["none"]):
        sy.connect(target.url, token=None, ca=target.ca, hook=hook)
    for size in (10_000, 100_000):  # more than a line of a handshake, and than a head, may have
        started = time.monotonic()
        with pytest.raises(SyftError):  # a 400, or a line that is cut, if the rest of it came after the answer
            sy.connect(target.url, token=good + "A" * size, ca=target.ca, hook=hook)
        assert time.monotonic() - started < 30, "nobody answered"
    still_there(hook, target)


@pytest.mark.parametrize("name", ["expired", "revoked", "other purpose", "other node"])
def test_expired_and_foreign_tokens_are_refused(hook, target, name):
    with pytest.raises(AuthenticationError, match=WHY.get(name, "not a valid token of this node")) as caught:
        sy.connect(target.url, token=target.tokens[name], ca=target.ca, hook=hook)
    assert target.tokens[name] not in str(caught.value)
    still_there(hook, target)


def test_a_session_can_not_be_taken_over(hook, target, alice):
    """A client that learns the id of a session, or even its secret, is still another client."""
    stream = sy.local_worker.stream_to(alice)
    session_id, secret = stream._session
    context = client_context(target.ca)
    for user, shown in (("alice", b"x" * 32), ("alice", b""), ("bob", secret), ("owner", secret)):
        visitor = Visitor(target.url, target.tokens[user], context, (session_id, shown))
        assert visitor.session_id != session_id
        visitor.close()


# --- no way around TLS --------------------------------------------------------------------------------------------


def test_no_downgrade_to_plain(hook, target, authority, tmp_path):
    with socket.create_connection(("127.0.0.1", target.port), timeout=60) as sock:
        sock.sendall(b"GET /health HTTP/1.1\r\nHost: localhost\r\n\r\n")
        assert b"200" not in sock.recv(1000)
    with pytest.raises((NodeLostError, SyftError)):
        sy.connect(target.url.replace("wss://", "ws://"), token=target.tokens["alice"], hook=hook)
    other = make_authority(tmp_path / "other", "somebody else")
    with pytest.raises(NodeLostError, match="certificate|authority"):
        sy.connect(target.url, token=target.tokens["alice"], ca=other.certificate, hook=hook)
    with pytest.raises(NodeLostError):
        sy.connect(target.url, token=target.tokens["alice"], hook=hook)  # the system knows no such authority
    old = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    old.check_hostname, old.verify_mode = False, ssl.CERT_NONE
    with warnings.catch_warnings(action="ignore"):
        old.maximum_version = ssl.TLSVersion.TLSv1_1
    with pytest.raises((ssl.SSLError, OSError)):
        with socket.create_connection(("127.0.0.1", target.port), timeout=60) as sock, old.wrap_socket(sock):
            pass
    still_there(hook, target)


# --- other people's objects ---------------------------------------------------------------------------------------


def test_another_users_objects_are_not_there(hook, target, alice, mallory):
    """By id, shape, form, search, plan, gradient, deletion: what alice works with is nobody's business."""
    x = torch.tensor(SECRET).requires_grad_().send(alice)
    (x * 2).sum().backward()
    alice.synchronize()
    obj_id = x.id_at_location
    for message in (
        m.ObjectRequestMessage((obj_id, None, "")),
        m.GetShapeMessage(Ref(obj_id)),
        m.GetShapeMessage(Ref(obj_id, "grad")),
        m.IsNoneMessage(Ref(obj_id, "grad")),
        m.Operation("torch.Tensor.add", None, (Ref(obj_id), 1), {}, ("sum",)),
        m.Operation("torch.Tensor.dim", None, (Ref(obj_id),), {}, ("dim",)),
        m.Operation("torch.Tensor.tolist", None, (Ref(obj_id, "grad"),), {}, ("grad",)),
        m.RetainMessage(obj_id),
        m.PublishMessage(obj_id),
        m.HandOverMessage(obj_id, "attacked", "mine", False),
        m.FetchThereMessage(obj_id),
    ):
        answer = mallory.ask(message)
        assert is_error(answer, "ObjectNotFoundError"), (message, answer)
    mallory.ask(m.ForceObjectDeleteMessage(obj_id))
    mallory.ask(m.ReleaseMessage((obj_id,) * 5))
    assert all(row[0] != obj_id for row in mallory.ask(m.SearchMessage([])))
    assert torch.equal(x.get().detach(), torch.tensor(SECRET))


def test_the_owners_values_do_not_come_out_of_computations(hook, target, alice):
    (found,) = alice.search("#secret")
    model = torch.nn.Linear(3, 1).double().send(alice)
    loss = model(found).sum()
    loss.backward()
    for derived in (found + 0, found * 0 + 1, found.sum(), loss, model.weight.grad, torch.stack([found, found])):
        with pytest.raises(NotPermittedError):
            derived.copy().get()
    for leak in (
        lambda: found.tolist(),
        lambda: found.sum().item(),
        lambda: float(found.sum()),
        lambda: bool((found > 0).any()),
        lambda: int((found > 0).sum()),
        lambda: found[found > 0].shape,
        lambda: torch.nonzero(found > 0).shape,
        lambda: torch.equal(found, found),
        lambda: torch.zeros(3, dtype=torch.float64).send(alice).copy_(found).get(),
        lambda: torch.allclose(found, found),
    ):
        with pytest.raises((NotPermittedError, SyftError)):
            leak()

    @sy.func2plan(args_shape=[(3,)])
    def leak(x):
        return x.double() * 1

    plan = leak.send(alice)
    with pytest.raises(GetNotPermittedError):
        plan(found).get()
    model.weight.grad = None


# --- too large, too slow, too many --------------------------------------------------------------------------------


def test_frames_that_are_too_large(hook, target):
    context = client_context(target.ca)
    for attack in (
        lambda v: v.frame(REQUEST, 1, 1 << 60),
        lambda v: v.frame(REQUEST, 1, (64 << 20) + 1),
        lambda v: v.frame(REQUEST, 7, 0),
        lambda v: v.frame(99, 1, 0),
        lambda v: v.frame(HELLO, 1, 3, b"abc"),
        lambda v: v.raw(b"\xff" * 100_000),
    ):
        visitor = Visitor(target.url, target.tokens["bob"], context)
        attack(visitor)
        assert visitor.hears() is None
        visitor.close()
    visitor = Visitor(target.url, target.tokens["bob"], context)
    visitor.pipe._protocol.max_size = None
    with visitor.pipe._parsing:
        visitor.pipe._protocol.send_binary(bytes(5 << 20))  # larger than any piece may be
    try:
        visitor.pipe._flush()
    except OSError:
        pass
    assert visitor.hears() is None
    visitor.close()
    still_there(hook, target)


def test_slow_lorises(hook, hasty):
    """Connections that send a byte now and then are ended by the node, whatever they began; nobody waits for them."""
    target, context = hasty, client_context(hasty.ca)

    def knock():
        return socket.create_connection(("127.0.0.1", target.port), timeout=60)

    heads = [context.wrap_socket(knock(), server_hostname="localhost") for _ in range(30)]
    for sock in heads:
        sock.sendall(b"GET /health HTTP/1.1\r\nHost: localhost\r\nX-Slow: ")
    silent, handshakes = [knock() for _ in range(15)], [knock() for _ in range(15)]
    for sock in handshakes:
        sock.sendall(b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03")  # how TLS begins
    where = Endpoint(target.url, target.tokens["bob"], context).at("/stream")
    speechless, stammering = WebsocketPipe(where, 60), WebsocketPipe(where, 60)
    stammering.send(HEADER.pack(HELLO, 0, 2000))
    begun = Visitor(target.url, target.tokens["bob"], context)
    begun.frame(REQUEST, 1, 1 << 20, b"only the beginning")
    # They answer when they are asked whether they are there.
    listening = [begun.collect(), *(listen(pipe) for pipe in (speechless, stammering))]
    trickling = [*(sock.sendall for sock in (*heads, *handshakes)), stammering.send, begun.raw]
    with trickle(trickling):
        still_there(hook, target)
        end = time.monotonic() + 80
        assert all(is_ended(sock, end) for sock in (*heads, *silent, *handshakes))
        for thread in listening:  # what was begun must go on, and not for ever
            thread.join(max(0.1, end - time.monotonic()))
        assert not any(thread.is_alive() for thread in listening)
        assert not begun.seen
    for each in (*heads, *silent, *handshakes, speechless, stammering, begun):
        each.close()
    still_there(hook, target)


@pytest.mark.parametrize("scheme", [name for name in compression.SCHEMES if name != "none"])
def test_decompression_bombs(hook, target, mallory, scheme):
    data, code = compression.SCHEMES[scheme](bytes(200 << 20))
    assert len(data) < 20 << 20
    written = mallory.send(bytes((code,)) + bytes(data))
    assert written is None or b"max_message_bytes" in written or b"Error" in written
    still_there(hook, target)


def test_a_million_tiny_objects(hook, target, alice):
    eve = target.connect(hook, "bob", ca=target.ca)
    kept = []
    with pytest.raises(QuotaExceededError):
        for _ in range(100):
            kept += [torch.zeros(0).send(eve) for _ in range(100)]
            eve.synchronize()
    with contextlib.suppress(QuotaExceededError):  # others of the last hundred, after the first was reported
        eve.synchronize()
    assert len(kept) < 3000
    assert torch.equal((torch.ones(2).send(alice) + 1).get(), torch.full((2,), 2.0))
    del kept
    forget(hook, eve)
    still_there(hook, target)


FUZZED = int(os.environ.get("RESYFT_FUZZED_FRAMES", deep(15_000, 50_000)))


MUTATIONS = (
    fuzzing.flip, fuzzing.overwrite, fuzzing.truncate, fuzzing.cut_out, fuzzing.insert, fuzzing.splice,
    fuzzing.edit_lengths, fuzzing.edit_tree,
)  # fmt: skip
# Frames over one connection; after those a frame whose head is broken, which ends it. One in ten is a request that must
# be answered right, another one a frame that came before or that says something about answers.
STINT = 50


def furnished(visitor, pool):
    """Give the node the objects that the messages are about, and return ids with shapes that no message can name."""
    for obj_id in (2, 3, 6, "name"):
        visitor.ask(m.ObjectMessage(torch.arange(6.0).view(2, 3), obj_id, True))
    visitor.ask(m.ObjectMessage(sy.String("some text"), 4, True))
    visitor.ask(m.ObjectMessage(linear(), 10, True))
    visitor.ask(HostModelMessage(linear(), "model", True, True, ((1, 3),)))
    own = {rng_id: torch.zeros(count, 3) for count, rng_id in enumerate((secrets.randbits(127) for _ in range(5)), 1)}
    for obj_id, value in own.items():
        assert not isinstance(visitor.ask(m.ObjectMessage(value, obj_id, True)), m.ErrorMessage)
    return {obj_id: value.shape for obj_id, value in own.items()}


def stint(visitor, rng, pool, own):
    """Send frames, and return what must come back: number -> shape."""
    expected, number = {}, visitor.done
    for place in range(STINT):
        data = rng.choice(MUTATIONS)(rng, rng.choice(pool), pool) or b"\0"
        if place % 10 == 4 and number:  # again, or about answers that there were or will be
            kind, which = rng.choice(((REQUEST, rng.randint(0, number)), (SEEN, rng.randrange(2**64))))
            visitor.connection.write_soon(kind, which, data)
            continue
        number += 1
        if place % 10 == 9:
            obj_id = rng.choice(list(own))
            expected[number] = own[obj_id]
            data = write_request(None, (), m.GetShapeMessage(Ref(obj_id)), True)
        visitor.connection.write_soon(REQUEST, number, data)
    visitor.connection.flush_quietly()
    return expected, number


@pytest.mark.timeout(400)
def test_fuzzed_frames(hook, target):
    """Mutated messages and frames against a live node: 50,000 with RESYFT_DEEP=1."""
    rng, context = random.Random(6), client_context(target.ca)
    pool = fuzzing.corpus(fuzzing.Target())
    object_manager = Visitor(target.url, target.tokens["bob"], context)
    own = furnished(object_manager, pool)
    hidden = Visitor(target.url, target.tokens["alice"], context)
    assert hidden.ask(m.ObjectMessage(torch.tensor(SECRET, dtype=torch.float64), 1, True)) is None
    hidden.close()  # an idle connection that answers no pings would be closed by the node
    heard = 0
    for _ in range(FUZZED // STINT):
        visitor = Visitor(target.url, target.tokens["bob"], context)
        reading = visitor.collect()
        expected, last = stint(visitor, rng, pool, own)
        end = time.monotonic() + 60
        while visitor.answered < last and reading.is_alive() and time.monotonic() < end:
            time.sleep(0.002)
        assert visitor.answered == last, "the node hung up"  # the last one is answered, so all before it were done
        head = bytearray(struct.pack("<BQQ", REQUEST, last + 1, STINT))
        head[rng.randrange(17)] ^= 1 << rng.randrange(8)
        visitor.raw(bytes(head) + rng.randbytes(STINT))
        visitor.pipe.finish()
        reading.join(0.2)  # some heads promise what never comes, and a node waits some seconds for a farewell
        visitor.close()
        reading.join(60)
        assert {number: deserialize(visitor.answers[number]).shape for number in expected} == expected
        assert not any(needle in written for written in visitor.seen for needle in NEEDLES)
        heard += len(visitor.seen)
    assert heard > FUZZED // 2
    assert "1" in [row["id"] for row in objects_of(target, "owner")]  # alice's is still there, until she takes it back
    hidden = Visitor(target.url, target.tokens["alice"], context)
    assert hidden.ask(m.ForceObjectDeleteMessage(1)) is None
    object_manager.close(), hidden.close()
    still_there(hook, target)


def test_unknown_and_hidden_ids_give_the_same_error(hook, target, alice, mallory):
    x = torch.ones(2).send(alice)
    alice.synchronize()
    hidden = mallory.ask(m.ObjectRequestMessage((x.id_at_location, None, "")))
    absent = mallory.ask(m.ObjectRequestMessage((x.id_at_location + 1, None, "")))
    assert hidden.contents[0] == absent.contents[0] == ObjectNotFoundError.__name__
    assert hidden.contents[1].replace(str(x.id_at_location), "") == absent.contents[1].replace(
        str(x.id_at_location + 1), ""
    )


def test_a_plan_of_mallory_gets_nothing_of_alice(hook, target, alice, mallory):
    """Her id as an argument, in a plan or a call, names nothing that mallory could compute with or look at."""
    hers = torch.tensor(SECRET, dtype=torch.float64).send(alice)
    alice.synchronize()
    theirs = Ref(hers.id_at_location)
    plan = sy.Plan(name="twice", forward_func=lambda x: x * 2, id="mallorys-plan").build(torch.zeros(3))
    assert not is_error(mallory.ask(m.ObjectMessage(plan, "mallorys-plan", False)))
    assert not is_error(mallory.ask(HostModelMessage(plan, "mallorys-model", True, True, ((3,),))))
    mallory.ask(m.ObjectMessage(torch.arange(3.0), "mallorys-own", False))
    run = m.Operation(RUN_PLAN, None, (Ref("mallorys-plan"), Ref("mallorys-own")), {}, ("fine",))
    assert not is_error(mallory.ask(run))
    assert mallory.ask(m.ObjectRequestMessage(("fine", None, ""))).tolist() == [0.0, 2.0, 4.0]
    attempts = [
        m.Operation(RUN_PLAN, None, (Ref("mallorys-plan"), theirs), {}, ("stolen",)),
        m.Operation(RUN_PLAN, None, (Ref("mallorys-plan"),), {"x": theirs}, ("stolen",)),
        m.Operation(RUN_PLAN, None, (theirs, Ref("mallorys-own")), {}, ("stolen",)),
        m.Operation("torch.Tensor.add", None, (Ref("mallorys-own"), theirs), {}, ("stolen",)),
        m.Operation("torch.stack", None, ([Ref("mallorys-own"), theirs],), {}, ("stolen",)),
        InferenceMessage((theirs,), "mallorys-model"),
    ]
    for name in ("__repr__", "__str__", "__format__", "tolist", "item", "sum", "data.__get__"):
        attempts.append(m.Operation(f"torch.Tensor.{name}", None, (theirs,), {}, ("stolen",)))
    for attempt in attempts:
        answer = mallory.ask(attempt)
        assert is_error(answer, "ObjectNotFoundError", "CommandNotAllowedError", "SerdeError", "ModelError"), (
            attempt,
            answer,
        )
        assert is_error(mallory.ask(m.ObjectRequestMessage(("stolen", None, ""))), "ObjectNotFoundError")
    assert hers.get().tolist() == list(SECRET)
