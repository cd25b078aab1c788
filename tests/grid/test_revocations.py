"""Tokens that are not good any more: revoked ones, those of a user, spent tickets; in memory and in a file."""

import stat
import subprocess
import sys
import threading

import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from syft.exceptions import AccountError, AuthenticationError, SyftError
from syft.grid.identity import MemoryRevocations, StoredRevocations, Tokens
from syft.grid.identity import tokens as tokens_module
from syft.grid.identity.database import Database
from syft.grid.identity.keys import node_key
from tests.grid.identities import NOW, Clock, claims_of, in_threads, refused


@pytest.fixture
def clock():
    return Clock()


@pytest.fixture
def key():
    return Ed25519PrivateKey.generate()


@pytest.fixture(params=["memory", "stored"])
def revocations(request, tmp_path):
    if request.param == "memory":
        yield MemoryRevocations()
        return
    database = Database(tmp_path / "identity")
    yield StoredRevocations(database)
    database.close()


@pytest.fixture
def tokens(key, revocations, clock):
    return Tokens("hospital-a", key, revocations, clock)


# What is revoked -------------------------------------------------------------------------------------------


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
    old, ticket, other = (
        tokens.issue("alice", "user", 60),
        tokens.issue_ticket("alice", "user", 60),
        tokens.issue("bob", "user", 60),
    )
    identity = tokens.read(old)
    tokens.revoke_user("ALICE")
    new = tokens.issue("alice", "user", 60)  # within the same moment
    refused(tokens, old, "All tokens of this user were revoked")
    for call in (lambda: tokens.check(identity), lambda: tokens.read_ticket(ticket)):
        with pytest.raises(AuthenticationError, match="All tokens"):
            call()
    assert tokens.read(new).user == "alice" and tokens.read(other).user == "bob"


def test_revocations_survive_a_restart_and_are_seen_by_other_processes(tmp_path, clock):
    def opened():
        database = Database(tmp_path / "identity")
        return database, Tokens("n", node_key(tmp_path / "identity"), StoredRevocations(database), clock)

    database, tokens = opened()
    one, all_of, ticket, good = (tokens.issue(user, "user", 60) for user in ("alice", "bob", "carol", "dave"))
    ticket = tokens.issue_ticket("carol", "user", 60)
    second, other = opened()  # as another process would
    other.revoke(tokens.read(one).token_id)
    other.revoke_user("bob")
    other.read_ticket(ticket)
    second.close()
    for _ in range(2):
        for token in (one, all_of):
            refused(tokens, token, "revoked")
        with pytest.raises(AuthenticationError, match="used before"):
            tokens.read_ticket(ticket)
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
        "from syft.grid.identity.revocations import StoredRevocations\n"
        "revocations = StoredRevocations(Database(sys.argv[1]))\n"
        "assert revocations.add('a' * 32, 5.0) and revocations.advance('bob') == 1\n"
        "os.kill(os.getpid(), signal.SIGKILL)\n"
    )
    done = subprocess.run([sys.executable, "-c", program, str(tmp_path)], capture_output=True, timeout=110)
    assert done.returncode == -9, done.stderr
    database = Database(tmp_path)
    assert StoredRevocations(database).has("a" * 32) and StoredRevocations(database).generation("bob") == 1
    database.close()


def test_what_expired_is_forgotten_later(tokens, clock, revocations):
    tokens.revoke("a" * 32, NOW + 10)
    tokens.revoke("b" * 32)
    clock.now = NOW + 3600
    tokens.revoke("c" * 32, clock.now)
    assert revocations.has("a" * 32)  # a clock may be set back
    clock.now = NOW + 3700
    tokens.revoke("d" * 32, clock.now)
    assert not revocations.has("a" * 32) and revocations.has("b" * 32) and revocations.has("c" * 32)
    assert revocations.prune(NOW - 1) == 0 and revocations.count("") == 3


def test_eight_open_a_new_file_at_once(tmp_path, monkeypatch):
    monkeypatch.setattr("syft.grid.identity.database._PATIENCE", 90.0)  # the last one waits for all others
    start = threading.Barrier(8)

    def work(_):
        start.wait()
        database = Database(tmp_path / "identity")
        for _ in range(5):
            StoredRevocations(database).advance("alice")
        database.close()

    in_threads(work, 8)
    database = Database(tmp_path / "identity")
    assert StoredRevocations(database).generation("alice") == 40
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
    revocations = StoredRevocations(database)
    with pytest.raises(KeyError), database.transaction():
        revocations.advance("alice")
        revocations.add("a" * 32, 1.0)
        raise KeyError
    assert revocations.generation("alice") == 0 and not revocations.has("a" * 32)
    assert revocations.advance("alice") == 1
    database.close()


# Tickets ---------------------------------------------------------------------------------------------------


def test_a_ticket_is_good_once(tokens, clock):
    ticket = tokens.issue_ticket("alice", "user", 60, "peer:hospital-b")
    assert tokens.read_ticket(ticket, "peer:hospital-b").user == "alice"
    for later in (0, 89):
        clock.now = NOW + later
        with pytest.raises(AuthenticationError, match="used before") as caught:
            tokens.read_ticket(ticket, "peer:hospital-b")
        assert ticket not in str(caught.value)
    clock.now = NOW + 4000  # forgotten, and expired long since
    tokens.read_ticket(tokens.issue_ticket("alice", "user", 60))
    with pytest.raises(AuthenticationError, match="expired"):
        tokens.read_ticket(ticket, "peer:hospital-b")


def test_a_ticket_is_no_token_and_for_one_purpose(tokens):
    ticket, token = tokens.issue_ticket("alice", "owner", 60, "peer"), tokens.issue("alice", "owner", 60)
    refused(tokens, ticket, "another purpose")
    for wrong in (
        lambda: tokens.read_ticket(token),
        lambda: tokens.read_ticket(ticket),
        lambda: tokens.read_ticket(ticket, "stream"),
    ):
        with pytest.raises(AuthenticationError, match="another purpose"):
            wrong()
    assert tokens.read_ticket(ticket, "peer").role == "owner"  # the wrong tries did not spend it


def test_a_revoked_ticket_is_refused(tokens):
    ticket = tokens.issue_ticket("alice", "user", 60)
    tokens.revoke(claims_of(ticket)["jti"])
    with pytest.raises(AuthenticationError, match="revoked"):
        tokens.read_ticket(ticket)


def test_the_memory_for_tickets_is_bounded_by_user(tokens, clock, monkeypatch):
    monkeypatch.setattr(tokens_module, "MAX_TICKETS", 3)
    for _ in range(3):
        tokens.read_ticket(tokens.issue_ticket("alice", "user", 60))
    ticket = tokens.issue_ticket("alice", "user", 10_000)
    with pytest.raises(AuthenticationError, match="too many tickets"):
        tokens.read_ticket(ticket)
    assert tokens.read_ticket(tokens.issue_ticket("bob", "user", 60)).user == "bob"
    clock.now += 4000
    assert tokens.read_ticket(ticket).user == "alice"


def test_one_of_many_threads_gets_the_ticket(tokens, revocations):
    ticket, start = tokens.issue_ticket("alice", "user", 60), threading.Barrier(8)
    outcomes = []

    def use(_):
        start.wait()
        try:
            outcomes.append(tokens.read_ticket(ticket).user)
        except AuthenticationError:
            outcomes.append(None)

    in_threads(use, 8)
    assert sorted(outcomes, key=str) == [None] * 7 + ["alice"]


def test_revocations_in_eight_threads(revocations):
    def work(index):
        for number in range(20):
            token_id = f"{index * 100 + number:032x}"
            assert revocations.add(token_id, NOW + number % 2, "alice") and revocations.has(token_id)
            assert not revocations.add(token_id, NOW, "alice")
            revocations.advance("alice")
            revocations.prune(NOW)

    in_threads(work, 8)
    assert revocations.generation("alice") == 160 and revocations.count("alice") == 160
    assert revocations.prune(NOW + 1) == 80 and revocations.count("alice") == 80
