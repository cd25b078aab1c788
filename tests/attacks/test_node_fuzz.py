"""Random calls with extreme arguments against a live node: it stays healthy and serves other users."""

from __future__ import annotations

import collections
import random
import time

import pytest

from tests.helpers.attacks.call_fuzzing import random_call
from tests.helpers.attacks.node_fuzzing import Fuzzer
from tests.helpers.attacks.watchers import SECONDS as PROMPT
from tests.helpers.attacks.watchers import Watcher, http
from tests.helpers.depth import deep
from tests.helpers.nodes import node

CALLS = deep(20_000, 200_000)
SECONDS = deep(400.0, 4000.0)
USERS = [f"fuzzer{number}" for number in range(6)]
# The processes of users who left end soon, so that the calls go to many processes and vaults.
PREPARE = """
import logging
from syft.grid.isolation.supervisor import supervisor
from syft.grid.server import app
logging.basicConfig(filename={log!r}, level=logging.WARNING)
supervisor.IDLE_SECONDS, app._SWEEP = 0.0, 0.5
node.worker.load_data([torch.arange(6.0).view(2, 3).tag("#private")])
"""
pytestmark = [pytest.mark.filterwarnings("ignore"), pytest.mark.timeout(SECONDS + 200)]


def test_a_node_under_random_calls_serves_other_users(tmp_path):
    """Calls of a kind that has ended a session are not made again: see `node_fuzzing`."""
    random_call(random.Random(0))  # loads torch's samples, before there are threads
    roles = {"owner": "owner", **dict.fromkeys(["alice", *USERS], "user")}
    log = tmp_path / "log"
    settings = {"call_seconds": 3.0, "max_process_memory": 2 << 30}
    with node("fuzzed", users=roles, prepare=PREPARE.format(log=str(log)), **settings) as process:
        fuzzer = Fuzzer(process, USERS, CALLS, seed=3)
        began = time.monotonic()
        with Watcher(process) as watcher:
            fuzzer.run(SECONDS)
        _report(fuzzer, time.monotonic() - began)
        reasons = [row["failure"][:150] for row in http(process, "GET", "requests?limit=1000")]
    print(f"vaults by their end: {dict(collections.Counter(reasons))}")
    print(watcher)
    assert fuzzer.failures == []
    assert fuzzer.done == CALLS
    assert watcher.bad == [] and watcher.failures == []
    assert watcher.slowest < PROMPT and watcher.slowest_answer < PROMPT
    assert watcher.answers > 100
    # Calls must reach the kernels and vaults, and some must end their session, or this test proves nothing.
    assert fuzzer.outcomes["returned"] > CALLS / 5 and fuzzer.private > CALLS / 20
    assert fuzzer.ended and reasons.count("") > len(reasons) / 2
    assert log.read_text() == ""


def _report(fuzzer, seconds):
    """Print what became of the calls."""
    print(f"{fuzzer.done} calls in {seconds:.1f} s: {dict(fuzzer.outcomes)}; {fuzzer.skipped} skipped")
    print(f"{fuzzer.sessions} sessions, {fuzzer.private} calls on private data, errors: {dict(fuzzer.errors)}")
    for reason, call in fuzzer.ended:
        print(reason.partition(". What")[0], call[:300])
