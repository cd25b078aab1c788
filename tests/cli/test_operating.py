"""docs/how-to/deploy.md beyond its tour: the lines of a client, backup and restore, and a node with PostgreSQL."""

import os
import re
import shutil
import stat
import subprocess
import sys
from pathlib import Path

import pytest
import torch

import syft as sy
from tests.helpers import warm_processes as warm
from tests.helpers.cli import ENV, Served, run
from tests.helpers.grid import postgres
from tests.helpers.nodes import forget

PAGE = Path(__file__).resolve().parent.parent.parent / "docs" / "how-to" / "deploy.md"
ADDRESS = "wss://node.hospital-a.example:8777"


@pytest.fixture
def place(tmp_path):
    """A folder with an authority, a certificate and data."""
    assert run("node", "certs", "authority", tmp_path / "team", "--name", "team").code == 0
    hosts = ("--host", "localhost", "--host", "127.0.0.1")
    assert run("node", "certs", "issue", tmp_path / "certs", "--authority", tmp_path / "team", *hosts).code == 0
    (tmp_path / "data").mkdir()
    (tmp_path / "data" / "patients.csv").write_text("age,pressure\n61,140\n47,120\n")
    return tmp_path


def started(place, *words):
    certificate = ("--cert", place / "certs" / "node.pem", "--key", place / "certs" / "node.key")
    return Served(place, "node", "start", "--id", "hospital-a", "--threads", 1, *certificate, *words)


def owner_of(node, place, hook):
    token = Path(node.told["owner_token_file"]).read_text().strip()
    return sy.connect(node.told["url"], token=token, ca=place / "team" / "authority.pem", hook=hook)


@pytest.mark.timeout(120)
def test_the_log_of_a_client(place):
    (lines,) = [block for block in re.findall(r"```python\n(.*?)```", PAGE.read_text(), re.DOTALL) if ADDRESS in block]
    node = started(place, "--store", place / "store", "--data", place / "data")
    try:
        store = ("--store", place / "store")
        issued = run("node", "tokens", "issue", *store, "--user", "alice", "--output", place / "alice.token")
        assert issued.code == 0, issued.err
        shutil.copy(place / "team" / "authority.pem", place)
        code = lines.replace(ADDRESS, node.told["url"]) + "\nprint(node.id, node.search('#patients')[0].shape)\n"
        done = warm.run(code, cwd=place, timeout=100)
        assert done.returncode == 0 and done.stdout.split("\n")[0] == "hospital-a torch.Size([2, 2])", done.stderr
    finally:
        node.end()


@pytest.mark.timeout(120)
def test_backup_and_restore(place, hook):
    assert "cp -a store backup" in PAGE.read_text()
    store, backup = place / "store", place / "backup"
    node = started(place, "--store", store, "--data", place / "data")
    token = run("node", "tokens", "issue", "--store", store, "--user", "alice").out.strip()
    client = owner_of(node, place, hook)
    torch.tensor([4.0, 2.0]).tag("#kept").send(client, garbage_collect_data=False)
    client.synchronize()
    forget(hook, client)
    node.end()
    subprocess.run(["cp", "-a", "store", "backup"], cwd=place, check=True)
    shutil.rmtree(store)
    subprocess.run(["cp", "-a", "backup", "store"], cwd=place, check=True)
    assert stat.S_IMODE((store / "identity").stat().st_mode) == 0o700 and backup.is_dir()
    again = started(place, "--store", store)
    try:
        assert again.told["fingerprint"] == node.told["fingerprint"]
        user = sy.connect(again.told["url"], token=token, ca=place / "team" / "authority.pem", hook=hook)
        assert user.search("#patients")[0].shape == (2, 2)  # the token stays good
        forget(hook, user)
        client = owner_of(again, place, hook)
        assert client.search("#kept")[0].get().tolist() == [4.0, 2.0]
        forget(hook, client)
        assert "The log is intact" in run("node", "audit", "verify", "--store", store).out
    finally:
        again.end()


@pytest.mark.timeout(180)
def test_a_node_with_postgresql(place, hook, monkeypatch):
    address = postgres.server().database()
    monkeypatch.setenv("SYFT_STORE", address)
    monkeypatch.setattr(
        "tests.helpers.cli.ENV", {**ENV, "SYFT_STORE": address, "RESYFT_HOME": os.environ["RESYFT_HOME"]}
    )
    home = ("--home", place / "home")
    node = started(place, *home, "--data", place / "data")
    client = owner_of(node, place, hook)
    torch.tensor([4.0, 2.0]).tag("#kept").send(client, garbage_collect_data=False)
    client.synchronize()
    forget(hook, client)
    assert "#patients" in run("node", "data", "list", *home).out
    assert node.end() == 0
    shown = run("node", "data", "list", *home)  # the node is stopped: on the database itself
    assert shown.code == 0 and "#kept" in shown.out and "does not run" in shown.err
    again = started(place, *home)
    try:
        client = owner_of(again, place, hook)
        assert client.search("#kept")[0].get().tolist() == [4.0, 2.0]
        forget(hook, client)
        assert str(postgres.server().folder) not in again.log.read_text()  # of the address only what has no password
    finally:
        again.end()


# Runs `node start`, and prints whether other processes of the same account may read its memory: 0 for no.
DUMPABLE = """
import ctypes, os, pathlib, runpy, signal, sys, threading, time

def look():
    end = time.monotonic() + 60
    while not pathlib.Path(sys.argv[-1]).exists() and time.monotonic() < end:
        time.sleep(0.05)
    print("dumpable:", ctypes.CDLL(None).prctl(3, 0, 0, 0, 0), flush=True)
    os.kill(os.getpid(), signal.SIGINT)

threading.Thread(target=look, daemon=True).start()
runpy.run_module("syft", run_name="__main__", alter_sys=True)
"""


@pytest.mark.timeout(120)
@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="prctl is a call of Linux")
def test_memory_of_a_node_is_closed_to_other_processes_of_its_account(tmp_path):
    words = ("node", "start", "--no-store", "--threads", "1", "--ready-file", tmp_path / "ready")
    done = warm.run(DUMPABLE, *words, env=ENV, timeout=100)
    assert "dumpable: 0" in done.stdout, done.stdout + done.stderr
