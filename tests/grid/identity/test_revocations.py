"""Tokens that are not good any more: revoked ones, those of a user; in memory and in a file."""

import math
import stat
import subprocess
import sys
import threading

import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from syft.exceptions import AccountError, AuthenticationError, SyftError
from syft.grid.identity import Revocations, Tokens
from syft.grid.identity.database import Database
from syft.grid.identity.keys import node_key
from tests.helpers.grid.identities import NOW, Clock, in_threads, refused, signed_again


@pytest.fixture
def clock():
    return Clock()


@pytest.fixture
def key():
    return Ed25519PrivateKey.generate()


@pytest.fixture
def revocations(tmp_path):
    database = Database(tmp_path / "identity")
    yield Revocations(database)
    database.close()


@pytest.fixture
def tokens(key, revocations, clock):
    return Tokens("hospital-a", key, revocations, clock)


# Revoked tokens --------------------------------------------------------------------------------------------


def test_one_token_is_revoked(tokens):
    first, second = tokens.issue("alice", "user", 60), tokens.issue("alice", "user", 60)
    identity = tokens.read(first)
    tokens.revoke(identity.token_id)
    tokens.revoke(identity.token_id)
    refused(tokens, first, "revoked")
    with pytest.raises(AuthenticationError, match="revoked"):
        tokens.check(identity)
    assert tokens.read(second).user == "alice"
    tokens.check(tokens.read(second))


@pytest.mark.parametrize("token_id", ["", "x", "a" * 31, "'; DROP TABLE revoked; --", None, 5, "A" * 32])
def test_only_ids_of_tokens_are_revoked(tokens, token_id):
    with pytest.raises(AccountError, match="32 hexadecimal digits"):
        tokens.revoke(token_id)


def test_all_tokens_of_a_user_are_revoked_and_later_ones_are_good(tokens):
    old, other = tokens.issue("alice", "user", 60), tokens.issue("bob", "user", 60)
    identity = tokens.read(old)
    tokens.revoke_user("ALICE")
    new = tokens.issue("alice", "user", 60)  # within the same moment
    refused(tokens, old, "All tokens of this user were revoked")
    with pytest.raises(AuthenticationError, match="All tokens"):
        tokens.check(identity)
    assert tokens.read(new).user == "alice" and tokens.read(other).user == "bob"


def test_revocations_survive_a_restart_and_are_seen_by_other_processes(tmp_path, clock):
    def opened():
        database = Database(tmp_path / "identity")
        return database, Tokens("n", node_key(tmp_path / "identity"), Revocations(database), clock)

    database, tokens = opened()
    one, all_of, good = (tokens.issue(user, "user", 60) for user in ("alice", "bob", "dave"))
    second, other = opened()  # as another process would
    other.revoke(tokens.read(one).token_id)
    other.revoke_user("bob")
    second.close()
    for _ in range(2):
        for token in (one, all_of):
            refused(tokens, token, "revoked")
        assert tokens.read(good).user == "dave"
        database.close()
        database.close()
        database, tokens = opened()
    for path in (tmp_path / "identity").iterdir():
        assert stat.S_IMODE(path.stat().st_mode) == 0o600, path
    assert {"identity.sqlite3", "node.key"} <= {path.name for path in (tmp_path / "identity").iterdir()}
    database.close()


def test_a_killed_process_loses_no_revocation(tmp_path):
    program = (
        "import os, signal, sys, syft\n"
        "assert not {'jwt', 'argon2', 'fastapi', 'uvicorn', 'sqlalchemy', 'ray'} & set(sys.modules)\n"
        "from syft.grid.identity.database import Database\n"
        "from syft.grid.identity.revocations import Revocations\n"
        "revocations = Revocations(Database(sys.argv[1]))\n"
        "assert revocations.add('a' * 32, 5.0) and revocations.advance('bob') == 1\n"
        "os.kill(os.getpid(), signal.SIGKILL)\n"
    )
    done = subprocess.run([sys.executable, "-c", program, str(tmp_path)], capture_output=True, timeout=110)
    assert done.returncode == -9, done.stderr
    database = Database(tmp_path)
    assert Revocations(database).has("a" * 32) and Revocations(database).generation("bob") == 1
    database.close()


def test_expired_revocations_are_removed(tokens, clock, revocations):
    tokens.revoke("a" * 32, NOW + 10)
    tokens.revoke("b" * 32)
    clock.now = NOW + 3600
    tokens.revoke("c" * 32, clock.now)
    assert revocations.has("a" * 32)  # a clock may be set back
    clock.now = NOW + 3700
    tokens.revoke("d" * 32, clock.now)
    assert not revocations.has("a" * 32) and revocations.has("b" * 32) and revocations.has("c" * 32)
    assert revocations.prune(NOW - 1) == 0 and revocations.prune(math.inf) == 3


def test_eight_open_a_new_file_at_once(tmp_path, monkeypatch):
    monkeypatch.setattr("syft.grid.identity.database._LOCK_TIMEOUT", 90.0)  # the last one waits for all others
    start = threading.Barrier(8)

    def work(_):
        start.wait()
        database = Database(tmp_path / "identity")
        for _ in range(5):
            Revocations(database).advance("alice")
        database.close()

    in_threads(work, 8)
    database = Database(tmp_path / "identity")
    assert Revocations(database).generation("alice") == 40
    database.close()


def test_a_damaged_file_is_refused(tmp_path):
    (tmp_path / "identity.sqlite3").write_bytes(b"no database, but longer than a header of one" * 50)
    with pytest.raises(SyftError, match="can't be used.*backup"):
        Database(tmp_path)


def test_a_file_of_a_later_version_is_refused(tmp_path):
    database = Database(tmp_path)
    database.execute("PRAGMA user_version = 99")
    database.close()
    with pytest.raises(SyftError, match="later version"):
        Database(tmp_path)


def test_a_transaction_is_all_or_nothing(tmp_path):
    database = Database(tmp_path)
    revocations = Revocations(database)
    with pytest.raises(KeyError), database.transaction():
        revocations.advance("alice")
        revocations.add("a" * 32, 1.0)
        raise KeyError
    assert revocations.generation("alice") == 0 and not revocations.has("a" * 32)
    assert revocations.advance("alice") == 1
    database.close()


def test_a_token_for_another_purpose_is_refused(tokens):
    refused(tokens, signed_again(tokens, use="peer"), "another purpose")


def test_revocations_in_eight_threads(revocations):
    def work(index):
        for number in range(20):
            token_id = f"{index * 100 + number:032x}"
            assert revocations.add(token_id, NOW + number % 2, "alice") and revocations.has(token_id)
            assert not revocations.add(token_id, NOW, "alice")
            revocations.advance("alice")
            revocations.prune(NOW)

    in_threads(work, 8)
    assert revocations.generation("alice") == 160
    assert revocations.prune(NOW + 1) == 80 and revocations.prune(NOW + 1) == 0
