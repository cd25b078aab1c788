"""The log of a node: what is written down, and how one sees that it was not changed."""

from __future__ import annotations

import json
import stat
import threading

import pytest
import torch

from syft.core.references import Ref
from syft.grid.rights import AuditError, AuditFile, AuditLog
from syft.messaging import message as m


def test_decisions_are_written_down_without_values(node, alice, owner):
    secret = alice.keep("torch.Tensor.sum", Ref(2))
    alice.get(secret.id)
    node.policy.requests.approve(alice.request(secret.id, "see\x00 this")["id"], by="dr-bob")
    alice.get(secret.id)
    rows = [(row["user"], row["action"], row["how"], row["allowed"]) for row in node.policy.audit.rows()]
    assert rows == [
        ("alice", "release", "get", False), ("alice", "request", "request", None), ("dr-bob", "decide", "result", True),
        ("alice", "release", "get", True),
    ]  # fmt: skip
    last = node.policy.audit.rows()[-1]
    assert last["request"] == node.policy.requests.list()[0]["id"] and last["object"] == str(secret.id)
    assert "70" not in json.dumps([{**row, "hash": "", "previous": ""} for row in rows_without_ids(node)])
    assert node.policy.audit.verify() == 4


def rows_without_ids(node):
    return [{key: row[key] for key in ("user", "action", "how", "reason")} for row in node.policy.audit.rows()]


def test_what_is_ones_own_is_nobodys_business(node, alice):
    alice.send_tensor(torch.ones(2), 7)
    alice.get(7)
    assert node.policy.audit.rows() == []


def test_a_changed_row_shows(clock):
    log = AuditLog(clock)
    for number in range(5):
        log.write("alice", "login", allowed=bool(number % 2), reason="x" * 10_000)
    assert log.verify() == 5 and all(len(row["reason"]) <= 500 for row in log.rows())
    assert [row["number"] for row in log.rows(after=2, limit=2)] == [3, 4]
    log._rows[2]["allowed"] = True
    log._rows[2]["user"] = "carol"
    with pytest.raises(AuditError, match="Row 3"):
        log.verify()


def test_the_file_of_the_log(tmp_path, clock):
    path = tmp_path / "audit.jsonl"
    log = AuditFile(path, clock)
    threads = [threading.Thread(target=lambda: [log.write("ä\x1b", "login") for _ in range(5)]) for _ in range(4)]
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


def test_a_log_that_can_not_be_written_stops_the_release(node, alice, monkeypatch):
    """What is not written down does not happen."""
    node.policy.requests.approve(alice.request(1)["id"])

    def full(row):
        raise OSError("No space left on device")

    monkeypatch.setattr(node.policy.audit, "_store", full)
    assert isinstance(alice.get(1), m.ErrorMessage)
