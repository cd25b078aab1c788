"""The template process: it has torch and syft loaded, holds no secrets, and forks confined processes on request.

It is single-threaded, so that a fork is safe, and it runs no code for users itself.
"""

from __future__ import annotations

import contextlib
import gc
import importlib
import os
import selectors
import signal
import socket
import sys
import traceback
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from syft.grid.isolation.confinement.confine import confine
from syft.grid.isolation.confinement.limits import Limits
from syft.grid.isolation.processes.channel import Channel, Frame, FrameKind
from syft.grid.isolation.processes.child import FAILED, OUT_OF_MEMORY

Main = Callable[[list[int], dict[str, Any]], None]
# Passed descriptors get the numbers from here on, in order. Below are the standard streams: /dev/null, or the log.
FIRST_FD = 3


def serve(control: int) -> None:
    """Run the template until the supervisor closes its end of the control socket."""
    sock = socket.socket(fileno=control)
    os.set_inheritable(control, False)
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the supervisor handles Ctrl-C; this process ends with the socket
    channel = Channel(sock, 0)
    hello = channel.receive()
    if hello is None:
        return
    server = _ForkServer(channel, hello.fds[0] if hello.fds else None)
    server.load(hello.header)
    server.run()


class _ForkServer:
    def __init__(self, channel: Channel, log: int | None) -> None:
        self._channel = channel
        self._log = log
        self._mains: dict[str, Main] = {}
        self._problems: dict[str, str] = {}
        self._children: dict[int, int] = {}  # pid -> number of the request

    def load(self, entries: dict[str, str]) -> None:
        """Import the entry points, so that children share the loaded modules; then freeze all objects."""
        import torch

        torch.set_num_threads(1)
        for role, dotted in entries.items():
            try:
                self._mains[role] = _load(dotted)
            except Exception:
                self._problems[role] = traceback.format_exc(limit=-3)
        # Load modules that every child uses first, so that all children share them.
        _reseed()
        torch.add(torch.ones(2), torch.ones(2)).sum().item()
        gc.collect()
        gc.freeze()
        # Collections would write to pages that are shared with all children.
        gc.disable()
        self._report("ready", 0, pid=os.getpid(), threads=sum(1 for _ in Path("/proc/self/task").iterdir()))

    def _report(self, kind: str, number: int, fds: Sequence[int] = (), **facts: object) -> None:
        self._channel.send(FrameKind.ANSWER, {"kind": kind, "number": number, **facts}, fds=fds)

    def run(self) -> None:
        """Serve requests and report the exits of children, until the supervisor closes the socket."""
        reader, writer = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)
        signal.signal(signal.SIGCHLD, lambda *_: None)
        signal.set_wakeup_fd(writer, warn_on_full_buffer=False)
        selector = selectors.DefaultSelector()
        selector.register(self._channel.sock, selectors.EVENT_READ)
        selector.register(reader, selectors.EVENT_READ)
        try:
            while True:
                ready = {key.fd for key, _ in selector.select()}
                if reader in ready:
                    with contextlib.suppress(BlockingIOError):
                        os.read(reader, 4096)
                    self._reap()
                if self._channel.sock.fileno() in ready:
                    request = self._channel.receive()
                    if request is None:
                        break
                    self._answer(request)
        except OSError:
            pass  # the supervisor has exited
        finally:
            for pid in self._children:
                with contextlib.suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)

    def _answer(self, frame: Frame) -> None:
        request, fds = frame.header, frame.fds
        number, role = request["number"], request["role"]
        main = self._mains.get(role)
        problem = self._problems.get(role, f"unknown role {role!r}, expected one of {', '.join(self._mains)}")
        pid = None
        if main is not None:
            try:
                pid = os.fork()
            except OSError as error:
                problem = f"fork failed: {error}"
            if pid == 0:
                _child(main, request, fds, self._log)
        for fd in fds:
            os.close(fd)
        if pid is None:
            self._report("refused", number, problem=problem)
            return
        self._children[pid] = number
        # Opened before the child is reaped, so it names this child and no later process with the same id.
        handle = os.pidfd_open(pid)
        try:
            self._report("forked", number, [handle], pid=pid)
        finally:
            os.close(handle)

    def _reap(self) -> None:
        while self._children:
            pid, status = os.waitpid(-1, os.WNOHANG)
            if pid == 0:
                return
            number = self._children.pop(pid, None)
            if number is not None:
                self._report("ended", number, code=os.waitstatus_to_exitcode(status))


def _load(dotted: str) -> Main:
    """Import an entry point, "module:function". If the module has a function `prepare`, call it once."""
    module_name, _, function = dotted.partition(":")
    module = importlib.import_module(module_name)
    prepare = getattr(module, "prepare", None)
    if prepare is not None:
        prepare()
    main: Main = getattr(module, function)
    return main


def _child(main: Main, request: dict[str, Any], fds: list[int], log: int | None) -> None:
    """Become the confined process; never returns."""
    code = FAILED
    try:
        import torch

        signal.set_wakeup_fd(-1)
        for number in (signal.SIGCHLD, signal.SIGINT, signal.SIGTERM):
            signal.signal(number, signal.SIG_DFL)
        # The last descriptor reports the active measures to the supervisor.
        *passed, report = _move_descriptors(fds, log)
        settings = request["settings"]
        _reseed()
        torch.set_num_threads(settings.get("threads") or 1)
        active = confine(Limits(**request["limits"]))
        os.write(report, "\n".join(active).encode())
        os.close(report)
        gc.enable()
        main(passed, settings)
        code = 0
    except MemoryError:
        code = OUT_OF_MEMORY
    except SystemExit as end:
        code = end.code if isinstance(end.code, int) else 0 if end.code is None else FAILED
    except BaseException:  # the last frame of a forked process: it must not return to its parent's code
        with contextlib.suppress(BaseException):
            traceback.print_exc()
    finally:
        with contextlib.suppress(BaseException):
            sys.stdout.flush()
            sys.stderr.flush()
        os._exit(code & 0xFF)


def _move_descriptors(fds: list[int], log: int | None) -> list[int]:
    """Move the descriptors to FIRST_FD and up, redirect the standard streams, and close all others."""
    null = os.open(os.devnull, os.O_RDWR)
    wanted = [null, null, null if log is None else log, *fds]
    above = max(wanted) + len(wanted) + 1
    moved = [os.dup2(fd, above + index) for index, fd in enumerate(wanted)]
    for index, fd in enumerate(moved):
        os.dup2(fd, index, inheritable=index < FIRST_FD)
    os.closerange(len(wanted), max(os.sysconf("SC_OPEN_MAX"), above + len(wanted)))
    sys.stdin = open(0, closefd=False)
    sys.stdout = open(1, "w", closefd=False)
    sys.stderr = open(2, "w", buffering=1, errors="backslashreplace", closefd=False)
    return list(range(FIRST_FD, len(wanted)))


def _reseed() -> None:
    """Seed all random generators from the operating system: siblings must not draw the same numbers."""
    import random

    import numpy as np
    import torch

    from syft.core import generator

    random.seed(os.urandom(32))
    np.random.seed(np.frombuffer(os.urandom(32), dtype=np.uint32))
    torch.manual_seed(int.from_bytes(os.urandom(8), "little") >> 1)
    generator.forget()
