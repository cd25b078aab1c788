"""Servers and nodes in child processes, and a proxy whose connections can be cut."""

from __future__ import annotations

import contextlib
import json
import os
import select
import signal
import socket
import subprocess
import threading
import time

import syft as sy
from tests.helpers import warm_processes as warm

SERVER = """
import sys, json, logging
import torch, syft as sy
torch.set_num_threads(1)
settings = json.loads(sys.argv[1])
hook = sy.TorchHook(torch)
from syft.grid.websocket_server import WebsocketServerWorker
worker = WebsocketServerWorker(hook, **settings)
{prepare}
print(worker.port, flush=True)
worker.start()
"""


NODE = """
import json, sys
import torch
torch.set_num_threads(1)
from syft.grid.node.node import Node
from syft.grid.node.settings import Settings
from syft.grid.node.api import ROUTERS
settings, users = json.loads(sys.argv[1]), json.loads(sys.argv[2])
{before}
node = Node(Settings(**settings), ROUTERS)
node.worker.be_local()
{prepare}
tokens = {{name: node.identity.tokens.issue(name, role, 3600) for name, role in users.items()}}
tokens.update(globals().get("extra", {{}}))
print(json.dumps({{"url": node.url, "port": node.port, "tokens": tokens}}), flush=True)
node.run()
"""


class ServerProcess:
    """A Python program in a process of its own, which says on its first line where it listens."""

    def __init__(self, code, *args, env=None):
        self.args = [code, *args]
        self.env = {**os.environ, "OMP_NUM_THREADS": "1", **(env or {})}
        self.start()

    def start(self):
        self.process = warm.popen(*self.args, stdout=subprocess.PIPE, text=True, env=self.env)
        self.first = self.process.stdout.readline().strip()
        if not self.first:
            raise RuntimeError(f"the server did not start; exit code {self.process.wait(60)}")

    @property
    def pid(self):
        return self.process.pid

    def kill(self):
        self.process.kill()
        self.process.wait(60)
        self.process.stdout.close()

    def pause(self):
        self.process.send_signal(signal.SIGSTOP)

    def go_on(self):
        self.process.send_signal(signal.SIGCONT)

    def interrupt(self):
        self.process.send_signal(signal.SIGINT)
        return self.process.wait(60)

    def stop(self):
        if self.process.poll() is None:
            self.process.terminate()
            try:
                self.process.wait(60)
            except subprocess.TimeoutExpired:
                self.process.kill()
                self.process.wait(10)
        self.process.stdout.close()


@contextlib.contextmanager
def websocket_server(id, prepare="", **settings):
    """A WebsocketServerWorker in a process; `prepare` is run there, with `worker` and `hook`."""
    server = ServerProcess(SERVER.replace("{prepare}", prepare), json.dumps({"id": id, "port": 0, **settings}))
    server.port = int(server.first)
    try:
        yield server
    finally:
        server.stop()


class NodeProcess(ServerProcess):
    """A node in a process, with tokens for some users; `connect` gives it as one of them sees it.

    `before` runs in the process before the node is made, so that the processes of users have it too; `prepare` after.
    """

    def __init__(self, id, users=None, prepare="", before="", env=None, **settings):
        users = {"owner": "owner", "alice": "user", "bob": "user"} if users is None else users
        self.id, self.settings = id, {"id": id, **settings}
        super().__init__(
            NODE.format(prepare=prepare, before=before), json.dumps(self.settings), json.dumps(users), env=env
        )

    def start(self):
        super().start()
        said = json.loads(self.first)
        self.url, self.port, self.tokens = said["url"], said["port"], said["tokens"]

    def connect(self, hook, user="alice", ca=None, port=None):
        """Return the node as a user sees it; by another port, if a line is between."""
        url = self.url if port is None else self.url.replace(f":{self.port}", f":{port}")
        token = self.tokens[user] if self.settings.get("tokens", True) else None
        return sy.connect(url, token=token, ca=ca, hook=hook)


@contextlib.contextmanager
def node(id, **settings):
    """A node in a process of its own."""
    process = NodeProcess(id, **settings)
    try:
        yield process
    finally:
        process.stop()


def forget(hook, *workers):
    """Close clients, and make everybody forget their workers."""
    for worker in workers:
        worker.close()
        for other in (hook.local_worker, *list(hook.local_worker._known_workers.values())):
            other._known_workers.pop(worker.id, None)


class Line:
    """A connection to a server that can be cut or stalled, at any moment or after a number of bytes."""

    def __init__(self, port, host="127.0.0.1"):
        self.target = (host, port)
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port = self._listener.getsockname()[1]
        self._pairs = []
        self._lock = threading.Lock()
        self._closed = False
        self._stalled = threading.Event()
        self._refusing = False
        self.cuts = 0
        # bytes from the client, or to it, after which the line is cut; None: never
        self.cut_after_sent = None
        self.cut_after_received = None
        self.connections = 0
        threading.Thread(target=self._accept, daemon=True).start()

    def _accept(self):
        while not self._closed:
            try:
                ours, _ = self._listener.accept()
            except OSError:
                return
            self.connections += 1
            if self._refusing:
                ours.close()
                continue
            try:
                theirs = socket.create_connection(self.target, timeout=60)
            except OSError:
                ours.close()
                continue
            for sock in (ours, theirs):
                sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            with self._lock:
                self._pairs.append((ours, theirs))
            threading.Thread(target=self._carry, args=(ours, theirs), daemon=True).start()

    def _carry(self, ours, theirs):
        while not self._closed:
            try:
                ready, _, _ = select.select([ours, theirs], [], [], 0.2)
            except (OSError, ValueError):
                return
            for sock in ready:
                while self._stalled.is_set() and not self._closed:
                    time.sleep(0.02)
                other = theirs if sock is ours else ours
                limit = "cut_after_sent" if sock is ours else "cut_after_received"
                try:
                    data = sock.recv(1 << 16)
                    left = getattr(self, limit)
                    if left is not None:
                        setattr(self, limit, max(0, left - len(data)))
                        data = data[:left]
                    if data:
                        other.settimeout(60)
                        other.sendall(data)
                    over = not data or (left is not None and len(data) == left)
                except OSError:
                    over = True
                if over:
                    if getattr(self, limit) == 0:
                        setattr(self, limit, None)
                        self.cuts += 1
                    self._hang_up(ours, theirs)
                    return

    def _hang_up(self, *socks):
        for sock in socks:
            with contextlib.suppress(OSError):
                sock.shutdown(socket.SHUT_RDWR)
            sock.close()

    def cut(self):
        """Cut all connections."""
        with self._lock:
            pairs, self._pairs = self._pairs, []
        self.cuts += 1
        for pair in pairs:
            self._hang_up(*pair)

    def stall(self):
        """Carry nothing from now on, as if the cable had been pulled."""
        self._stalled.set()

    def go_on(self):
        self._stalled.clear()

    def refuse(self, refusing=True):
        self._refusing = refusing

    def close(self):
        self._closed = True
        self._hang_up(self._listener)
        self.cut()


def resident(pid="self"):
    """The bytes of memory that a process has."""
    with open(f"/proc/{pid}/statm") as file:
        return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")


def soon(condition, seconds=60.0):
    """Wait until something holds, and say whether it does."""
    end = time.monotonic() + seconds
    while not (holds := condition()) and time.monotonic() < end:
        time.sleep(0.02)
    return holds
