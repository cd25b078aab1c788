"""Certificates that OpenSSL finds too weak are reported as such."""

from __future__ import annotations

import datetime
import ssl

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec, rsa
from cryptography.x509.oid import NameOID

import syft as sy
from syft.exceptions import CertificateError
from syft.grid.node.settings import Settings
from syft.workers.transport.tls import explain, server_context

# Bits of a key that OpenSSL refuses.
SHORT = 1024


def write_pair(folder, key):
    """Write a certificate that its own key signed, and the key."""
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "localhost")])
    now = datetime.datetime.now(datetime.UTC)
    made = x509.CertificateBuilder(name, name, key.public_key(), 1, now, now + datetime.timedelta(days=9))
    cert, file = folder / "cert.pem", folder / "key.pem"
    cert.write_bytes(made.sign(key, hashes.SHA256()).public_bytes(serialization.Encoding.PEM))
    form = serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    file.write_bytes(key.private_bytes(serialization.Encoding.PEM, *form))
    return cert, file


@pytest.mark.parametrize(
    "make", [lambda: rsa.generate_private_key(65537, SHORT), lambda: ec.generate_private_key(ec.SECP192R1())]
)
def test_x8_a_short_key_is_reported_as_too_short(tmp_path, make):
    cert, key = write_pair(tmp_path, make())
    with pytest.raises(
        CertificateError, match=r"The key of the certificate in .*cert.pem is too short. Use RSA with 2048"
    ) as told:
        server_context(cert, key)
    assert "PEM form" not in str(told.value)


def test_x8_a_server_that_starts_with_it_says_so(tmp_path, hook):
    cert, key = write_pair(tmp_path, rsa.generate_private_key(65537, SHORT))
    with pytest.raises(CertificateError, match="too short"):
        sy.WebsocketServerWorker(hook, "localhost", 0, id="weak", cert_path=str(cert), key_path=str(key))
    hook.local_worker._known_workers.pop("weak", None)
    assert Settings(id="weak", certificate=cert, key=key).tls


def test_x8_a_key_of_today_is_accepted(tmp_path):
    cert, key = write_pair(tmp_path, rsa.generate_private_key(65537, 2048))
    assert isinstance(server_context(cert, key), ssl.SSLContext)


@pytest.mark.parametrize(("code", "text"), [(66, "key of the certificate"), (67, "key of the authority"), (68, "hash")])
def test_x8_clients_explain_weak_certificates_of_servers(code, text):
    error = ssl.SSLCertVerificationError(1, "certificate verify failed")
    error.verify_code = code
    assert text in explain(error, "node.example", 8777) and "node.example:8777" in explain(error, "node.example", 8777)
