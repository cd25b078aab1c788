"""Who somebody is at a node: its key, and tokens that are good, forged, changed, late and early."""

import base64
import dataclasses
import hashlib
import hmac
import logging
import stat
import threading

import jwt
import pytest
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from hypothesis import given, settings
from hypothesis import strategies as st

from syft import config
from syft.exceptions import AccountError, AuthenticationError, SyftError
from syft.grid.identity import ROLES, Capability, TokenIdentity, Tokens, may
from syft.grid.identity.keys import fingerprint, node_key
from tests.helpers.grid.identities import NOW, Clock, claims_of, in_threads, new_revocations, part, refused


@pytest.fixture
def clock():
    return Clock()


@pytest.fixture
def key():
    return Ed25519PrivateKey.generate()


@pytest.fixture
def tokens(key, clock):
    return Tokens("hospital-a", key, new_revocations(), clock)


# The key of a node -----------------------------------------------------------------------------------------


def test_the_key_is_made_once_for_this_user_alone(tmp_path, caplog, capfd):
    caplog.set_level(logging.DEBUG)
    folder = tmp_path / "store" / "identity"
    first, second = node_key(folder), node_key(folder)
    assert first.private_bytes_raw() == second.private_bytes_raw()
    assert stat.S_IMODE(folder.stat().st_mode) == 0o700
    assert [path.name for path in folder.iterdir()] == ["node.key"]
    assert stat.S_IMODE((folder / "node.key").stat().st_mode) == 0o600
    assert fingerprint(first).startswith("SHA256:") and fingerprint(first) != fingerprint(node_key(tmp_path / "other"))
    secret = (folder / "node.key").read_text().splitlines()[1]
    assert secret not in caplog.text + "".join(capfd.readouterr()) + repr(first)


def test_a_folder_that_was_open_is_closed(tmp_path):
    folder = tmp_path / "identity"
    folder.mkdir(mode=0o755)
    folder.chmod(0o755)
    node_key(folder)
    assert stat.S_IMODE(folder.stat().st_mode) == 0o700


def test_a_key_that_others_may_read_is_refused(tmp_path):
    node_key(tmp_path)
    (tmp_path / "node.key").chmod(0o640)
    with pytest.raises(SyftError, match="chmod 600"):
        node_key(tmp_path)


@pytest.mark.parametrize(
    "contents", [b"", b"no key", b"-----BEGIN PRIVATE KEY-----\nAAAA\n-----END PRIVATE KEY-----\n"]
)
def test_a_damaged_key_is_refused_and_stays(tmp_path, contents):
    path = tmp_path / "node.key"
    path.write_bytes(contents)
    path.chmod(0o600)
    with pytest.raises(SyftError, match="holds no Ed25519 key"):
        node_key(tmp_path)
    assert path.read_bytes() == contents


def test_nodes_that_start_at_the_same_time_have_one_key(tmp_path):
    keys, start = [], threading.Barrier(8)

    def begin(_):
        start.wait()
        keys.append(node_key(tmp_path / "identity").private_bytes_raw())

    in_threads(begin, 8)
    assert len(keys) == 8 and len(set(keys)) == 1
    assert [path.name for path in (tmp_path / "identity").iterdir()] == ["node.key"]


# Tokens ----------------------------------------------------------------------------------------------------


def test_a_token_identifies_its_user(tokens):
    token = tokens.issue("Alice", "owner", 60)
    identity = tokens.read(token)
    assert identity == TokenIdentity("alice", "owner", claims_of(token)["jti"], NOW + 60, 0)
    assert may(identity.role, Capability.DECIDE)
    assert claims_of(token)["aud"] == claims_of(token)["iss"] == "hospital-a"
    assert tokens.read(tokens.issue("bob", "user", 0.5)).token_id != identity.token_id
    with pytest.raises(dataclasses.FrozenInstanceError):
        identity.role = "owner"


def test_roles_are_one_table():
    assert set(ROLES) == {"owner", "user"} and ROLES["user"] < ROLES["owner"] == set(Capability)
    assert not may("user", Capability.SEE_ALL) and not may("User", Capability.COMPUTE)


@pytest.mark.parametrize("role", ["admin", "", "Owner", None, ["owner"], ("owner",), 1])
def test_there_are_no_other_roles(tokens, role):
    with pytest.raises(AccountError, match="owner, user"):
        tokens.issue("alice", role, 60)


@pytest.mark.parametrize("seconds", [0, -1, float("nan"), float("inf"), 1e12, "60", None, True])
def test_a_token_lasts_a_while(tokens, seconds):
    with pytest.raises(AccountError, match="lifetime of a token must be above 0"):
        tokens.issue("alice", "user", seconds)


@pytest.mark.parametrize("node_id", ["", "x" * 700, None, 5])
def test_a_node_that_issues_tokens_has_an_id(key, node_id):
    with pytest.raises(AccountError, match="needs an id"):
        Tokens(node_id, key, new_revocations())


def test_the_longest_names_fit(key, clock, monkeypatch):
    tokens = Tokens("😀" * 53, key, new_revocations(), clock)
    name = "𐍈" * 64
    assert tokens.read(tokens.issue(name, "user", 60)).user == name
    monkeypatch.setattr("syft.grid.identity.tokens.MAX_TOKEN", 400)
    with pytest.raises(AccountError, match="too long"):
        tokens.issue(name, "user", 60)


def test_a_token_of_another_node_or_key_is_refused(tokens, key, clock):
    refused(tokens, Tokens("hospital-b", key, new_revocations(), clock).issue("alice", "owner", 60))
    other = Tokens("hospital-a", Ed25519PrivateKey.generate(), new_revocations(), clock)
    refused(tokens, other.issue("alice", "owner", 60))


@pytest.mark.parametrize(
    "algorithm", ["none", "None", "NONE", "HS256", "HS512", "ES256", "RS256", "", None, 7, ["EdDSA"]]
)
def test_no_other_algorithm_is_accepted(tokens, algorithm):
    body = tokens.issue("alice", "user", 60).split(".")[1]
    header = part({"alg": algorithm, "typ": "JWT"})
    signature = tokens.issue("alice", "user", 60).split(".")[2]
    refused(tokens, f"{header}.{body}.{signature}")
    refused(tokens, f"{header}.{body}.")


def test_the_algorithm_is_pinned(tokens, monkeypatch):
    """The package refuses the ones above for reasons of its own too."""
    token, decode, asked = tokens.issue("alice", "user", 60), jwt.decode, []

    def noting(*args, algorithms, **kwargs):
        asked.append(algorithms)
        return decode(*args, algorithms=algorithms, **kwargs)

    monkeypatch.setattr(jwt, "decode", noting)
    assert tokens.read(token).user == "alice" and asked == [["EdDSA"]]


def test_the_public_key_is_no_secret_for_a_mac(tokens, key):
    public = key.public_key()
    claims = claims_of(tokens.issue("alice", "owner", 60))
    pem = public.public_bytes(serialization.Encoding.PEM, serialization.PublicFormat.SubjectPublicKeyInfo)
    for secret in (pem, public.public_bytes_raw()):
        signed = f"{part({'alg': 'HS256', 'typ': 'JWT'})}.{part(claims)}"
        mac = hmac.new(secret, signed.encode(), hashlib.sha256).digest()
        refused(tokens, f"{signed}.{part(mac)}")


def test_a_key_in_the_header_is_not_used(tokens, clock):
    mallory = Ed25519PrivateKey.generate()
    claims = claims_of(tokens.issue("alice", "owner", 60))
    own = {"kty": "OKP", "crv": "Ed25519", "x": part(mallory.public_key().public_bytes_raw())}
    for header in (
        {"jwk": own},
        {"jku": "https://evil.example/keys"},
        {"kid": "../../etc/passwd"},
        {"x5u": "file:///"},
    ):
        refused(tokens, jwt.encode(claims, mallory, algorithm="EdDSA", headers=header))


@pytest.mark.parametrize(
    "change", [{"role": "owner"}, {"sub": "root"}, {"exp": NOW + 1e6}, {"aud": "hospital-b"}, {"gen": 1}, {"use": "x"}]
)
def test_changed_claims_are_refused(tokens, change):
    header, body, signature = tokens.issue("alice", "user", 60).split(".")
    changed = claims_of(f"{header}.{body}.{signature}") | change
    refused(tokens, f"{header}.{part(changed)}.{signature}")


@settings(max_examples=100, deadline=None)
@given(position=st.integers(0, 10_000), bit=st.integers(0, 5))
def test_every_bit_counts(position, bit):
    tokens, token = _SHARED
    position %= len(token)
    letters = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_"
    if token[position] == ".":
        other = "A"
    else:
        other = letters[letters.index(token[position]) ^ (1 << bit)]
    changed = token[:position] + other + token[position + 1 :]
    try:
        read = tokens.read(changed)
    except AuthenticationError:
        return
    # The last letter of a part has bits that mean nothing; the token is the same then.
    assert read == tokens.read(token)
    assert [_decoded(p) for p in changed.split(".")] == [_decoded(p) for p in token.split(".")]


def _decoded(text):
    return base64.urlsafe_b64decode(text + "=" * (-len(text) % 4))


_SHARED_TOKENS = Tokens("n", Ed25519PrivateKey.generate(), new_revocations(), Clock())
_SHARED = _SHARED_TOKENS, _SHARED_TOKENS.issue("alice", "user", 60)


@settings(max_examples=200, deadline=None)
@given(st.one_of(st.text(), st.binary(), st.none(), st.integers(), st.lists(st.text(), max_size=3)))
def test_anything_else_is_refused(token):
    with pytest.raises(AuthenticationError):
        _SHARED_TOKENS.read(token)


@settings(max_examples=100, deadline=None)
@given(
    st.recursive(
        st.none() | st.booleans() | st.floats() | st.text(max_size=5), lambda inner: st.lists(inner, max_size=3)
    )
)
def test_any_header_and_body_is_refused(value):
    for header in (value, {"alg": "EdDSA", "b64": value}, {"alg": "EdDSA", "crit": value}, {"alg": value}):
        with pytest.raises(AuthenticationError):
            _SHARED_TOKENS.read(f"{part(header)}.{part(value)}.{part(b'x' * 64)}")


def test_huge_and_deep_tokens_are_refused_before_they_are_read(tokens, monkeypatch):
    refused(tokens, f"{part(b'[' * 2900)}.e30.AAAA")
    refused(tokens, f"{part(b'9' * 2900)}.e30.AAAA")
    monkeypatch.setattr(jwt, "decode", lambda *args, **kwargs: pytest.fail("it was parsed"))
    good = tokens.issue("alice", "user", 60)
    refused(tokens, good + "A" * 4096)
    refused(tokens, "A" * 10_000_000)
    refused(tokens, good + "\n")
    refused(tokens, good.encode())
    refused(tokens, "")


def signed(tokens, key, **changes):
    claims = claims_of(tokens.issue("alice", "user", 60)) | changes
    claims = {name: value for name, value in claims.items() if value is not ...}
    # The package refuses to write some of these, so they are signed here.
    text = f"{part({'alg': 'EdDSA', 'typ': 'JWT'})}.{part(claims)}"
    return f"{text}.{part(key.sign(text.encode()))}"


@pytest.mark.parametrize(
    "change",
    [
        *({"role": role} for role in (["owner"], {"owner": 1}, "admin", "", None, 1, True, "OWNER", "owner ")),
        *({"sub": sub} for sub in (7, None, ["alice"], "", "Alice", "../alice", "alice\u202e", "a" * 65, {}, True)),
        *({"exp": exp} for exp in (None, "9999999999", float("inf"), float("nan"), True, [], 10**400)),
        *({"iat": iat} for iat in (None, "1", float("-inf"), False, {})),
        *({"nbf": nbf} for nbf in (None, "1", True)),
        *({"jti": jti} for jti in (None, 5, "", "x" * 32, "A" * 32, ["a" * 32], "a" * 33)),
        *({"gen": gen} for gen in (None, "0", 0.0, False, [0])),
        *(
            {"aud": aud}
            for aud in (["hospital-a"], ["hospital-b", "hospital-a"], "hospital-b", "", None, {"hospital-a": 1})
        ),
        *({"iss": iss} for iss in (["hospital-a"], "hospital-b", None, "")),
        *({"use": use} for use in (None, ["session"], "peer", 1)),
        *({name: ...} for name in ("sub", "role", "aud", "iss", "exp", "iat", "nbf", "jti", "use", "gen")),
    ],
    ids=str,
)
def test_claims_are_of_their_types_even_if_they_are_signed(tokens, key, change):
    assert tokens.read(signed(tokens, key)).user == "alice"
    refused(tokens, signed(tokens, key, **change), match="token")


# Clocks ----------------------------------------------------------------------------------------------------


def test_a_token_expires(tokens, clock):
    token = tokens.issue("alice", "user", 60)
    clock.now = NOW + 60 + 29.9  # clocks may differ a little
    identity = tokens.read(token)
    clock.now = NOW + 60 + 30
    refused(tokens, token, "expired 30 s ago. Log in again")
    with pytest.raises(AuthenticationError, match="expired"):
        tokens.check(identity)


def test_a_token_from_the_future_reports_a_clock_difference(tokens, clock, key):
    token = tokens.issue("alice", "user", 3600)
    clock.now = NOW - 30
    assert tokens.read(token).user == "alice"
    clock.now = NOW - 300
    refused(tokens, token, "becomes valid in 300 s.*clock.*differ.*date -u")
    clock.now = NOW
    refused(tokens, signed(tokens, key, iat=NOW + 31), "differ")
    refused(tokens, signed(tokens, key, nbf=NOW + 31), "differ")
    assert tokens.read(signed(tokens, key, nbf=NOW + 29, iat=NOW + 29)).user == "alice"


def test_the_leeway_is_configured(tokens, key, clock):
    token = tokens.issue("alice", "user", 60)
    clock.now = NOW + 65
    with config.override(token_leeway=5.0):
        refused(tokens, token, "expired")
    assert tokens.read(token).user == "alice"
    with config.override(token_leeway=0.0):
        refused(tokens, token, "expired")
