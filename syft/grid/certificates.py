"""Certificates for a team: a private authority, and certificates of nodes that it signs.

The owner of the authority creates it once and keeps its key; each node gets a certificate and a key; clients get the
public file `authority.pem`. Nothing is sent over the network.

Example:
    >>> import tempfile
    >>> folder = tempfile.TemporaryDirectory()
    >>> authority = make_authority(folder.name, "Our team")
    >>> node = issue(authority, ["node.example", "127.0.0.1"], folder.name, days=30)
    >>> node.certificate.name, node.key.name
    ('node.pem', 'node.key')
    >>> folder.cleanup()
"""

from __future__ import annotations

import dataclasses
import datetime
import ipaddress
import os
import re
from collections.abc import Sequence
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from syft.core.id_provider import ObjectId
from syft.core.labels import printable
from syft.exceptions import CertificateError
from syft.grid.private_files import is_open, new_file, private_folder, replace_file
from syft.workers.delegation.node_names import ids_in, uri_of
from syft.workers.transport.tls import client_context, explain, is_loopback, server_context

__all__ = [
    "Authority",
    "NodeCertificate",
    "certificate_of",
    "client_context",
    "expiry_warning",
    "explain",
    "fingerprint",
    "is_loopback",
    "issue",
    "load_authority",
    "make_authority",
    "server_context",
]

AUTHORITY, AUTHORITY_KEY = "authority.pem", "authority.key"
# A certificate is valid from an hour before its creation, since clocks differ.
_HEAD_START = datetime.timedelta(hours=1)
_MAX_DAYS = 36_500
_MAX_HOSTS = 100
_MAX_BYTES = 1 << 20
# One label of a host name; the first may be a wildcard.
_PART = re.compile(r"(?!-)[a-z0-9_-]{1,63}(?<!-)")
_FILE_NAME = re.compile(r"\w[\w.-]{0,99}")
_NO_USAGE = dict.fromkeys(
    (
        "digital_signature",
        "content_commitment",
        "key_encipherment",
        "data_encipherment",
        "key_agreement",
        "key_cert_sign",
        "crl_sign",
        "encipher_only",
        "decipher_only",
    ),
    False,
)


@dataclasses.dataclass(frozen=True, slots=True)
class Authority:
    """The files of a certificate authority.

    Attributes:
        certificate: the public file that clients trust.
        key: the private key; with it, any node can be impersonated.
    """

    certificate: Path
    key: Path


@dataclasses.dataclass(frozen=True, slots=True)
class NodeCertificate:
    """The files of a node's certificate.

    Attributes:
        certificate: the public certificate.
        key: its private key.
    """

    certificate: Path
    key: Path


def make_authority(
    folder: str | os.PathLike[str], name: str, *, days: int = 3650, overwrite: bool = False
) -> Authority:
    """Create an authority: `authority.pem` for clients, and `authority.key`, which stays secret.

    Args:
        folder: the folder of the files; it is created with mode 0700 if it does not exist.
        name: the name of the team.
        days: its validity in days.
        overwrite: whether to replace an existing one, which invalidates all certificates that it signed.

    Raises:
        CertificateError: an authority exists already, or an argument is invalid.
    """
    place = private_folder(folder)
    authority = Authority(place / AUTHORITY, place / AUTHORITY_KEY)
    key = ec.generate_private_key(ec.SECP256R1())
    subject = _subject(name)
    start, end = _period(days)
    builder = (
        _started(subject, subject, key.public_key(), start, end)
        .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        .add_extension(x509.KeyUsage(**{**_NO_USAGE, "key_cert_sign": True, "crl_sign": True}), critical=True)
    )
    certificate = builder.sign(key, hashes.SHA256())
    if not overwrite and (authority.certificate.exists() or not new_file(authority.key, _key_bytes(key))):
        raise CertificateError(
            f"{place} already contains an authority, and nodes may depend on it. Use it: load_authority(folder). Or "
            "replace it and all its certificates: make_authority(folder, name, overwrite=True)"
        )
    _write_pair(authority, certificate, key)
    return authority


def load_authority(folder: str | os.PathLike[str]) -> Authority:
    """Return the authority in a folder.

    Raises:
        CertificateError: there is none, others may read its key, or certificate and key do not match.
    """
    authority = Authority(Path(folder) / AUTHORITY, Path(folder) / AUTHORITY_KEY)
    _load(authority)
    return authority


def issue(
    authority: Authority | str | os.PathLike[str],
    hosts: str | Sequence[str],
    folder: str | os.PathLike[str],
    days: int = 397,
    *,
    name: str = "node",
    node_id: str | None = None,
) -> NodeCertificate:
    """Create a key and a certificate for a node; an existing one is renewed.

    Args:
        authority: the signing authority, or its folder.
        hosts: the host names and addresses that clients use; at least one.
        folder: the folder of the files; it is created with mode 0700 if it does not exist.
        days: its validity in days; never longer than the authority's.
        name: the base name of the files NAME.pem and NAME.key.
        node_id: the id of the node that the certificate is for. Other nodes then accept it from this node only, and no
            other node starts with it. None: it binds host names only.

    Raises:
        CertificateError: an argument is invalid, or the authority can't sign.
    """
    if not _FILE_NAME.fullmatch(name) or f"{name}.pem" == AUTHORITY:
        raise CertificateError("The files of a certificate need a plain name, other than the authority's: name='node'.")
    known = authority if isinstance(authority, Authority) else load_authority(authority)
    signer, signing_key = _load(known)
    names = _alternatives([hosts] if isinstance(hosts, str) else hosts)
    if node_id is not None:
        names.append(_node_name(node_id))
    start, end = _period(days)
    last = signer.not_valid_after_utc
    if last <= datetime.datetime.now(datetime.UTC):
        raise CertificateError(f"The authority at {known.certificate} has expired. Create a new one: make_authority")
    key = ec.generate_private_key(ec.SECP256R1())
    signer_id = signer.extensions.get_extension_for_class(x509.SubjectKeyIdentifier).value
    builder = (
        _started(_subject(str(names[0].value)[:64]), signer.subject, key.public_key(), start, min(end, last))
        .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
        .add_extension(x509.KeyUsage(**{**_NO_USAGE, "digital_signature": True}), critical=True)
        .add_extension(x509.ExtendedKeyUsage([ExtendedKeyUsageOID.SERVER_AUTH]), critical=False)
        .add_extension(x509.SubjectAlternativeName(names), critical=False)
        .add_extension(x509.AuthorityKeyIdentifier.from_issuer_subject_key_identifier(signer_id), critical=False)
    )
    place = private_folder(folder)
    made = NodeCertificate(place / f"{name}.pem", place / f"{name}.key")
    _write_pair(made, builder.sign(signing_key, hashes.SHA256()), key)
    return made


def fingerprint(certificate: str | os.PathLike[str]) -> str:
    """Return the fingerprint of a certificate."""
    return "SHA256:" + _read_certificate(Path(certificate)).fingerprint(hashes.SHA256()).hex(":").upper()


def certificate_of(certificate: str | os.PathLike[str] | None, node_id: ObjectId) -> bytes | None:
    """Return the hash of a node's certificate, which is sent to other nodes; None without TLS.

    Raises:
        CertificateError: the certificate names another node.
    """
    if certificate is None:
        return None
    found = _read_certificate(Path(certificate))
    try:
        names = found.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
        ids = ids_in(names.get_values_for_type(x509.UniformResourceIdentifier))
    except x509.ExtensionNotFound:
        ids = []
    if ids and str(node_id) not in ids:
        raise CertificateError(
            f"The certificate at {certificate} is for node {printable(', '.join(ids))[:200]!r}, not for {node_id!r}. "
            f"Issue one for this node: node certs issue FOLDER --id {node_id} --authority AUTHORITY --host HOST"
        )
    return found.fingerprint(hashes.SHA256())


def expiry_warning(
    certificate: str | os.PathLike[str], *, days: int = 30, now: datetime.datetime | None = None
) -> str | None:
    """Return a warning if a certificate is invalid or about to expire; else None.

    Args:
        certificate: its file.
        days: the number of days before the expiry at which the warning begins.
        now: the time to compare with, with its time zone; None: now.
    """
    found = _read_certificate(Path(certificate))
    moment = now or datetime.datetime.now(datetime.UTC)
    start, end = found.not_valid_before_utc, found.not_valid_after_utc
    renew = "Renew it and restart the node: python -m syft node certs issue --help"
    if moment < start:
        return f"The certificate at {certificate} is not valid before {start:%Y-%m-%d %H:%M} UTC. Check the clock: date"
    if moment >= end:
        return f"The certificate at {certificate} expired on {end:%Y-%m-%d %H:%M} UTC; no client accepts it. {renew}"
    left = (end - moment) / datetime.timedelta(days=1)
    if left < days:
        return f"The certificate at {certificate} expires in {left:.1f} days, on {end:%Y-%m-%d %H:%M} UTC. {renew}"
    return None


def _subject(name: str) -> x509.Name:
    if type(name) is not str or not 0 < len(name) <= 64 or printable(name) != name or "\n" in name:
        raise CertificateError("A certificate needs a name of 1 to 64 printable characters.")
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])


def _period(days: float) -> tuple[datetime.datetime, datetime.datetime]:
    if type(days) not in (int, float) or not 0 < days <= _MAX_DAYS:
        raise CertificateError(f"The validity of a certificate must be above 0 and at most {_MAX_DAYS} days.")
    now = datetime.datetime.now(datetime.UTC)
    return now - _HEAD_START, now + datetime.timedelta(days=days)


def _started(
    subject: x509.Name,
    issuer: x509.Name,
    public: ec.EllipticCurvePublicKey,
    start: datetime.datetime,
    end: datetime.datetime,
) -> x509.CertificateBuilder:
    builder = x509.CertificateBuilder().subject_name(subject).issuer_name(issuer).public_key(public)
    builder = builder.serial_number(x509.random_serial_number()).not_valid_before(start).not_valid_after(end)
    return builder.add_extension(x509.SubjectKeyIdentifier.from_public_key(public), critical=False)


def _alternatives(hosts: Sequence[str]) -> list[x509.GeneralName]:
    """Return the host names and addresses of a certificate."""
    if not 0 < len(hosts) <= _MAX_HOSTS:
        raise CertificateError(
            f"A certificate needs 1 to {_MAX_HOSTS} hosts: issue(authority, ['node.example'], folder)."
        )
    names = [_alternative(host if type(host) is str else "") for host in hosts]
    return list(dict.fromkeys(names))


def _node_name(node_id: str) -> x509.GeneralName:
    if type(node_id) is not str or not 0 < len(node_id) <= 100 or printable(node_id) != node_id or "\n" in node_id:
        raise CertificateError("node_id must be the id of a node, 1 to 100 printable characters, such as hospital-a.")
    return x509.UniformResourceIdentifier(uri_of(node_id))


def _alternative(host: str) -> x509.GeneralName:
    text = host.removesuffix(".")
    try:
        return x509.IPAddress(ipaddress.ip_address(text.removeprefix("[").removesuffix("]")))
    except ValueError:
        pass
    try:
        name = text.encode("ascii" if text.isascii() else "idna").decode().lower()
    except UnicodeError:
        name = ""
    parts = name.split(".")
    if parts[0] == "*" and len(parts) > 2:
        parts = parts[1:]
    if len(name) > 253 or not all(map(_PART.fullmatch, parts)):
        raise CertificateError(
            f"{printable(host)[:80]!r} is not a host name or address. Pass the host that clients use, without "
            "scheme and port: 'node.example' or '192.0.2.7'."
        )
    return x509.DNSName(name)


def _key_bytes(key: ec.EllipticCurvePrivateKey) -> bytes:
    form, none = serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    return key.private_bytes(serialization.Encoding.PEM, form, none)


def _write_pair(
    pair: Authority | NodeCertificate, certificate: x509.Certificate, key: ec.EllipticCurvePrivateKey
) -> None:
    replace_file(pair.key, _key_bytes(key), 0o600)
    replace_file(pair.certificate, certificate.public_bytes(serialization.Encoding.PEM), 0o644)


def _load(authority: Authority) -> tuple[x509.Certificate, ec.EllipticCurvePrivateKey]:
    """Return the certificate of an authority and its key."""
    certificate = _read_certificate(authority.certificate)
    if authority.key.is_file() and is_open(authority.key.stat()):
        raise CertificateError(f"Other users may read the key of the authority. Run: chmod 600 {authority.key}")
    try:
        key = serialization.load_pem_private_key(_read(authority.key), password=None)
    except (ValueError, TypeError):
        raise CertificateError(f"{authority.key} holds no unencrypted key. Pass another file.") from None
    if not isinstance(key, ec.EllipticCurvePrivateKey) or key.public_key() != certificate.public_key():
        raise CertificateError(f"{authority.certificate} and {authority.key} do not match. Restore both from a backup.")
    return certificate, key


def _read_certificate(path: Path) -> x509.Certificate:
    try:
        return x509.load_pem_x509_certificate(_read(path))
    except ValueError:
        raise CertificateError(f"{path} holds no PEM certificate. Pass another file.") from None


def _read(path: Path) -> bytes:
    try:
        with path.open("rb") as file:
            return file.read(_MAX_BYTES)
    except OSError as error:
        raise CertificateError(f"{path} can't be read ({error.strerror}). Pass another file.") from None
