"""The audit log of a node: its rows, and the detection of changes."""

from __future__ import annotations

import json
import sqlite3
import stat
import threading

import pytest
import torch

from syft.core.references import Ref
from syft.exceptions import StorageError
from syft.grid.rights import AuditError, AuditFile, AuditLog
from syft.grid.storage import open_storage
from syft.messaging import message as m
from tests.helpers.grid.storage import memory_records
from tests.helpers.nodes import node as node_process


@pytest.fixture
def clock():
    return lambda: 1000.0


def rows_of(owner, after):
    return [row for row in owner.ask(m.ListRightsMessage("audit")) if row["number"] > after]


def last_of(owner):
    return max((row["number"] for row in owner.ask(m.ListRightsMessage("audit"))), default=0)


def test_decisions_are_logged_without_values(data, alice, owner):
    before = last_of(owner)
    secret = alice.keep("torch.Tensor.sum", Ref(data[1]))
    alice.get(secret.id)
    request = alice.request(secret.id, "see\x00 this")
    owner.approve(request)
    alice.get(secret.id)
    rows = rows_of(owner, before)
    assert [(row["user"], row["action"], row["how"], row["allowed"]) for row in rows] == [
        ("alice", "request", "request", None), ("owner", "decide", "result", True), ("alice", "release", "get", True),
    ]  # fmt: skip
    assert rows[-1]["request"] == request["id"] and rows[-1]["object"] == str(secret.id)
    assert "70" not in json.dumps([[row[key] for key in ("user", "action", "how", "reason")] for row in rows])


def test_reading_shared_data_is_logged(data, alice, owner):
    before = last_of(owner)
    owner.share(data[0], "alice")
    alice.get(data[0])
    rows = [(row["user"], row["action"], row["object"], row["allowed"]) for row in rows_of(owner, before)]
    assert rows[0] == ("owner", "share", data[0], None) and ("alice", "release", data[0], True) in rows


def test_use_of_own_objects_is_not_logged(alice, owner, fresh):
    before, mine = last_of(owner), fresh()
    alice.send_tensor(torch.ones(2), mine)
    alice.get(mine)
    assert rows_of(owner, before) == []


def test_a_changed_row_is_detected(clock):
    records = memory_records()
    log = AuditLog(records, clock)
    for number in range(5):
        log.write("alice", "login", allowed=bool(number % 2), reason="x" * 10_000)
    assert log.verify() == 5 and all(len(row["reason"]) <= 500 for row in log.rows())
    assert [row["number"] for row in log.rows(after=2, limit=2)] == [3, 4]
    rows, forged = log.rows(), memory_records()
    rows[2].update(allowed=True, user="carol")
    for row in rows:  # a chain of entries that is right, with a row that is not
        forged.append("audit", row)
    with pytest.raises(AuditError, match="Row 3"):
        AuditLog(forged, clock).verify()


def test_the_log_in_a_store(tmp_path, clock):
    path = tmp_path / "store"
    with open_storage(path) as storage:
        log = AuditLog(storage.records, clock)
        threads = [
            threading.Thread(target=lambda: [log.write("\u00e4\x1b", "login") for _ in range(5)]) for _ in range(4)
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    with open_storage(path) as storage:
        log = AuditLog(storage.records, clock)
        log.write("alice", "login")
        assert log.verify() == 21 and [row["number"] for row in log.rows(after=20)] == [21]
    with sqlite3.connect(path / "index.sqlite") as database:
        database.execute("delete from log where number = 21")
    database.close()
    with open_storage(path) as storage, pytest.raises(StorageError, match="after entry 20"):
        AuditLog(storage.records, clock).verify()


def test_the_log_in_a_file(tmp_path, clock):
    path = tmp_path / "audit.jsonl"
    log = AuditFile(path, clock)
    threads = [threading.Thread(target=lambda: [log.write("\u00e4\x1b", "login") for _ in range(5)]) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    log.close()
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    with path.open("ab") as file:
        file.write(b'{"number": 21, "half of')  # the machine went off while it wrote
    log = AuditFile(path, clock)
    log.write("alice", "login")
    assert log.verify() == 21 and [row["number"] for row in log.rows(after=20)] == [21]
    assert [row["number"] for row in log.rows(after=2, limit=2)] == [3, 4]
    log.close()
    lines = path.read_bytes().splitlines(keepends=True)
    for broken in (
        lines[:5] + lines[6:],
        [lines[1], lines[0], *lines[2:]],
        [b"nonsense\n", *lines],
        [b"[]\n", *lines[1:]],
    ):
        path.write_bytes(b"".join(broken))
        with pytest.raises(AuditError):
            AuditFile(path, clock)
    path.write_bytes(b"".join(lines))
    log = AuditFile(path, clock)
    path.write_bytes(b"".join(lines[:-1]))
    with pytest.raises(AuditError, match="ends with row 20"):
        log.verify()
    log.close()


def test_a_log_that_can_not_be_written_stops_the_release(connect, tmp_path):
    """A release that can't be logged does not happen."""
    prepare = f"""
import os
append = node.storage.records.append
def full(area, row):
    if os.path.exists({str(tmp_path / "full")!r}):
        raise OSError("No space left on device")
    return append(area, row)
node.storage.records.append = full
"""
    with node_process("full", prepare=prepare) as process:
        alice, owner = connect("alice", process), connect("owner", process)
        owner.send_tensor(torch.ones(2), "data", published=True)
        owner.approve(alice.request("data"))
        (tmp_path / "full").touch()
        assert isinstance(alice.get("data"), m.ErrorMessage)
        (tmp_path / "full").unlink()
        assert alice.get("data").tolist() == [1, 1]
