"""Session processes and vaults that were taken over by their user: they run any Python that mallory sends.

These functions replace the entry points of a test node, in its template. Other users get the real code. Mallory's
requests are Python programs, run in the session process. A tensor that mallory moves to the vault and whose bytes
begin with `MARK` is a Python program too, run in the vault.
"""

from __future__ import annotations

import contextlib
import io
import json
import os
import socket
import threading
import traceback

from syft.grid.isolation.children.services import Services
from syft.grid.isolation.processes.channel import Channel, FrameKind
from syft.grid.isolation.processes.progress import ProgressPage
from syft.grid.isolation.records.records import Blob, PutRecord, encode
from syft.grid.isolation.session import process as session_process
from syft.grid.isolation.vault import process as vault_process
from tests.helpers.nodes import NODE, NodeProcess

USER = "mallory"
MARK = b"#!python\n"
# Replaces the entry points before the template of the node starts.
TAKE_OVER = """
from syft.grid.isolation import entry_points
entry_points.ENTRY_POINTS.update(
    session="tests.helpers.attacks.taken_over:session_main", vault="tests.helpers.attacks.taken_over:vault_main"
)
"""


class TakenOverNode(NodeProcess):
    """A node whose processes for mallory run any Python."""

    def __init__(self, id, prepare="", env=None, **settings):
        users = {"owner": "owner", "alice": "user", "bob": "user", USER: "user"}
        self.id, self.settings = id, {"id": id, **settings}
        code = TAKE_OVER + NODE.format(prepare=prepare, before="")
        super(NodeProcess, self).__init__(code, json.dumps(self.settings), json.dumps(users), env=env)


@contextlib.contextmanager
def taken_over_node(id, **settings):
    """A node with a taken over user."""
    process = TakenOverNode(id, **settings)
    try:
        yield process
    finally:
        process.stop()


# --- in the session process ---------------------------------------------------------------------------------------


class HostileSession(session_process.SessionProcess):
    """Runs mallory's requests as programs, and answers with what they print."""

    def _open(self, facts, fds):
        if facts[0] != USER:
            super()._open(facts, fds)
            return
        sock = socket.socket(fileno=fds[0])
        threading.Thread(target=self._obey, args=(sock, Channel(sock, 1 << 40)), daemon=True).start()

    def _obey(self, sock, channel):
        names = {
            "process": self, "services": self._services, "channel": channel, "sock": sock, "Kind": FrameKind,
            "in_vault": self._in_vault, "shared": self._services._shared,
        }  # fmt: skip
        with self._services.over(channel):
            while (frame := channel.receive()) is not None:
                if frame.kind is FrameKind.REQUEST:
                    channel.send(FrameKind.ANSWER, (False, ()), run(frame.body, names))

    def _in_vault(self, program):
        """Have a program run in the vault."""
        blob = Blob("tensor", "float32 (1,)", MARK + program.encode())
        return self._services.call("vault", body=encode(PutRecord(7, blob)))


def run(program, names):
    """Run a program, and return what it printed or raised."""
    printed = io.StringIO()
    names["print"] = lambda *values: print(*values, file=printed)
    try:
        exec(bytes(program).decode(), names)
    except BaseException:
        names["print"](traceback.format_exc())
    return printed.getvalue().encode() or b"-"


def session_main(fds, settings):
    """Run a session process that mallory has taken over."""
    control, shared, page = fds
    services = Services(Channel(socket.socket(fileno=shared), 1 << 62))
    process = HostileSession(services, ProgressPage(page), settings)
    channel = Channel(socket.socket(fileno=control), 1 << 16)
    process.control = channel
    process.run(channel)
    os._exit(0)


# --- in the vault -------------------------------------------------------------------------------------------------


class HostileVault(vault_process.VaultProcess):
    """Runs programs that arrive as tensors; they find its channel, its objects and everything else."""

    def __init__(self, *args):
        super().__init__(*args)
        self._run, self.runner.run = self.runner.run, self._obey

    def _obey(self, record):
        if isinstance(record, PutRecord) and bytes(record.blob.data[: len(MARK)]) == MARK:
            exec(
                bytes(record.blob.data[len(MARK) :]).decode(),
                {"vault": self, "channel": self._channel, "Kind": FrameKind},
            )
        else:
            self._run(record)


def vault_main(fds, settings):
    """Run a vault that does what mallory says."""
    channel, page = fds
    HostileVault(Channel(socket.socket(fileno=channel), 1 << 62), ProgressPage(page), settings).run()
    os._exit(0)


prepare = session_process.prepare
