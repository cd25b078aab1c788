"""NodeRecord: the file in a node's folder that tells its owner's commands its name and address."""

from __future__ import annotations

import contextlib
import dataclasses
import json
import os
import ssl
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from syft.exceptions import CertificateError, SyftError
from syft.grid.private_files import lock, replace_file

FILE, LOCK, SHOWN = "node.json", "running", "running.pem"
# A command that checks the lock holds it for a moment: the node retries this often, a tenth of a second apart.
_TRIES = 20


@dataclasses.dataclass(frozen=True, slots=True)
class NodeRecord:
    """A node, as its folder describes it.

    Attributes:
        id: its name.
        owner: the user name of its owner.
        url: its address; None: it was stopped.
        certificate: the file of its certificate, if it has one.
        pid: its process.
    """

    id: str
    owner: str = "owner"
    url: str | None = None
    certificate: str | None = None
    pid: int | None = None

    def write(self, folder: Path) -> None:
        """Write the record to the folder of the node's key, with the certificate that the node serves.

        The certificate's file may be renewed later, while the node still serves this one.
        """
        if self.url is None or self.certificate is None:
            (folder / SHOWN).unlink(missing_ok=True)
        else:
            replace_file(folder / SHOWN, Path(self.certificate).read_bytes())
        replace_file(folder / FILE, json.dumps(dataclasses.asdict(self)).encode())

    def shown(self, folder: Path) -> Path | None:
        """Return the file of the certificate that a running node serves."""
        if self.certificate is None:
            return None
        own = folder / SHOWN
        return own if own.exists() else Path(self.certificate)

    def is_renewed(self, folder: Path) -> bool:
        """Return whether the certificate was renewed since the node started."""
        own = self.shown(folder)
        try:
            return own is not None and own.read_bytes() != Path(str(self.certificate)).read_bytes()
        except OSError:  # it was moved; the served certificate counts
            return False

    @classmethod
    def read(cls, folder: Path) -> NodeRecord | None:
        """Return the record in a folder; None if no node was ever started with it."""
        try:
            found: Any = json.loads((folder / FILE).read_text())
        except FileNotFoundError:
            return None
        except ValueError:
            found = None
        names = {field.name for field in dataclasses.fields(cls)}
        if not isinstance(found, dict) or not isinstance(found.get("id"), str) or not set(found) <= names:
            raise SyftError(f"{folder / FILE} is damaged. Start the node again to rewrite it.")
        return cls(**found)


def check_id(folder: Path, node_id: str) -> None:
    """Refuse to start a node on the store of another one: tokens and data belong to the other name.

    Raises:
        SyftError: the folder belongs to a node of another name.
    """
    try:
        record = NodeRecord.read(folder)
    except SyftError:  # it is damaged, and about to be rewritten
        return
    if record is not None and record.id != node_id:
        raise SyftError(
            f"This store belongs to the node {record.id!r}, whose tokens are valid for that name only: start it with "
            f"--id {record.id}, or give {node_id!r} a --store of its own."
        )


@contextlib.contextmanager
def running(folder: Path) -> Iterator[None]:
    """Hold the lock that marks a folder as in use; it is released when the process ends, however it ends.

    A token is sent to the address in the folder only while the lock is held. Another program that listens there after
    the node has ended can't hold it, because the file belongs to the node's account.
    """
    handle = os.open(folder / LOCK, os.O_RDWR | os.O_CREAT, 0o600)
    try:
        pause = threading.Event()
        for _ in range(_TRIES):
            if lock(handle):
                break
            pause.wait(0.1)
        yield
    finally:
        os.close(handle)


def is_running(folder: Path) -> bool:
    """Return whether a node runs with a folder now."""
    try:
        handle = os.open(folder / LOCK, os.O_RDWR)
    except FileNotFoundError:
        return False
    try:
        return not lock(handle)
    finally:
        os.close(handle)


def pinned_context(certificate: str | os.PathLike[str]) -> ssl.SSLContext:
    """Return a TLS context that accepts exactly one certificate, whatever the host name.

    For the owner, on the node's own machine: the certificate is known, so no authority is needed.
    """
    from cryptography import x509
    from cryptography.hazmat.primitives.serialization import Encoding

    from syft.workers.transport.tls import client_context

    try:
        first = x509.load_pem_x509_certificates(Path(certificate).read_bytes())[0]
    except (OSError, ValueError):
        raise CertificateError(f"The node's certificate at {certificate} can't be read.") from None
    context = client_context(certificate)
    pinned = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    pinned.minimum_version, pinned.options = context.minimum_version, context.options
    pinned.set_alpn_protocols(["http/1.1"])
    pinned.check_hostname = False
    pinned.verify_mode = ssl.CERT_REQUIRED
    pinned.verify_flags |= ssl.VERIFY_X509_PARTIAL_CHAIN
    pinned.load_verify_locations(cadata=first.public_bytes(Encoding.PEM).decode())
    return pinned
