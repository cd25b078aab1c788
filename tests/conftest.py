"""Fixtures shared by all tests: the hook, fresh workers, and a check that nothing is left on them."""

from __future__ import annotations

import gc
import itertools
import os
import tempfile
from pathlib import Path

import hypothesis
import pytest
import torch

import syft as sy
from syft.grid.isolation.processes import template
from syft.messaging.protocol.base import AbstractProtocol
from syft.workers.process import worker as process_worker
from tests.helpers import warm_processes as warm
from tests.helpers.depth import IS_DEEP


def settle():
    """Let what there is now stay: tests that collect garbage need not look through it, again and again."""
    gc.collect()
    gc.freeze()


settle()
torch.set_num_threads(1)
# Workers in processes of their own start from a warm process; tests of how they start do so `with warm.cold()`.
process_worker._spawn = warm.spawn
template.launch_interpreter = warm.launch_template
# Nodes without a store use this folder, also in other processes; never the user's home.
_home = tempfile.TemporaryDirectory(prefix="resyft-tests-")
os.environ["RESYFT_HOME"] = _home.name
_number = itertools.count()
# The same examples in every run, unless it is a deep one; and how fast they are drawn says something of the machine only.
hypothesis.settings.register_profile(
    "tests", deadline=None, derandomize=not IS_DEEP, suppress_health_check=[hypothesis.HealthCheck.too_slow]
)
hypothesis.settings.load_profile("tests")
# Files that take longest begin first, so that no process of a parallel run is left alone with one of them at the end.
LONGEST = """
    grid/rights/test_noninterference grid/isolation/supervisor/test_killed_processes attacks/test_hostile_processes attacks/test_byte_budget
    workers/ray/test_ray attacks/test_nodes attacks/test_node_fuzz attacks/test_availability mpc/rules/test_matrix_in_processes
    test_docs remote/test_foresight workers/test_contract grid/isolation/proxies/test_proxies cli/test_deploy mpc/rules/test_matrix grid/server/test_faults grid/storage/test_storage
    federated/server/ray/test_pool mpc/rules/test_functions mpc/test_models workers/process/test_process mpc/test_optimizers mpc/protocols/test_transcripts
    cli/test_cli attacks/test_openapi mpc/runtime/test_nodes attacks/test_limits mpc/test_training attacks/test_sessions
""".split()


def pytest_collection_modifyitems(items):
    """Bring the longest files to the front."""
    place = {Path(__file__).parent / f"{name}.py": number for number, name in enumerate(LONGEST)}
    items.sort(key=lambda item: place.get(item.path, len(place)))


@pytest.hookimpl(trylast=True)
def pytest_collection_finish():
    """Leave out what was collected: thousands of tests, and the modules that they are in."""
    settle()


@pytest.hookimpl(trylast=True)
def pytest_runtest_teardown(item, nextitem):
    """Leave out what a file imported, and what was made once for all that follow."""
    if nextitem is not None and nextitem.path != item.path:
        settle()


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
    """Return a function that asserts that workers hold nothing any more but plans, protocols and ObjectWrappers."""
    lasting = (sy.Plan, AbstractProtocol, sy.ObjectWrapper, sy.PointerPlan, sy.PointerProtocol, sy.CallablePointer)

    def check(*workers):
        gc.collect()
        held = {w.id: [obj for obj in w._objects.values() if not isinstance(obj, lasting)] for w in workers}
        assert {name: len(objects) for name, objects in held.items()} == dict.fromkeys(held, 0)

    return check


def pytest_terminal_summary(terminalreporter):
    """Print how many torch calls run remotely (docs/reference/remote-functions.md has the lists)."""
    from syft.hook.allowed_functions import allowed, overridable

    seen, run = len(overridable()), len(allowed())
    terminalreporter.write_line(f"torch calls: {seen} seen, {run} run on workers, {seen - run} refused")
