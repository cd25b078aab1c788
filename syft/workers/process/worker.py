"""ProcessWorker: a worker in a process of its own on this machine, with the API of any other worker."""

from __future__ import annotations

import importlib.util
import os
import socket
import subprocess
import sys
import threading
import weakref
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from syft.core.id_provider import ObjectId
from syft.exceptions import SyftError, WorkerLostError
from syft.serde import serialize
from syft.workers.spawned import SpawnedWorker
from syft.workers.transport import handshake
from syft.workers.transport.fork_safety import FORKED, belongs_here
from syft.workers.transport.framing import CONTROL, FramedConnection
from syft.workers.transport.pipe import SocketPipe
from syft.workers.transport.socket_stream import SocketStream

if TYPE_CHECKING:
    import torch

    from syft.hook.torch_hook import TorchHook
    from syft.workers.base import BaseWorker

MAIN = "syft.workers.process.child"
# Runs MAIN of this package; its folder is added to the path only if it is not installed.
START = """
import runpy, sys
home, main = sys.argv[1:3]
del sys.argv[1:3]
if home not in sys.path:
    sys.path.insert(0, home)
runpy.run_module(main, run_name="__main__", alter_sys=True)
"""
# Seconds that a process may take to exit once its connection is closed.
_GRACE = 5.0


class ProcessWorker(SpawnedWorker):
    """A worker in a process of its own: it computes while this process goes on, on another core.

    The process is a new interpreter, and exits with this one, or after `stop()`. It listens on this machine
    only, for clients that this process announced. Workers in processes reach each other directly.

    A worker of an id that is already registered is returned again, so that a notebook cell can be run twice;
    one whose process has exited is replaced.

    Args:
        hook: the TorchHook.
        id: the name of the worker.
        data: tensors to hold from the start.
        verbose: log every message there.
        auto_add: register it and the workers known to the local worker with each other.
        threads: the number of threads that torch uses there.
        modules: names of modules that the process imports first, such as those with your own types and protocols.

    Example:
        >>> import torch, syft as sy
        >>> from syft.workers.process.worker import ProcessWorker
        >>> hook = sy.TorchHook(torch)
        >>> bob = ProcessWorker(hook, id="process-bob")
        >>> x = torch.tensor([1.0, 2.0]).send(bob)
        >>> (x + x).get()
        tensor([2., 4.])
        >>> bob.stop()
    """

    def __init__(
        self,
        hook: TorchHook | None = None,
        id: ObjectId = 0,
        data: Iterable[torch.Tensor] | None = None,
        verbose: bool = False,
        auto_add: bool = True,
        threads: int = 1,
        modules: Iterable[str] = (),
    ) -> None:
        if "_handle" in self.__dict__:
            self.load_data(data or ())
            return
        self._handle: ChildHandle = ChildHandle(id, threads, verbose, _importable(modules))
        super().__init__(hook, id, data, verbose=verbose, auto_add=auto_add)

    def open_stream(self, client: BaseWorker) -> SocketStream:
        """Open a stream from a client of this process."""
        if self._handle.is_detached:
            raise WorkerLostError(self.id, FORKED)
        address = self.admit(client.id)
        try:
            sock = handshake.connect(address, timeout=self._handle.start_timeout)
        except OSError:
            raise WorkerLostError(self.id, self.why_lost()) from None
        stream: SocketStream = self._arrives(SocketStream(client, self, sock))
        return stream


class ChildHandle:
    """The process of a worker, as seen by the process that made it."""

    # Seconds that a new interpreter may take until it answers, on a busy machine.
    start_timeout = 60.0

    def __init__(self, worker_id: ObjectId, threads: int, verbose: bool, modules: tuple[str, ...] = ()) -> None:
        if os.name != "posix":
            raise SyftError("ProcessWorker passes sockets to its process, which this system does not support.")
        listener = handshake.listen()
        self.port: int = listener.getsockname()[1]
        ours, theirs = socket.socketpair()
        try:
            self.process = _spawn(theirs, listener, threads)
        finally:
            listener.close()
            theirs.close()
        self._pipe = SocketPipe(ours)
        self._connection = FramedConnection(self._pipe, limit=0)
        self.pid = self.process.pid
        # The number of orders given.
        self.orders = 0
        self.is_detached = False
        self._order = threading.Lock()
        self.control(("serve", worker_id, threads, verbose, modules, tuple(sys.path) if modules else ()))
        self.end = weakref.finalize(self, _end, self.process, self._connection)
        belongs_here(self)

    def detach_after_fork(self) -> None:
        """Leave the process to the one that made it, from which this one was forked."""
        self.end.detach()
        self.is_detached = True
        self._order = threading.Lock()
        self._pipe.detach_after_fork()

    def is_alive(self) -> bool:
        """Return whether the process is alive."""
        return not self.is_detached and self.process.poll() is None

    def control(self, order: tuple[Any, ...]) -> None:
        """Send an order to the process; one that has exited receives nothing."""
        with self._order:
            self.orders += 1
            if not self.is_detached:
                self._connection.write_soon(CONTROL, self.orders, serialize(order))

    def why_lost(self) -> str:
        """Return how the process exited, or that it does not answer."""
        try:
            code = self.process.wait(timeout=2.0)
        except subprocess.TimeoutExpired:
            return f"its process ({self.process.pid}) does not answer."
        return f"its process ({self.process.pid}) ended " + (
            f"by signal {-code}." if code < 0 else f"with exit code {code}."
        )


def _importable(modules: Iterable[str]) -> tuple[str, ...]:
    """Return names of modules, after a check that this process finds them."""
    if isinstance(modules, str):
        raise SyftError(f"modules takes a list of names. Write modules=[{modules!r:.60}].")
    names = tuple(modules)
    for name in names:
        if type(name) is not str:
            raise SyftError(f"modules takes names of modules, got a {type(name).__name__}. Write its name as a text.")
        if name == "__main__":
            raise SyftError("modules can't name __main__. Move the code to a file and pass its name, without .py.")
        if not _is_found(name):
            raise SyftError(f"There is no module {name!r:.60} on sys.path. Add its folder: sys.path.append(folder).")
    return names


def _is_found(name: str) -> bool:
    try:
        return importlib.util.find_spec(name) is not None
    except (ImportError, ValueError):
        return False


def _spawn(control: socket.socket, listener: socket.socket, threads: int) -> subprocess.Popen[bytes]:
    home = str(Path(__file__).resolve().parents[3])
    handles = (control.fileno(), listener.fileno())
    return subprocess.Popen(  # noqa: S603  (this very interpreter, and nothing from outside)
        [sys.executable, "-P", "-c", START, home, MAIN, *map(str, handles)],
        stdin=subprocess.DEVNULL,
        pass_fds=handles,
        env={**os.environ, "OMP_NUM_THREADS": str(threads)},
    )


def _end(process: subprocess.Popen[bytes], connection: FramedConnection) -> None:
    """Close the connection, so that the process exits; kill it if it does not."""
    connection.close()
    try:
        process.wait(timeout=_GRACE)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()
