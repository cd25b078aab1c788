"""kill -9 of session processes, vaults, the template and the node itself, under many clients."""

from __future__ import annotations

import collections
import contextlib
import os
import random
import signal
import threading
import time
from pathlib import Path

import pytest
import torch

import syft as sy
from syft import config
from syft.exceptions import SyftError
from tests.helpers.attacks.watchers import Watcher, decide, http
from tests.helpers.depth import deep
from tests.helpers.nodes import NodeProcess, forget, soon

USERS = 50
# A round lasts until KILLS processes were killed and every user has an acknowledged object, or SECONDS.
KILLS = deep(12, 200)
SECONDS = 120.0
LOAD = """
import os
if not node.object_manager.items():
    node.worker.load_data([torch.arange(12.0).view(4, 3).tag("#private")])
"""


@pytest.fixture
def impatient():
    """Streams that give a lost node up soon."""
    config.configure(reconnect_timeout=0.5)
    yield
    config.configure(reconnect_timeout=30.0)


def children_of(pid):
    """Return the ids of the child processes of a process."""
    found = []
    for path in Path("/proc").iterdir():
        if path.name.isdigit():
            with contextlib.suppress(OSError, ValueError):
                if int((path / "stat").read_text().rpartition(")")[2].split()[1]) == pid:
                    found.append(int(path.name))
    return found


class Users:
    """Clients that publish, compute on private data and check what comes back, and go on after any loss."""

    def __init__(self, hook, process, names):
        self.hook, self.process = hook, process
        self.promised, self.mixed, self.losses, self.answers = {}, [], 0, 0
        self.requests = {}
        # The users who have an acknowledged object.
        self.served = set()
        self._over = threading.Event()
        self._lock = threading.Lock()
        self._threads = [threading.Thread(target=self._run, args=(name,), daemon=True) for name in names]

    def __enter__(self):
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(self, *_):
        self._over.set()
        for thread in self._threads:
            thread.join(120)

    def _run(self, name):
        with sy.acting_as(self.hook.local_worker):
            number = 0
            while not self._over.is_set():
                client = None
                try:
                    client = self.process.connect(self.hook, name)
                    while not self._over.is_set():
                        self._work(client, name, number)
                        number += 1
                except (SyftError, OSError):
                    self.losses += 1
                    time.sleep(0.1)
                if client is not None:
                    with contextlib.suppress(Exception):
                        client.close()

    def _work(self, client, name, number):
        value = torch.full((5,), float(hash((name, number)) % 100_000))
        got = (value.send(client) + 1).get()
        if not torch.equal(got, value + 1):
            self.mixed.append((name, number))
        tag = f"#{name}-{number}"
        pointer = value.tag(tag).send(client)
        client.synchronize()
        with self._lock:
            self.promised[pointer.id_at_location] = (name, tag, value)
            self.served.add(name)
        (private,) = client.search("#private")
        result = private.sum() * (number + 1)
        if number == 0:
            request = result.request(reason=tag)
            with self._lock:
                self.requests[request.id] = (name, 66.0 * (number + 1))
        self.answers += 1


def stream_to(client):
    """Return the stream of the local worker to a node."""
    return sy.local_worker.stream_to(client)


def _check(hook, process, users):
    """Check that every acknowledged object is there, with its value, and that requests have their sealed copies."""
    promised = collections.defaultdict(dict)
    for obj_id, (name, tag, value) in users.promised.items():
        promised[name][obj_id] = (tag, value)
    rows = {row["id"]: row for row in http(process, "GET", "requests?limit=1000")}
    asked = {name: (rows[request_id], value) for request_id, (name, value) in users.requests.items()}
    for name, objects in promised.items():
        client = process.connect(hook, name)
        for obj_id, (tag, value) in objects.items():
            (found,) = [item for item in client.search(tag) if item.id_at_location == obj_id]
            assert torch.equal(found.copy().get(), value)
        if name in asked:
            _check_copy(process, client, *asked[name])
        forget(hook, client)


def _check_copy(process, client, row, value):
    """Check that an approved request releases its copy; it may have none if the vault was killed before."""
    assert row["user"] and row["status"] == "pending"
    decide(process, row["id"], "approve")
    if row["size"] is None:
        assert "ended" in row["failure"]
    else:
        assert stream_to(client).released(row["id"]).item() == value


def _kill_some(process, users, rng, with_template):
    """Kill processes of users at random, and the template once, until all users were served; returns how many."""
    killed = collections.Counter()
    end = time.monotonic() + SECONDS
    while time.monotonic() < end and (killed["children"] < KILLS or len(users.served) < USERS):
        time.sleep(rng.uniform(0.05, 0.25))
        if killed["children"] >= KILLS:
            continue
        templates = children_of(process.pid)
        kind, chosen = "children", [child for template in templates for child in children_of(template)]
        if with_template and killed["children"] == KILLS // 2 and not killed["template"]:
            kind, chosen = "template", templates
        if chosen:
            with contextlib.suppress(ProcessLookupError):
                os.kill(rng.choice(chosen), signal.SIGKILL)
                killed[kind] += 1
    return killed


def test_kill_9_of_any_process_loses_nothing_and_mixes_nothing(hook, tmp_path, impatient):
    names = [f"user{number}" for number in range(USERS)]
    roles = {"owner": "owner", **dict.fromkeys(names, "user")}
    process = NodeProcess("kept", users=roles, prepare=LOAD, store=str(tmp_path / "store"), grace=1.0)
    rng = random.Random(4)
    killed = collections.Counter()
    try:
        for round_number in range(2):
            began = time.monotonic()
            with Users(hook, process, names) as users:
                with Watcher(process, None) as watcher:
                    killed += _kill_some(process, users, rng, with_template=round_number == 1)
                orphans = [child for template in children_of(process.pid) for child in children_of(template)]
                process.kill()
                killed["node"] += 1
            print(
                f"round {round_number}: {time.monotonic() - began:.1f} s, {users.answers} rounds of work, "
                f"{users.losses} sessions lost, {len(users.promised)} objects acknowledged, {len(users.requests)} "
                f"requests, slowest health check {watcher.slowest * 1000:.0f} ms"
            )
            assert watcher.bad == [] and users.mixed == []
            assert len(users.served) == USERS and users.losses and users.requests
            assert soon(lambda orphans=orphans: not any(Path(f"/proc/{pid}").exists() for pid in orphans), 10)
            process.start()
            _check(hook, process, users)
        print(f"killed: {dict(killed)}")
    finally:
        process.stop()
