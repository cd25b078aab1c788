"""The private key of a node: generated at its first start, stored in a file with mode 0600, never shown."""

from __future__ import annotations

import hashlib
import os

from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from syft.exceptions import SyftError
from syft.grid.private_files import is_open, new_file, private_folder

KEY_FILE = "node.key"
_MAX_KEY_BYTES = 4096


def node_key(folder: str | os.PathLike[str]) -> Ed25519PrivateKey:
    """Return the key of the node whose identity is in a folder; it is generated at the first start.

    Raises:
        SyftError: others may read the file, or it holds no key. A key is never replaced, since that would invalidate
            every token.
    """
    home = private_folder(folder)
    if is_open(home.stat()):  # it existed before
        home.chmod(0o700)
    path = home / KEY_FILE
    if not path.exists():
        new_file(path, _pem(Ed25519PrivateKey.generate()))
    with path.open("rb") as file:
        if is_open(os.fstat(file.fileno())):
            raise SyftError(f"Other users may read the key of the node. Run: chmod 600 {path}")
        contents = file.read(_MAX_KEY_BYTES)
    try:
        key = serialization.load_pem_private_key(contents, password=None)
    except (ValueError, TypeError):
        key = None
    if not isinstance(key, Ed25519PrivateKey):
        raise SyftError(
            f"{path} holds no Ed25519 key. Restore it from a backup. Or remove it: the node then generates a new key, "
            "and every token must be issued again."
        )
    return key


def fingerprint(key: Ed25519PrivateKey) -> str:
    """Return the fingerprint of the public key."""
    public = key.public_key().public_bytes_raw()
    return "SHA256:" + hashlib.sha256(public).hexdigest()


def _pem(key: Ed25519PrivateKey) -> bytes:
    encryption = serialization.NoEncryption()
    return key.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, encryption)
