"""Nodes and gateways in child processes, for tests: forks of one process that has imported everything."""

from __future__ import annotations

import contextlib
import dataclasses
import json
import os
import signal
import subprocess
import time

from tests.helpers import warm_processes as warm

FLEET = """
import gc, json, os, signal, sys
import torch, syft as sy
torch.set_num_threads(1)
from syft.grid.gateway import Gateway, GatewaySettings
from syft.grid.gateway.registration import Membership
from syft.grid.node.api import ROUTERS
from syft.grid.node.node import Node
from syft.grid.node.settings import Settings


def gateway(told):
    made = Gateway(GatewaySettings(**told["settings"]))
    return made, [made.start], [made.stop]


def node(told):
    joins = told["gateway"]
    membership = None if joins is None else Membership(joins["url"], joins["token"], joins["ca"], look=0.2)
    made = Node(Settings(**told["settings"]), [*ROUTERS, *([membership.router] if membership else [])])
    made.worker.be_local()
    for user, password in told["accounts"].items():
        if user not in made.identity.users:
            made.identity.users.add(user, password)
    both = [] if membership is None else [membership]
    return made, [made.start, *[m.start for m in both]], [*[m.stop for m in both], made.stop]


def serve(told):
    made, starts, stops = {"gateway": gateway, "node": node}[told["kind"]](told)
    tokens = {user: made.identity.tokens.issue(user, role, 3600) for user, role in told["users"].items()}
    for start in starts:
        start()
    print(json.dumps({"pid": os.getpid(), "url": made.url, "tokens": tokens}), flush=True)
    signal.sigwait([signal.SIGTERM])
    for stop in stops:
        stop()
    os._exit(0)


signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGTERM])
gc.freeze()
children = []
for line in sys.stdin:
    child = os.fork()
    if child == 0:
        try:
            serve(json.loads(line))
        except Exception as error:
            print(json.dumps({"error": repr(error)}), flush=True)
        finally:
            os._exit(1)
    children.append(child)
for child in children:
    try:
        os.kill(child, signal.SIGTERM)
    except ProcessLookupError:
        pass
for child in children:
    os.waitpid(child, 0)
"""


@dataclasses.dataclass
class Ship:
    """One process: its address, its tokens by user, and its settings."""

    pid: int
    url: str
    tokens: dict
    told: dict

    def kill(self):
        os.kill(self.pid, signal.SIGKILL)


class Fleet:
    """Starts nodes and gateways; `with` stops them all."""

    def __enter__(self):
        self._process = warm.popen(
            FLEET,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env={**os.environ, "OMP_NUM_THREADS": "1"},
        )
        return self

    def __exit__(self, *exception):
        with contextlib.suppress(BrokenPipeError):
            self._process.stdin.close()
        try:
            self._process.wait(60)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait(10)
        self._process.stdout.close()

    def _start(self, *orders):
        for told in orders:
            self._process.stdin.write(json.dumps(told) + "\n")
        self._process.stdin.flush()
        ships = []
        for _ in orders:
            line = self._process.stdout.readline()
            if not line:
                raise RuntimeError(f"a server did not start; exit code {self._process.wait(60)}")
            ships.append(json.loads(line))
            if "error" in ships[-1]:
                raise RuntimeError(f"a server did not start: {ships[-1]['error']}")
        return [Ship(**ship, told=told) for ship, told in zip(ships, orders, strict=True)]

    def nodes(self, *ids, gateway=None, users=("alice",), accounts=None, **settings):
        """Start nodes, one after the other; each has the owner "owner" and some users, with tokens."""
        joins = None
        if gateway is not None:
            joins = {"url": gateway.url, "token": gateway.tokens.get("nodes"), "ca": gateway.told["settings"].get("ca")}
        made = []
        for id in ids:
            known = {"owner": "owner", **dict.fromkeys(users, "user")}
            own = {key: value.format(id=id) if isinstance(value, str) else value for key, value in settings.items()}
            told = {"kind": "node", "settings": {"id": id, **own}, "users": known, "gateway": joins}
            made += self._start({**told, "accounts": accounts or {}})
        return made

    def gateway(self, users=("nodes", "alice"), **settings):
        """Start a gateway."""
        known = {"owner": "owner", **dict.fromkeys(users, "user")}
        return self._start({"kind": "gateway", "settings": settings, "users": known})[0]

    def again(self, ship):
        """Start a killed one again, at the same port."""
        settings = {**ship.told["settings"], "port": int(ship.url.rpartition(":")[2])}
        return self._start({**ship.told, "settings": settings})[0]


def until(condition, seconds=60.0):
    """Wait until something holds."""
    end = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > end:
            raise AssertionError("it did not come to pass in time")
        time.sleep(0.02)
