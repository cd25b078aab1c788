"""The key of this process, by which servers without tokens recognise its connections as those of one user.

Each server receives a key of its own, so that no server can pose as this process at another one.
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


def program_key(port: int) -> str:
    """Return the key of this process for the server at a port of this machine."""
    return hmac.digest(_secret, b"syft program %d" % port, "sha256").hex()


def name_of(key: str) -> str:
    """Return the name of the program with a key, which does not reveal the key; empty if this is not a key."""
    return hashlib.sha256(key.encode()).hexdigest()[:_NAME_DIGITS] if _KEY.fullmatch(key) else ""


def _renew() -> None:
    """Choose another secret: a forked process is another program."""
    global _secret
    _secret = secrets.token_bytes(32)


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_renew)
