"""Stores that can't be opened: the error says which one, why, and what to do."""

import errno

import pytest

from syft.exceptions import StorageError
from syft.grid.storage import open_storage
from syft.grid.storage.error_mapping import startup_error


def test_a_damaged_store_is_named(tmp_path):
    open_storage(tmp_path / "store").close()
    for name in ("index.sqlite-wal", "index.sqlite-shm"):
        (tmp_path / "store" / name).unlink(missing_ok=True)
    (tmp_path / "store" / "index.sqlite").write_bytes(b"rubbish" * 1000)
    with pytest.raises(StorageError, match=r"index.sqlite is damaged .*backup") as told:
        open_storage(tmp_path / "store")
    assert str(tmp_path / "store") in str(told.value)


def test_a_store_of_another_account_is_named():
    told = str(startup_error(PermissionError(errno.EACCES, "geheim"), "/srv/store"))
    assert "/srv/store can't be opened: this account has no write permission (EACCES)" in told and "geheim" not in told


@pytest.mark.parametrize(
    ("host", "why"),
    [("127.0.0.1:1", "can't be reached .ECONNREFUSED"), ("nowhere.invalid", "its host name can.t be resolved")],
)
def test_a_database_that_does_not_answer_is_named_without_its_password(host, why):
    pytest.importorskip("pg8000")
    with pytest.raises(StorageError, match=why) as told:
        open_storage(f"postgresql://node:geheim@{host}/objects?sslmode=disable")
    assert f"postgresql://{host}/objects" in str(told.value) and "geheim" not in str(told.value)
