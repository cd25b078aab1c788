"""Frames of exchanges take their bytes from the budget of the client they are for, before memory is allocated."""

from __future__ import annotations

import socket
import struct

import pytest
import torch

from syft.core.byte_budget import ByteBudget
from syft.exceptions import ProtocolError
from syft.mpc.dealer.deals import bytes_of_deal
from syft.mpc.links import party_link
from syft.mpc.links.frame_layout import FrameTag, write_layout
from syft.mpc.links.party_link import PartyLink

MiB = 1 << 20


@pytest.fixture
def ends():
    ours, theirs = socket.socketpair()
    yield ours, theirs
    ours.close()
    theirs.close()


def stamp(number):
    return FrameTag(bytes([number]) * party_link.ID_BYTES + bytes(17), 1, 0, 0)


def link_on(sock, budget):
    return PartyLink(sock, "other", 4 << 30, {}, ("me", "other"), lambda *_: None, budget)


def announce(sock, run, count):
    """Send the head of a frame with a number of words, and none of the words."""
    forms = struct.pack("<H", 1) + struct.pack("<BBQ", 0, 1, count)
    sock.sendall(party_link._HEADER.pack(party_link.DATA, len(forms), run.run, run.round, 0, 0, 8 * count) + forms)


@pytest.mark.parametrize("run", [1, 2], ids=["of this run", "of another run"])
def test_a_frame_with_a_large_head_is_refused_before_memory_is_taken(ends, run):
    ours, theirs = ends
    budget = ByteBudget(16 * MiB, name="alice")
    link = link_on(ours, budget)
    announce(theirs, stamp(run), 64 * MiB)
    with pytest.raises(ProtocolError, match="more than there is room for"):
        link.receive(stamp(1), None)
    assert budget.taken == 0
    link.close()


def test_frames_of_runs_that_have_not_begun_are_counted_until_they_are_used(ends):
    ours, theirs = ends
    budget = ByteBudget(16 * MiB)
    link, other = link_on(ours, budget), link_on(theirs, None)
    data = torch.arange(1000 * 128)  # 1 MB
    for number in (2, 3, 4):
        other.put(stamp(number), [(data,)])
        while not other.flush():
            assert link.receive(stamp(1), None) is None
    while link.receive(stamp(1), None) is None and len(link._early) < 3:
        pass
    assert 3 * data.nbytes <= budget.taken <= 4 * data.nbytes
    assert torch.equal(link.receive(stamp(3), write_layout([(data,)]))[0][0], data)
    assert 2 * data.nbytes <= budget.taken <= 3 * data.nbytes
    link.forget(stamp(2).run)
    assert budget.taken < 2 * data.nbytes
    link.close()
    assert budget.taken == 0


@pytest.mark.parametrize("kind, spec", [
    ("zero", ((2**62,),)), ("triple", ("matmul", (2**20, 2**20), (2**20, 2**20))), ("sign", (2**40, 2)),
    ("sign", (8, 2**50)), ("levels", (8, 2**50)), ("fss_compare", (2**40,)), ("zero", ((-5,),)), ("zero", ((True,),)),
    ("zero", ((1,) * 100,)), ("coins", (2**50,)),
])  # fmt: skip
def test_deals_are_measured_without_drawing(kind, spec):
    with pytest.raises(ProtocolError):
        bytes_of_deal(kind, spec, 3, 1 << 30)


def test_the_size_of_a_deal():
    assert bytes_of_deal("random", ((10, 10),), 2, 1 << 30) == 8 * 100 * 6
    assert bytes_of_deal("triple", ("mul", (5,), (5,)), 3, 1 << 30) == 8 * 15 * 7
