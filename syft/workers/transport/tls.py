"""Verified TLS for clients and servers, explanations of its errors, and the detection of loopback hosts.

Verification can't be turned off: a team without certificates makes its own authority with
`syft.grid.certificates.make_authority`, and clients name it.
"""

from __future__ import annotations

import ipaddress
import os
import ssl
from pathlib import Path

from syft.exceptions import CertificateError

__all__ = ["client_context", "explain", "is_loopback", "server_context"]

# TLS 1.2 ciphers with forward secrecy and authenticated encryption; TLS 1.3 has no others.
CIPHERS = "ECDHE+AESGCM:ECDHE+CHACHA20"
_LOOPBACK_NAMES = frozenset({"localhost", "localhost.localdomain", "ip6-localhost", "ip6-loopback"})


def is_loopback(host: str | None) -> bool:
    """Return whether a host names this machine only. No name is resolved: an unknown name is not loopback.

    Example:
        >>> [is_loopback(host) for host in ("localhost", "127.0.0.1", "[::1]", "0.0.0.0", "node.example")]
        [True, True, True, False, False]
    """
    if not host:
        return False  # it binds to every address
    name = host.casefold().removesuffix(".")
    if name in _LOOPBACK_NAMES:
        return True
    if name.startswith("[") and name.endswith("]"):
        name = name[1:-1]
    try:
        address = ipaddress.ip_address(name)
    except ValueError:
        return False
    mapped = getattr(address, "ipv4_mapped", None)
    return bool((mapped or address).is_loopback)


def server_context(cert: str | os.PathLike[str], key: str | os.PathLike[str] | None = None) -> ssl.SSLContext:
    """Return the TLS context of a server: TLS 1.2 or later, no weak ciphers.

    Args:
        cert: the file of the certificate, with intermediate certificates if there are any.
        key: the file of its private key, not encrypted; None: the file of the certificate contains it, too.

    Raises:
        CertificateError: a file is missing or no PEM file, or the two do not match.
    """
    _check_file("certificate", cert)
    _check_file("key", cert if key is None else key)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    _harden(context)
    try:
        context.load_cert_chain(cert, key, password=_refuse_to_ask)
    except ssl.SSLError as error:
        raise CertificateError(_explain_pair(error, cert, cert if key is None else key)) from None
    return context


def client_context(ca: str | os.PathLike[str] | None = None) -> ssl.SSLContext:
    """Return the TLS context of a client. The server's certificate and its name are always verified.

    Args:
        ca: the file of the only trusted authority; None: those of the system.

    Raises:
        CertificateError: the file is missing or contains no certificate.
    """
    if ca is not None:
        _check_file("authority's certificate", ca)
    try:
        context = ssl.create_default_context(ssl.Purpose.SERVER_AUTH, cafile=None if ca is None else os.fspath(ca))
    except ssl.SSLError:
        raise CertificateError(
            f"{ca} holds no certificate of an authority. Name its PEM file (authority.pem)."
        ) from None
    _harden(context)
    context.check_hostname = True
    context.verify_mode = ssl.CERT_REQUIRED
    return context


def _harden(context: ssl.SSLContext) -> None:
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    context.set_ciphers(CIPHERS)
    context.options |= ssl.OP_NO_COMPRESSION | ssl.OP_NO_RENEGOTIATION | ssl.OP_CIPHER_SERVER_PREFERENCE
    # A WebSocket begins as a request of this protocol.
    context.set_alpn_protocols(["http/1.1"])


def _check_file(what: str, path: str | os.PathLike[str]) -> None:
    if not Path(path).is_file():
        raise CertificateError(f"There is no {what} at {os.fspath(path)}. {_MAKE}")
    if not os.access(path, os.R_OK):
        raise CertificateError(
            f"The {what} at {os.fspath(path)} can't be read by this user. Give it to the right user."
        )


def _refuse_to_ask() -> str:
    # Without this a server would wait for a password at the terminal.
    raise CertificateError("The key of the certificate is encrypted. Decrypt it first: openssl pkey -in KEY -out NEW")


def _explain_pair(error: ssl.SSLError, cert: str | os.PathLike[str], key: str | os.PathLike[str]) -> str:
    pair = f"{os.fspath(cert)} and {os.fspath(key)}"
    if error.reason == "KEY_VALUES_MISMATCH":
        return (
            f"The certificate and the key in {pair} do not belong together. Issue both again, or name the right files."
        )
    if error.reason in _WEAK:
        return f"{_WEAK[error.reason].format(cert=os.fspath(cert))} {_MAKE}"
    return f"{pair} are not a certificate and its key in PEM form. {_MAKE}"


_MAKE = "Make one: python -m syft node certs authority FOLDER --name TEAM, then python -m syft node certs issue --help"

_LEAST = "Use RSA with 2048 bits or more, or an elliptic curve with 256."
# OpenSSL's name of a certificate that is too weak -> the explanation.
_WEAK = {
    "EE_KEY_TOO_SMALL": f"The key of the certificate in {{cert}} is too short. {_LEAST}",
    "CA_KEY_TOO_SMALL": f"The key of an authority's certificate in {{cert}} is too short. {_LEAST}",
    "CA_MD_TOO_WEAK": "A certificate in {cert} is signed with a hash that is too weak. Use SHA-256 or better.",
}

_UNTRUSTED = (
    "the certificate of {where} is not signed by an authority that is trusted here. Name the team's authority: "
    "ca='authority.pem' (--ca authority.pem), with the file that the owner of the node gave you"
)
_MISMATCH = (
    "the certificate of {where} is for another host. Connect by a name that it is for, or let the owner issue one for "
    "this name: python -m syft node certs issue CERTS --authority FOLDER --host {host}"
)
_PLAIN = (
    "the server at {where} answers without TLS. Connect with ws:// or http:// if it is a node of this machine; "
    "else let its owner start it with a certificate and its key"
)
_BROKEN_OFF = (
    "the server at {where} broke the TLS handshake off. It may not speak TLS at all, or not TLS 1.2 or later: "
    "ask its owner for the address, and whether it starts with wss:// or ws://"
)
_REFUSED = (
    "the client at {where} does not trust the certificate of this node. Give it the file of the authority that signed "
    "it, to be named there as ca='authority.pem'"
)
_EXPIRED = (
    "the certificate of {where} has expired. "
    "Let its owner issue a new one: python -m syft node certs issue CERTS --authority FOLDER --host {host}"
)
_OURS_EXPIRED = "the client at {where} says that the certificate of this node has expired. Issue a new one"
_VERSION = "what is at {where} offers no version of TLS that is safe. Let its owner bring it to TLS 1.2 or later"
_HTTP = "a client connected to {where} without TLS, on a port for TLS. Connect with wss:// or https://"

# OpenSSL's error code of a certificate -> the explanation.
_CERTIFICATES = {
    9: "the certificate of {where} is not valid yet. Compare the clocks of both machines: date -u",
    10: _EXPIRED,
    18: _UNTRUSTED,
    19: _UNTRUSTED,
    20: _UNTRUSTED,
    21: _UNTRUSTED,
    62: _MISMATCH,
    64: _MISMATCH,
    66: "the key of the certificate of {where} is too short. Let its owner issue one with a longer key",
    67: "the key of the authority of {where} is too short. Let its owner issue certificates with another authority",
    68: "the certificate of {where} is signed with a hash that is too weak. Let its owner issue a new one",
}
# OpenSSL's name of any other error -> the explanation.
_REASONS = {
    "WRONG_VERSION_NUMBER": _PLAIN,
    "RECORD_LAYER_FAILURE": _PLAIN,
    "PACKET_LENGTH_TOO_LONG": _PLAIN,
    "HTTP_REQUEST": _HTTP,
    "HTTPS_PROXY_REQUEST": _HTTP,
    "UNSUPPORTED_PROTOCOL": _VERSION,
    "NO_PROTOCOLS_AVAILABLE": _VERSION,
    "TLSV1_ALERT_PROTOCOL_VERSION": _VERSION,
    "NO_SHARED_CIPHER": _VERSION,
    "SSLV3_ALERT_HANDSHAKE_FAILURE": _VERSION,
    "TLSV1_ALERT_UNKNOWN_CA": _REFUSED,
    "SSLV3_ALERT_BAD_CERTIFICATE": _REFUSED,
    "SSLV3_ALERT_CERTIFICATE_UNKNOWN": _REFUSED,
    "SSLV3_ALERT_CERTIFICATE_EXPIRED": _OURS_EXPIRED,
    "UNEXPECTED_EOF_WHILE_READING": _BROKEN_OFF,
}


def explain(error: OSError, host: str = "", port: int | None = None) -> str:
    """Return one sentence on the meaning of a TLS error, and what to do next.

    Args:
        error: the error, usually an `ssl.SSLError`.
        host: the host of the connection.
        port: its port.
    """
    named = f"[{host}]" if ":" in host and not host.startswith("[") else host
    where = (named or "the other side") + (f":{port}" if port is not None and host else "")
    text = _meaning(error)
    if text is None:
        known = getattr(error, "verify_message", None) or getattr(error, "reason", None) or error.strerror
        said = f"TLS with {where} failed: {str(known or type(error).__name__).rstrip('.')}"
    else:
        said = text.format(where=where, host=host or "HOST")
    return f"{said[0].upper()}{said[1:]}."


def _meaning(error: OSError) -> str | None:
    if isinstance(error, ssl.SSLCertVerificationError):
        return _CERTIFICATES.get(getattr(error, "verify_code", 0))
    if isinstance(error, _ENDS):
        return _BROKEN_OFF
    if isinstance(error, ssl.SSLError):
        return _REASONS.get(getattr(error, "reason", None) or "")
    return None


_ENDS = (ssl.SSLEOFError, ssl.SSLZeroReturnError, ConnectionResetError, ConnectionAbortedError, BrokenPipeError)
