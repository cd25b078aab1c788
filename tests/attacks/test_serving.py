"""Hostile clients of served models: they run the model on their inputs within their limit, and nothing else."""

from __future__ import annotations

import itertools
import logging
import socket
import struct

import pytest
import torch

import syft as sy
from syft.core.references import Ref
from syft.exceptions import ProtocolError, SyftError
from syft.messaging import message as m
from syft.messaging.call_batch import StepsMessage
from syft.messaging.hosting import SharedInferenceMessage
from syft.mpc.serving import endpoint
from syft.mpc.serving.invitation import ServingParty
from syft.serde import deserialize
from syft.workers.base import BaseWorker
from syft.workers.process.child import ServedWorker
from syft.workers.transport import framing, handshake
from syft.workers.transport.framing import FramedConnection
from syft.workers.transport.handshake import Address
from syft.workers.transport.pipe import SocketPipe
from syft.workers.transport.request_codec import answer, write_request
from syft.workers.transport.socket_stream import Listener
from tests.helpers.attacks.hostile_peer import Mallory, error_name, still_answers
from tests.helpers.mpc.serving import close, encrypted, make_model
from tests.helpers.serde.round_trips import MESSAGE_TYPES

X = torch.linspace(-1, 1, 8).view(1, 8)
_ids = itertools.count(7 * 10**9)


class HostileClient:
    """An invited client that sends what it likes to each server, and reads every byte that comes back."""

    def __init__(self, workers, invitation):
        self.workers = workers[:2]
        self.invitation = invitation
        self.visits = [
            endpoint.open_invited_session(worker, invitation.client_id, invitation.name) for worker in self.workers
        ]
        self.seen = []

    def send(self, index, data):
        written = answer(self.workers[index], self.visits[index], data)
        self.seen.append(written)
        return deserialize(written) if written else None

    def ask(self, index, message):
        return self.send(index, write_request(None, (), message, True))

    def message(self, contents=None, run_id=None, **changes):
        fields = {
            "contents": (torch.zeros(1, 8, dtype=torch.int64),) if contents is None else contents,
            "run_id": next(_ids) if run_id is None else run_id,
            "name": self.invitation.name,
            "version": self.invitation.name,
            "return_id": next(_ids),
        }
        return SharedInferenceMessage(**{**fields, **changes})

    def run(self, **changes):
        """Ask both servers; returns their answers, and then what they give."""
        message = self.message(**changes)
        answers = [self.ask(index, message) for index in range(2)]
        return answers, [self.ask(index, m.ObjectRequestMessage((message.return_id, None, ""))) for index in range(2)]


@pytest.fixture
def trio(make_worker):
    return [make_worker(name, "bytes") for name in ("alice", "bob", "carol")]


@pytest.fixture
def served(trio):
    model, _clear = make_model()
    encrypted(model, trio)
    served = model.serve(in_shape=(1, 8), num_requests=100)
    served.model = model
    return served


@pytest.fixture
def invited_mallory(trio, served):
    return HostileClient(trio, served.invite(3))


def shares_of(model, worker):
    return {p.child.child.child[worker.id].id_at_location: p for p in model.parameters()}


def works(trio, served):
    """Check that the model is still served as it was."""
    _, clear = make_model()
    client = sy.mpc.connect(served.invite(1))
    return close(client.query_model(X), clear(X).detach())


# --- what an invited client may send ------------------------------------------------------------------------------------


MESSAGES = [
    m.Message(1),
    m.Operation("torch.ones", None, (2,), {}, (1,)),
    m.Operation(endpoint.LEFT, None, ("0" * 32, "client"), {}, ()),
    m.Operation(endpoint.CLOSE, None, ("0" * 32,), {}, ()),
    m.RunMessage((Ref(5),), 1, "open", ("alice", "bob"), "carol", {}, 2),
    m.ObjectMessage(torch.ones(2), 5),
    m.IsNoneMessage(Ref(5)),
    m.GetShapeMessage(Ref(5)),
    m.ForceObjectDeleteMessage(5),
    m.RetainMessage(5),
    m.ReleaseMessage((5,)),
    m.HandOverMessage(5, "bob", 6, False),
    m.FetchThereMessage(5),
    m.SearchMessage([]),
    m.BatchMessage((m.SearchMessage([]),)),
    m.PlanCommandMessage((1, False), "fetch_plan"),
    m.ErrorMessage(("a", "b", "c")),
    m.PublishMessage(5),
    m.ClaimMessage(5),
    m.RequestReleaseMessage(5, "please"),
    m.RequestStatusMessage("a"),
    m.ListRightsMessage("audit"),
    m.DecideRequestMessage("a", True),
    m.RevokeGrantMessage("a"),
    m.ShareSourceMessage(5, ("mallory",), True),
]


def test_all_kinds_of_messages_are_tried():
    assert {type(message) for message in MESSAGES} | set(endpoint.InvitedSession.routes) == {
        *MESSAGE_TYPES,
        SharedInferenceMessage,
    }


ROW = StepsMessage(((b"", True, "torch.Tensor.add", bytes(16), (5).to_bytes(16, "big"), 1),))


@pytest.mark.parametrize("message", [*MESSAGES, ROW], ids=lambda message: type(message).__name__)
def test_no_other_message_is_answered(trio, served, invited_mallory, message):
    before = [dict(worker._objects) for worker in trio]
    assert error_name(invited_mallory.ask(0, message)) == "SerdeError"
    assert error_name(invited_mallory.ask(0, m.BatchMessage((message,)))) == "SerdeError"
    assert [dict(worker._objects) for worker in trio] == before
    assert works(trio, served)


def test_shares_of_the_model_are_out_of_reach(trio, served, invited_mallory):
    alice = trio[0]
    held = shares_of(served.model, alice)
    for obj_id in held:
        assert error_name(invited_mallory.ask(0, m.ObjectRequestMessage((obj_id, None, "")))) == "ObjectNotFoundError"
        for name in ("open", "negative", "program", "add_public"):
            message = invited_mallory.message((Ref(obj_id),), name=name)
            assert error_name(invited_mallory.ask(0, message)) == "ProtocolError"
        assert error_name(invited_mallory.ask(0, invited_mallory.message((Ref(obj_id),)))) == "ModelError"
        # Released by one who has no claim, they stay.
        invited_mallory.send(0, write_request(None, (obj_id,), invited_mallory.message(), True))
    assert held.keys() <= alice._objects.keys()
    numbers = [struct.pack("<q", int(share.flatten()[0])) for share in map(alice._objects.__getitem__, held)]
    assert not any(number in data for number in numbers for data in invited_mallory.seen)
    assert works(trio, served)


def test_objects_of_others_are_out_of_reach(trio, invited_mallory):
    alice = trio[0]
    secret = torch.tensor([41434143]).send(alice)
    published = torch.tensor([1, 2, 3]).tag("#data").send(alice)
    for pointer in (secret, published):
        obj_id = pointer.id_at_location
        assert error_name(invited_mallory.ask(0, m.ObjectRequestMessage((obj_id, None, "")))) == "ObjectNotFoundError"
    assert torch.equal(secret.get(), torch.tensor([41434143])) and torch.equal(published.get(), torch.tensor([1, 2, 3]))
    assert not any(struct.pack("<q", 41434143) in data for data in invited_mallory.seen)
    still_answers(alice)


def test_a_returned_pointer_reaches_no_object(trio, served, invited_mallory):
    """It would be read as the object itself, and the model be run on a share of somebody else."""
    alice, bob, _ = trio
    held = torch.ones(1, 8, dtype=torch.int64).send(alice)
    assert error_name(invited_mallory.ask(0, invited_mallory.message((held.child,)))) == "WorkerNotFoundError"
    elsewhere = torch.ones(1, 8, dtype=torch.int64).send(bob)
    assert error_name(invited_mallory.ask(0, invited_mallory.message((elsewhere.child,)))) == "WorkerNotFoundError"
    assert served._left(invited_mallory.invitation) == 3
    assert torch.equal(held.get(), elsewhere.get())


def test_a_client_of_a_served_model_releases_no_objects(trio, invited_mallory):
    """Objects that their owner is passing on can be claimed by anyone who knows their id, but not by an invited client."""
    claims = trio[0].object_store.claims
    held = torch.ones(3).send(trio[0])
    claims.offer(held.id_at_location, sy.local_worker.stream_to(trio[0]).session)
    before = list(claims._offers[held.id_at_location])
    invited_mallory.send(0, write_request(None, (held.id_at_location,) * 3, invited_mallory.message(), True))
    assert claims._offers[held.id_at_location] == before
    assert torch.equal(held.get(), torch.ones(3))


@pytest.mark.parametrize(
    "contents",
    [
        (),
        (torch.zeros(1, 8),),
        (torch.zeros(1, 8, dtype=torch.int32),),
        (torch.zeros(2, 8, dtype=torch.int64),),
        (torch.zeros(8, dtype=torch.int64),),
        (torch.zeros(1, 8, dtype=torch.int64),) * 2,
        (torch.zeros(1, 8, dtype=torch.int64), 3),
        ([torch.zeros(1, 8, dtype=torch.int64)],),
        (Ref(3),),
        ("torch",),
        (None,),
        (torch.nn.Parameter(torch.zeros(1, 8)),),
    ],
)
def test_inputs_are_checked_before_a_request_counts(trio, served, invited_mallory, contents):
    assert error_name(invited_mallory.ask(0, invited_mallory.message(contents))) == "ModelError"
    assert served._left(invited_mallory.invitation) == 3
    assert invited_mallory.visits[0].results == {}


@pytest.mark.parametrize(
    "changes",
    [
        {"name": "0" * 32},
        {"name": "open"},
        {"version": "0" * 32},
        {"version": ""},
    ],
)
def test_the_program_is_the_owners(served, invited_mallory, changes):
    assert error_name(invited_mallory.ask(0, invited_mallory.message(**changes))) == "ProtocolError"
    assert served._left(invited_mallory.invitation) == 3


# --- how often ------------------------------------------------------------------------------------------------


def test_the_servers_count(trio, served, invited_mallory):
    for left in (2, 1, 0):
        answers, given = invited_mallory.run()
        assert answers == [None, None] and [row[0] for row in given] == [left, left]
    for _ in range(3):
        answers, given = invited_mallory.run()
        assert [error_name(each) for each in answers] == ["ProtocolError"] * 2
        assert [error_name(each) for each in given] == ["ObjectNotFoundError"] * 2
    again = HostileClient(trio, invited_mallory.invitation)  # coming again does not help
    assert [error_name(each) for each in again.run()[0]] == ["ProtocolError"] * 2
    assert works(trio, served)


def test_runs_of_one_server_alone_count_too(served, invited_mallory):
    for _ in range(3):
        assert invited_mallory.ask(0, invited_mallory.message()) is None
    assert error_name(invited_mallory.ask(0, invited_mallory.message())) == "ProtocolError"
    assert served._left(invited_mallory.invitation) == 0
    assert invited_mallory.visits[0].results == {}


def test_a_second_request_for_a_run_is_refused(invited_mallory):
    message = invited_mallory.message()
    assert invited_mallory.ask(0, message) is None
    assert error_name(invited_mallory.ask(0, message)) == "ProtocolError"
    assert type(invited_mallory.ask(1, message)) is m.ErrorMessage
    answers, given = invited_mallory.run()
    assert answers == [None, None] and given[0][0] == 0


def test_results_belong_to_their_client(trio, served, invited_mallory):
    other = HostileClient(trio, served.invite(3))
    message = other.message()
    assert [other.ask(index, message) for index in range(2)] == [None, None]
    wanted = m.ObjectRequestMessage((message.return_id, None, ""))
    assert error_name(invited_mallory.ask(0, wanted)) == "ObjectNotFoundError"
    assert isinstance(other.ask(0, wanted), tuple)
    assert error_name(other.ask(0, wanted)) == "ObjectNotFoundError", "and are given once"


def test_results_do_not_pile_up(trio, served):
    greedy = HostileClient(trio, served.invite(40))
    for _ in range(40):
        message = greedy.message()
        for index in range(2):
            assert greedy.ask(index, message) is None
    assert len(greedy.visits[0].results) == endpoint.MAX_RESULTS
    greedy.visits[0].close()
    assert greedy.visits[0].results == {}


# --- who has a say --------------------------------------------------------------------------------------------


def test_only_the_owner_can_change_an_endpoint(trio, served, invited_mallory):
    mallory = Mallory(trio[0])
    name, client = served.name, invited_mallory.invitation.client_id
    for call in (
        (endpoint.INVITE, name, "mallory", 3),
        (endpoint.REVOKE, name, client),
        (endpoint.LEFT, name, client),
        (endpoint.CLOSE, name),
        (endpoint.INVITE, "0" * 32, "mallory", 3),
        (endpoint.CLOSE, 3),
        (endpoint.OPEN, name),
        (endpoint.OPEN, name, (), None),
        (endpoint.OPEN, *forged(name)),
    ):
        assert type(mallory.call(*call)) is m.ErrorMessage
    mallory.session.close()
    assert works(trio, served)
    with pytest.raises(ProtocolError):
        endpoint.open_invited_session(trio[0], "mallory", name)
    with pytest.raises(ProtocolError):
        endpoint.open_invited_session(trio[0], client, "0" * 32)


def forged(name="ab" * 16, limit=3, **changes):
    """Return the arguments of an endpoint, some of them wrong."""
    fields = {
        "steps": (("negative", (("value", 0),), (), 1),),
        "outputs": (1,),
        "given": (0,),
        "parties": ("alice", "bob"),
        "provider": "carol",
        "inputs": (((3,), 1, 2**62, True),),
        "results": (((3,), 1, 2**62, True),),
        "version": name,
        "keys": (),
        "max_requests_per_user": None,
    }
    return name, tuple({**fields, **changes}.values()), limit


@pytest.mark.parametrize(
    "changes",
    [
        {"name": "short"},
        {"name": "AB" * 16},
        {"name": 3},
        {"steps": (("os.system", (("value", 0),), (), 1),)},
        {"steps": (("program", (("value", 0),), (), 1),)},
        {"steps": (("negative", (("value", 7),), (), 1),)},
        {"steps": "negative"},
        {"outputs": (9,)},
        {"outputs": ()},
        {"given": (1,)},
        {"given": (-1,)},
        {"given": ("x",)},
        {"given": [0]},
        {"given": (True,)},
        {"inputs": (((-1,), 1, 2**62, True),)},
        {"inputs": (((1.5,), 1, 2**62, True),)},
        {"inputs": (((3,), 0, 2**62, True),)},
        {"inputs": (((3,),),)},
        {"inputs": (3,)},
        {"results": 3},
        {"version": 3},
        {"keys": ("x",)},
        {"max_requests_per_user": -1},
        {"parties": ("alice",)},
        {"parties": ("alice", "alice")},
        {"parties": ("bob", "carol")},
        {"parties": ["alice", "bob"]},
        {"provider": 2.5},
        {"limit": -1},
        {"limit": 2.5},
        {"limit": True},
    ],
    ids=str,
)
def test_forged_endpoints(hook, changes):
    alice = ServedWorker("alice")
    mallory = Mallory(alice)
    assert mallory.call(endpoint.OPEN, *forged()) is None
    assert mallory.call(endpoint.CLOSE, "ab" * 16) is None
    assert type(mallory.call(endpoint.OPEN, *forged(**changes))) is m.ErrorMessage
    assert not endpoint._endpoints.get(alice)
    assert type(mallory.call(endpoint.INVITE, "ab" * 16, "client", 1)) is m.ErrorMessage


def test_an_endpoint_ends_with_its_owners_session(hook):
    alice = ServedWorker("alice")
    mallory = Mallory(alice)
    assert mallory.call(endpoint.OPEN, *forged()) is None
    assert mallory.call(endpoint.INVITE, "ab" * 16, "client", 2) is None
    assert type(mallory.call(endpoint.INVITE, "ab" * 16, "other", 2)) is m.ErrorMessage, "3 were allowed"
    assert endpoint.open_invited_session(alice, "client", "ab" * 16).endpoint.left("client") == 2
    mallory.session.close()
    with pytest.raises(ProtocolError):
        endpoint.open_invited_session(alice, "client", "ab" * 16)
    second = Mallory(alice, "second")
    for number in range(endpoint.MAX_ENDPOINTS):
        assert second.call(endpoint.OPEN, *forged(name=f"{number:032x}")) is None
    assert type(second.call(endpoint.OPEN, *forged())) is m.ErrorMessage


# --- bytes, texts and sockets ---------------------------------------------------------------------------------


@pytest.mark.parametrize("data", [b"", b"\x00" * 40, b"\xff" * 100, b"{}"])
def test_bytes_that_are_no_request(served, invited_mallory, data):
    assert type(invited_mallory.send(0, data)) is m.ErrorMessage
    assert served._left(invited_mallory.invitation) == 3


@pytest.mark.parametrize("scheme", ["lz4", "zstd"])
def test_a_small_message_that_becomes_a_large_one(invited_mallory, scheme):
    large = (torch.zeros(100, 1000, dtype=torch.int64),)
    sender = BaseWorker(None, "sender", auto_add=False)
    sender.compression = scheme
    packed = write_request(sender, (), invited_mallory.message(large), True)
    assert len(packed) < invited_mallory.visits[0].max_message_bytes < large[0].nbytes
    response = invited_mallory.send(0, packed)
    assert error_name(response) == "SerdeError" and "limit" in response.contents[1]


def test_errors_reveal_no_paths_and_no_values(invited_mallory):
    for message in (invited_mallory.message((torch.full((3,), 41434143),)), m.SearchMessage([])):
        name, text, where = invited_mallory.ask(0, message).contents
        assert where == "" and "41434143" not in text and ".py" not in text and name


def test_secrets_are_not_shown(trio, served, caplog):
    caplog.set_level(logging.DEBUG)
    address = Address.fresh(1234)
    invitation = served.invite(1)
    secret = sy.mpc.Invitation(
        invitation.name,
        invitation.client_id,
        tuple(ServingParty(server.id, address) for server in invitation.servers),
        *(invitation.provider, invitation.inputs, invitation.outputs, 1),
    )
    client = sy.mpc.connect(invitation)
    client.query_model(X)
    things = (secret, secret.servers, address, client, served, served._invitations, client._streams[0].session.endpoint)
    texts = [show(thing) for thing in things for show in (repr, str)]
    for damaged in (secret.to_text()[:-40], secret.to_text().replace("a", "b")):
        with pytest.raises(SyftError) as info:
            sy.mpc.connect(damaged)
        texts.append(str(info.value))
    texts += [record.getMessage() for record in caplog.records]
    assert sy.mpc.Invitation.from_text(secret.to_text()) == secret
    for word in (address.token.hex(), address.proof.hex(), repr(address.token), repr(address.proof)):
        assert not any(word in text for text in texts)


@pytest.fixture
def listening(hook):
    """A listener that accepts an invited client for one purpose."""
    worker = ServedWorker("alice")
    listener = Listener(handshake.listen())
    owner = Mallory(worker, "owner")
    assert owner.call(endpoint.OPEN, *forged()) is None
    assert owner.call(endpoint.INVITE, "ab" * 16, "client", 2) is None
    address = Address.fresh(listener.port)
    listener.announce(worker, "client", address, endpoint.purpose_of("ab" * 16))
    yield worker, listener, address
    listener.close()


@pytest.mark.parametrize(
    "purpose", ["", "mpc:group", "mpc-deal", "mpc-knock", "mpc-serve", "mpc-serve:" + "0" * 32, "x"]
)
def test_a_token_is_good_for_one_purpose(listening, purpose):
    _worker, _listener, address = listening
    with pytest.raises(OSError):
        handshake.connect(address, purpose, timeout=30)
    handshake.connect(address, endpoint.purpose_of("ab" * 16), timeout=30).close()


def test_a_token_that_was_dismissed(listening):
    _worker, listener, address = listening
    listener.dismiss(address)
    with pytest.raises(OSError):
        handshake.connect(address, endpoint.purpose_of("ab" * 16), timeout=30)


def test_the_latest_connection_of_a_client_replaces_earlier_ones(listening):
    worker, _listener, address = listening
    first = handshake.connect(address, endpoint.purpose_of("ab" * 16), timeout=30)
    earlier = FramedConnection(SocketPipe(first), 1 << 20)
    earlier.write(framing.REQUEST, 1, write_request(None, (), m.SearchMessage([]), True))
    assert earlier.read()[0] == framing.ANSWER  # it is served before the next one comes
    second = handshake.connect(address, endpoint.purpose_of("ab" * 16), timeout=30)
    first.settimeout(30)
    assert earlier.read() is None, "the earlier one is hung up on"
    connection = FramedConnection(SocketPipe(second), 1 << 20)
    connection.write(framing.REQUEST, 1, write_request(None, (), m.SearchMessage([]), True))
    kind, number, written = connection.read()
    assert (kind, number, error_name(deserialize(written))) == (framing.ANSWER, 1, "SerdeError")
    connection.write(framing.REQUEST, 2, bytes(endpoint._OVERHEAD + 1000))  # more than the model takes
    try:
        assert connection.read() is None
    except OSError:
        pass
    first.close()
    connection.close()
    third = handshake.connect(address, endpoint.purpose_of("ab" * 16), timeout=30)
    third.shutdown(socket.SHUT_RDWR)
    third.close()
    still_answers(worker)


# --- what servers and clients learn ---------------------------------------------------------------------------


class Shift(torch.nn.Module):
    """A model that only adds, which no randomness is dealt for."""

    def __init__(self):
        super().__init__()
        self.shift = torch.nn.Parameter(torch.ones(8))

    def forward(self, x):
        return x + self.shift


def test_shares_of_the_answer_are_fresh(trio):
    """The same shares twice: each share of the answer is another one, even where the program only adds."""
    served = encrypted(Shift(), trio).serve(in_shape=(1, 8))
    client = HostileClient(trio, served.invite())
    given = [client.run(contents=(torch.ones(1, 8, dtype=torch.int64),))[1] for _ in range(8)]
    for index in range(2):
        assert len({int(row[index][1].flatten()[0]) for row in given}) == 8
    totals = {tuple((row[0][1] + row[1][1]).flatten().tolist()) for row in given}
    assert totals == {(2 + 2**16,) * 8}


def test_messages_to_a_server_are_uniform(trio, served):
    """Shares of the same input differ each time, and their bits are balanced, whatever the input is."""
    client = sy.mpc.connect(served.invite(60))
    messages = []
    for worker in trio[:2]:
        worker.log_msgs = True
    for number in range(30):
        client.query_model(X * (number % 2))
    for worker in trio[:2]:
        worker.log_msgs = False
        shares = [each.contents[0] for each in worker.msg_history if type(each) is SharedInferenceMessage]
        messages.append(torch.stack(shares))
        worker.msg_history.clear()
    for shares in messages:
        for half in (shares[0::2], shares[1::2]):
            bits = torch.stack([(half >> bit) & 1 for bit in range(64)]).double()
            assert abs(float(bits.mean()) - 0.5) < 0.04  # 7680 bits: seven standard deviations
    totals = messages[0] + messages[1]
    assert torch.equal(totals[0], totals[2]) and not torch.equal(messages[0][0], messages[0][2])
