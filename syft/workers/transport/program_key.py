"""The key of this process, by which servers without tokens recognise its connections as those of one user.

Each address and port has a key of its own, so that a server can't pose as this process at another one. A server that
gets the port of an earlier one gets the same key as that one.
"""

from __future__ import annotations

import hashlib
import hmac
import os
import re
import secrets

HEADER = "Syft-Program"
_KEY = re.compile(r"[0-9a-f]{64}")
_NAME_DIGITS = 32
_secret = secrets.token_bytes(32)


def program_key(address: str, port: int) -> str:
    """Return the key of this process for the server at a port of an address of this machine, such as 127.0.0.1."""
    return hmac.digest(_secret, f"syft program {address} {port}".encode(), "sha256").hex()


def name_of(key: str) -> str:
    """Return the name of the program with a key, which does not reveal the key; empty if this is not a key."""
    return hashlib.sha256(key.encode()).hexdigest()[:_NAME_DIGITS] if _KEY.fullmatch(key) else ""


def _renew() -> None:
    """Choose another secret: a forked process is another program."""
    global _secret
    _secret = secrets.token_bytes(32)


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_renew)
