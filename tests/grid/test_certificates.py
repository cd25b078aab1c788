"""Certificates of a team, and TLS with them: real handshakes on this machine, good ones and every usual mistake."""

import datetime
import inspect
import itertools
import re
import socket
import ssl
import stat
import threading

import pytest
import trustme
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec

from syft.exceptions import CertificateError
from syft.grid import certificates
from syft.grid.certificates import (
    Authority,
    client_context,
    explain,
    issue,
    load_authority,
    make_authority,
    server_context,
)
from syft.grid.node.node import Node
from syft.grid.node.settings import Settings
from tests.helpers.grid.identities import in_threads

SECONDS = 60


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("certificates")


@pytest.fixture(scope="module")
def authority(folder):
    return make_authority(folder / "team", "Our team")


@pytest.fixture(scope="module")
def node(folder, authority):
    return issue(authority, ["localhost", "127.0.0.1", "::1", "*.wards.example"], folder / "node")


@pytest.fixture(scope="module")
def expired(folder, authority):
    """A certificate that ended an hour ago, signed by the team's authority."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(certificates, "_period", lambda days: between(-72, -1))
        return issue(authority, "localhost", folder / "expired")


def between(*hours):
    now = datetime.datetime.now(datetime.UTC)
    return tuple(now + datetime.timedelta(hours=number) for number in hours)


def read(path):
    return x509.load_pem_x509_certificate(path.read_bytes())


def handshake(server, client, host="localhost", hello=b"over TLS"):
    """Connects two sockets; returns (what the client got or its error, what the server got or its error, version)."""
    listening = socket.create_server(("127.0.0.1", 0))
    listening.settimeout(SECONDS)
    outcome = {}

    def serve():
        sock, _ = listening.accept()
        sock.settimeout(SECONDS)
        try:
            with server.wrap_socket(sock, server_side=True) if server else sock as wrapped:
                outcome["server"] = wrapped.recv(100)
                wrapped.sendall(b"HTTP/1.1 400 " + outcome["server"])
        except OSError as error:
            outcome["server"] = error
        finally:
            sock.close()

    thread = threading.Thread(target=serve)
    thread.start()
    outcome["port"] = listening.getsockname()[1]
    sock = socket.create_connection(("127.0.0.1", outcome["port"]), timeout=SECONDS)
    try:
        with client.wrap_socket(sock, server_hostname=host) if client else sock as wrapped:
            outcome["version"] = wrapped.version() if client else None
            wrapped.sendall(hello)
            outcome["client"] = wrapped.recv(100)
    except OSError as error:
        outcome["client"] = error
    finally:
        sock.close()
        thread.join(SECONDS)
        listening.close()
    return outcome


# Making them -----------------------------------------------------------------------------------------------


def test_an_authority_signs_and_nothing_else(authority, folder):
    certificate = read(authority.certificate)
    assert (
        stat.S_IMODE(authority.key.stat().st_mode) == 0o600 and stat.S_IMODE((folder / "team").stat().st_mode) == 0o700
    )
    assert certificate.subject == certificate.issuer and "Our team" in certificate.subject.rfc4514_string()
    basic = certificate.extensions.get_extension_for_class(x509.BasicConstraints)
    assert basic.critical and basic.value.ca and basic.value.path_length == 0
    usage = certificate.extensions.get_extension_for_class(x509.KeyUsage).value
    assert usage.key_cert_sign and usage.crl_sign and not usage.digital_signature
    assert (
        isinstance(certificate.public_key(), ec.EllipticCurvePublicKey)
        and certificate.public_key().curve.name == "secp256r1"
    )
    assert load_authority(folder / "team") == authority
    certificate.verify_directly_issued_by(certificate)


def test_a_certificate_is_for_hosts_and_signs_nothing(authority, node):
    certificate, ours = read(node.certificate), read(authority.certificate)
    certificate.verify_directly_issued_by(ours)
    names = certificate.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    assert names.get_values_for_type(x509.DNSName) == ["localhost", "*.wards.example"]
    assert [str(address) for address in names.get_values_for_type(x509.IPAddress)] == ["127.0.0.1", "::1"]
    assert not certificate.extensions.get_extension_for_class(x509.BasicConstraints).value.ca
    assert certificate.public_key().curve.name == "secp256r1" and certificate.serial_number != ours.serial_number
    assert stat.S_IMODE(node.key.stat().st_mode) == 0o600
    assert sorted(path.name for path in node.key.parent.iterdir()) == ["node.key", "node.pem"]


@pytest.mark.parametrize(
    ("host", "name"),
    [
        ("node.example", "node.example"),
        ("Node.Example.", "node.example"),
        ("bücher.example", "xn--bcher-kva.example"),
        ("*.example.org", "*.example.org"),
        ("a_b.example", "a_b.example"),
        ("[2001:db8::1]", "2001:db8::1"),
        ("192.0.2.7", "192.0.2.7"),
    ],
)
def test_hosts_in_every_form(authority, tmp_path, host, name):
    made = issue(authority.certificate.parent, host, tmp_path, name="ward-7")
    assert made.certificate.name == "ward-7.pem"
    (found,) = read(made.certificate).extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    assert str(found.value) == name


@pytest.mark.parametrize(
    "hosts",
    [
        *(
            [],
            "",
            "https://node.example",
            "node.example:80",
            "a b",
            "-a.example",
            "a..b",
            "*",
            "*.com",
            "a.*.example",
            "x" * 64,
        ),
        *(
            "a/../b",
            "node\n.example",
            "node\x00.example",
            "é" * 300,
            ["node.example", ""],
            [None],
            ["a.example"] * 101,
            "192.0.2.7/8",
        ),
    ],
    ids=lambda hosts: ascii(hosts)[:30],
)
def test_invalid_hosts_are_refused(authority, tmp_path, hosts):
    with pytest.raises(CertificateError, match="node.example") as caught:
        issue(authority, hosts, tmp_path / "new")
    assert str(caught.value).isprintable() and not (tmp_path / "new").exists()


@pytest.mark.parametrize("days", [0, -1, float("nan"), float("inf"), 10**6, "30", None, True])
def test_a_certificate_lasts_a_while(authority, tmp_path, days):
    for call in (
        lambda: issue(authority, "a.example", tmp_path, days),
        lambda: make_authority(tmp_path, "x", days=days),
    ):
        with pytest.raises(CertificateError, match="days"):
            call()
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("name", ["", "x" * 65, "a\nb", "a\x1b", None, 5])
def test_names_of_teams(tmp_path, name):
    with pytest.raises(CertificateError, match="1 to 64 printable"):
        make_authority(tmp_path, name)


@pytest.mark.parametrize("name", ["", "../node", "a/b", "authority", ".node", "a\0b"])
def test_names_of_files(authority, tmp_path, name):
    with pytest.raises(CertificateError, match="plain name"):
        issue(authority, "a.example", tmp_path, name=name)


def test_an_authority_is_not_overwritten_without_force(tmp_path):
    first = make_authority(tmp_path, "Our team")
    before = first.certificate.read_bytes(), first.key.read_bytes()
    with pytest.raises(CertificateError, match="already.*overwrite=True"):
        make_authority(tmp_path, "Our team")
    assert (first.certificate.read_bytes(), first.key.read_bytes()) == before
    first.certificate.unlink()
    with pytest.raises(CertificateError, match="already"):
        make_authority(tmp_path, "Our team")
    assert first.key.read_bytes() == before[1]
    first.certificate.write_bytes(before[0])
    first.key.unlink()  # kept elsewhere
    with pytest.raises(CertificateError, match="already"):
        make_authority(tmp_path, "Our team")
    assert first.certificate.read_bytes() == before[0] and not first.key.exists()
    make_authority(tmp_path, "Our team", overwrite=True)
    assert first.key.read_bytes() != before[1]
    assert load_authority(tmp_path) == first


def test_of_many_that_make_an_authority_one_does(tmp_path):
    outcomes = []

    def make(index):
        try:
            make_authority(tmp_path, f"team {index}")
            outcomes.append(f"team {index}")
        except CertificateError:
            pass

    in_threads(make, 8)
    assert len(outcomes) == 1 and outcomes[0] in read(load_authority(tmp_path).certificate).subject.rfc4514_string()


def test_a_certificate_is_renewed_and_not_longer_than_its_authority(tmp_path):
    authority = make_authority(tmp_path, "short", days=10)
    first = issue(authority, "a.example", tmp_path)
    number = read(first.certificate).serial_number
    again = issue(authority, "a.example", tmp_path, days=2)
    assert again == first and read(again.certificate).serial_number != number
    assert stat.S_IMODE(again.key.stat().st_mode) == 0o600
    longest = read(issue(authority, "a.example", tmp_path, days=400).certificate)
    assert longest.not_valid_after_utc == read(authority.certificate).not_valid_after_utc


def test_an_authority_that_is_not_whole_signs_nothing(tmp_path):
    with pytest.raises(CertificateError, match="can't be read"):
        load_authority(tmp_path)
    one, other = make_authority(tmp_path / "one", "one"), make_authority(tmp_path / "other", "other")
    with pytest.raises(CertificateError, match="do not match"):
        issue(Authority(one.certificate, other.key), "a.example", tmp_path)
    one.key.chmod(0o644)
    with pytest.raises(CertificateError, match="chmod 600"):
        load_authority(tmp_path / "one")
    one.key.chmod(0o600)
    one.key.write_text("no key")
    with pytest.raises(CertificateError, match="holds no unencrypted key"):
        load_authority(tmp_path / "one")
    one.certificate.write_text("no certificate")
    with pytest.raises(CertificateError, match="holds no PEM certificate"):
        load_authority(tmp_path / "one")


def test_an_expired_authority_signs_nothing(tmp_path, monkeypatch):
    monkeypatch.setattr(certificates, "_period", lambda days: between(-48, -24))
    old = make_authority(tmp_path, "old")
    with pytest.raises(CertificateError, match="has expired"):
        issue(old, "a.example", tmp_path)


def test_fingerprints(authority, node):
    found = certificates.fingerprint(authority.certificate)
    assert re.fullmatch(r"SHA256(:[0-9A-F]{2}){32}", found) and found != certificates.fingerprint(str(node.certificate))
    expected = read(authority.certificate).fingerprint(hashes.SHA256()).hex()
    assert found.replace(":", "").lower() == f"sha256{expected}"


def test_warnings_before_a_certificate_ends(node, expired):
    certificate = read(node.certificate)
    start, end = certificate.not_valid_before_utc, certificate.not_valid_after_utc
    second, day = datetime.timedelta(seconds=1), datetime.timedelta(days=1)
    assert certificates.expiry_warning(node.certificate) is None
    assert certificates.expiry_warning(node.certificate, now=end - 31 * day) is None
    assert "expires in 12.0 days" in certificates.expiry_warning(node.certificate, now=end - 12 * day)
    assert certificates.expiry_warning(node.certificate, now=end - 12 * day, days=10) is None
    assert "expired on" in certificates.expiry_warning(node.certificate, now=end)
    assert "is not valid before" in certificates.expiry_warning(node.certificate, now=start - second)
    warning = certificates.expiry_warning(expired.certificate)
    assert "expired on" in warning and str(expired.certificate) in warning and "certs issue" in warning


# Handshakes ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("host", ["localhost", "127.0.0.1", "::1", "seven.wards.example"])
def test_a_verified_connection(authority, node, host):
    outcome = handshake(server_context(node.certificate, node.key), client_context(authority.certificate), host)
    assert outcome["client"] == b"HTTP/1.1 400 over TLS" and outcome["server"] == b"over TLS"
    assert outcome["version"] == "TLSv1.3"


def test_our_certificates_pass_the_strictest_checks(authority, node):
    client = client_context(authority.certificate)
    client.verify_flags |= ssl.VERIFY_X509_STRICT
    assert handshake(server_context(node.certificate, node.key), client)["server"] == b"over TLS"


def test_one_file_may_hold_both(authority, node, tmp_path):
    both = tmp_path / "both.pem"
    both.write_bytes(node.key.read_bytes() + node.certificate.read_bytes())
    assert handshake(server_context(both), client_context(authority.certificate))["server"] == b"over TLS"


def test_certificates_of_others_work_too(tmp_path):
    ca = trustme.CA()
    made = ca.issue_cert("localhost")
    made.private_key_and_cert_chain_pem.write_to_path(str(tmp_path / "node.pem"))
    ca.cert_pem.write_to_path(str(tmp_path / "ca.pem"))
    assert (
        handshake(server_context(tmp_path / "node.pem"), client_context(tmp_path / "ca.pem"))["server"] == b"over TLS"
    )


def fails(outcome, match, host="localhost", side="client"):
    error = outcome[side]
    assert isinstance(error, OSError), outcome
    text = explain(error, host, outcome["port"])
    assert re.search(match, text) and f"{host}:{outcome['port']}" in text, text
    assert text.endswith(".") and text[0].isupper() and "\n" not in text and "[SSL" not in text
    return text


def test_an_unknown_authority(node, folder):
    other = make_authority(folder / "other", "Our team")
    outcome = handshake(server_context(node.certificate, node.key), client_context(other.certificate))
    fails(outcome, r"not signed by an authority that is trusted here.*ca=")
    assert isinstance(outcome["server"], ssl.SSLError)
    fails(outcome, "does not trust the certificate of this node.*authority.pem", side="server")


def test_the_system_does_not_trust_a_team(node):
    fails(handshake(server_context(node.certificate, node.key), client_context()), "not signed by an authority")


def test_a_node_can_not_pose_as_an_authority(folder, authority, node):
    """A certificate signed by a node's key is not trusted, though the node's own is."""
    posing = Authority(node.certificate, node.key)
    forged = issue(posing, "localhost", folder / "forged")
    chain = folder / "chain.pem"
    chain.write_bytes(forged.certificate.read_bytes() + node.certificate.read_bytes())
    outcome = handshake(server_context(chain, forged.key), client_context(authority.certificate))
    fails(outcome, "certificate|TLS")
    assert isinstance(outcome["client"], ssl.SSLCertVerificationError)


@pytest.mark.parametrize(
    "host", ["node.example", "127.0.0.2", "a.b.wards.example", "wards.example", "localhost.evil.example"]
)
def test_another_host(authority, node, host):
    outcome = handshake(server_context(node.certificate, node.key), client_context(authority.certificate), host)
    fails(outcome, f"is for another host.*issue.*{re.escape(host)}", host)


def test_an_expired_certificate(authority, expired):
    outcome = handshake(server_context(expired.certificate, expired.key), client_context(authority.certificate))
    fails(outcome, "has expired.*issue")
    fails(outcome, "certificate of this node has expired", side="server")


def test_a_certificate_of_tomorrow(authority, folder, monkeypatch):
    monkeypatch.setattr(certificates, "_period", lambda days: between(24, 48))
    early = issue(authority, "localhost", folder / "early")
    fails(
        handshake(server_context(early.certificate, early.key), client_context(authority.certificate)),
        "not valid yet.*date -u",
    )


def test_tls_to_a_plain_port(authority):
    fails(handshake(None, client_context(authority.certificate)), "answers without TLS.*ws://")


def test_plain_to_a_tls_port(node):
    outcome = handshake(server_context(node.certificate, node.key), None, hello=b"GET / HTTP/1.1\r\n\r\n")
    fails(outcome, "without TLS, on a port for TLS.*wss://", side="server")
    assert isinstance(outcome["client"], OSError) or b"HTTP" not in outcome["client"]


def old(context, version):
    context.minimum_version = ssl.TLSVersion.TLSv1
    context.maximum_version = version
    context.set_ciphers("ALL:@SECLEVEL=0")
    return context


@pytest.mark.filterwarnings("ignore:ssl.TLSVersion:DeprecationWarning")
@pytest.mark.parametrize("version", ["TLSv1", "TLSv1_1"])
def test_old_versions_are_refused_by_both(authority, node, version):
    version = ssl.TLSVersion[version]
    server, client = server_context(node.certificate, node.key), client_context(authority.certificate)
    outcome = handshake(server, old(client_context(authority.certificate), version))
    fails(outcome, "no version of TLS that is safe")
    assert isinstance(outcome["server"], ssl.SSLError)
    outcome = handshake(old(server_context(node.certificate, node.key), version), client)
    fails(outcome, "no version of TLS that is safe")


def test_tls_1_2_works_with_good_ciphers_only(authority, node):
    server, client = server_context(node.certificate, node.key), client_context(authority.certificate)
    client.maximum_version = ssl.TLSVersion.TLSv1_2
    assert handshake(server, client)["version"] == "TLSv1.2"
    client.set_ciphers("AES128-SHA:ECDHE-ECDSA-AES128-SHA:@SECLEVEL=0")
    assert isinstance(handshake(server, client)["client"], ssl.SSLError)
    for context in (server, client_context(authority.certificate)):
        names = [cipher["name"] for cipher in context.get_ciphers()]
        assert names and all("GCM" in name or "CHACHA20" in name for name in names), names
        assert all(name.startswith(("ECDHE", "TLS_")) for name in names)


def test_verification_can_not_be_turned_off_by_us(authority):
    assert list(inspect.signature(client_context).parameters) == ["ca"]
    for context in (client_context(), client_context(authority.certificate)):
        assert context.verify_mode is ssl.CERT_REQUIRED and context.check_hostname
        assert context.minimum_version == ssl.TLSVersion.TLSv1_2
    assert len(client_context(authority.certificate).get_ca_certs()) == 1  # and not those of the system


# Files that are not what they should be -----------------------------------------------------------------------


def test_files_that_are_not_there_or_do_not_fit(authority, node, tmp_path):
    other = issue(authority, "localhost", tmp_path)
    none, text = tmp_path / "none.pem", tmp_path / "text.pem"
    text.write_text("no certificate")
    for pair, match in (
        ((none, node.key), "no certificate at .*none.pem"),
        ((node.certificate, none), "no key at .*none.pem"),
        ((tmp_path, node.key), "no certificate at"),
        ((node.certificate, other.key), "do not belong together"),
        ((text, node.key), "not a certificate and its key"),
        ((node.certificate, text), "not a certificate and its key"),
        ((node.certificate, None), "not a certificate and its key"),
    ):
        with pytest.raises(CertificateError, match=match):
            server_context(*pair)
    with pytest.raises(CertificateError, match="no authority's certificate at"):
        client_context(none)
    with pytest.raises(CertificateError, match="holds no certificate"):
        client_context(text)


def test_an_encrypted_key_does_not_prompt(node, tmp_path):
    key = serialization.load_pem_private_key(node.key.read_bytes(), None)
    locked = tmp_path / "locked.key"
    encryption = serialization.BestAvailableEncryption(b"secret")
    locked.write_bytes(key.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, encryption))
    with pytest.raises(CertificateError, match="encrypted.*openssl pkey"):
        server_context(node.certificate, locked)


def test_unexpected_errors_get_a_sentence():
    unseen = ssl.SSLError(1, "[SSL: SOMETHING_{NEW}] something {new} (_ssl.c:1)")
    unseen.reason = "SOMETHING_{NEW}"
    for error in (
        unseen,
        ssl.SSLError(),
        OSError(),
        OSError(113, "No route to host"),
        ssl.SSLEOFError(),
        ConnectionResetError(),
    ):
        for host, port in itertools.product(("", "node.example", "2001:db8::1", "{host}"), (None, 443)):
            text = explain(error, host, port)
            assert text[0].isupper() and text.endswith(".") and ("[2001:db8::1]" in text or "2001" not in text)
    assert "SOMETHING_{NEW}" in explain(unseen) and "No route to host" in explain(OSError(113, "No route to host"))


# --- node ids ---------------------------------------------------------------------------------------------------------


def node_uris(path):
    names = read(path).extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    return names.get_values_for_type(x509.UniformResourceIdentifier)


@pytest.mark.parametrize("node_id", ["hospital-a", "Klinik_Zürich", "a.b"])
def test_a_certificate_names_its_node(folder, authority, node_id):
    made = issue(authority, "localhost", folder / "named", node_id=node_id)
    assert len(node_uris(made.certificate)) == 1 and node_uris(made.certificate)[0].startswith("resyft-node:")
    assert certificates.certificate_of(made.certificate, node_id) == read(made.certificate).fingerprint(hashes.SHA256())
    outcome = handshake(server_context(made.certificate, made.key), client_context(authority.certificate))
    assert outcome["server"] == b"over TLS"
    for other in ("hospital-b", "Hospital-a", "hospital", ""):
        with pytest.raises(CertificateError, match="not for"):
            certificates.certificate_of(made.certificate, other)


def test_a_certificate_without_a_node_id_is_for_any_node(node):
    assert node_uris(node.certificate) == []
    assert certificates.certificate_of(node.certificate, "anybody")
    assert certificates.certificate_of(None, "anybody") is None


@pytest.mark.parametrize("node_id", ["", "x" * 101, "a\nb", "\u202eabc", 7])
def test_invalid_node_ids_are_refused(folder, authority, node_id):
    with pytest.raises(CertificateError, match="node_id"):
        issue(authority, "localhost", folder / "wrong", node_id=node_id)


def test_a_node_does_not_start_with_the_certificate_of_another(folder, authority):
    made = issue(authority, "localhost", folder / "of-a", node_id="hospital-a")
    tls = {"certificate": made.certificate, "key": made.key}
    Node(Settings(id="hospital-a", **tls)).stop()
    with pytest.raises(CertificateError, match="is for node 'hospital-a', not for 'hospital-b'"):
        Node(Settings(id="hospital-b", **tls))
