"""Kernels that read memory outside of their tensors: it holds nothing of others."""

from __future__ import annotations

import contextlib
import threading

import torch
import torch.nn.functional as F

from syft.exceptions import SyftError
from tests.helpers.attacks.private_data import SECONDS, drop_temporary, private_numbers
from tests.helpers.attacks.watchers import http


@contextlib.contextmanager
def owner_at_work(process):
    """Let the owner use the node with the token in every request."""
    over = threading.Event()

    def work():
        while not over.is_set():
            with contextlib.suppress(OSError):
                http(process, "GET", "objects?limit=5")

    thread = threading.Thread(target=work)
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join(SECONDS)


def bytes_behind(client, size):
    """Fetch the memory behind a tensor: 2**62 * 4 elements of 4 bytes overflow to an offset of 0.

    The window of an output begins one output early, so that output i - 1 is the maximum of the inputs and of element
    `size` + i - 1. Infinities lose against everything, and nothing is written.
    """
    x = torch.full((1, size, 1), -torch.inf).send(client)
    return torch.max_pool1d(x, 5, 2**62 - (size - 1), 0, 2**62).get()


def test_max_pool_reads_no_foreign_memory(hospital, attacker, patients):
    token, found = hospital.tokens["owner"].encode(), set()
    with owner_at_work(hospital), contextlib.suppress(SyftError):
        for _ in range(150):
            for size in (1000, 4000, 16_000):
                drop_temporary(attacker, patients.clone)
                got = bytes_behind(attacker, size)
                if token[:40] in (data := got.numpy().tobytes()) or token[-40:] in data:
                    found.add("the owner's token")
                if private_numbers(got):
                    found.add("the private table")
            if len(found) == 2:
                break
    assert found == set()


def test_unfold_reads_no_freed_memory(attacker, patients):
    """The kernel's loops end before they begin, and the output is memory that was freed before."""
    found = 0
    with contextlib.suppress(SyftError):
        for _ in range(6):
            drop_temporary(attacker, patients.clone)
            x = torch.zeros(1, 1, 4, 4).send(attacker)
            found = max(found, private_numbers(F.unfold(x, 2**63 - 1, 3, 9).get()))
    assert found == 0
