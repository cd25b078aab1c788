"""Proofs: two nodes prove to each other which keys they hold, over the connection that they are about to use.

A user introduces nodes to each other and may lie about which node is where, so a name alone proves nothing. Each node
has an Ed25519 identity key. Both sides send a fresh nonce and their public key, then sign one transcript: protocol
name, role of the signer, both nonces, both keys, both node ids, the purpose of the connection, and the channel binding.

The channel binding ties the signatures to this connection, so that a node in between can't relay the proof and then
read or change what follows:

* over TLS it is the hash of the listener's certificate, as the dialer received it and as the listener loaded it;
* without TLS, which nodes use within one machine only, it is the addresses of both ends of the connection.

A proxy that terminates TLS between two nodes therefore makes the proof fail.
"""

from __future__ import annotations

import dataclasses
import hashlib
import ipaddress
import logging
import os
import socket
import ssl
import struct
import time
from typing import Any, Protocol

from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from syft.core import signatures
from syft.core.id_provider import ObjectId
from syft.workers.transport import handshake
from syft.workers.transport.handshake import HANDSHAKE_SECONDS

__all__ = ["PeerKey", "Prover", "Signer", "fingerprint_of", "is_fingerprint"]

logger = logging.getLogger("syft.workers")
_PROTOCOL = b"resyft peer proof 1"
_NONCE_BYTES = _KEY_BYTES = 32
_SIGNATURE_BYTES = 64
_PREFIX = "SHA256:"
_LENGTH = struct.Struct("<I")


def fingerprint_of(public: bytes) -> str:
    """Return the fingerprint of a public key, as `node start` prints it."""
    return _PREFIX + hashlib.sha256(public).hexdigest()


def is_fingerprint(value: object) -> bool:
    """Return whether a value has the form of a fingerprint."""
    if type(value) is not str or not value.startswith(_PREFIX):
        return False
    digits = value.removeprefix(_PREFIX)
    return len(digits) == 64 and set(digits) <= set("0123456789abcdef")


class Signer(Protocol):
    """Signs transcripts with the identity key of a node."""

    public: bytes
    fingerprint: str

    def sign(self, by_dialer: bool, parts: tuple[bytes, ...]) -> bytes:
        """Sign a transcript."""
        ...


class PeerKey:
    """The identity key of a node, new unless given; never printed."""

    def __init__(self, private: Ed25519PrivateKey | None = None) -> None:
        self._private = Ed25519PrivateKey.generate() if private is None else private
        self.public: bytes = self._private.public_key().public_bytes_raw()
        self.fingerprint = fingerprint_of(self.public)

    def sign(self, by_dialer: bool, parts: tuple[bytes, ...]) -> bytes:
        """Sign a transcript. Nothing else is signed, since the same key signs tokens."""
        return self._private.sign(_transcript(by_dialer, parts))

    def __repr__(self) -> str:
        return f"<PeerKey {self.fingerprint[:23]}>"


@dataclasses.dataclass(frozen=True, slots=True)
class Prover:
    """Proves who a node is, and checks who its peer is.

    Attributes:
        node_id: the id of this node.
        key: its identity key.
        certificate: the hash of its TLS certificate; None without TLS.
    """

    node_id: ObjectId
    key: Signer
    certificate: bytes | None = None

    def dial(self, sock: socket.socket, peer: ObjectId, purpose: str, timeout: float) -> str | None:
        """Run the proof as the side that dialed, within some seconds, after the handshake of `dialer`.

        Returns:
            The fingerprint of the key that the peer proved to hold; None if it did not prove any.
        """
        return self._run(sock, True, peer, purpose, timeout)

    def listen(self, sock: socket.socket, peer: ObjectId, purpose: str) -> str | None:
        """Run the proof as the side that was dialed; arguments and result as `dial`."""
        return self._run(sock, False, peer, purpose, HANDSHAKE_SECONDS)

    def _run(self, sock: socket.socket, dials: bool, peer: ObjectId, purpose: str, timeout: float) -> str | None:
        try:
            sock.settimeout(timeout)
            theirs = self._exchange(sock, dials, peer, purpose, time.monotonic() + timeout)
            handshake.ready(sock)
            return theirs
        except (OSError, InvalidSignature, ValueError) as error:
            logger.warning("Node %r did not prove its identity: %s", peer, str(error) or type(error).__name__)
            return None

    def _exchange(self, sock: socket.socket, dials: bool, peer: ObjectId, purpose: str, deadline: float) -> str:
        binding = _dialer_binding(sock) if dials else self._listener_binding(sock)
        ours = os.urandom(_NONCE_BYTES) + self.key.public
        sock.sendall(ours)
        theirs = handshake.receive_exactly(sock, _NONCE_BYTES + _KEY_BYTES, deadline)
        if theirs[_NONCE_BYTES:] == self.key.public:
            raise ValueError("it sent the key of this node")
        ends = (ours, theirs) if dials else (theirs, ours)
        ids = (self.node_id, peer) if dials else (peer, self.node_id)
        shared = (*ends, *[repr(each).encode() for each in ids], purpose.encode(), binding)
        sock.sendall(self.key.sign(dials, shared))
        signature = handshake.receive_exactly(sock, _SIGNATURE_BYTES, deadline)
        public = theirs[_NONCE_BYTES:]
        signatures.verify(public, signature, _transcript(not dials, shared))
        return fingerprint_of(public)

    def _listener_binding(self, sock: socket.socket) -> bytes:
        if sock.family in (socket.AF_INET, socket.AF_INET6):
            return _addresses(sock.getsockname(), sock.getpeername())
        if self.certificate is None:
            raise ValueError("the connection has no channel binding")
        return b"tls" + self.certificate  # one end of a pair whose other end speaks TLS (see `grid.server.peering`)


def _dialer_binding(sock: socket.socket) -> bytes:
    bound: bytes | None = getattr(sock, "channel_binding", None)
    if bound is not None:  # another process speaks TLS for this one
        return bound
    if not isinstance(sock, ssl.SSLSocket):
        return _addresses(sock.getpeername(), sock.getsockname())
    certificate = sock.getpeercert(binary_form=True)
    if not certificate:
        raise ValueError("the connection has no channel binding")
    return b"tls" + hashlib.sha256(certificate).digest()


def _addresses(listener: Any, dialer: Any) -> bytes:
    """Return the two addresses of a connection without TLS in a form that both ends agree on."""
    return b"tcp" + repr([(_address(host), port) for host, port, *_ in (listener, dialer)]).encode()


def _address(host: str) -> str:
    address = ipaddress.ip_address(host.partition("%")[0])
    return str(getattr(address, "ipv4_mapped", None) or address)


def _transcript(by_dialer: bool, parts: tuple[bytes, ...]) -> bytes:
    role = b"dialer" if by_dialer else b"listener"
    return b"".join([_LENGTH.pack(len(part)) + part for part in (_PROTOCOL, role, *parts)])
