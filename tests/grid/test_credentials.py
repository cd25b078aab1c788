"""Credentials of clients."""

import json
import logging

import pytest

from syft.exceptions import AccountError
from syft.grid.authentication import AbstractCredential, AccountCredential

PASSWORD = "correct horse"


def written(path, contents, mode=0o600):
    path.write_bytes(contents if isinstance(contents, bytes) else json.dumps(contents).encode())
    path.chmod(mode)
    return str(path.parent), path.name


ALICE, BOB = {"username": "alice", "password": PASSWORD}, {"user": "Bob", "password": "battery staple"}


@pytest.mark.parametrize("contents", [[ALICE, BOB], {"accounts": [ALICE, BOB]}, {"accounts": [ALICE, BOB], "more": 1}])
def test_accounts_are_read_from_a_file(tmp_path, contents, caplog):
    found = AccountCredential.parse(*written(tmp_path / "accounts.json", contents))
    assert found == [AccountCredential("alice", PASSWORD), AccountCredential("Bob", "battery staple")]
    assert [credential.json() for credential in found] == [ALICE, {"username": "Bob", "password": "battery staple"}]
    assert all(isinstance(credential, AbstractCredential) for credential in found) and not caplog.records
    assert AccountCredential.parse(*written(tmp_path / "none.json", [])) == []


def test_a_credential_does_not_show_its_password(tmp_path, caplog):
    credential = AccountCredential("alice", PASSWORD)
    assert PASSWORD not in f"{credential!r} {credential} {[credential]} {{}}" and "alice" in repr(credential)
    assert (
        credential != AccountCredential("alice", "other")
        and credential != "alice"
        and len({credential, credential}) == 1
    )
    with caplog.at_level(logging.WARNING):
        AccountCredential.parse(*written(tmp_path / "open.json", [ALICE], 0o644))
    assert "chmod 600" in caplog.text and PASSWORD not in caplog.text


@pytest.mark.parametrize(
    "contents",
    [
        b"",
        b"\xff\xfe",
        b"{" * 5000,
        b"[" * 100_000,
        {},
        {"accounts": {}},
        {"alice": PASSWORD},
        5,
        *(
            [row]
            for row in (
                "alice",
                {"username": "alice"},
                {"password": PASSWORD},
                {"username": 5, "password": PASSWORD},
                None,
            )
        ),
        [ALICE, {"username": "bob", "password": ["battery staple"]}],
    ],
    ids=lambda contents: str(contents)[:30],
)
def test_other_files_are_refused(tmp_path, contents):
    with pytest.raises(AccountError, match='accounts.json.*"accounts"') as caught:
        AccountCredential.parse(*written(tmp_path / "accounts.json", contents))
    assert PASSWORD not in str(caught.value) and "battery" not in str(caught.value)


def test_a_file_that_is_not_there(tmp_path):
    with pytest.raises(AccountError, match="can't be read"):
        AccountCredential.parse(str(tmp_path), "none.json")
    with pytest.raises(TypeError):
        AbstractCredential()


def test_documented_imports_work():
    from syft.grid import AccountCredential as documented

    assert documented is AccountCredential
