"""Template: starts confined processes, as forks of one process that has torch and syft loaded."""

from __future__ import annotations

import contextlib
import itertools
import json
import socket
import subprocess
import sys
import threading
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future
from dataclasses import asdict
from typing import Any

from syft.exceptions import SerdeError
from syft.grid.isolation.confinement.limits import Limits
from syft.grid.isolation.processes.channel import Channel, Frame, FrameKind
from syft.grid.isolation.processes.child import ConfinedProcess

# Code of the template process. Arguments: the control socket, and the supervisor's module search path.
START = """
import json, sys
control, path = int(sys.argv[1]), json.loads(sys.argv[2])
sys.path[:] = path
from syft.grid.isolation.processes.forkserver import serve
serve(control)
"""
# The environment of the template, and so of everything it forks: no settings, no secrets.
ENVIRONMENT = {"PATH": "/usr/bin:/bin", "LC_ALL": "C.UTF-8", "OMP_NUM_THREADS": "1", "MALLOC_ARENA_MAX": "2"}
_START_SECONDS = 120.0
_FORK_SECONDS = 30.0
_GRACE = 5.0


class IsolationError(RuntimeError):
    """A confined process could not be started."""


Launch = Callable[[int], subprocess.Popen[bytes]]


def start_arguments(control: int) -> list[str]:
    """Return the arguments for `START`."""
    return [str(control), json.dumps([folder for folder in sys.path if folder])]


def launch_interpreter(control: int) -> subprocess.Popen[bytes]:
    """Start a template process in a fresh interpreter."""
    return subprocess.Popen(  # noqa: S603
        [sys.executable, "-I", "-c", START, *start_arguments(control)],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        env=ENVIRONMENT,
        cwd="/",
        pass_fds=[control],
        start_new_session=True,
    )


class Template:
    """Starts confined processes. All methods can be called from any thread.

    If the template process exits, its children exit with it, and the next `fork` starts another one.

    Args:
        entries: role -> entry point, "module:function"; called as main(fds, settings). Loaded in the template.
        log: descriptor of a pipe for the standard error of children, or None to discard it. A vault can write private
            data to it, so only the owner may read it.
        launch: starts a template process, given its end of the control socket.
    """

    def __init__(self, entries: Mapping[str, str], log: int | None = None, launch: Launch | None = None) -> None:
        self._launch = launch
        self._entries = dict(entries)
        self._log = log
        self._lock = threading.Lock()
        self._is_closed = False
        self._connection: _TemplateConnection | None = None

    def start(self) -> Template:
        """Start the template process now, not with the first fork. It loads torch and syft, which takes seconds.

        Call this before the node loads any key.
        """
        self._connection = self._open()
        return self

    @property
    def pid(self) -> int:
        """The id of the template process."""
        return self._current().pid

    def _current(self) -> _TemplateConnection:
        """Return the connection to a template process that is ready; a new one if the last one ended."""
        with self._lock:
            if self._is_closed:
                raise IsolationError("the template is closed")
            if self._connection is None or not self._connection.is_open:
                if self._connection is not None:
                    self._connection.close()
                self._connection = self._open()
            connection = self._connection
        connection.await_ready()
        return connection

    def fork(self, role: str, fds: Sequence[int], settings: Mapping[str, Any], limits: Limits) -> ConfinedProcess:
        """Start a confined process and wait until it is confined.

        The child finds copies of the descriptors at 3, 4, 5, ... in the order of `fds`; the caller keeps its own.

        Args:
            role: a key of the entry table.
            fds: descriptors to pass. Sockets must be of type SOCK_STREAM: datagram sockets can send to any address.
            settings: plain data for the entry point; "threads" is the number of torch threads, 1 by default.
            limits: the limits of the process.

        Raises:
            IsolationError: if the process could not be started.
        """
        connection = self._current()
        try:
            return connection.fork(role, fds, dict(settings), limits)
        except IsolationError:
            if connection.is_open:
                raise
        # The template process ended meanwhile: try once more with a new one.
        return self._current().fork(role, fds, dict(settings), limits)

    def close(self) -> None:
        """End the template process and all its children."""
        with self._lock:
            self._is_closed = True
            if self._connection is not None:
                self._connection.close()

    def _open(self) -> _TemplateConnection:
        if sys.platform != "linux":
            raise IsolationError("isolated processes need Linux")
        return _TemplateConnection(self._launch or launch_interpreter, self._entries, self._log)

    def __enter__(self) -> Template:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


class _TemplateConnection:
    """The connection to one template process, with a thread that reads its reports."""

    def __init__(self, launch: Launch, entries: dict[str, str], log: int | None) -> None:
        self._numbers = itertools.count(1)
        self._lock = threading.Lock()
        self._waiting: dict[int, tuple[Future[ConfinedProcess], str, Limits]] = {}
        self._children: dict[int, ConfinedProcess] = {}
        self.is_open = True
        self.pid = 0
        # The id of the process, once it has loaded everything.
        self._ready: Future[int] = Future()
        ours, theirs = socket.socketpair()
        self._channel = Channel(ours, 0)
        with theirs:
            self._process = launch(theirs.fileno())
        self._reader = threading.Thread(target=self._read, name="isolation-template", daemon=True)
        self._reader.start()
        try:
            self._channel.send(FrameKind.REQUEST, entries, fds=[] if log is None else [log])
        except OSError as error:
            self.close()
            raise IsolationError(f"the template process did not start: {error}") from error

    def await_ready(self) -> None:
        """Wait until the template process has loaded everything."""
        try:
            self.pid = self._ready.result(_START_SECONDS)
        except (IsolationError, TimeoutError) as error:
            self.close()
            raise IsolationError(f"the template process did not start: {error}") from error

    def fork(self, role: str, fds: Sequence[int], settings: dict[str, Any], limits: Limits) -> ConfinedProcess:
        number = next(self._numbers)
        future: Future[ConfinedProcess] = Future()
        request = {"number": number, "role": role, "settings": settings, "limits": asdict(limits)}
        mine, theirs = socket.socketpair()
        with mine:
            with theirs:
                with self._lock:
                    if not self.is_open:
                        raise IsolationError("the template process ended")
                    self._waiting[number] = (future, role, limits)
                try:
                    self._channel.send(FrameKind.REQUEST, request, fds=[*fds, theirs.fileno()])
                except OSError as error:
                    raise IsolationError(f"the template process ended: {error}") from error
                except Exception:
                    with self._lock:
                        self._waiting.pop(number, None)
                    raise
            try:
                child = future.result(_FORK_SECONDS)
            except TimeoutError as error:
                future.cancel()
                raise IsolationError(f"the template process did not fork within {_FORK_SECONDS:g} s") from error
            child.confinement = _read_report(mine, child)
        return child

    def _read(self) -> None:
        with contextlib.suppress(SerdeError):
            while (frame := self._channel.receive()) is not None:
                self._handle(frame)
        self._on_exit()

    def _handle(self, frame: Frame) -> None:
        message = frame.header
        number = message["number"]
        if message["kind"] == "ready":
            if message["threads"] == 1:
                self._ready.set_result(message["pid"])
            else:
                self._ready.set_exception(IsolationError(f"it has {message['threads']} threads, expected 1"))
            return
        if message["kind"] == "ended":
            with self._lock:
                child = self._children.pop(number)
            child.set_ended(message["code"])
            return
        with self._lock:
            future, role, limits = self._waiting.pop(number)
            if message["kind"] == "forked":
                child = ConfinedProcess(message["pid"], frame.fds[0], role, limits)
                self._children[number] = child
        is_wanted = future.set_running_or_notify_cancel()
        if message["kind"] == "forked":
            if is_wanted:
                future.set_result(child)
            else:
                child.kill("the process started too late")
        elif is_wanted:
            future.set_exception(IsolationError(f"the role {role!r} cannot be started: {message['problem']}"))

    def _on_exit(self) -> None:
        """Fail the pending forks, and end the children of a template process that ended."""
        with self._lock:
            self.is_open = False
            waiting, self._waiting = self._waiting, {}
            children, self._children = self._children, {}
        if not self._ready.done():
            self._ready.set_exception(IsolationError("it ended while it started"))
        for future, _, _ in waiting.values():
            if future.set_running_or_notify_cancel():
                future.set_exception(IsolationError("the template process ended"))
        for child in children.values():
            child.kill("the template process ended, and this process with it")
            child.set_ended(None)

    def close(self) -> None:
        with contextlib.suppress(OSError):
            self._channel.sock.shutdown(socket.SHUT_RDWR)
        try:
            self._process.wait(_GRACE)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait(_GRACE)
        self._reader.join(_GRACE)
        self._channel.close()


def _read_report(sock: socket.socket, child: ConfinedProcess) -> list[str]:
    """Read the names of the active measures, which end with the end of the stream."""
    sock.settimeout(_FORK_SECONDS)
    parts = []
    try:
        while part := sock.recv(4096):
            parts.append(part)
    except OSError as error:
        child.kill("the process did not start in time")
        raise IsolationError(f"the process did not report its confinement: {error}") from error
    if not parts:
        with contextlib.suppress(TimeoutError):
            child.wait(_GRACE)
        raise IsolationError(f"the process ended before it was confined: {child.end_reason()}")
    return b"".join(parts).decode(errors="replace").splitlines()
