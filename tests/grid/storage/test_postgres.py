"""A store in PostgreSQL, where it differs: a server that goes away, a full one, locks of connections, addresses."""

from __future__ import annotations

import shutil
import signal
import subprocess

import pytest
import torch

from syft.core.references import Ref
from syft.exceptions import StorageError, StorageFullError
from syft.grid.storage import open_storage
from syft.grid.storage import postgres as backend
from tests.helpers.grid import postgres
from tests.helpers.grid.storage import StoredNode


@pytest.fixture
def server():
    return postgres.server()


@pytest.fixture
def node(server):
    made = StoredNode(server.database())
    yield made
    made.stop()


def test_a_server_that_goes_away_and_comes_back(node, server):
    peer = node.peer()
    peer.send(torch.arange(3), "before")
    server.stop(signal.SIGQUIT)  # as if it had crashed
    try:
        for _ in range(2):
            with pytest.raises(StorageError, match="is not available"):
                peer.send(torch.ones(3), "meanwhile")
        with pytest.raises(StorageError, match="undone"):
            peer.call("torch.Tensor.add_", Ref("before"), 1)
        peer.send(torch.ones(3), "temporary", published=False)
        assert peer.get("temporary").tolist() == [1, 1, 1] and "meanwhile" not in node.objects
    finally:
        server.start()
    peer.send(torch.ones(3), "after")
    assert peer.call("torch.Tensor.add", Ref("before"), 0) and node.objects["before"].tolist() == [0, 1, 2]
    with pytest.raises(StorageError, match="another running node"):  # the new connection has the lock again
        open_storage(node.where)
    assert sorted(node.restart().objects) == ["after", "before"]


def test_a_node_that_lost_its_lock_writes_nothing(node, server, monkeypatch):
    """Its connection was cut, and another node came first: two would not know of each other."""
    peer = node.peer()
    peer.send(torch.ones(3), "x")
    server.sql(
        "postgres",
        "select pg_terminate_backend(pid) from pg_stat_activity where backend_type = 'client backend' and pid <> pg_backend_pid()",
    )
    other = StoredNode(node.where)
    with pytest.raises(StorageError, match="another running node"):
        peer.send(torch.ones(3), "y")
    assert list(other.objects) == ["x"]
    other.stop()
    monkeypatch.setattr(backend, "_LOCK_TIMEOUT_MS", 60_000)  # a busy server takes its time to notice that it stopped
    peer.send(torch.ones(3), "y")
    assert sorted(node.restart().objects) == ["x", "y"]


def test_large_values_are_in_pieces(node, server):
    value = torch.rand(3_000_000)
    node.peer().send(value, "large")
    assert server.sql(node.where, "select count(*), max(length(data)) from chunks") == [[3, 4 * 2**20]]
    assert torch.equal(node.restart().objects["large"], value)
    server.sql(node.where, "update chunks set data = overlay(data placing '\\x01' from 5 for 1) where number = 1")
    node.restart()
    with pytest.raises(StorageError, match="damaged"):
        node.peer().get("large")
    assert not node.objects and "checksum" in node.storage.damaged()[0].reason
    node.peer().send(value, "large")
    server.sql(node.where, "delete from chunks where number = 2")
    assert not node.restart().objects and len(node.storage.damaged()) == 2
    node.peer().send(value, "again")
    node.peer("ann").delete("again")
    assert server.sql(
        node.where, "select count(*) from chunks c where not exists (select 1 from damaged d where d.stamp = c.blob)"
    ) == [[0]]


def test_a_full_server_is_one_clear_error(server, tmp_path):
    folder = server.folder / "small"
    folder.mkdir()
    mounted = subprocess.run(["mount", "-t", "tmpfs", "-o", "size=24m", "tmpfs", folder], capture_output=True)
    if mounted.returncode:
        pytest.skip("a small file system can't be mounted here: that takes root")
    try:
        shutil.chown(folder, "nobody")
        server.sql("postgres", f"create tablespace small location '{folder}'")
        server.sql("postgres", "create database small tablespace small")
        node = StoredNode(f"postgresql://node@/small?unix_sock={server.socket}")
        peer, count = node.peer(), 0
        with pytest.raises(StorageFullError, match="is full"):
            for count in range(100):
                peer.send(torch.rand(500_000), count)
        assert 1 < count < 20 and list(node.objects) == list(range(count)) and len(node.storage.items()) == count
        assert torch.equal(node.restart().objects[0], node.objects[0])
        node.stop()
        server.sql("postgres", "drop database small")
        server.sql("postgres", "drop tablespace small")
    finally:
        subprocess.run(["umount", "-l", folder], check=True)


@pytest.mark.parametrize(
    "url, words",
    [
        ("postgresql://node:hunter2@/none?unix_sock=/nowhere/.s.PGSQL.5432", "can't be reached"),
        ("postgresql://node:hunter2@127.0.0.1:1/none", "127.0.0.1:1/none can't be opened: it can't be reached"),
        ("postgresql://node:hunter2@127.0.0.1:port/none", "Use postgresql://"),
        ("postgresql://node:hunter2@127.0.0.1/none?sslmode=prefer", "sslmode must be verify-full or disable"),
        ("postgres://node:hunter2@/none?service=x", "unknown option 'service'"),
    ],
)
def test_addresses_that_are_not_right(url, words):
    with pytest.raises(StorageError, match=words) as caught:
        open_storage(url)
    assert "hunter2" not in f"{caught.value!r} {caught.value.__cause__!r}"


def test_other_machines_are_spoken_to_over_tls(monkeypatch):
    assert backend._context("127.0.0.1", "", None) is backend._context("localhost", "", None) is None
    context = backend._context("db.example.org", "", None)
    assert context.check_hostname and context.verify_mode.name == "CERT_REQUIRED"
    assert backend._context("db.example.org", "disable", None) is None
