"""NodeApi: requests to the HTTP API of one node."""

from __future__ import annotations

import ssl
from typing import Any, NoReturn
from urllib.parse import quote, urlsplit

import torch

from syft.core.context import local_worker
from syft.exceptions import SyftError
from syft.hook.torch_hook import TorchHook
from syft.workers.node_client import NodeClient
from syft.workers.transport.http import ask
from syft.workers.transport.tls import explain
from syft.workers.transport.websocket import Endpoint
from syft.workers.websocket_client import why_unreachable

_TIMEOUT = 60.0


class NodeApi:
    """The HTTP API of one node.

    Args:
        where: its address, the token, and the certificates that are trusted.
    """

    def __init__(self, where: Endpoint) -> None:
        self.where = where

    def ask(self, method: str, path: str, body: object = None, **query: object) -> Any:
        """Send a request to the API; `query` is appended to the path."""
        words = "&".join(f"{name}={quoted(str(value))}" for name, value in query.items() if value is not None)
        try:
            return ask(self.where, method, f"/v1/{path}{'?' if words else ''}{words}", body, timeout=_TIMEOUT)
        except OSError as error:
            _explain(error, self.where.url)

    def client(self) -> NodeClient:
        """Return the node as a worker, for objects that travel over the stream."""
        hook = getattr(local_worker(required=False), "hook", None) or TorchHook(torch)
        trusted: Any = self.where.context
        return NodeClient(hook, self.where.url, token=self.where.token, ca=trusted, auto_add=False)


def quoted(text: str) -> str:
    """Return a text as a part of a path."""
    return quote(text, safe="")


def _explain(error: OSError, url: str) -> NoReturn:
    parts = urlsplit(url)
    if isinstance(error, ssl.SSLError):
        raise SyftError(explain(error, parts.hostname or "", parts.port)) from None
    raise SyftError(f"Could not reach {url}: {why_unreachable(error, url)}") from None
