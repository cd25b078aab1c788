"""Watchers of a node under attack: health checks, another user's work, and all bytes that a client receives."""

from __future__ import annotations

import contextlib
import http.client as http_client
import json
import os
import subprocess
import time

from tests.helpers import warm_processes as warm
from tests.helpers.nodes import Line

# A health check is answered within a second. Where tests run in parallel they compete for the cores, which says
# nothing about the node.
SECONDS = 8.0 if "PYTEST_XDIST_WORKER" in os.environ else 1.0
# Another process, so that the attacker's client does not slow it down.
_WATCHER = """
import contextlib, http.client, json, sys, threading, time
import torch
import syft as sy
url, port, token = sys.argv[1], int(sys.argv[2]), sys.argv[3]
over = threading.Event()
seconds, bad, failures, answers, slowest = [], [], [], 0, 0.0

def ask():
    while not over.wait(0.05):
        began = time.monotonic()
        try:
            with contextlib.closing(http.client.HTTPConnection("127.0.0.1", port, timeout=30)) as line:
                line.request("GET", "/health")
                answer = line.getresponse()
                answer.read()
            if answer.status != 200:
                bad.append(answer.status)
        except OSError as error:
            bad.append(repr(error))
        seconds.append(time.monotonic() - began)

def wait():
    sys.stdin.read()
    over.set()

if token:
    hook = sy.TorchHook(torch)
    client = sy.connect(url, token=token, hook=hook)
    (torch.ones(1).send(client) + 1).get()
print("ready", flush=True)
threads = [threading.Thread(target=target) for target in (ask, wait)]
for thread in threads:
    thread.start()
if not token:
    over.wait()
while not over.wait(0.01):  # a pause, so that it does not take the node's time itself
    began = time.monotonic()
    try:
        x = torch.full((4,), float(answers)).send(client)
        if not torch.equal((x * 2 + 1).get(), torch.full((4,), 2.0 * answers + 1)):
            failures.append("wrong answer")
    except Exception as error:
        failures.append(repr(error))
        over.wait()
    answers += 1
    slowest = max(slowest, time.monotonic() - began)
for thread in threads:
    thread.join()
print(json.dumps({"seconds": seconds, "bad": bad, "failures": failures, "answers": answers, "slowest": slowest}), flush=True)
"""


class Watcher:
    """Another process that asks for /health all the time, and computes as another user if one is named.

    Attributes, once it has ended:
        slowest: seconds of the slowest health check.
        checks: the number of health checks.
        answers: the number of answers to the other user.
        slowest_answer: seconds of the other user's slowest round: send, compute, fetch.
    """

    def __init__(self, node, user="alice"):
        token = "" if user is None else node.tokens[user]
        pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True}
        self._process = warm.popen(_WATCHER, node.url, node.port, token, **pipes)
        assert self._process.stdout.readline() == "ready\n"

    def __enter__(self):
        return self

    def __exit__(self, *_):
        said, _ = self._process.communicate(timeout=120)
        found = json.loads(said.splitlines()[-1])
        self.checks, self.slowest = len(found["seconds"]), max(found["seconds"], default=0.0)
        self.bad, self.failures, self.answers = found["bad"], found["failures"], found["answers"]
        self.slowest_answer = found["slowest"]

    def __str__(self):
        return (
            f"{self.checks} health checks, slowest {self.slowest * 1000:.0f} ms; {self.answers} answers to another "
            f"user, slowest {self.slowest_answer * 1000:.0f} ms"
        )


# A block is watched for at least this long.
LEAST_SECONDS = 1.0


@contextlib.contextmanager
def undisturbed(node, seconds=SECONDS):
    """Check in a block that a node stays healthy and that another user's work goes on; prints the figures."""
    with Watcher(node) as watcher:
        began = time.monotonic()
        yield
        time.sleep(max(0.0, began + LEAST_SECONDS - time.monotonic()))  # until the watcher has seen something
    print(f"{time.monotonic() - began:.1f} s, {watcher}")
    assert watcher.bad == [] and watcher.failures == []
    assert watcher.checks and watcher.answers
    assert watcher.slowest < seconds


class RecordingLine(Line):
    """A line that keeps every byte that the server sends."""

    def __init__(self, port):
        self.received = bytearray()
        super().__init__(port)

    def _carry(self, ours, theirs):
        super()._carry(ours, _Recorded(theirs, self.received))


class _Recorded:
    """A socket whose received bytes are kept."""

    def __init__(self, sock, kept):
        self._sock, self._kept = sock, kept

    def recv(self, size):
        data = self._sock.recv(size)
        self._kept += data
        return data

    def __getattr__(self, name):
        return getattr(self._sock, name)


def http(node, method, path, body=None, user="owner"):
    """Call the node's HTTP interface as a user, and return the decoded answer."""
    with contextlib.closing(http_client.HTTPConnection("127.0.0.1", node.port, timeout=60)) as line:
        headers = {"Authorization": f"Bearer {node.tokens[user]}", "Content-Type": "application/json"}
        line.request(method, f"/v1/{path}", None if body is None else json.dumps(body), headers)
        answer = line.getresponse()
        data = answer.read()
        if answer.status >= 300:
            raise RuntimeError(f"{method} {path}: {answer.status} {data[:300]!r}")
        return json.loads(data) if data else None


def requests_of(node, user, status=None):
    """Return the requests of a user, the oldest first, as the owner sees them."""
    rows = [row for row in http(node, "GET", "requests?limit=1000") if row["user"] == user]
    return [row for row in rows if status is None or row["status"] == status]


def decide(node, request_id, decision):
    """Approve or deny a request, as the owner."""
    return http(node, "POST", f"requests/{request_id}/{decision}", {})
