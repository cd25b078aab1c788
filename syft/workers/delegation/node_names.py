"""Node ids in certificates: a subject alternative name `URI:resyft-node:ID` binds a certificate to one node.

A certificate with such a name is accepted from that node only. A certificate without one, for example of a public
authority, binds host names only; it is accepted, with a warning in the log.
"""

from __future__ import annotations

import functools
import logging
from typing import Any
from urllib.parse import quote, unquote

from syft.core.id_provider import ObjectId
from syft.core.labels import printable

__all__ = ["check_peer", "ids_in", "uri_of"]

logger = logging.getLogger("syft.workers")
SCHEME = "resyft-node:"


def uri_of(node_id: ObjectId) -> str:
    """Return the name of a node in a certificate.

    Example:
        >>> uri_of("hospital-a")
        'resyft-node:hospital-a'
    """
    return SCHEME + quote(str(node_id), safe="")


def ids_in(uris: Any) -> list[str]:
    """Return the node ids among the URIs of a certificate."""
    return [unquote(uri.removeprefix(SCHEME)) for uri in uris if uri.startswith(SCHEME)]


def check_peer(certificate: Any, node_id: ObjectId, url: str) -> None:
    """Raise ConnectionError if the verified certificate of a TLS connection (`getpeercert()`) names another node."""
    names = (certificate or {}).get("subjectAltName", ())
    found = ids_in([value for kind, value in names if kind == "URI"])
    if not found:
        _warn(str(node_id), url)
    elif str(node_id) not in found:
        raise ConnectionError(f"its certificate is for node {printable(', '.join(found))[:200]!r}")


@functools.lru_cache(maxsize=1024)
def _warn(node_id: str, url: str) -> None:
    logger.warning(
        "The certificate of node %r at %s names no node id. Issue one that does: node certs issue --id ID", node_id, url
    )
