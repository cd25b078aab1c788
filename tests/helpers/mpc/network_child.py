"""The process of test_network.py: a worker with additional protocols, for parties that misbehave."""

from __future__ import annotations

import os
import signal
import sys

import torch

import syft.mpc.runtime.network
from syft.mpc.runtime.protocol_registry import protocol
from syft.workers.process import child


async def test_open(party, x, times=1):
    """Open a value again and again, and give the first party all of it."""
    for _ in range(times):
        (value,) = await party.open(x)
    return value if party.first else torch.zeros_like(value)


async def test_die(party, x, who=0, after=3):
    """Open a value; one party is killed in the middle."""
    for number in range(10):
        if party.index == who and number == after:
            os.kill(os.getpid(), signal.SIGKILL)
        await party.open(x)
    return x


async def test_wrong(party, x, who=0, how="size"):
    """One party sends something else than the others expect."""
    await party.open(x)
    if party.index != who:
        await party.open(x)
    elif how == "size":
        await party.open(torch.cat([x, x]))
    elif how == "type":
        await party.open(x.to(torch.int32))
    elif how == "two":
        await party.open(x, x)
    elif how == "raise":
        raise ValueError("this text holds a secret: 12345")
    return x


async def test_exchange(party, x):
    """Pass a tensor of another size round the circle, and open something in the same round."""
    to, source = (party.index + 1) % party.count, (party.index - 1) % party.count

    async def circle():
        got = await party.exchange({to: (torch.full((party.index + 1, 2), party.index), x)}, (source,))
        size, share = got[source]
        assert size.shape == (source + 1, 2) and (size == source).all()
        return share

    async def opened():
        return await party.open(x, x + x)

    async def nested():
        return await party.together(opened(), opened())

    share, (once, twice), inner = await party.together(circle(), opened(), nested())
    assert torch.equal(once + once, twice) and torch.equal(inner[1][0], once)
    return share


async def test_moody(party, x):
    """Need something else from the dealer by what is opened: it can't be foreseen."""
    (total,) = await party.open(x)
    for _ in range(int(total.sum()) % 4):
        (r,) = await party.deal("zero", tuple(x.shape))
        x = x + r
    a, aa = await party.deal("square", tuple(x.shape))
    (e,) = await party.open(x - a)
    square = aa + 2 * e * a
    return square + e * e if party.first else square


def _same(x, *args, **options):
    return x.shape


def register():
    """Add the protocols to the table, and return their names."""
    for function in (test_open, test_die, test_wrong, test_exchange):
        protocol(function.__name__, shape=_same, deals=False)(function)
    protocol("test_moody", shape=_same)(test_moody)
    return ("test_open", "test_die", "test_wrong", "test_exchange", "test_moody")


if __name__ == "__main__":
    assert syft.mpc.runtime.network
    register()
    child.main(*map(int, sys.argv[1:]))
