"""WebsocketServerWorker: a worker of this process, served over websockets."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from syft.core.id_provider import ObjectId
from syft.core.labels import tags_of
from syft.grid.certificates import certificate_of
from syft.grid.server.app import NodeContext, make_app
from syft.grid.server.auth import Authenticator
from syft.grid.server.port_server import PortServer
from syft.grid.server.settings import check_exposure
from syft.workers.delegation.peer import OutboundPolicy
from syft.workers.transport.socket_stream import SERVED
from syft.workers.transport.tls import is_loopback, server_context
from syft.workers.virtual import VirtualWorker

if TYPE_CHECKING:
    from syft.hook.torch_hook import TorchHook


class WebsocketServerWorker(VirtualWorker):
    """A worker that is served over websockets, from this process.

    Without tokens it serves programs of this machine only, and releases every object on request. Use a node
    (`python -m syft node start`) for private data.

    Args:
        hook: the TorchHook.
        host: the address to listen on.
        port: the port; 0: any free port, see the attribute `port`.
        id: the name of the worker.
        log_msgs: record received messages in `msg_history`.
        verbose: log every message at info level.
        data: tensors to hold from the start.
        loop: ignored; the server has its own event loop.
        cert_path: the certificate, for TLS.
        key_path: its key.
        authenticator: the authenticator; by default all programs of this machine have access.
        ca: the file of the authority that signed the certificates of other workers, which it then may connect to.
        peers: the only peers that it connects to, as "host:port"; empty: all that `ca` allows.
        trust_script_modules: load script modules from clients, which are programs; plans need no trust.

    Example:
        >>> worker = sy.WebsocketServerWorker(hook, host="localhost", port=8777, id="alice")  # doctest: +SKIP
        >>> worker.start()  # serves until it is interrupted; in a notebook until worker.stop()  # doctest: +SKIP
    """

    # Workers of this process compute with it as with any other one; others over the network.
    is_in_this_process = True
    returns_registered = True

    def __init__(
        self,
        hook: TorchHook,
        host: str = "localhost",
        port: int = 0,
        id: ObjectId = 0,
        log_msgs: bool = False,
        verbose: bool = False,
        data: Iterable[Any] | None = None,
        loop: Any = None,
        cert_path: str | None = None,
        key_path: str | None = None,
        authenticator: Authenticator | None = None,
        trust_script_modules: bool = False,
        ca: str | None = None,
        peers: Iterable[str] = (),
    ) -> None:
        if getattr(self, "_server", None) is not None:
            return  # created before, for example by another notebook cell
        authenticator = authenticator or Authenticator()
        check_exposure(host, cert_path is not None, authenticator.tokens)
        super().__init__(hook, id=id, log_msgs=log_msgs, verbose=verbose, data=data)
        self.trusts_script_modules = trust_script_modules  # programs from other processes
        context = None if cert_path is None else server_context(cert_path, key_path)
        address = "127.0.0.1" if host == "localhost" else host
        self._context = NodeContext(self, authenticator)
        rules = OutboundPolicy(ca, is_loopback(host), tuple(peers))
        self._context.accept_peers(rules, certificate=certificate_of(cert_path, self.id))
        for prepare in SERVED:
            prepare(self)
        self._app = make_app(self._context, title=f"resyft worker {id}")
        self._server = PortServer(self._app, address, port, context)
        self.host, self.port = host, self._server.port

    @property
    def url(self) -> str:
        """The URL for clients."""
        return self._server.url

    def start(self, background: bool = False) -> None:
        """Serve until interrupted; in a notebook, whose event loop is running, in a thread until `stop()`.

        Args:
            background: return at once and serve in a thread; `stop()` ends it.
        """
        if self._server.is_stopped:
            self._server = PortServer(self._app, self._server.host, self.port, self._server.context)
        if background or _is_in_event_loop():
            self._server.start()
        else:
            self._server.run()

    def stop(self) -> None:
        """Stop serving; `start()` serves again, at the same port."""
        self._server.stop()

    def list_objects(self, *args: object) -> str:
        """Return the ids, shapes and tags of the objects, without values."""
        return "\n".join(
            f"{obj_id}: {tuple(getattr(obj, 'shape', ()))} {' '.join(sorted(tags_of(obj)))}".rstrip()
            for obj_id, obj in self._objects.items()
        )

    def objects_count(self, *args: object) -> int:
        """Return the number of objects."""
        return len(self._objects)


def _is_in_event_loop() -> bool:
    """Return whether this thread runs an event loop, as the cells of a notebook do."""
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return False
    return True
