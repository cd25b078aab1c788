"""Groups of parties on sockets: different options, closed groups, aborts, and errors about shares."""

from __future__ import annotations

import struct
import threading

import pytest
import torch

from syft.exceptions import PartyLostError, ProtocolError
from syft.messaging.message import RunMessage
from syft.mpc.links import party_link
from syft.mpc.protocols.arithmetic import multiply
from syft.mpc.runtime import network
from tests.helpers.mpc.socket_parties import Client, is_right, opened, shares


def test_parties_with_different_options_compute_nothing(make_world):
    world = make_world("a", "b", "dealer")
    x = shares(2, 5)
    results, errors = {}, {}

    def take_part(index, name):
        message = RunMessage((3,), "one run", "multiply", ("a", "b"), "dealer", {"divisor": index + 1}, 0)
        try:
            world.workers[name].mpc_runtime.run(
                Client(), message, index, 2, lambda: (lambda party: multiply(party, x[index], x[index]), None),
                lambda result: results.__setitem__(index, result),
            )  # fmt: skip
        except ProtocolError as error:
            errors[index] = error

    threads = [threading.Thread(target=take_part, args=pair) for pair in enumerate("ab")]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(20)
    assert set(errors) == {0, 1} and not results
    assert is_right(world, "ab")


class Wanted:
    """A lock that tells that a thread is about to wait for it."""

    def __init__(self, lock):
        self.lock, self.is_wanted = lock, threading.Event()

    def __enter__(self):
        self.is_wanted.set()
        return self.lock.__enter__()

    def __exit__(self, *error):
        return self.lock.__exit__(*error)


def test_a_run_that_waits_for_a_closed_group_gets_a_new_one(make_world, monkeypatch):
    monkeypatch.setattr(network, "MAX_GROUPS", 1)
    world = make_world("a", "b", "dealer")
    assert is_right(world, "ab")
    runtime = world.workers["a"].mpc_runtime
    (left,) = runtime._groups.values()
    waiting = RunMessage((), "waits", "opened", ("a", "b"), "dealer", {}, 0)
    found = []

    def wait():
        with runtime._group(Client(), waiting, 2) as group:
            found.append(group)

    with left.lock:
        left.lock = Wanted(left.lock)
        thread = threading.Thread(target=wait)
        thread.start()
        assert left.lock.is_wanted.wait(60)
        runtime._groups.clear()
        left.close()
    thread.join(60)
    assert found and found[0] is not left and list(runtime._groups.values()) == found


@pytest.mark.parametrize("how", ["late", "dealer"])
def test_errors_do_not_say_that_shares_are_gone_if_they_are_there(make_world, how):
    world = make_world("a", "b", "dealer")
    if how == "late":
        _, errors = world.run("ab", opened, shares(2, 3), without=(1,), wait=1)
    else:
        world.listeners["dealer"].close()
        _, errors = world.run("ab", multiply, shares(2, 3), shares(2, 3))
    lost = [str(error) for error in errors.values() if isinstance(error, PartyLostError)]
    assert lost and not any("are gone with it; share" in text for text in lost)


def test_an_abort_that_is_cut_off_does_no_harm(make_world):
    world = make_world("a", "b", "dealer")
    assert is_right(world, "ab")
    (group,) = world.workers["b"].mpc_runtime._groups.values()
    over = next(iter(group.over))
    for reason in (b"", b"\x00", struct.pack("<h16s", 7, bytes(16))):
        header = party_link._HEADER.pack(1, len(reason), over, 0, 2**32 - 1, 1, 0)
        group._links[0].sock.sendall(header + reason)
    x = shares(2, 5)
    results, errors = world.run("ab", multiply, x, x)
    assert not errors and torch.equal(results[0] + results[1], sum(x) * sum(x))
