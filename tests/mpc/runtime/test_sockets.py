"""Parties on real sockets, each in a thread of this process: rounds, deals, and lost connections."""

from __future__ import annotations

import random
import socket
import struct
import threading
import time

import pytest
import torch

from syft.exceptions import PartyLostError, ProtocolError
from syft.messaging.message import RunMessage
from syft.mpc.dealer import wire_protocol
from syft.mpc.links import party_link
from syft.mpc.links.frame_layout import read_layout, write_layout
from syft.mpc.protocols.arithmetic import multiply
from syft.mpc.runtime import dealer_service
from syft.workers.transport import framing
from syft.workers.transport.pipe import SocketPipe
from syft.workers.transport.socket_stream import PeerIdentity
from tests.helpers.mpc import network_child as child
from tests.helpers.mpc.socket_parties import AT_ONCE, WAIT, Client, World, is_right, opened, opened_bits, shares


@pytest.fixture(scope="module")
def world():
    made = World("a", "b", "c", "d", "dealer")
    yield made
    made.close()


@pytest.mark.parametrize("parties", ["ab", "abc", "dcab"])
def test_opening(world, parties):
    x = shares(len(parties), 4, 5)
    before = world.cost("a").rounds, world.cost("a").bytes
    results, errors = world.run(parties, opened, x, 7)
    assert not errors
    assert all(torch.equal(result, sum(x)) for result in results.values())
    after = world.cost("a").rounds, world.cost("a").bytes
    assert after[0] - before[0] == 7 and after[1] - before[1] == 7 * 160 * (len(parties) - 1)
    results, errors = world.run(parties, opened_bits, x)
    total = x[0]
    for share in x[1:]:
        total = total ^ share
    assert not errors and all(torch.equal(result, total) for result in results.values())


@pytest.mark.parametrize("shape", [(), (0,), (3, 0, 2), (1,), (8191,), (70_000,)], ids=str)
def test_shapes(world, shape):
    assert is_right(world, "abc", shape)


def test_shares_that_are_not_contiguous(world):
    x = [share.t() for share in shares(2, 300, 200)]
    results, errors = world.run("ab", opened, x)
    assert not errors and torch.equal(results[0], x[0] + x[1]) and torch.equal(results[1], x[0] + x[1])


def test_both_send_a_lot_at_once(world):
    x = shares(3, 4_000_000)  # 32 MB, more than sockets take
    results, errors = world.run("abc", opened, x, 2)
    assert not errors and all(torch.equal(result, sum(x)) for result in results.values())


@pytest.mark.parametrize("parties", ["ab", "abc", "abcd"])
def test_exchanges_and_nested_batches(world, parties):
    x = shares(len(parties), 50)
    results, errors = world.run(parties, child.test_exchange, x)
    assert not errors
    assert torch.equal(sum(results.values()), sum(x))
    assert torch.equal(results[1], x[0])


def test_a_helper_takes_part(world):
    async def helped(party, x):
        if party.is_helper:
            got = await party.exchange({}, (0, 1))
            total = got[0][0] + got[1][0]
            assert await party.deal("random", (2,)) == ()
            await party.exchange({0: (total,), 1: (-total,)}, ())
            return None
        await party.exchange({2: (x,)}, ())
        await party.deal("random", (2,))
        got = await party.exchange({}, (2,))
        return x + got[2][0] if party.first else x - got[2][0]

    x = [*shares(2, 5), torch.zeros(5, dtype=torch.int64)]
    results, errors = world.run("ab", helped, x, helper=True)
    assert not errors and torch.equal(results[0] + results[1], 3 * (x[0] + x[1])) and results[2] is None


# --- dealing --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("parties", ["ab", "abc", "abcd"])
def test_products(world, parties):
    for size in (3, 4, 3, 4, 3):  # two keys by turns
        x, y = shares(len(parties), size), shares(len(parties), size)
        results, errors = world.run(parties, multiply, x, y)
        assert not errors
        assert torch.equal(sum(results.values()), sum(x) * sum(y))


def test_only_the_last_party_receives_deals(make_world):
    world = make_world("a", "b", "c", "dealer")
    x = shares(3, 100)
    assert not world.run("abc", multiply, x, x)[1]
    assert [world.cost(name).dealt for name in "abc"] == [0, 0, 800]


def test_repeated_runs_send_no_request_to_the_dealer(make_world, monkeypatch):
    asked = []
    ask = dealer_service.DealQueue._answer
    monkeypatch.setattr(dealer_service.DealQueue, "_answer", lambda *args: asked.append(args[5]) or ask(*args))
    world = make_world("a", "b", "dealer")
    x = shares(2, 10)
    for _ in range(5):
        results, errors = world.run("ab", multiply, x, x)
        assert not errors and torch.equal(results[0] + results[1], sum(x) * sum(x))
    assert asked == ["triple"]


def test_masks_are_never_used_twice(make_world):
    world = make_world("a", "b", "dealer")
    seen = []

    async def look(party, x):
        a, _ = await party.deal("square", (4,))
        seen.append(a)
        (b,) = await party.deal("random", (4,))
        seen.append(b)
        return x

    for _ in range(4):
        assert not world.run("ab", look, shares(2, 1))[1]
    words = torch.cat(seen)
    assert len(words.unique()) == len(words) == 4 * 4 * 4


def test_deals_that_depend_on_opened_values(world):
    for total in (0, 1, 2, 3, 3, 3, 1, 0):
        x = shares(2, 3)
        x[1] = torch.tensor([total, 4, 8]) - x[0]
        results, errors = world.run("ab", child.test_moody, x)
        assert not errors
        assert torch.equal(results[0] + results[1], torch.tensor([total, 4, 8]) ** 2)


def test_groups_with_and_without_a_helper_by_turns(world):
    async def helped(party, x):
        if party.is_helper:
            return None
        a, b = await party.deal("square", tuple(x.shape))
        got = await party.exchange({1 - party.index: (x - a,)}, (1 - party.index,))
        e = x - a + got[1 - party.index][0]
        return b + 2 * a * e + (e * e if party.first else 0)

    for number in range(12):
        x = [*shares(2, 5), None]
        alone = number % 3 == 1
        results, errors = world.run("ab", multiply if alone else helped, *([x, x] if alone else [x]), helper=not alone)
        assert not errors and torch.equal(results[0] + results[1], (x[0] + x[1]) ** 2)
    generations = {
        group.dealer().generation
        for key, group in world.workers["a"].mpc_runtime._groups.items()
        if key[0] == "me" and key[1][:2] == ("a", "b")
    }
    assert len(generations) > 1, "each has seeds of its own"


def test_a_dealer_that_is_a_party(world):
    for _ in range(3):
        x, y = shares(3, 5), shares(3, 5)
        results, errors = world.run("abc", multiply, x, y, provider="b")
        assert not errors and torch.equal(sum(results.values()), sum(x) * sum(y))


def test_more_is_dealt_ahead_than_fits(make_world, monkeypatch):
    monkeypatch.setattr(dealer_service, "AHEAD_BYTES", 3000)
    monkeypatch.setattr(dealer_service, "DEPTH_BYTES", 2500)
    world = make_world("a", "b", "dealer")
    sizes = random.Random(1).choices((10, 11, 12, 50, 60, 300, 500), k=150)
    for size in sizes:
        x = shares(2, size)
        results, errors = world.run("ab", multiply, x, x)
        assert not errors and torch.equal(results[0] + results[1], sum(x) * sum(x))


def test_deals_that_fail(world):
    async def unknown(party, x):
        return await party.deal("gold", (3,))

    async def nonsense(party, x):
        return await party.deal("triple", "matmul", (2, 3), (4, 5), ())

    for protocol in (unknown, nonsense):
        _, errors = world.run("ab", protocol, shares(2, 1))
        assert len(errors) == 2
    x = shares(2, 3)
    results, errors = world.run("ab", multiply, x, x)
    assert not errors and torch.equal(results[0] + results[1], sum(x) * sum(x))


def test_a_dealer_that_goes_and_comes_back(world):
    x = shares(2, 6)
    assert not world.run("ab", multiply, x, x, client="dealer goes")[1]
    group = next(group for key, group in world.workers["b"].mpc_runtime._groups.items() if key[0] == "dealer goes")
    first = group.dealer().generation
    group.dealer().close()  # the party lost its connection: the whole group gets other seeds
    for _ in range(3):
        results, errors = world.run("ab", multiply, x, x, client="dealer goes")
        assert not errors and torch.equal(results[0] + results[1], sum(x) * sum(x))
    assert group.dealer().generation != first


def test_an_unknown_dealer_is_refused(world):
    x = shares(2, 6)
    _, errors = world.run("ab", multiply, x, x, provider="nobody")
    assert len(errors) == 2 and all("has no address" in str(e) or "aborted this run" in str(e) for e in errors.values())


def test_seeds_are_for_members_only(world):
    seeds = dealer_service.Provider()
    for parties in (("a", "b"), ("mallory",), ("mallory", "mallory"), "mallory"):
        ours, theirs = socket.socketpair()
        thread = threading.Thread(target=seeds.serve, args=(PeerIdentity("mallory"), theirs))
        thread.start()
        connection = framing.FramedConnection(SocketPipe(ours), 1000)
        connection.write(wire_protocol.HELLO, 0, wire_protocol.serialize(("me", parties)))
        assert connection.read() is None
        connection.close()
        thread.join()


# --- errors ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("how", ["size", "type", "two", "raise"])
@pytest.mark.parametrize("parties", ["ab", "abc"])
def test_a_party_that_sends_something_else(world, parties, how):
    began = time.monotonic()
    for who in range(len(parties)):
        _, errors = world.run(parties, child.test_wrong, shares(len(parties), 5), who, how)
        assert len(errors) == len(parties), "every party gets the error"
        for index, error in errors.items():
            assert "12345" not in str(error) or index == who
            assert isinstance(error, ProtocolError | ValueError)
        others = "".join(str(error) for index, error in errors.items() if index != who)
        assert repr(parties[who]) in others
        assert is_right(world, parties), "other runs go on"
    assert time.monotonic() - began < AT_ONCE


def test_a_party_without_a_message(world):
    x = shares(3, 2)
    began = time.monotonic()
    _, errors = world.run("abc", opened, x, without=(1,), wait=2)
    assert set(errors) == {0, 2} and time.monotonic() - began < AT_ONCE
    assert any(isinstance(error, PartyLostError) and error.party == "b" for error in errors.values())
    for _ in range(3):
        assert is_right(world, "abc")


def test_a_party_that_missed_a_run_with_deals(world):
    for parties in ("ab", "abc"):
        x = shares(len(parties), 11)
        for without in ((), (1,), (), (), (0,), ()):
            wait = 1 if without else WAIT
            results, errors = world.run(parties, multiply, x, x, without=without, wait=wait, client="missed")
            assert without or (not errors and torch.equal(sum(results.values()), sum(x) * sum(x)))


def test_a_party_that_is_late(world):
    assert is_right(world, "ab"), "they are connected"
    given_up = threading.Event()

    async def late(party, x):
        if party.index == 1:
            assert given_up.wait(60)
        try:
            return await party.open(x)
        finally:
            given_up.set()

    _, errors = world.run("ab", late, shares(2, 3), wait=1)
    assert isinstance(errors[0], PartyLostError) and "did not answer within 1 s" in str(errors[0])
    assert is_right(world, "ab")


def test_giving_up_before_it_begins(world):
    message = RunMessage((), "given up", "opened", ("a", "b"), None, {}, 0)
    errors = {}

    def take_part():
        try:
            world.workers["a"].mpc_runtime.run(
                Client(), message, 0, 2, lambda: (lambda party: opened(party, torch.ones(2).long()), None), print
            )
        except ProtocolError as error:
            errors[0] = error

    thread = threading.Thread(target=take_part)
    thread.start()
    with pytest.raises(KeyError):
        world.workers["b"].mpc_runtime.run(Client(), message, 1, 2, lambda: {}["12345"], print)
    thread.join(60)
    assert "'b' aborted this run: KeyError" in str(errors[0])
    assert is_right(world, "ab")


def test_a_result_that_can_not_be_kept(world):
    message = RunMessage((), "not kept", "opened", ("a", "b"), None, {}, 0)
    with pytest.raises(ZeroDivisionError):
        world.workers["a"].mpc_runtime.run(
            Client(), message, 0, 2, lambda: (lambda party: _nothing(), None), lambda result: 1 / 0
        )
    assert is_right(world, "ab")


async def _nothing():
    return None


def test_clients_do_not_mix(world):
    done = []

    def work(client):
        for _ in range(10):
            x = shares(2, 50)
            results, errors = world.run("ab", multiply, x, x, client=client)
            done.append(not errors and torch.equal(results[0] + results[1], sum(x) * sum(x)))

    threads = [threading.Thread(target=work, args=(f"client {number}",)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert done == [True] * 40


def test_all_at_once_from_one_client(world):
    """Two runs that two threads of a client begin in any order at each party: they fail or are right, nobody hangs."""
    began = time.monotonic()
    outcomes = []

    def work():
        x = shares(2, 50)
        results, errors = world.run("ab", opened, x, wait=2)
        outcomes.append(bool(errors) or torch.equal(results[0], sum(x)))

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert outcomes == [True] * 4 and time.monotonic() - began < 90
    assert is_right(world, "ab") or is_right(world, "ab")


# --- strangers ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "sent",
    [
        b"\xff" * 100,
        party_link._HEADER.pack(0, 2**31, bytes(16), 1, 0, 0, 0),
        party_link._HEADER.pack(0, 0, bytes(16), 1, 0, 0, 2**62),
        party_link._HEADER.pack(0, 4, bytes(16), 1, 0, 0, 8) + b"\x01\x00\x00\xff",
        party_link._HEADER.pack(1, 0, bytes(16), 1, 0, 0, 0),
    ],
    ids=["noise", "long forms", "huge", "forms that end early", "an abort of nothing"],
)
def test_bytes_that_are_no_frames(make_world, sent):
    world = make_world("a", "b", "dealer")
    assert is_right(world, "ab")
    (group,) = world.workers["b"].mpc_runtime._groups.values()
    group._links[0].sock.sendall(sent)
    began = time.monotonic()
    _, errors = world.run("ab", opened, shares(2, 3), wait=3)
    assert errors or len(sent) == party_link._HEADER.size
    assert time.monotonic() - began < AT_ONCE
    assert is_right(world, "ab") or is_right(world, "ab")


@pytest.mark.parametrize("shape", [(2**40,), (0, 2**62, 2**62), (2**63,) * 2], ids=str)
def test_false_sizes_are_refused(shape):
    forms = write_layout([(torch.ones(1, dtype=torch.int64),)])
    lying = forms[:3] + bytes([len(shape)]) + struct.pack(f"<{len(shape)}Q", *shape)
    with pytest.raises(ProtocolError, match="sizes of its tensors"):
        read_layout(lying, 8)
    with pytest.raises(ProtocolError, match="sizes of its tensors"):
        read_layout(lying, 8 if 0 not in shape else 0)


def test_only_whole_numbers_travel(world):
    async def floats(party, x):
        return await party.open(x.double())

    _, errors = world.run("ab", floats, shares(2, 2))
    assert any("float64" in str(error) for error in errors.values())
    assert is_right(world, "ab")
