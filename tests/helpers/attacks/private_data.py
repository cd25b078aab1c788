"""A private table on a node, and how tests notice its values and a node that does not answer."""

from __future__ import annotations

import contextlib
import gc
import http.client
import threading
import time

import torch

from syft.exceptions import SyftError
from tests.helpers.nodes import forget

SECRET = 1234.5678
PRIVATE_DATA = f"""
made = [torch.full((40, 20), {SECRET}).tag("#patients"), torch.arange(6.0).view(2, 3).tag("#weather")]
node.worker.load_data(made)
"""
# Every call of the attacks ends within this many seconds; the limit of a call is 2.
SECONDS = 30.0
ERRORS = (SyftError, RuntimeError, ValueError, TypeError, OverflowError, IndexError, OSError)


def private_numbers(got):
    """Return how many private numbers a fetched tensor holds."""
    return 0 if got is None else int(torch.isclose(got.float(), torch.tensor(SECRET)).sum())


def drop_temporary(client, make):
    """Have the node compute something and free its memory again."""
    made = make()
    client.synchronize()
    del made
    gc.collect()


def is_served(process, seconds=5.0):
    """Return whether a node answers health checks."""
    if process.process.poll() is not None:
        return False
    try:
        with contextlib.closing(http.client.HTTPConnection("127.0.0.1", process.port, timeout=seconds)) as line:
            line.request("GET", "/health")
            return line.getresponse().status == 200
    except OSError:
        return False


class _Attack(threading.Thread):
    """An attack in a thread, so that one that never ends can be given up."""

    def __init__(self, attack, client):
        super().__init__(daemon=True)
        self._attack, self._client = attack, client
        self.error = None

    def run(self):
        try:
            self._attack(self._client)
        except ERRORS as raised:
            self.error = raised


def survives(hook, process, attack):
    """Run an attack as bob while alice works; afterwards bob can work too. Returns the error of the attack, or None."""
    alice, bob = process.connect(hook, "alice"), process.connect(hook, "bob")
    running, slowest, answers = _Attack(attack, bob), 0.0, 0
    try:
        (torch.ones(1).send(alice) + 1).get()
        running.start()
        end = time.monotonic() + SECONDS
        while running.is_alive() and time.monotonic() < end:
            began = time.monotonic()
            assert is_served(process), "the node does not answer any more"
            x = torch.full((4,), float(answers)).send(alice)
            assert torch.equal((x * 2 + 1).get(), torch.full((4,), 2.0 * answers + 1))
            answers, slowest = answers + 1, max(slowest, time.monotonic() - began)
            running.join(0.05)
        assert not running.is_alive(), f"the call has not ended after {SECONDS:.0f} s"
        with contextlib.suppress(SyftError):
            forget(hook, bob)
        bob = process.connect(hook, "bob")
        assert torch.equal((torch.ones(2).send(bob) + 1).get(), torch.full((2,), 2.0))
    except Exception:
        process.kill()  # its threads would go on
        raise
    finally:
        for client in (alice, bob):
            with contextlib.suppress(SyftError):
                forget(hook, client)
    print(
        f"{answers} answers to alice, slowest {slowest * 1000:.0f} ms; {type(running.error).__name__}: {running.error}"
    )
    assert slowest < 15.0, "another user waits"
    return running.error
