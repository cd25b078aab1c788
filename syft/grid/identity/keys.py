"""The key of a node: made at its first start, kept in a file that only its user reads, never shown."""

from __future__ import annotations

import hashlib
import os

from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from syft.exceptions import SyftError
from syft.grid.private_files import is_open, new_file, private_folder

__all__ = ["fingerprint", "node_key"]

KEY_FILE = "node.key"
_MAX_KEY_BYTES = 4096


def node_key(folder: str | os.PathLike[str]) -> Ed25519PrivateKey:
    """Return the key of the node whose identity is in a folder; the first time it is made.

    Raises:
        SyftError: others may read the file, or it holds no key. A key is never replaced: every token would be void.
    """
    place = private_folder(folder)
    if is_open(place.stat()):  # it was there
        place.chmod(0o700)
    path = place / KEY_FILE
    if not path.exists():
        new_file(path, _written(Ed25519PrivateKey.generate()))
    with path.open("rb") as file:
        if is_open(os.fstat(file.fileno())):
            raise SyftError(f"Others may read the key of the node. Take that away first: chmod 600 {path}")
        contents = file.read(_MAX_KEY_BYTES)
    try:
        key = serialization.load_pem_private_key(contents, password=None)
    except (ValueError, TypeError):
        key = None
    if not isinstance(key, Ed25519PrivateKey):
        raise SyftError(
            f"{path} holds no Ed25519 key. Put it back from a backup; "
            "or remove it, then the node makes a new one and every token has to be issued again."
        )
    return key


def fingerprint(key: Ed25519PrivateKey) -> str:
    """Return what a public key may be recognised by."""
    public = key.public_key().public_bytes_raw()
    return "SHA256:" + hashlib.sha256(public).hexdigest()


def _written(key: Ed25519PrivateKey) -> bytes:
    form, none = serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    return key.private_bytes(serialization.Encoding.PEM, form, none)
