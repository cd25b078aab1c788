"""WebsocketClientWorker: a worker behind a WebSocket, with the API of any other worker."""

from __future__ import annotations

import functools
import itertools
import os
import ssl
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from syft.core.context import local_worker
from syft.core.id_provider import ObjectId
from syft.exceptions import NodeRefusedError, NodeUnreachableError, SyftError
from syft.workers.delegation.introduction import introduce
from syft.workers.remote import RemoteWorker
from syft.workers.sent_ids import SentIds, sent_to
from syft.workers.transport.reconnecting_stream import WebsocketStream
from syft.workers.transport.stream import call_all, close_incoming
from syft.workers.transport.tls import client_context, explain, is_loopback
from syft.workers.transport.websocket import Endpoint

if TYPE_CHECKING:
    import torch

    from syft.hook.torch_hook import TorchHook
    from syft.workers.base import BaseWorker


# The addresses of all interfaces, on which servers listen: as a destination they are this machine.
_ANY = frozenset({"0.0.0.0", "::", "[::]"})  # noqa: S104
_numbers = itertools.count(1)


class WebsocketClientWorker(RemoteWorker):
    """A worker behind a server: a WebsocketServerWorker, or a node.

    With `secure=True` the certificate of the server is always verified. Without, only servers of this machine are
    accepted.

    A worker of an id that is already registered is returned again, so that a notebook cell can be run twice.

    Args:
        hook: the TorchHook.
        host: the host of the server.
        port: its port.
        secure: use TLS.
        id: the name of the worker; it must be the one that the server has.
        is_client_worker: accepted and ignored: a worker behind a server stores objects.
        log_msgs: keep every message in `msg_history` (those of this side are not).
        verbose: log events of the connection.
        data: tensors to hold from the start.
        token: the bearer token for the server.
        ca: the file of the authority that signed the server's certificate; None: those of the system.
        auto_add: register it and the workers known to the local worker with each other.

    Example:
        >>> alice = sy.WebsocketClientWorker(hook, host="localhost", port=8777, id="alice")  # doctest: +SKIP
        >>> x = torch.tensor([1.0, 2.0]).send(alice)  # doctest: +SKIP
    """

    is_node = True
    # The purpose of its connections; empty: any.
    purpose = ""
    # The address by which other nodes reach it, if it differs from the one used here.
    peer_url: str | None = None

    def __init__(
        self,
        hook: TorchHook | None = None,
        host: str = "localhost",
        port: int = 0,
        secure: bool = False,
        id: ObjectId = 0,
        is_client_worker: bool = False,
        log_msgs: bool = False,
        verbose: bool = False,
        data: Iterable[torch.Tensor] | None = None,
        token: str | None = None,
        ca: str | os.PathLike[str] | None = None,
        auto_add: bool = True,
    ) -> None:
        if "_where" in self.__dict__:
            self._move_to(where_of(host, port, secure, token, ca))
            self.load_data(data or ())
            return
        self.host, self.port, self.secure = host, port, secure
        self._where = where_of(host, port, secure, token, ca)
        self._number = next(_numbers)
        super().__init__(hook, id, log_msgs=log_msgs, verbose=verbose, auto_add=False)
        self.connect()
        self.auto_add = auto_add
        if auto_add:
            self._join(getattr(hook, "local_worker", None))
        self.load_data(data or ())

    def _move_to(self, where: Endpoint) -> None:
        """Set another address of the same worker: a notebook cell was run again after the server was restarted."""
        if where.url != self._where.url:
            parts = urlsplit(where.url)
            self.host, self.port = parts.hostname or "", parts.port or 0
            self._where = where
            self.__dict__.pop("_sent_ids", None)
            close_incoming(self)
        self._where = where

    @functools.cached_property
    def _sent_ids(self) -> SentIds:
        return sent_to(self._where.url, self._where.token)

    @property
    def url(self) -> str:
        """The address of the server."""
        return self._where.url

    def for_purpose(self, purpose: str) -> Any:
        """Return the same worker, reached over a separate connection for one purpose.

        A node serves such a connection in a process that runs no calls: one party of an encrypted model, or a dealer.

        Args:
            purpose: `model:NAME`, or `dealer:NAME`.
        """
        views: dict[str, Any] = self.__dict__.setdefault("_views", {})
        if purpose not in views:
            view = views[purpose] = object.__new__(type(self))
            view.__dict__.update(self.__dict__)
            view.__dict__.update(purpose=purpose, _views={}, _streams={}, _sessions=[], _incoming=[])
        views[purpose]._where, views[purpose].peer_url = self._where, self.peer_url
        return views[purpose]

    @property
    def stream_key(self) -> Any:
        """The key of streams to this worker: clients of one server, such as those of two users, have separate ones."""
        return self.id, self._number, self.purpose

    def connect(self) -> None:
        """Connect, unless it is connected.

        After `close()` the session goes on if the server still has it, and pointers lead to the same objects as before.
        Servers keep a session for about a minute without a connection.
        """
        stream = local_worker().stream_to(self)
        if not stream.resume():
            local_worker().stream_to(self)

    def open_stream(self, client: BaseWorker) -> WebsocketStream:
        """Open a stream from a client of this process."""
        try:
            stream = WebsocketStream(client, self, self._where)
        except OSError as error:
            raise unreachable(error, self.url) from None
        if stream.node_id != self.id:
            stream.close()
            raise SyftError(
                f"The worker at {self.url} is called {stream.node_id!r}, not {self.id!r}: make it with "
                f"id={stream.node_id!r}, the name that others know it by."
            )
        self._arrives(stream)
        return stream

    def meet(self, client: BaseWorker, others: Iterable[Any]) -> None:
        """Introduce this node and others to each other, for a client of this process."""
        introduce(client, (self, *others))

    def why_lost(self) -> str:
        """Return the known reason why the worker can't be reached."""
        return "its connection was lost."

    def close(self) -> None:
        """Close the connection. Then raise the unreported error of an earlier call.

        Published objects stay there. If there are pointers to objects of the session, the server keeps it for about a
        minute: `connect()`, or the next call, resumes it.
        """
        try:
            for view in self.__dict__.pop("_views", {}).values():
                close_incoming(view)
            held = [stream for stream in self._incoming if stream.leases > 0 and not stream.is_over]
            self._incoming = [stream for stream in self._incoming if stream not in held]
            call_all([lambda: close_incoming(self), *[stream.suspend for stream in held]])
            self._incoming = held
        finally:
            super().close()

    stop = close

    # --- questions to the worker itself ------------------------------------------------------------------------

    def list_objects_remote(self) -> str:
        """Return the ids, shapes and tags of the objects visible to this client, one per line; never values."""
        lines = [
            f"{obj_id}: {tuple(pointer.shape) if hasattr(pointer, 'shape') else type(pointer).__name__}"
            f" {' '.join(sorted(pointer.tags))}".rstrip()
            for obj_id, pointer in self._objects.items()
        ]
        return "\n".join(lines)

    def objects_count_remote(self) -> int:
        """Return the number of objects visible to this client."""
        return len(self._objects)

    def clear_objects_remote(self) -> Any:
        """Delete the objects that this client may delete."""
        return self.clear_objects()

    def __repr__(self) -> str:
        return f"<{type(self).__name__} id:{self.id} at {self.url}>"


def unreachable(error: OSError, url: str, what: str = "node") -> NodeUnreachableError:
    """Return the error of a connection that failed; `what` names the kind of server."""
    if isinstance(error, ssl.SSLError):
        parts = urlsplit(url)
        return NodeUnreachableError(url, explain(error, parts.hostname or "", parts.port))
    kind = NodeRefusedError if isinstance(error, ConnectionRefusedError) else NodeUnreachableError
    return kind(url, why_unreachable(error, url, what))


def why_unreachable(error: OSError, url: str, what: str = "node") -> str:
    """Return the meaning of a network error, and what to check."""
    if isinstance(error, TimeoutError):
        reason = "it does not answer"
    else:
        reason = (error.strerror or str(error) or type(error).__name__).lower()
    if isinstance(error, ConnectionResetError) and url.startswith(("ws:", "http:")):
        return f"{reason}. If it is a {what} with TLS, its address begins with wss://."
    return f"{reason}. Check that the {what} runs, that address and port are right, and that no firewall is between."


def where_of(host: str, port: int, secure: bool, token: str | None, ca: Any) -> Endpoint:
    """Return the endpoint of a server; other machines require TLS. The address of all interfaces is this machine."""
    host = "localhost" if host in _ANY else host
    if not secure and not is_loopback(host):
        raise SyftError(
            f"{host!r} is another machine, which requires TLS: pass secure=True (wss://HOST), and ca=... "
            "(--ca FILE) if a team's own authority signed its certificate."
        )
    name = f"[{host}]" if ":" in host and not host.startswith("[") else host
    context = (ca if isinstance(ca, ssl.SSLContext) else client_context(ca)) if secure else None
    return Endpoint(f"{'wss' if secure else 'ws'}://{name}:{port}", token, context)
