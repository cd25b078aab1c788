"""Small requests to a node over HTTP, with the rules of its streams: verified TLS, or this machine; no redirects."""

from __future__ import annotations

import http.client
import json
from typing import Any
from urllib.parse import urlsplit

from syft.core.labels import printable
from syft.exceptions import AuthenticationError, SyftError
from syft.workers.transport.websocket import Endpoint

MAX_ANSWER = 1 << 24


def ask(where: Endpoint, method: str, path: str, body: object = None, timeout: float = 30.0) -> Any:
    """Send a request to a node, and return the JSON of its response.

    Args:
        where: the node.
        method: GET, POST, DELETE ...
        path: the path of the resource.
        body: the JSON body, if any.
        timeout: seconds to wait.

    Raises:
        OSError: it can't be reached.
        AuthenticationError: the token is invalid, or does not permit this.
        SyftError: the node refuses, with its reason.
    """
    parts = urlsplit(where.url)
    host = parts.hostname or ""
    if parts.scheme == "wss":
        connection: http.client.HTTPConnection = http.client.HTTPSConnection(
            host, parts.port or 443, timeout=timeout, context=where.context
        )
    else:
        connection = http.client.HTTPConnection(host, parts.port or 80, timeout=timeout)
    headers = {"Content-Type": "application/json", "Connection": "close"}
    if where.token is not None:
        headers["Authorization"] = f"Bearer {where.token}"
    try:
        connection.request(method, path, None if body is None else json.dumps(body), headers)
        answer = connection.getresponse()
        contents = answer.read(MAX_ANSWER + 1)
    except http.client.HTTPException:
        hint = "" if parts.scheme == "wss" else " If it is a node with TLS, its address begins with wss://."
        raise SyftError(f"The server at {host}:{parts.port} is not a node.{hint}") from None
    finally:
        connection.close()
    return _read(answer.status, contents)


def _read(status: int, contents: bytes) -> Any:
    if len(contents) > MAX_ANSWER:
        raise SyftError("The response of the node is too large.")
    try:
        found = json.loads(contents) if contents else None
    except ValueError:
        found = None
    if status < 300:
        return found
    said = found.get("detail") if isinstance(found, dict) else None
    text = printable(said if isinstance(said, str) else json.dumps(said))[:2000] if said else f"HTTP status {status}"
    if status in (401, 403, 429):
        raise AuthenticationError(text)
    raise SyftError(text)
