"""Hostile clients and parties of encrypted computation: requests are refused, and other runs continue."""

from __future__ import annotations

import itertools
import logging
import os
import signal
import socket
import struct
import time
from pathlib import Path

import pytest
import torch

from syft.core.context import local_worker
from syft.core.references import Ref, TensorMeta
from syft.exceptions import (
    ObjectNotFoundError,
    PartyLostError,
    ProtocolError,
    SpentPointerError,
    SyftError,
    UnsupportedOperationError,
    WorkerLostError,
)
from syft.messaging import message as m
from syft.mpc.runtime import rendezvous
from syft.mpc.runtime.protocol_registry import PROTOCOLS
from syft.pointers.lease import Lease
from syft.pointers.pointer_tensor import PointerTensor
from syft.workers.access.policy import ALLOW_ALL, DenyAll
from syft.workers.process.worker import ProcessWorker
from syft.workers.transport import handshake
from tests.helpers import warm_processes as warm
from tests.helpers.attacks.hostile_peer import Mallory, error_name, still_answers

ROOT = Path(__file__).parent.parent.parent
_ids = itertools.count(5 * 10**9, 1000)


class Gang:
    """A hostile client with a session at two parties: it tells each of them what it likes."""

    def __init__(self, bob, eve, dealer):
        self.workers = bob, eve
        self.peers = Mallory(bob), Mallory(eve)
        self.parties = (bob.id, eve.id)
        self.provider = dealer.id

    def put(self, *tensors):
        """Give each party a tensor (the same one, if there is one); returns a reference for each."""
        refs = []
        for peer, tensor in zip(self.peers, tensors * 2 if len(tensors) == 1 else tensors, strict=True):
            refs.append(Ref(next(_ids)))
            assert peer.ask(m.ObjectMessage(tensor, refs[-1].id)) is None
        return refs

    def run(self, names, arguments, options=({}, {}), parties=None, result=None):
        """Send each party its message of one run; returns their answers and the id of the result."""
        run_id, result = next(_ids), next(_ids) if result is None else result
        names = (names, names) if isinstance(names, str) else names
        options = (options, options) if isinstance(options, dict) else options
        answers = [
            peer.ask(m.RunMessage(args, run_id, name, parties or self.parties, self.provider, option, result))
            for peer, name, args, option in zip(self.peers, names, arguments, options, strict=True)
        ]
        return answers, result

    def refused(self, *args, **kwargs):
        """Send a run that must fail: the error names, and nobody keeps a result or stops answering."""
        answers, result = self.run(*args, **kwargs)
        errors = [error_name(answer) for answer in answers if answer is not None]
        assert errors, "nobody refused"
        for worker in self.workers:
            assert result not in worker.object_store.objects
            if worker.policy is ALLOW_ALL:
                still_answers(worker)
        return errors


@pytest.fixture
def gang(make_worker, kind):
    return Gang(*(make_worker(name, kind) for name in ("bob", "eve", "dealer")))


SHARE = torch.arange(6)


# --- who takes part -------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "forge",
    [
        lambda bob, eve: (),
        lambda bob, eve: (bob,),
        lambda bob, eve: (bob, bob),
        lambda bob, eve: (bob, eve, bob),
        lambda bob, eve: (eve, "somebody else"),
        lambda bob, eve: (bob, 3.5),
        lambda bob, eve: (bob, None),
        lambda bob, eve: (bob, (eve,)),
        lambda bob, eve: (bob, b"eve"),
        lambda bob, eve: (bob, *map(str, range(64))),
        lambda bob, eve: (bob, *range(100_000)),
    ],
)
def test_forged_lists_of_parties(gang, forge):
    (ref, _) = gang.put(SHARE)
    message = m.RunMessage((ref, 1), next(_ids), "add_public", forge(*gang.parties), gang.provider, {}, next(_ids))
    assert error_name(gang.peers[0].ask(message)) in {"ProtocolError", "SerdeError"}
    still_answers(gang.workers[0])


def test_a_repeated_run_with_another_number_of_parties_is_refused(gang):
    ref, other = gang.put(SHARE)
    bob, eve = gang.peers

    def message(share, parties, run_id):
        return m.RunMessage((share, 1), run_id, "add_public", parties, gang.provider, {}, next(_ids))

    first, second = next(_ids), next(_ids)
    assert bob.ask(message(ref, gang.parties, first)) is None
    assert error_name(bob.ask(message(ref, gang.parties, first))) == "ProtocolError"
    assert bob.ask(message(ref, gang.parties, second)) is None
    assert error_name(eve.ask(message(other, (*gang.parties, "third"), second))) == "ProtocolError"
    for worker in gang.workers:
        still_answers(worker)


def test_runs_without_participants_are_dropped(gang):
    ref, _ = gang.put(SHARE)
    for _ in range(2 * rendezvous.MAX_OPEN):
        message = m.RunMessage((ref, 1), next(_ids), "add_public", gang.parties, gang.provider, {}, next(_ids))
        assert gang.peers[0].ask(message) is None
    assert len(rendezvous._open) <= rendezvous.MAX_OPEN
    x = torch.tensor([1, 2, 3]).share(*gang.workers, crypto_provider=gang.provider)
    assert (x * x).get().tolist() == [1, 4, 9]


# --- what is run, on what, and how ----------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["os.system", "", "__class__", "Add", "add\0", "truncate "])
def test_unknown_protocols(gang, name):
    mine, theirs = gang.put(SHARE)
    assert gang.refused(name, ((mine,), (theirs,))) == ["UnsupportedOperationError"] * 2


@pytest.mark.parametrize(
    "call", ["abs.default", "as_strided.default", "os.system", "view", "mul.Tensor", "_local_scalar_dense.default"]
)
def test_calls_outside_the_table_of_linear_ones(gang, call):
    mine, theirs = gang.put(SHARE)
    gang.refused("local", ((mine,), (theirs,)), {"call": call})
    gang.refused("local", ((mine,), (theirs,)))


@pytest.mark.parametrize(
    "thing", [torch.ones(3), torch.ones(3, dtype=torch.int32), torch.tensor([True]), torch.ones(3, dtype=torch.double)]
)
def test_references_that_are_no_shares_are_refused(gang, thing):
    mine, theirs = gang.put(thing)
    assert "ProtocolError" in gang.refused("add_public", ((mine, 1), (theirs, 1)))


def test_references_to_attributes_and_to_nothing(gang):
    mine, theirs = gang.put(SHARE)
    for attribute in ("grad", "__class__", "grad_fn", "_base"):
        gang.refused("add_public", ((Ref(mine.id, attribute), 1), (Ref(theirs.id, attribute), 1)))
    gang.refused("add_public", ((Ref(12345), 1), (theirs, 1)))
    # Options are public: a reference in them names nothing.
    gang.refused("open", ((), ()), ({"x": mine}, {"x": theirs}))


@pytest.mark.parametrize(
    ("name", "options"),
    [
        ("add_public", {"alpha": 2**200}),
        ("add_public", {"alpha": "x"}),
        ("add_public", {"alpha": None}),
        ("add_public", {"party": 3}),
        ("add_public", {"nonsense": 3}),
        ("truncate", {"divisor": 3}),  # given twice
        ("product", {"divisor": 0}),
        ("product", {"divisor": 1.5}),
        ("product", {"divisor": "3"}),
        ("product", {"divisor": float("nan")}),
        ("product", {"operation": "os.system"}),
        ("product", {"operation": "mul", "stride": 0}),
        ("product", {"operation": "conv", "stride": -1}),
    ],
)
def test_options_that_are_not_of_the_protocol(gang, name, options):
    mine, theirs = gang.put(SHARE)
    second = (3, 3) if name in {"add_public", "truncate"} else (mine, theirs)
    gang.refused(name, ((mine, second[0]), (theirs, second[1])), options)


HUGE = 2**62
BAD_NUMBERS = [
    ("index.Tensor", (SHARE, [torch.tensor([100])])),
    ("index_select.default", (SHARE, 0, torch.tensor([100]))),
    ("gather.default", (SHARE, 0, torch.tensor([-1]))),
    ("index_put.default", (SHARE, [torch.tensor([100])], torch.tensor([1]))),
    ("scatter_add.default", (SHARE, 0, torch.tensor([100]), torch.tensor([1]))),
    ("scatter.src", (SHARE, 0, torch.tensor([-1]), torch.tensor([1]))),
    ("index_add.default", (SHARE, 0, torch.tensor([100]), torch.tensor([1]))),
    ("index_copy.default", (SHARE, 0, torch.tensor([-1]), torch.tensor([1]))),
    ("unfold_backward.default", (SHARE.view(3, 2), [40], 0, 20, 1)),
    ("unfold_backward.default", (SHARE, [1000], 0, 2, 1)),
    ("unfold_backward.default", (SHARE, [10], 0, 100, 1)),
    ("select_backward.default", (SHARE[:3], [2, 3], 0, 50)),
    ("sum.dim_IntList", (SHARE, [10**9])),
    ("cumsum.default", (SHARE, -(10**9))),
    ("diag_embed.default", (SHARE, HUGE)),
    ("unfold.default", (SHARE, 0, 2, 0)),
    ("split.Tensor", (SHARE, 0)),
    ("split_with_sizes.default", (SHARE, [HUGE, HUGE, 6])),
    ("constant_pad_nd.default", (SHARE, [HUGE, HUGE])),
    ("repeat.default", (SHARE, [2**31, 2**31])),
    ("_unsafe_view.default", (SHARE, [100])),
    ("expand.default", (SHARE, [HUGE, 6])),
    ("roll.default", (SHARE, [-(2**63)], [0])),
    ("cat.default", ([], 0)),
]


@pytest.mark.parametrize(("call", "arguments"), BAD_NUMBERS, ids=lambda value: value if type(value) is str else "")
def test_numbers_that_reach_beyond_a_share(gang, call, arguments):
    mine, theirs = gang.put(arguments[0]) if isinstance(arguments[0], torch.Tensor) else ([], [])
    gang.refused("local", ((mine, *arguments[1:]), (theirs, *arguments[1:])), {"call": call})


def test_parties_with_different_arguments_abort(gang):
    mine, theirs = gang.put(SHARE)
    gang.refused(("open", "add_public"), ((mine,), (theirs, 1)))
    gang.refused(("product", "open"), ((mine, mine), (theirs,)))
    gang.refused(("negative", "relu"), ((mine,), (theirs,)))
    gang.refused("product", ((mine, mine), (theirs, theirs)), ({"divisor": 3}, {"divisor": 5}))


@pytest.mark.parametrize("name", ["open", "square", "refresh", "negative"])
@pytest.mark.parametrize("wrong", [torch.arange(5), torch.tensor(3), torch.zeros(0, dtype=torch.int64)])
def test_a_party_with_a_share_of_another_size(gang, name, wrong):
    mine, theirs = gang.put(SHARE, wrong)
    gang.refused(name, ((mine,), (theirs,)))


def test_results_never_replace_what_is_there(gang):
    mine, theirs = gang.put(SHARE)
    answers, _ = gang.run("add_public", ((mine, 1), (theirs, 1)), result=mine.id)
    assert "IdNotUniqueError" in [error_name(answer) for answer in answers if answer is not None]
    assert gang.peers[0].call("torch.Tensor.tolist", mine) == SHARE.tolist()
    assert mine.id not in gang.workers[1].object_store.objects


# --- what leaves a worker with a policy -----------------------------------------------------------------------


@pytest.fixture
def guarded(gang):
    """A party that holds a secret and lets nothing out; the other party is the attacker's own."""
    bob = gang.workers[0]
    bob.load_data([torch.tensor([4143, -7341, 3117]).tag("#secret")])
    bob.policy = DenyAll()
    (secret,) = bob.object_store.objects
    share = Ref(next(_ids))
    assert gang.peers[1].ask(m.ObjectMessage(torch.zeros(3, dtype=torch.int64), share.id)) is None
    return gang, secret, share


def assert_kept(gang):
    written = b"".join(data for peer in gang.peers for data in peer.seen)
    for name in gang.parties:
        written = written.replace(name.encode(), b"")  # its number may be any
    assert b"4143" not in written
    assert struct.pack("<q", 4143) not in written


def test_no_protocol_takes_a_secret_out(guarded):
    gang, secret, share = guarded
    for name in sorted(PROTOCOLS):
        options = {"call": "alias.default"} if name == "local" else {}
        for wrap in (lambda ref: (ref,), lambda ref: (ref, ref), lambda ref: ([ref], 0)):
            errors = gang.refused(name, (wrap(Ref(secret)), wrap(share)), options)
            assert errors[0] == "GetNotPermittedError"
        gang.refused(name, ((Ref(secret, "data"),), (share,)), options)
        gang.refused(name, (({"x": Ref(secret)},), (share,)), options)
    assert_kept(gang)


def test_no_pointer_names_a_secret(guarded):
    gang, secret, share = guarded
    bob = gang.workers[0]
    me = local_worker()
    meta = TensorMeta(torch.Size([3]), torch.int64)
    pointer = PointerTensor._attach(Lease(me.stream_to(bob), secret, owned=False), me, meta)
    for arguments, options in (((pointer,), {}), ((), {"x": pointer}), (([pointer],), {})):
        gang.refused("open", (arguments, (share,)), (options, {}))
    assert_kept(gang)


# --- shares, masks and texts ----------------------------------------------------------------------------------


def test_nothing_printed_holds_a_value_or_a_share(workers, make_worker, caplog):
    caplog.set_level(logging.DEBUG)
    x = torch.tensor([1234543211234543211, 3876567893876567893]).share(*workers, crypto_provider=make_worker("dealer"))
    link = x.child
    held = [worker._objects[link.child[worker.id].id_at_location].tolist() for worker in workers]
    y = x * x
    texts = [f(value) for value in (x, y, link) for f in (repr, str, format)]
    texts.append(x._repr_html_())
    for bad in (lambda: bool(x[0]), lambda: x[0].item(), lambda: x.tolist(), lambda: x.exp(), lambda: x + 0.5):
        with pytest.raises(
            (ValueError, UnsupportedOperationError, SyftError), match="decrypt first|Encode before sharing"
        ) as info:
            bad()
        texts.append(str(info.value))
    texts += [record.getMessage() for record in caplog.records]
    for number in (1234543211234543211, 3876567893876567893, *itertools.chain(*held)):
        assert not any(str(number) in text for text in texts)


def eventually(call):
    """Return what a call gives; late news of runs that failed before may come first."""
    for _ in range(40):
        try:
            return call()
        except SyftError as error:
            last = error
    raise last


def _squares(alice, bob, dealer):
    x = torch.tensor([1, 2, 3]).share(alice, bob, crypto_provider=dealer)
    return (x * x).get().tolist()


def test_a_missing_share_is_reported_at_every_party(workers, make_worker):
    dealer = make_worker("dealer")
    x = torch.tensor([1, 2]).share(*workers, crypto_provider=dealer)
    assert x.get().tolist() == [1, 2]
    for use in (x.get, lambda: x + 1, lambda: x * x, x.child.refresh):
        with pytest.raises(SpentPointerError, match="fetched"):
            use()
    y = torch.tensor([1, 2]).share(*workers, crypto_provider=dealer)
    torch.ones(1).send(workers[0]).get()  # what was sent there has arrived
    workers[0].rm_obj(y.child.child[workers[0].id].id_at_location)
    with pytest.raises((ObjectNotFoundError, ProtocolError), match="holds no object|failed"):
        (y * y).get()
    assert eventually(lambda: _squares(*workers, dealer)) == [1, 4, 9]


def test_a_forked_process_draws_other_masks():
    code = (
        "import os, torch, syft as sy\n"
        "from syft.core.generator import local\n"
        "local().words(4); torch.manual_seed(1); r, w = os.pipe()\n"
        "if os.fork() == 0:\n"
        "    torch.manual_seed(1); os.write(w, local().words(8).numpy().tobytes()); os._exit(0)\n"
        "os.wait(); assert os.read(r, 64) != local().words(8).numpy().tobytes()\n"
    )
    warm.run(code, check=True, cwd=ROOT, timeout=110)


# --- workers in processes of their own ------------------------------------------------------------------------


@pytest.fixture
def processes(hook):
    made = [ProcessWorker(hook, id=f"attacked-{name}-{os.getpid()}") for name in ("alice", "bob", "dealer")]
    yield made
    for worker in made:
        worker.stop()
        hook.local_worker._known_workers.pop(worker.id, None)


def _answer(sock):
    sock.settimeout(60)
    try:
        return sock.recv(100)
    except ConnectionResetError:
        return b""


def test_unknown_clients_and_malformed_frames_get_no_answer(processes):
    alice = processes[0]
    assert _squares(*processes) == [1, 4, 9]
    for greeting in (b"GET / HTTP/1.0\r\n\r\n" + bytes(100), b"syf1" + bytes(33), os.urandom(200)):
        with socket.create_connection(("127.0.0.1", alice.port)) as sock:
            sock.sendall(greeting)
            assert _answer(sock) == b""
    header = struct.Struct("<BQQ")
    for data in (header.pack(0, 1, HUGE), header.pack(77, 1, 3) + b"abc", b"\xff" * 300):
        with handshake.connect(alice.admit("mallory")) as sock:
            sock.sendall(data)
            assert _answer(sock) == b""
    for purpose in ("mpc-deal", "mpc-knock", "nothing"):
        with handshake.connect(alice.admit("mallory"), purpose) as sock:
            sock.sendall(b"\xff" * 300)
            assert _answer(sock) == b""
    half = handshake.connect(alice.admit("mallory"))
    half.sendall(header.pack(0, 1, 1000) + b"abc")
    assert _squares(*processes) == [1, 4, 9]
    half.close()


def test_a_party_that_is_killed_is_missed_and_can_be_replaced(processes, hook):
    alice, bob, dealer = processes
    x = torch.ones(300, 300, dtype=torch.int64).share(alice, bob, crypto_provider=dealer)
    y = (x @ x) > 3
    os.kill(bob.pid, signal.SIGKILL)
    start = time.monotonic()
    with pytest.raises((PartyLostError, WorkerLostError)):
        for _ in range(3):
            y = (y @ x) > 3
        y.get()
    assert time.monotonic() - start < 100
    # Alice's own report of the lost party may arrive after the client saw it: it is raised once.
    assert eventually(lambda: torch.ones(2).send(alice).get().tolist()) == [1, 1]
    processes[1] = ProcessWorker(hook, id=bob.id)
    assert eventually(lambda: _squares(*processes)) == [1, 4, 9]
