"""Connections of parties to the dealer: reconnects, limits, values dealt ahead, and a dealer that is gone."""

from __future__ import annotations

import socket
import threading

import pytest
import torch

from syft import config
from syft.exceptions import PartyLostError
from syft.mpc.dealer import wire_protocol
from syft.mpc.dealer.wire_protocol import DealerLink, RunDeals, generator_for, label_of
from syft.mpc.protocols.arithmetic import multiply
from syft.mpc.runtime import dealer_service
from syft.workers.transport import framing
from syft.workers.transport.pipe import SocketPipe
from syft.workers.transport.socket_stream import PeerIdentity
from tests.helpers.mpc.socket_parties import is_right, shares, soon


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
    deals = RunDeals(base, lambda: link)
    a, aa = deals.deal(kind, (size,))
    deals.end()
    seeds = next(iter(link.dealer._groups.values())).seeds
    label = label_of(deals.key, deals.instance, 0, kind, (size,))
    drawn = [generator_for(seed, label) for seed in seeds]
    first, second = drawn[0].words(*size), drawn[1].words(*size)
    return torch.equal(a, second) and torch.equal(drawn[0].words(*size) + aa, (first + second) ** 2)


def test_a_party_can_reconnect_while_the_dealer_writes(dealt, monkeypatch):
    """The last party does not read what is dealt ahead, so the dealer is in the middle of writing it."""
    begun, ended, write = [], [], framing.FramedConnection.write_pieces

    def watched(self, kind, number, pieces):
        begun.append(kind)
        write(self, kind, number, pieces)
        ended.append(kind)

    monkeypatch.setattr(framing.FramedConnection, "write_pieces", watched)
    with config.override(stream_timeout=60.0):
        dealt("a"), (last := dealt("b"))
        for _ in range(3):
            deals = RunDeals(b"base", lambda: last)
            deals.deal("triple", ("mul", (300_000,), (300_000,), ()))
            deals.end()
        assert soon(lambda: begun.count(wire_protocol.PACK) > ended.count(wire_protocol.PACK)), "the dealer writes"
        assert dealt("a").generation != last.generation
        assert soon(lambda: not last.is_open() or last._sock.recv(1 << 20) == b"")


def test_responses_to_an_earlier_request_are_not_taken_for_the_next_one(dealt):
    """Frames that a failed run left behind do not answer the next run."""
    link = dealt("b")
    link._send(wire_protocol.LEARN, (b"k" * 16, 1, "nonsense"))
    link._send(wire_protocol.ASK, (b"k" * 16, 1, 0, "square", ((3,),)))
    for number in range(4):
        assert deal(link, b"base %d" % (number % 2), 3)


@pytest.mark.parametrize("kind", [wire_protocol.PACK, wire_protocol.DROP, wire_protocol.SEED, wire_protocol.DEALT, 99])
def test_an_unknown_frame_closes_the_connection_to_the_dealer(kind):
    ours, theirs = socket.socketpair()
    dealer = framing.FramedConnection(SocketPipe(theirs), 1000)
    dealer.write(wire_protocol.SEED, 0, wire_protocol.SEEDS.pack(1, bytes(16)))
    with config.override(stream_timeout=60.0):
        link = DealerLink(ours, "dealer", "g", ("a", "b"), True)
    dealer.write(kind, 1000 if kind == wire_protocol.DEALT else 0, b"\x01")
    with pytest.raises(PartyLostError, match="No shares are lost"):
        RunDeals(b"base", lambda: link).deal("square", ((3,),))
    assert not link.is_open()
    dealer.close()


def test_packs_are_bounded_and_computed_once(dealt, monkeypatch):
    monkeypatch.setattr(dealer_service, "AHEAD_BYTES", 1000)
    computed, sent = [], []
    compute, write = dealer_service.DealQueue._compute, framing.FramedConnection.write_pieces
    monkeypatch.setattr(dealer_service.DealQueue, "_compute", lambda *args: computed.append(args[2]) or compute(*args))

    def watched(self, kind, number, pieces):
        if kind == wire_protocol.PACK:
            sent.append(sum(map(len, pieces)))
        return write(self, kind, number, pieces)

    monkeypatch.setattr(framing.FramedConnection, "write_pieces", watched)
    link = dealt("b")
    for number in range(1, 7):
        assert deal(link, b"base", 1000)
        assert soon(lambda number=number: len(computed) > number), "the dealer computes one ahead"
    assert len(computed) <= 7 and sent and max(sent) < 1000


def test_a_part_of_a_run_is_dealt_ahead(dealt, monkeypatch):
    monkeypatch.setattr(dealer_service, "PACK_BYTES", 2000)
    asked = []
    ask = dealer_service.DealQueue._answer
    monkeypatch.setattr(dealer_service.DealQueue, "_answer", lambda *args: asked.append(args[4]) or ask(*args))
    link = dealt("b")
    for _ in range(4):
        deals = RunDeals(b"base", lambda: link)
        for _ in range(5):
            deals.deal("square", ((100,),))
        deals.end()
    assert asked == [*range(5), *[2, 3, 4] * 3]


def test_results_are_right_though_the_dealer_is_gone_at_the_end(make_world, monkeypatch):
    """Results stay right although the dealer does not learn what was used."""
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


def test_a_run_recovers_from_a_party_that_claims_to_be_far_ahead(make_world):
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


def test_the_loss_of_the_dealer_is_reported_to_the_other_party_by_name(make_world):
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
