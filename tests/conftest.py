"""Fixtures shared by all tests: the hook, fresh workers, and a check that nothing is left on them."""

from __future__ import annotations

import gc
import itertools

import pytest
import torch

import syft as sy

# What torch and syft made when they were imported stays anyway: tests that collect garbage need not look through it.
gc.collect()
gc.freeze()

torch.set_num_threads(1)
_number = itertools.count()


@pytest.fixture(autouse=True)
def seeded():
    """Start each test from the same random numbers, whichever ran before it."""
    torch.manual_seed(0)


@pytest.fixture
def hook():
    return sy.TorchHook(torch)


@pytest.fixture(params=["inline", "bytes", "thread"])
def kind(request):
    """How messages travel: handed over, through real bytes, or through bytes and a thread of their own."""
    return request.param


FLAGS = {"inline": {}, "bytes": {"serialize": True}, "thread": {"threaded": True}}


@pytest.fixture
def make_worker(hook):
    """Make workers that this test alone uses; afterwards each must be empty."""
    made = []

    def make(name="bob", kind="inline", **kwargs):
        worker = sy.VirtualWorker(hook, id=f"{name}-{next(_number)}", **FLAGS[kind], **kwargs)
        made.append(worker)
        return worker

    yield make
    for worker in made:
        worker.stop()
        for other in (*made, hook.local_worker):
            other._known_workers.pop(worker.id, None)


@pytest.fixture
def bob(make_worker):
    return make_worker("bob")


@pytest.fixture
def alice(make_worker):
    return make_worker("alice")


@pytest.fixture
def workers(make_worker, kind):
    """Two workers, reached in each of the three ways."""
    return make_worker("bob", kind), make_worker("alice", kind)


@pytest.fixture
def nothing_left():
    """Return a function that asserts that workers hold nothing any more."""

    def check(*workers):
        gc.collect()
        assert {worker.id: len(worker._objects) for worker in workers} == {worker.id: 0 for worker in workers}

    return check


def pytest_terminal_summary(terminalreporter):
    """Print how many torch calls run remotely (docs/remote-functions.md has the lists)."""
    from syft.hook.functions import allowed, overridable

    seen, run = len(overridable()), len(allowed())
    terminalreporter.write_line(f"torch calls: {seen} seen, {run} run on workers, {seen - run} refused")
