"""Prove that a registering node controls its address.

The node sends the gateway a secret when it registers. The gateway then connects to the address, over verified TLS
unless both are on one machine, and sends a challenge whose response requires the secret.
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
# Seconds to wait for the response of a node.
RESPONSE_TIMEOUT = 5.0


def answer(secret: bytes, challenge: str, node_id: str) -> str:
    """Return a node's response to a challenge."""
    return hmac.new(secret, f"{challenge} {node_id}".encode(), hashlib.sha256).hexdigest()


def check_address(rules: OutboundPolicy, node_id: str, address: str, secret: str) -> None:
    """Connect to the address of a node, and raise unless it responds to a challenge."""
    where = rules.place(address)
    challenge = secrets.token_hex(32)
    try:
        found: Any = ask(where, "GET", f"{PATH}?challenge={challenge}", timeout=RESPONSE_TIMEOUT)
    except (OSError, SyftError):
        found = None
    response = found.get("answer") if isinstance(found, dict) else None
    expected = answer(bytes.fromhex(secret), challenge, node_id)
    if type(response) is not str or not hmac.compare_digest(response.encode(), expected.encode()):
        # The reason is withheld: a registration must not serve to probe addresses.
        raise SyftError(f"Node {node_id!r} does not answer the gateway's challenge at its address.")
