"""The command line: a real node process, and what its owner types."""

import importlib.metadata
import json
import re
import signal
import stat
import sys
import time
from pathlib import Path

import numpy as np
import pytest
import torch
import typer

import syft as sy
from syft import __main__ as entry
from syft.cli import main as cli
from syft.grid import certificates
from syft.grid.isolation.confinement.confine import available
from syft.workers.node_client import parse_address
from syft.workers.transport.http import ask
from syft.workers.websocket_client import where_of
from tests.helpers.cli import Served, run, told

SECRET = "424242"  # a part of a value that must show nowhere


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    """A folder as an operator has it: an authority, a certificate, data."""
    folder = tmp_path_factory.mktemp("operator")
    assert run("node", "certs", "authority", folder / "team", "--name", "Our team").code == 0
    issued = run(
        "node",
        "certs",
        "issue",
        folder / "certs",
        "--authority",
        folder / "team",
        "--host",
        "localhost",
        "--host",
        "127.0.0.1",
    )
    assert issued.code == 0 and "SHA256:" in issued.out
    (folder / "data").mkdir()
    (folder / "data" / "patients.csv").write_text(f"age,pressure\n{SECRET}.5,140\n47,{SECRET}.25\n")
    (folder / "data" / "patients.json").write_text(
        json.dumps({"tags": ["#cardiology"], "description": "two [bold]rows"})
    )
    (folder / "data" / "broken.csv").write_text(f"a,b\n{SECRET},x\n")
    return folder


@pytest.fixture(scope="module")
def gateway(place):
    authority = place / "team" / "authority.pem"
    made = Served(
        place, "gateway", "start", "--no-tokens", "--ca", authority, "--store", place / "gateway", "--lifetime", 60
    )
    yield made
    made.end()


@pytest.fixture(scope="module")
def node(place, gateway):
    made = Served(
        place, "node", "start", "--id", "hospital-a", "--data", place / "data", "--store", place / "store",
        "--ready-file", place / "ready.json", "--cert", place / "certs" / "node.pem", "--key", place / "certs" / "node.key",
        "--owner", "Dr. Olga", "--log-level", "debug", "--threads", 1, "--gateway", gateway.told["url"], cold=True,
    )  # fmt: skip
    yield made
    made.end()


@pytest.fixture(autouse=True)
def quiet(monkeypatch):
    """Leave the logs of this process to pytest."""
    monkeypatch.setattr("syft.cli.start.start_log", lambda level: None)


@pytest.fixture
def alice(node, place, hook):
    """Alice, with a token that the owner made for her."""
    token = run("node", "tokens", "issue", "--user", "Alice", "--expires", "1h", "--store", place / "store")
    assert token.code == 0 and token.out.count("\n") == 1 and "role user" in token.err
    client = sy.connect(node.told["url"], token=token.out.strip(), ca=place / "team" / "authority.pem", hook=hook)
    yield client
    client.close()
    hook.local_worker._known_workers.pop("hospital-a", None)


def test_start_prints_data_sets_and_their_users(node, place):
    said = node.log.read_text()
    assert (
        "Node hospital-a" in said and "1 published object" in said and "#cardiology #patients" in said and "2x2" in said
    )
    assert "two [bold]rows" in said  # a description is shown as it is
    assert "broken.csv was left out" in said
    assert "programs of this machine with a token, over TLS" in said
    assert node.told["url"] in said and f'sy.connect("{node.told["url"]}"' in said and node.told["fingerprint"] in said
    assert certificates.fingerprint(place / "certs" / "node.pem") in said and str(place / "store") in said
    assert json.loads((place / "ready.json").read_text()) == node.told
    token_file = Path(node.told["owner_token_file"])
    assert stat.S_IMODE(token_file.stat().st_mode) == 0o600
    assert str(token_file) in said and token_file.read_text().strip() not in said


def test_a_second_node_on_the_same_store_gives_one_line(node, place):
    found = run("node", "start", "--id", "hospital-a", "--store", place / "store")
    assert found.code == 1 and found.out == ""
    assert "in use by another running node" in found.err and found.err.count("\n") == 1


@pytest.mark.parametrize(
    ("words", "text"),
    [
        (("--host", "192.0.2.1"), "no TLS"),
        (("--host", "192.0.2.1", "--no-tokens"), "no TLS and no tokens"),
        (("--cert", "missing.pem"), "both"),
        (("--id", " "), "id of a node"),
        (("--store", "postgresql://user:geheim@nowhere.example/db"), "home"),
        (("--data", "nowhere"), "does not exist"),
    ],
)
def test_failed_starts_print_one_line(words, text):
    found = run("node", "start", *words)
    assert found.code == 1 and text in found.err and found.err.count("\n") == 1
    assert "geheim" not in found.err and "Traceback" not in found.err


@pytest.mark.parametrize(
    "words",
    [
        ("node", "start", "--port", "70000"),
        ("node", "start", "--max-bytes", "lots"),
        ("node", "start", "--log-level", "loud"),
        ("node", "requests", "list"),
        ("node", "requests", "approve"),
        ("node", "requests", "approve", "x", "--expires", "soon", "--store", "s"),
        ("node", "requests", "approve", "x", "--scope", "all", "--store", "s"),
        ("node", "tokens", "revoke", "--store", "s"),
        ("node", "tokens", "issue", "--url", "ws://localhost:1", "--user", "x"),
        ("node", "nonsense"),
    ],
)
def test_usage_errors_exit_with_2(words, monkeypatch):
    monkeypatch.delenv("SYFT_TOKEN", raising=False)
    found = run(*words)
    assert found.code == 2 and "Traceback" not in found.err


def test_users(node, place):
    store = ("--store", place / "store")
    added = run("node", "users", "add", "Rosa", *store, given="correct horse\n")
    assert added.code == 0 and "rosa was added" in added.out and f"runs: asking it at {node.told['url']}" in added.err
    again = run("node", "users", "add", "rosa", *store, given="correct horse\n")
    assert again.code == 1 and "already" in again.err
    weak = run("node", "users", "add", "weak", *store, given="short\n")
    assert weak.code == 1 and "password" in weak.err and "short" not in weak.err
    assert [row["user"] for row in json.loads(run("node", "users", "list", *store, "--json").out)] == ["rosa"]
    assert run("node", "users", "passwd", "rosa", *store, given="battery staple\n").code == 0
    assert run("node", "users", "passwd", "nobody", *store, given="battery staple\n").code == 1
    assert run("node", "users", "remove", "rosa", *store).code == 0
    assert "No user has a password" in run("node", "users", "list", *store).out


def test_tokens_by_address(node, place, monkeypatch, tmp_path):
    there = ("--url", node.told["url"], "--ca", place / "team" / "authority.pem")
    owner = ("--token-file", node.told["owner_token_file"])
    made = run("node", "tokens", "issue", "--user", "bob", *there, *owner, "--output", tmp_path / "bob", "--json")
    assert made.code == 0 and json.loads(made.out)["user"] == "bob" and "token" not in json.loads(made.out)
    assert stat.S_IMODE((tmp_path / "bob").stat().st_mode) == 0o600
    assert (
        "exists already"
        in run("node", "tokens", "issue", "--user", "bob", *there, *owner, "--output", tmp_path / "bob").err
    )
    # Bob is no owner, and nobody at all once his token is revoked.
    monkeypatch.setenv("SYFT_TOKEN", (tmp_path / "bob").read_text())
    refused = run("node", "users", "list", *there)
    assert refused.code == 1 and "role 'user' may not" in refused.err
    assert run("node", "tokens", "revoke", "--file", tmp_path / "bob", *there, *owner).code == 0
    assert "revoked" in run("node", "users", "list", *there).err
    (tmp_path / "bob").chmod(0o644)
    assert "chmod 600" in run("node", "users", "list", *there, "--token-file", tmp_path / "bob").err
    stranger = run("node", "users", "list", "--url", node.told["url"], *owner)
    assert stranger.code == 1 and "not signed by an authority that is trusted" in stranger.err
    plain = run("node", "users", "list", "--url", node.told["url"].replace("wss", "ws"), *owner)
    assert plain.code == 1 and "its address begins with wss://" in plain.err
    away = run("node", "users", "list", "--url", "wss://localhost:1", "--ca", place / "team" / "authority.pem", *owner)
    assert away.code == 1 and "Could not reach wss://localhost:1: connection refused. Check that" in away.err


def test_data(node, place, tmp_path):
    store = ("--store", place / "store")
    shown = run("node", "data", "list", *store)
    assert (
        shown.code == 0
        and "#cardiology #patients" in shown.out
        and "2x2" in shown.out
        and SECRET not in told(shown.out)
    )
    np.save(tmp_path / "scans.npy", np.arange(6.0).reshape(2, 3))
    made = run("node", "data", "publish", tmp_path / "scans.npy", "--tag", "#mri", "--description", "two scans", *store)
    assert made.code == 0, made.err
    obj_id = made.out.split()[-1]
    (row,) = json.loads(run("node", "data", "list", "--tag", "#mri", *store, "--json").out)
    assert row["id"] == obj_id and row["shape"] == [2, 3] and row["tags"] == ["#mri", "#scans"]
    assert run("node", "data", "export", obj_id, tmp_path / "copy.csv", *store).code == 0
    assert np.loadtxt(tmp_path / "copy.csv", delimiter=",").tolist() == [[0, 1, 2], [3, 4, 5]]
    assert stat.S_IMODE((tmp_path / "copy.csv").stat().st_mode) == 0o600
    assert "exists already" in run("node", "data", "export", obj_id, tmp_path / "copy.csv", *store).err
    assert "stop it first" in run("node", "data", "export", obj_id, tmp_path / "copy.resyft", *store).err
    assert run("node", "data", "export", "12345", tmp_path / "none.npy", *store).code == 1
    (tmp_path / "notes.txt").write_text("x")
    assert "unsupported file type" in run("node", "data", "publish", tmp_path / "notes.txt", *store).err
    assert (
        "alice bob may read it" in run("node", "data", "share", obj_id, "--user", "alice", "--user", "bob", *store).out
    )
    assert run("node", "data", "delete", obj_id, *store).code == 0
    assert run("node", "data", "delete", obj_id, *store).code == 1


def test_requests_grants_and_the_log(node, place, alice):
    store = ("--store", place / "store")
    (x,) = alice.search("#cardiology")
    mean, total = x.mean(), x.sum()
    with pytest.raises(sy.exceptions.GetNotPermittedError):
        mean.copy().get()
    one, two = mean.request(reason="the [red]mean"), total.request(reason="the sum")
    shown = run("node", "requests", "list", "--status", "pending", *store)
    assert one.id in shown.out and "the [red]mean" in shown.out and "alice" in shown.out
    assert SECRET not in told(shown.out)
    approved = run("node", "requests", "approve", one.id, "--expires", "7d", "--answer", "fine", *store)
    assert approved.code == 0 and "alice may fetch" in approved.out
    assert "already decided" in run("node", "requests", "deny", one.id, *store).err
    assert run("node", "requests", "deny", two.id, "--reason", "too much", *store).code == 0
    assert (one.status(), one.answer, two.status(), two.answer) == ("approved", "fine", "denied", "too much")
    assert mean.get() > 1
    (grant,) = json.loads(run("node", "grants", "list", *store, "--json").out)
    assert grant["user"] == "alice" and run("node", "grants", "revoke", grant["id"], *store).code == 0
    assert run("node", "grants", "revoke", "nothing", *store).code == 1
    log = run("node", "audit", "show", "--limit", "1000", *store)
    assert log.code == 0 and "decide" in log.out and "release" in log.out and SECRET not in told(log.out)
    verified = run("node", "audit", "verify", *store)
    assert verified.code == 0 and "intact" in verified.out


def test_logs_carry_no_values(node, place, alice):
    """A session that computes on recognisable values, fails on them and is refused, leaves none in the log."""
    (x,) = alice.search("#cardiology")
    y = torch.full((2, 2), float(SECRET)).send(alice)
    for wrong in (
        lambda: (x @ torch.ones(3, 3).send(alice)).get(),
        lambda: x.get(),
        lambda: x[5].get(),
        lambda: (x + y).tolist(),
    ):
        with pytest.raises((sy.exceptions.SyftError, RuntimeError, IndexError)):
            wrong()
    assert (y + 1).get()[0, 0] == float(SECRET) + 1
    alice.synchronize()
    said = node.log.read_text()
    assert "alice (user) has a new session" in said  # --log-level debug
    assert SECRET not in told(said) and "4.2424" not in told(said)
    token = Path(node.told["owner_token_file"]).read_text().strip()
    assert token not in said and token.split(".")[2] not in said


def test_a_gateway_knows_the_node(node, gateway, place):
    where = where_of(*parse_address(gateway.told["url"]), None, None)
    known, tries = [], 0
    while not known and (tries := tries + 1) < 600:
        known = ask(where, "GET", "/v1/nodes")["nodes"]
        time.sleep(0.1)
    assert known == [{"id": "hospital-a", "address": node.told["url"]}]
    assert "Gateway gateway" in gateway.log.read_text()
    token = run("gateway", "token", "--user", "hospital-b", "--store", place / "gateway")
    assert token.code == 0 and token.out.count(".") == 2 and "valid until" in token.err
    assert run("gateway", "token", "--user", "x", "--store", place / "nowhere").code == 1


def test_ctrl_c_is_clean_and_the_store_goes_on(node, gateway, place, tmp_path):
    """The last one that needs the node, since it ends it."""
    store = ("--store", place / "store")
    assert node.end(signal.SIGINT) == 0
    assert ask(where_of(*parse_address(gateway.told["url"]), None, None), "GET", "/v1/nodes") == {"nodes": []}
    assert gateway.end(signal.SIGTERM) == 0 and "has stopped" in gateway.log.read_text()
    assert node.log.read_text().splitlines()[-1] == "The node hospital-a has stopped."
    assert "Traceback" not in node.log.read_text() and not (place / "ready.json").exists()
    shown = run("node", "data", "list", *store)
    assert shown.code == 0 and "#cardiology" in shown.out and "does not run: working on its store" in shown.err
    (row,) = json.loads(run("node", "data", "list", *store, "--json").out)
    assert run("node", "data", "export", row["id"], tmp_path / "all.resyft", *store).code == 0
    assert run("node", "data", "delete", row["id"], *store).code == 0
    assert run("node", "data", "publish", tmp_path / "all.resyft", *store).code == 0
    (back,) = json.loads(run("node", "data", "list", *store, "--json").out)
    assert back == row
    assert run("node", "audit", "verify", *store).code == 0
    never = run("node", "users", "list", "--store", tmp_path / "never")
    assert never.code == 1 and "ever started" in never.err and not (tmp_path / "never").exists()


def test_doctor_names_missing_packages(monkeypatch, capsys):
    shown = run("doctor")
    assert shown.code == 0 and re.search(rf"^resyft +{re.escape(sy.__version__)} ", shown.out, re.MULTILINE)
    assert importlib.metadata.version("torch") in shown.out
    real = entry.importlib.util.find_spec
    missing = {"pg8000", "typer"}
    monkeypatch.setattr(entry.importlib.util, "find_spec", lambda name, *a: None if name in missing else real(name, *a))
    assert "Missing for nodes with PostgreSQL: pg8000. Install: pip install 'pg8000>=1.31'" in run("doctor").out
    with pytest.raises(SystemExit) as end:
        entry.main()
    assert end.value.code == 1 and "pip install 'argon2-cffi>=25' 'fastapi>=0.130'" in capsys.readouterr().err


def test_doctor_lists_the_measures_of_isolation():
    shown = run("doctor")
    assert shown.code == 0
    for name, state in available().items():
        assert f"{name} " in shown.out and state in shown.out


def test_a_missing_package_gives_one_line(monkeypatch, tmp_path):
    monkeypatch.setitem(sys.modules, "syft.grid.node.node", None)

    def lacking(*args, **kwargs):
        raise ModuleNotFoundError("No module named 'fastapi'", name="fastapi")

    monkeypatch.setattr(cli.app, "__call__", lacking, raising=False)
    monkeypatch.setattr(type(cli.app), "__call__", lacking)
    found = run("node", "start")
    assert (
        found.code == 1 and "pip install 'argon2-cffi>=25' 'fastapi>=0.130'" in found.err and found.err.count("\n") == 1
    )


def groups(command, path=()):
    """Yield each group of commands, and the words that lead to it."""
    if hasattr(command, "commands"):
        yield path, command
        for name, below in command.commands.items():
            yield from groups(below, (*path, name))


def test_lists_of_commands_are_not_cut_at_80_columns(monkeypatch):
    monkeypatch.setenv("COLUMNS", "80")
    found = list(groups(typer.main.get_command(cli.app)))
    assert len(found) > 10
    for path, _ in found:
        text = run(*path, "--help").out.partition("Commands:")[2]
        assert text and "..." not in text, text


def test_version():
    assert run("--version").out == f"resyft {sy.__version__}\n"


def test_help_names_every_command():
    shown = run("node", "--help")
    assert shown.code == 0
    for word in ("start", "requests", "users", "tokens", "grants", "audit", "data", "certs"):
        assert word in shown.out
