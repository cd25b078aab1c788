"""Default folders of a node, and how the owner's commands find them."""

import os
import stat
from pathlib import Path

import pytest
import torch

import syft as sy
from syft.cli import paths
from syft.exceptions import SyftError
from tests.helpers.cli import Served, run
from tests.helpers.nodes import forget


@pytest.fixture
def home(tmp_path, monkeypatch):
    """A data directory of this test's own."""
    folder = tmp_path / "mine" / "resyft"
    monkeypatch.setenv(paths.VARIABLE, str(folder))
    monkeypatch.setattr("tests.helpers.cli.ENV", {**os.environ, "OMP_NUM_THREADS": "1"})
    return folder


def connected(node, hook, token):
    return sy.connect(node.told["url"], token=token, hook=hook)


@pytest.mark.timeout(120)
def test_a_node_has_a_default_store(home, tmp_path, hook):
    words = ("node", "start", "--id", "hospital-a", "--threads", 1)
    node = Served(tmp_path, *words)
    try:
        said = node.log.read_text()
        assert node.told["store"] == str(home / "nodes" / "hospital-a") and node.told["store"] in said
        assert "node tokens issue --node hospital-a --user alice" in said
        token = run("node", "tokens", "issue", "--node", "hospital-a", "--user", "rosa", "--role", "owner").out.strip()
        client = connected(node, hook, token)
        kept = torch.tensor([4.0, 2.0]).tag("#kept").send(client)
        kept.garbage_collect_data = False
        forget(hook, client)
    finally:
        assert node.end() == 0
    for folder in (home, home / "nodes", home / "nodes" / "hospital-a", home / "nodes" / "hospital-a" / "identity"):
        assert stat.S_IMODE(folder.stat().st_mode) == 0o700, folder
    again = Served(tmp_path, *words)
    try:
        client = connected(again, hook, token)  # the key was kept, so the token is good
        assert client.search("#kept")[0].get().tolist() == [4.0, 2.0]
        forget(hook, client)
    finally:
        again.end()


def test_commands_find_a_node_by_its_id_and_the_only_one_without(home):
    found = run("node", "users", "list")
    assert found.code == 2 and "--node ID or --store FOLDER" in found.err
    found = run("node", "users", "list", "--node", "hospital-a")
    assert found.code == 1 and "No node was ever started" in found.err and "--id hospital-a" in found.err
    start = ("node", "start", "--data", "nowhere")
    for name in ("hospital-a", "hospital-b"):
        assert run(*start, "--id", name).code == 1
        record(home, name)
        if name == "hospital-a":
            assert run("node", "users", "list").code == 0
    assert run("node", "users", "list").code == 2
    found = run("node", "users", "list", "--node", "hospital-b")
    assert found.code == 0 and "The node hospital-b does not run" in found.err
    found = run("node", "users", "list", "--node", "hospital-b", "--store", home / "nodes" / "hospital-a")
    assert found.code == 1 and "is that of the node hospital-a, not of hospital-b" in found.err


def record(home, name, as_name=None):
    from syft.cli.node_record import NodeRecord

    NodeRecord(as_name or name).write(home / "nodes" / name / "identity")


def test_a_folder_of_another_id_is_not_taken(home):
    run("node", "start", "--data", "nowhere", "--id", "ward")
    record(home, "ward", as_name="Ward")
    found = run("node", "start", "--id", "ward")
    assert found.code == 1 and "is that of the node Ward" in found.err and found.err.count("\n") == 1


@pytest.mark.timeout(120)
def test_no_store_keeps_nothing_and_says_so(home, tmp_path):
    node = Served(tmp_path, "node", "start", "--no-store", "--threads", 1)
    said = node.log.read_text()
    node.end()
    assert node.told["store"] is None and "nothing is kept when it stops" in said and not home.exists()
    found = run("node", "start", "--no-store", "--store", tmp_path / "s")
    assert found.code == 2 and "not both" in found.err


@pytest.mark.parametrize("name", ["..", ".", "../../etc", "a/b", ".hidden", "über", "a\\b", "C:", "x\0y"])
def test_no_id_leads_out_of_the_folder(home, name):
    found = paths.default_store(name)
    assert found.parent == home / "nodes" and found.name not in (".", "..") and not found.name.startswith(".")
    assert not set("/\\:\0") & set(found.name)


def test_ids_have_folders_of_their_own(home):
    names = ["..", "%2E.", ".a", "%2Ea", "a/b", "a%2Fb", "a b", "a+b"]
    assert len({paths.default_store(name) for name in names}) == len(names)
    for name in ("", " ", "ü" * 100):
        with pytest.raises(SyftError, match="short text"):
            paths.default_store(name)


def test_the_directory_follows_the_variables(monkeypatch, tmp_path):
    for name in (paths.VARIABLE, "XDG_DATA_HOME"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("HOME", str(tmp_path))
    assert paths.data_home() == tmp_path / ".local" / "share" / "resyft"
    monkeypatch.setenv("XDG_DATA_HOME", "relative")
    assert paths.data_home() == tmp_path / ".local" / "share" / "resyft"
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "xdg"))
    assert paths.data_home() == tmp_path / "xdg" / "resyft"
    monkeypatch.setenv(paths.VARIABLE, "here")
    assert paths.data_home() == Path.cwd() / "here"
