"""Proof: that who registers a node is who answers at its address.

The node tells the gateway a secret when it registers. The gateway then connects to the address, over verified TLS
unless both are on one machine, and asks for the answer to a challenge that only who knows the secret can give.
"""

from __future__ import annotations

import hashlib
import hmac
import secrets
from typing import Any

from syft.exceptions import SyftError
from syft.workers.delegation.peer import OutboundPolicy
from syft.workers.transport.http import ask

PATH = "/v1/gateway-proof"
# Seconds that a node has to answer.
PATIENCE = 5.0


def answer(secret: bytes, challenge: str, node_id: str) -> str:
    """Return what a node answers to a challenge."""
    return hmac.new(secret, f"{challenge} {node_id}".encode(), hashlib.sha256).hexdigest()


def check_address(rules: OutboundPolicy, node_id: str, address: str, secret: str) -> None:
    """Connect to where a node says it is, and raise unless it is there.

    Args:
        rules: whom the gateway connects to.
        node_id: the node.
        address: where it says it is.
        secret: what it told when it registered.
    """
    where = rules.place(address)
    challenge = secrets.token_hex(32)
    try:
        found: Any = ask(where, "GET", f"{PATH}?challenge={challenge}", timeout=PATIENCE)
    except (OSError, SyftError):
        found = None
    told = found.get("answer") if isinstance(found, dict) else None
    expected = answer(bytes.fromhex(secret), challenge, node_id)
    if type(told) is not str or not hmac.compare_digest(told.encode(), expected.encode()):
        # What else answers there is no business of who named the address.
        raise SyftError(f"Node {node_id!r} does not answer the gateway's challenge at the address that it gave.")
