"""Connections before authentication: which are closed when there are too many."""

from __future__ import annotations

import socket

import pytest

from syft.grid.identity.throttle import network_of
from syft.grid.server import pending_connections
from syft.grid.server.pending_connections import PendingConnections


@pytest.fixture
def pairs():
    made = [socket.socketpair() for _ in range(8)]
    yield made
    for pair in made:
        for sock in pair:
            sock.close()


def is_hung_up(pair):
    pair[1].setblocking(False)
    try:
        return pair[1].recv(1) == b""
    except BlockingIOError:
        return False


def test_one_address_sends_its_own_oldest_away(pairs):
    room = PendingConnections(most=10, each=2)
    for number, pair in enumerate(pairs[:4]):
        assert room.enter(("10.0.0.1", number), pair[0])
    assert room.enter(("10.0.0.2", 1), pairs[4][0])
    assert [is_hung_up(pair) for pair in pairs[:5]] == [True, True, False, False, False]
    assert len(room) == 3


def test_the_address_with_most_connections_goes_first(pairs):
    room = PendingConnections(most=4, each=4)
    assert room.enter(("10.0.0.1", 1), pairs[0][0])
    for number in (1, 2, 3):
        assert room.enter(("10.0.0.2", number), pairs[number][0])
    assert room.enter(("10.0.0.3", 1), pairs[4][0])
    assert [is_hung_up(pair) for pair in pairs[:5]] == [False, True, False, False, False]


def test_answered_connections_stay_and_new_ones_are_refused(pairs, monkeypatch):
    room = PendingConnections(most=2, each=2)
    for number in (0, 1):
        assert room.enter(("10.0.0.1", number), pairs[number][0])
        room.mark(("10.0.0.1", number), True)
    assert not room.enter(("10.0.0.2", 1), pairs[2][0])
    room.mark(("10.0.0.1", 1), False)
    assert room.enter(("10.0.0.2", 1), pairs[2][0])
    assert [is_hung_up(pair) for pair in pairs[:3]] == [False, True, False]
    monkeypatch.setattr(pending_connections, "_ANSWERED", -1.0)
    room.mark(("10.0.0.2", 1), True)
    assert room.enter(("10.0.0.3", 1), pairs[3][0])  # an answer that takes long does not keep others out


def test_authenticated_connections_do_not_count(pairs):
    room = PendingConnections(most=1, each=1)
    assert room.enter(("10.0.0.1", 1), pairs[0][0])
    room.leave(("10.0.0.1", 1), pairs[1][0])  # another socket
    assert len(room) == 1
    room.leave(("10.0.0.1", 1))
    assert room.enter(("10.0.0.1", 2), pairs[1][0])
    assert not is_hung_up(pairs[0])


def test_addresses_of_one_client():
    assert network_of("10.0.0.1") == "10.0.0.1"
    assert network_of("2001:db8::1") == network_of("2001:db8::ffff")
    assert network_of("2001:db8::1") != network_of("2001:db8:0:1::1")
    assert network_of("::ffff:10.0.0.1") == "10.0.0.1"
    assert network_of("fe80::1%eth0") == network_of("fe80::2")
    assert network_of("") == ""
