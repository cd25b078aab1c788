"""LaunchSession: the nodes that this program launched, and the files that they share."""

from __future__ import annotations

import atexit
import contextlib
import dataclasses
import itertools
import os
import threading
from pathlib import Path

from syft.grid import certificates
from syft.grid.launch.data import Handover
from syft.grid.launch.node import LaunchedNode
from syft.grid.launch.process import leave_all
from syft.grid.server.temporary_folders import passing_folder

# Seconds that the end of this program waits for its nodes to stop; they stop by themselves in any case.
_END_SECONDS = 4.0


@dataclasses.dataclass(slots=True)
class Launched:
    """A launched node and the arguments that it was launched with."""

    node: LaunchedNode
    arguments: object
    handed: Handover


class LaunchSession:
    """The nodes of this program: one authority for all, so that they reach each other over TLS."""

    def __init__(self) -> None:
        self.maker = os.getpid()
        self.nodes: dict[str, Launched] = {}
        self.lock = threading.RLock()
        self._closing = contextlib.ExitStack()
        self.folder = Path(self._closing.enter_context(passing_folder("syft-launch-")))
        self.authority = certificates.make_authority(self.folder / "authority", "launched nodes", days=365)
        self._numbers = itertools.count(1)
        atexit.register(self._end)

    def new_folder(self, name: str) -> Path:
        """Make a folder for a node."""
        folder = self.folder / f"{name}-{next(self._numbers)}"
        folder.mkdir(mode=0o700)
        return folder

    def _end(self) -> None:
        if os.getpid() != self.maker:  # a fork of the launching program
            return
        leave_all([launched.node.process for launched in self.nodes.values()], _END_SECONDS)
        self._closing.close()


_sessions: list[LaunchSession] = []
_making = threading.Lock()


def session() -> LaunchSession:
    """Return the session of this program; a forked program has one of its own."""
    with _making:
        if not _sessions or _sessions[-1].maker != os.getpid():
            # The session of a parent process stays in the list: collecting it here would delete the parent's files.
            _sessions.append(LaunchSession())
        return _sessions[-1]
