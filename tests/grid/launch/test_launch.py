"""`sy.launch`: a real node in a child process, with its owner and users in this program."""

from __future__ import annotations

import contextlib
import os
import signal
import socket
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import torch

import syft as sy
from syft.exceptions import BudgetExceededError, GetNotPermittedError, NodeLostError, NodeStartError, SyftError
from syft.grid.launch.process import LaunchedProcess
from tests.helpers.nodes import soon

AGES = torch.tensor([33.0, 41.0, 29.0, 61.0])
DATA = {
    "ages": AGES,
    "blood": (np.arange(6).reshape(3, 2), {"tags": ["lab"], "description": "two values", "epsilon": 1.0}),
    "open": (torch.ones(2), {"allowed_users": ["sam"]}),
    "pairs": sy.BaseDataset(torch.rand(4, 2), torch.tensor([0, 1, 1, 0])),
}


@pytest.fixture(scope="module")
def node():
    sy.TorchHook(torch)
    with sy.launch("launch-hospital", data=DATA, users=["Sam", "eve"], owner="office@example.org") as node:
        yield node


def is_there(pid):
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    with open(f"/proc/{pid}/stat") as file:
        return file.read().rpartition(")")[2].split()[0] != "Z"


def test_it_is_the_node_of_the_command_line_with_tls_and_tokens(node):
    status = node.owner.status()
    assert (status["id"], status["owner"]) == ("launch-hospital", "office@example.org")
    assert status["tls"] and status["tokens"] and status["durable"] and node.url.startswith("wss://127.0.0.1:")
    assert "Isolation:" in node.log() and node.is_running
    assert "with a token, over TLS" in node.log()


def test_data_is_published_and_private_by_default(node):
    rows = {min(row.tags): row for row in node.owner.data if row.kind == "tensor"}
    assert {tag: (row.shape, row.dtype) for tag, row in rows.items()} == {
        "#ages": ([4], "float32"),
        "#blood": ([3, 2], "int64"),
        "#open": ([2], "float32"),
    }
    assert rows["#blood"].tags == ["#blood", "#lab"] and rows["#blood"].description == "two values"
    sam = node.users["sam"]
    for tag in ("#ages", "#lab"):
        with pytest.raises(GetNotPermittedError, match="private data"):
            sam.search(tag)[0].get()


def test_readers_of_a_data_set_are_those_that_were_named(node):
    assert node.client("sam").search("#open")[0].copy().get().tolist() == [1, 1]
    with pytest.raises(GetNotPermittedError):
        node.client("eve").search("#open")[0].copy().get()


def test_a_budget_opens_a_data_set_to_answers_with_noise(node):
    sam = node.users["sam"]
    count = sy.dp.count(sam.search("#blood")[0], where=(0, ">=", 0), epsilon=0.5)
    assert isinstance(float(count), float)
    (limit,) = node.owner.budget
    assert (limit.epsilon, limit.spent, limit.releases) == (1.0, 0.5, 1)
    assert node.owner.budget.entries()[0].user == "sam"
    with pytest.raises(BudgetExceededError):
        sy.dp.count(sam.search("#ages")[0], where=(">=", 0), epsilon=0.1)


def test_a_data_set_of_samples_and_targets_can_be_trained_on(node):
    (pairs,) = [row for row in node.owner.data if row.id == "dataset:pairs"]
    assert pairs.kind == "dataset"


def test_unpacking_gives_the_owner_and_the_users(node):
    owner, sam, eve = node
    assert owner is node.owner and sam is node.client("SAM") is node.users["sam"] and eve is node.users["eve"]
    assert list(node.users) == ["sam", "eve"] and "sam" in node.users and "max" not in node.users


def test_an_unknown_user_is_an_error_that_names_the_users(node):
    with pytest.raises(SyftError, match=r"no user 'tom'. Its users: sam, eve. Add one: node.add_user\('tom'\)"):
        node.users["tom"]
    with pytest.raises(SyftError, match="no user 'tom'"):
        node.token("tom")


def test_a_token_connects_another_program(node, hook):
    client = sy.connect(node.url, token=node.token("eve"), ca=node.ca, hook=hook)
    assert client.search("#ages")
    client.close()


def test_reprs_say_what_to_type_next_and_show_no_token(node):
    text, page = repr(node), node._repr_html_()
    for part in ("launch-hospital", node.url, str(node.pid), "#ages", "sam, eve", "node.users['sam'].search("):
        assert part in text
    assert "#ages" in page and "<table" in page
    assert "ey" + "J" not in text + page + repr(node.owner) + repr(node.users)


def test_a_rerun_with_equal_arguments_keeps_the_node_and_what_was_asked(node):
    request = node.users["sam"].search("#ages")[0].mean().request(reason="again")
    same = sy.launch("launch-hospital", data=DATA, users=["sam", "eve"], owner="office@example.org")
    assert same is node
    assert request.id in {asked.id for asked in same.owner.requests}


@pytest.mark.parametrize(
    ("data", "text"),
    [
        ({"x": "no-such-file.csv"}, "there is no file or folder 'no-such-file.csv'"),
        ("no-such-folder", "the data folder 'no-such-folder' does not exist"),
        ({"x": [1, 2]}, "'x' is of type list. It can be a tensor"),
        ({"x": np.array(["a"])}, "values of type <U1, not numbers"),
        ({"x y": AGES}, "'x y' is no name of a data set"),
        ({3: AGES}, "3 is no name of a data set"),
        ({"x": (AGES, {"tag": ["#a"]})}, "unknown option 'tag'. Did you mean 'tags'"),
        ({"x": (AGES, AGES)}, "must be a value and a dictionary of options"),
        ({"x": (AGES, {"tags": [3]})}, "must be a list of texts"),
        ({"x": (DATA["pairs"], {"tags": ["a"]})}, "has no tags"),
        (AGES, "needs a dictionary"),
    ],
)
def test_wrong_data_is_refused_before_anything_starts(data, text, monkeypatch):
    monkeypatch.setattr(LaunchedProcess, "__init__", lambda *args: pytest.fail("a process was started"))
    with pytest.raises(SyftError, match=text):
        sy.launch("launch-wrong", data=data)


def test_a_pointer_is_no_data(bob, monkeypatch):
    monkeypatch.setattr(LaunchedProcess, "__init__", lambda *args: pytest.fail("a process was started"))
    with pytest.raises(SyftError, match=r"Fetch its values first: x = x.get\(\)"):
        sy.launch("launch-wrong", data={"x": torch.ones(2).send(bob)})


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        ({"name": "no id"}, "Invalid node id 'no id'"),
        ({"name": "a", "thread": 2}, "no option 'thread'. Did you mean 'threads'"),
        ({"name": "a", "quite_other": 2}, "no option 'quite_other'. Options are: data, users"),
        ({"name": "a", "threads": 0}, "positive number of threads, got 0"),
        ({"name": "a", "port": 70000}, "needs a port from 0 to 65535, got 70000"),
        ({"name": "a", "peers": "b"}, "needs a list of texts, got 'b'"),
        ({"name": {}}, "at least one node"),
        ({"name": {"a": {}}, "data": {"x": AGES}}, r"launch\(data=...\) is for one node"),
        ({"name": {"a": {}}, "port": 99}, r"launch\(port=...\) is for one node"),
    ],
)
def test_wrong_arguments_are_refused_before_anything_starts(arguments, text, monkeypatch):
    monkeypatch.setattr(LaunchedProcess, "__init__", lambda *args: pytest.fail("a process was started"))
    with pytest.raises(SyftError, match=text):
        sy.launch(**arguments)


def test_nodes_that_can_not_start_say_why_and_leave_nothing(hook):
    taken = socket.create_server(("127.0.0.1", 0))
    port = taken.getsockname()[1]
    with (
        contextlib.closing(taken),
        pytest.raises(NodeStartError, match=rf"'launch-port' did not start: Port {port} .*in use"),
    ):
        sy.launch("launch-port", port=port)
    with pytest.raises(NodeStartError, match="'launch-size' did not start: .*write a size"):
        sy.launch("launch-size", max_bytes="many")


def test_several_nodes_start_together_and_other_arguments_replace_one(hook, tmp_path):
    (tmp_path / "north").mkdir()
    (tmp_path / "north" / "rain.csv").write_text("day,mm\n1,3\n2,5\n")
    (tmp_path / "north" / "rain.json").write_text('{"tags": ["#weather"]}')
    nodes = sy.launch({"launch-north": str(tmp_path / "north"), "launch-south": {"wind": AGES}}, users="sam")
    north, south = nodes
    with north, south:
        assert [node.id for node in nodes] == ["launch-north", "launch-south"]
        grid = sy.PrivateGridNetwork(*(node.users["sam"] for node in nodes))
        assert list(grid.search("#weather")) == ["launch-north"] and list(grid.search("#wind")) == ["launch-south"]
        (wind,) = south.users["sam"].search("#wind")
        (changed,) = sy.launch({"launch-south": {"wind": AGES + 1}}, users="sam")
        assert changed is not south and not south.is_running and changed.is_running and north.is_running
        assert "stopped" in repr(south)
        with pytest.raises(NodeLostError):
            wind.sum().get()
        changed.stop()
        assert not changed.is_running and not is_there(changed.pid)
        changed.stop()


def test_a_store_keeps_data_and_requests_of_a_node_that_was_killed(hook, tmp_path):
    settings = {"data": {"ages": AGES}, "users": "sam", "store": tmp_path / "store"}
    first = sy.launch("launch-stored", **settings)
    before = [row.id for row in first.owner.data]
    first.users["sam"].search("#ages")[0].mean().request(reason="mean")
    os.kill(first.pid, signal.SIGKILL)
    assert soon(lambda: not first.is_running)
    with sy.launch("launch-stored", **settings) as node:
        assert node is not first
        assert [row.id for row in node.owner.data] == before
        assert [asked.reason for asked in node.owner.requests] == ["mean"]


PROGRAM = """
import os, sys, torch, syft as sy
sy.TorchHook(torch)
node = sy.launch("launch-child", data={"x": torch.ones(3)})
print(node.pid, node.process.folder.parent, flush=True)
child = os.fork() if sys.argv[1] == "fork" else 1
if child == 0:  # a fork that holds a copy of everything, also of the pipe
    print(os.getpid(), flush=True)
    os.setsid()
    sys.stdin.read()
    os._exit(0)
sys.stdin.read()
"""


@pytest.mark.parametrize("way", ["SIGINT", "fork"])
def test_a_node_ends_with_the_program_that_launched_it(way, tmp_path):
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "TMPDIR": str(tmp_path)}
    program = subprocess.Popen(
        [sys.executable, "-c", PROGRAM, way], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=environment
    )
    pid, folder = program.stdout.readline().split()
    assert is_there(int(pid)) and Path(folder).is_dir()
    forked = int(program.stdout.readline()) if way == "fork" else None
    program.send_signal(signal.SIGINT if way == "SIGINT" else signal.SIGKILL)
    program.wait(60)
    try:
        assert soon(lambda: not is_there(int(pid)))
        assert soon(lambda: not list(tmp_path.glob("syft-launch-store-*")))
        if way == "SIGINT":
            assert not Path(folder).exists()
    finally:
        if forked is not None:
            os.kill(forked, signal.SIGKILL)
        program.stdin.close()
        program.stdout.close()


def test_the_example_of_the_guide_runs(capsys):
    page = (Path(sy.__file__).parent.parent / "docs" / "how-to" / "deploy.md").read_text()
    block = page.partition("## In a notebook")[2].partition("```python\n")[2].partition("```")[0]
    exec(block, {})
    assert "64.5" in capsys.readouterr().out


def test_a_missing_package_is_named(monkeypatch):
    import importlib.util

    find = importlib.util.find_spec
    monkeypatch.setattr(importlib.util, "find_spec", lambda name, *more: None if name == "typer" else find(name, *more))
    with pytest.raises(sy.exceptions.DependencyError, match=r"typer.*pip install 'argon2-cffi"):
        sy.launch("launch-missing")
