"""Users of a node: passwords, logins, and those who guess."""

import stat
import threading
import unicodedata

import argon2
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from syft.exceptions import AccountError, AuthenticationError, TooManyAttemptsError
from syft.grid.identity import NodeIdentity, Throttle, UserAccount
from syft.grid.identity import users as users_module
from syft.grid.identity.throttle import LIMITS, AttemptLimit
from tests.helpers.grid.identities import NOW, Clock, in_threads, refused

# As little work as argon2 can do.
QUICK = {"time_cost": 1, "memory_cost": 8, "parallelism": 1}
PASSWORD = "correct horse"


@pytest.fixture
def clock():
    return Clock()


@pytest.fixture
def opened(tmp_path, clock):
    """Opens the identity of one node, as often as a test likes."""
    made = []

    def again(hasher=None, **arguments):
        hasher = hasher or argon2.PasswordHasher(**QUICK)
        throttle = Throttle(clock, **arguments)
        made.append(NodeIdentity(tmp_path / "identity", "hospital-a", clock, hasher=hasher, throttle=throttle))
        return made[-1]

    yield again
    for identity in made:
        identity.close()


@pytest.fixture
def node(opened):
    return opened()


@pytest.fixture
def users(node):
    node.users.add("alice", PASSWORD, "owner")
    node.users.add("Bob", "battery staple")
    return node.users


def fails(users, user, password, address="", kind=AuthenticationError):
    with pytest.raises(AuthenticationError) as caught:
        users.verify(user, password, address)
    assert type(caught.value) is kind, caught.value
    assert caught.value.__cause__ is None
    assert PASSWORD not in str(caught.value)
    return caught.value


# Passwords -------------------------------------------------------------------------------------------------


def test_a_user_logs_in_and_gets_a_token(node, users, clock):
    assert users.verify("ALICE", PASSWORD) == UserAccount("alice", "owner", NOW)
    identity = node.tokens.read(users.login("Alice", PASSWORD, "192.0.2.1", seconds=60))
    assert (identity.user, identity.role, identity.expires) == ("alice", "owner", NOW + 60)
    assert node.tokens.read(users.login("bob", "battery staple")).expires == NOW + 12 * 3600
    assert users.list() == (UserAccount("alice", "owner", NOW), UserAccount("bob", "user", NOW))
    assert "BOB" in users and "carol" not in users and "../x" not in users and 5 not in users and len(users) == 2


WRONG = [("alice", "wrong"), ("carol", PASSWORD), ("../x", "y"), ("", ""), (None, None), (5, PASSWORD), ("alice", b"x")]
WRONG += [
    ("bob", word)
    for word in ("", PASSWORD, "Battery staple", "battery staple ", "battery staple\0", "\ud800", "x" * 10**6)
]


def test_every_wrong_login_has_the_same_text_and_takes_the_same_work(opened):
    hashed = []

    class Noting(argon2.PasswordHasher):
        def verify(self, hash, password):
            hashed.append(argon2.extract_parameters(hash))
            return super().verify(hash, password)

    users = opened(Noting(**QUICK)).users
    users.add("alice", PASSWORD)
    users.add("bob", "battery staple")
    texts = {str(fails(users, user, word, f"10.{number}.0.1")) for number, (user, word) in enumerate(WRONG[:9])}
    users._throttle = Throttle()
    texts |= {str(fails(users, user, word, f"10.{number}.0.1")) for number, (user, word) in enumerate(WRONG[9:])}
    assert len(texts) == 1 and len(hashed) == len(WRONG) and all(parameters == hashed[0] for parameters in hashed)


def test_the_default_work_is_that_of_the_standard(tmp_path):
    with NodeIdentity(tmp_path, "n") as node:
        node.users.add("alice", PASSWORD)
        (found,) = node._database.rows("SELECT password FROM users")
        assert found[0].startswith("$argon2id$v=19$m=65536,t=3,p=4$")
        assert PASSWORD not in repr(node) + repr(node.users.list())
    for path in tmp_path.iterdir():
        assert stat.S_IMODE(path.stat().st_mode) == 0o600
        assert PASSWORD.encode() not in path.read_bytes()


def test_hashes_are_renewed_when_the_work_changes(opened):
    first = opened()
    first.users.add("alice", PASSWORD)
    token = first.users.login("alice", PASSWORD)
    second = opened(argon2.PasswordHasher(time_cost=2, memory_cost=16, parallelism=1))
    fails(second.users, "alice", "wrong")
    assert "t=1" in first._database.rows("SELECT password FROM users")[0][0]
    second.users.verify("alice", PASSWORD)
    assert "m=16,t=2" in first._database.rows("SELECT password FROM users")[0][0]
    assert first.tokens.read(token).user == "alice"  # it is the same password
    assert first.users.verify("alice", PASSWORD).user == "alice"


@pytest.mark.parametrize("password", ["", "short", "x" * 1025, "\ud800" * 10, None, 12345678, b"12345678", "Bob Smith"])
def test_bad_passwords_are_refused(users, password):
    with pytest.raises(AccountError, match="8 to 1024 characters") as caught:
        users.add("bob smith", password)
    assert not password or str(password) not in str(caught.value)
    users.add("bob smith", PASSWORD)
    with pytest.raises(AccountError, match="8 to 1024 characters"):
        users.change("bob smith", password)
    assert users.verify("bob smith", PASSWORD).user == "bob smith"


def test_a_password_may_be_composed_in_any_way(users):
    typed = "pässwörd ключ 鍵"
    users.add("éva", unicodedata.normalize("NFD", typed))
    assert users.verify("e\u0301va", unicodedata.normalize("NFC", typed)).user == "éva"


@pytest.mark.parametrize("call", ["change", "change_role", "remove", "add"])
def test_users_that_are_not_there_or_have_no_name(users, call):
    arguments = {"change": ("another password",), "change_role": ("owner",), "remove": (), "add": (PASSWORD,)}[call]
    with pytest.raises(AccountError, match="letters and digits"):
        getattr(users, call)("a/b", *arguments)
    with pytest.raises(AccountError, match="no user 'carol'" if call != "add" else "User 'bob' already exists"):
        getattr(users, call)("carol" if call != "add" else "BOB", *arguments)
    assert users.verify("bob", "battery staple").role == "user"


def test_there_are_no_other_roles(users):
    for role in ("admin", "", None, ["owner"]):
        with pytest.raises(AccountError, match="owner, user"):
            users.add("carol", PASSWORD, role)
        with pytest.raises(AccountError, match="owner, user"):
            users.change_role("bob", role)
    assert "carol" not in users


@pytest.mark.parametrize(
    "change",
    [
        lambda users: users.remove("Bob"),
        lambda users: users.change("Bob", "another password"),
        lambda users: users.change_role("Bob", "owner"),
    ],
    ids=["remove", "change", "change_role"],
)
def test_changes_revoke_the_tokens(node, users, opened, change):
    token = users.login("bob", "battery staple")
    alice = users.login("alice", PASSWORD)
    change(users)
    for tokens in (node.tokens, opened().tokens):  # also after a restart
        refused(tokens, token, "All tokens of this user were revoked")
        assert tokens.read(alice).user == "alice"


def test_a_removed_user_comes_back_without_its_old_tokens(node, users):
    token = users.login("bob", "battery staple")
    users.remove("bob")
    fails(users, "bob", "battery staple")
    users.add("bob", "a new password")
    refused(node.tokens, token, "revoked")
    assert node.tokens.read(users.login("bob", "a new password")).user == "bob"


def test_a_user_removed_during_a_login_gets_an_invalid_token(node, users, monkeypatch):
    matches = users._matches

    def slowly(hashed, password):
        found = matches(hashed, password)
        users.remove("bob")
        return found

    monkeypatch.setattr(users, "_matches", slowly)
    refused(node.tokens, users.login("bob", "battery staple"), "revoked")


def test_a_change_that_can_not_revoke_changes_nothing(node, users, monkeypatch):
    monkeypatch.setattr(node.tokens, "revoke_user", lambda user: 1 / 0)
    with pytest.raises(ZeroDivisionError):
        users.remove("bob")
    assert users.verify("bob", "battery staple").user == "bob"


def test_users_survive_a_restart(users, opened, node):
    node.close()
    node.close()
    again = opened()
    assert again.users.verify("bob", "battery staple").role == "user" and len(again.users) == 2
    assert repr(again).startswith("<NodeIdentity of 'hospital-a', key SHA256:")


def test_eight_threads_at_once(node, users):
    def work(index):
        for number in range(3):
            name = f"user-{index}-{number}"
            users.add(name, f"password {name}")
            token = users.login(name, f"password {name}", f"10.0.{index}.1")
            assert node.tokens.read(token).user == name
            users.change(name, f"another {name}")
            refused(node.tokens, token, "revoked")
            fails(users, name, f"password {name}", f"10.0.{index}.2")
            if number:
                users.remove(name)

    in_threads(work, 8)
    assert [account.user for account in users.list()] == ["alice", "bob", *(f"user-{index}-0" for index in range(8))]


def test_one_of_many_adds_a_name(users):
    outcomes = []

    def work(index):
        try:
            users.add("carol", f"password {index}")
            outcomes.append(index)
        except AccountError:
            pass

    in_threads(work, 8)
    assert len(outcomes) == 1 and users.verify("carol", f"password {outcomes[0]}").user == "carol"


# Those who guess -------------------------------------------------------------------------------------------


def test_guessing_gets_slower_and_slower(users, clock):
    for _ in range(6):
        fails(users, "alice", "wrong", f"10.0.0.{_}")
    waits = []
    for number in range(10):
        error = fails(users, "alice", PASSWORD, f"10.0.1.{number}", TooManyAttemptsError)
        assert f"Wait {round(error.retry_after)} s" in str(error)
        waits.append(error.retry_after)
        clock.now += error.retry_after
        fails(users, "alice", "wrong", f"10.0.2.{number}")
    assert waits == [1, 2, 4, 8, 16, 32, 60, 60, 60, 60]
    assert users.verify("bob", "battery staple", "10.0.0.1").user == "bob"
    clock.now += 60
    assert users.verify("alice", PASSWORD, "10.0.0.9").user == "alice"
    fails(users, "alice", "wrong", "10.0.0.9")  # what was before is forgotten


def test_users_that_are_not_there_are_slowed_down_alike(users):
    for name in ("alice", "nobody"):
        for number in range(6):
            fails(users, name, "wrong", f"10.0.{len(name)}.{number}")
    errors = [str(fails(users, name, PASSWORD, "10.9.9.9", TooManyAttemptsError)) for name in ("alice", "nobody")]
    assert errors[0] == errors[1]


def test_an_address_is_slowed_down_whatever_user_it_tries(users, clock):
    for number in range(21):
        fails(users, f"user-{number}", "wrong", f"2001:db8::{number:x}")  # one network of one party
    fails(users, "alice", PASSWORD, "2001:db8::ffff:1", TooManyAttemptsError)
    assert users.verify("alice", PASSWORD, "2001:db8:0:1::1").user == "alice"


def test_own_logins_do_not_reset_the_throttle_for_other_users(users):
    for number in range(21):
        if number in (0, 10, 20):  # before it is known there, and afterwards
            users.verify("bob" if number else "alice", "battery staple" if number else PASSWORD, "10.0.0.1")
        fails(users, f"user-{number}", "a guess", "10.0.0.1")
    assert users.verify("bob", "battery staple", "10.0.0.1").user == "bob"
    fails(users, "user-21", "a guess", "10.0.0.1", TooManyAttemptsError)


def test_failures_are_forgotten_after_a_while(users, clock):
    for number in range(6):
        fails(users, "alice", "a guess", f"10.0.0.{number}")
    clock.now += 121
    for number in range(6):
        fails(users, "alice", "a guess", f"10.0.0.{number}")
    fails(users, "alice", PASSWORD, "10.0.0.7", TooManyAttemptsError)


def test_guessing_does_not_lock_out_a_user_at_its_own_address(users, clock):
    users.verify("alice", PASSWORD, "192.0.2.7")
    for number in range(6):
        fails(users, "alice", "wrong", f"10.0.0.{number}")
    fails(users, "alice", PASSWORD, "10.0.0.200", TooManyAttemptsError)
    assert users.verify("alice", PASSWORD, "192.0.2.7").user == "alice"
    for _ in range(6):
        fails(users, "alice", "wrong", "::ffff:192.0.2.7")
    fails(users, "alice", PASSWORD, "192.0.2.7", TooManyAttemptsError)


def test_guessing_does_not_lock_out_others_at_the_same_address(users):
    users.verify("alice", PASSWORD, "192.0.2.7")
    for number in range(21):
        fails(users, f"user-{number}", "a guess", "192.0.2.7")
    fails(users, "bob", "battery staple", "192.0.2.7", TooManyAttemptsError)
    assert users.verify("alice", PASSWORD, "192.0.2.7").user == "alice"


def test_many_at_once_gain_nothing(users):
    kinds, start = [], threading.Barrier(8)

    def guess(index):
        start.wait()
        for _ in range(4):
            try:
                users.verify("alice", "wrong", f"10.0.0.{index}")
            except AuthenticationError as error:
                kinds.append(type(error))

    in_threads(guess, 8)
    assert kinds.count(AuthenticationError) == 6 and kinds.count(TooManyAttemptsError) == 26


def test_rejected_attempts_are_not_counted(users, monkeypatch):
    monkeypatch.setattr(users_module, "_HASH_TIMEOUT", 0.01)
    with pytest.MonkeyPatch.context() as busy:
        busy.setattr(users, "_hashing", threading.BoundedSemaphore(1))
        users._hashing.acquire()
        for _ in range(10):
            fails(users, "alice", PASSWORD, "10.0.0.1", TooManyAttemptsError)
    assert users.verify("alice", PASSWORD, "10.0.0.1").user == "alice" and users._throttle._failures == {}


def test_the_memory_of_failures_is_bounded(clock):
    throttle = Throttle(clock, capacity=50)
    for number in range(500):
        attempt = throttle.enter(f"user-{number}", f"10.0.{number // 250}.{number % 250}")
        if number % 2:
            throttle.succeed(attempt)
        assert len(throttle) <= 101
    throttle.enter("alice", "y" * 10_000)
    assert max(len(part) for key in throttle._failures for part in key) == 64


@settings(max_examples=100, deadline=None)
@given(st.integers(0, 10**6), st.integers(0, 10**6))
def test_waits_grow_up_to_a_limit(failures, more):
    for limit in (*LIMITS.values(), AttemptLimit(0, 0.5, 10)):
        assert 0 <= limit.wait(failures) <= limit.wait(failures + more) <= limit.max_seconds
        assert limit.wait(limit.free) == 0 < limit.wait(limit.free + 1)
