"""Privacy budgets at real nodes: over the network, the HTTP API and the command line, and through a crash."""

from __future__ import annotations

import http.client
import json
import threading

import pytest

import syft as sy
from syft.config import configure, current
from syft.exceptions import BudgetExceededError, GetNotPermittedError, NotPermittedError, ObjectNotFoundError, SyftError
from syft.messaging import message as m
from syft.workers.budget_client import BUDGET
from tests.helpers.cli import run
from tests.helpers.nodes import Line, forget
from tests.helpers.nodes import node as node_process

DATA = "age\n" + "\n".join(str(float(number)) for number in range(100))
# Ends the node between the charge and the computation, as a power cut would; one question does that.
FATAL = """
import os, signal
budget = node.policy.budget
charges = budget.charge
def charge(user, data, event, what):
    entry = charges(user, data, event, what)
    if event.get("epsilon") == 0.625:
        os.kill(os.getpid(), signal.SIGKILL)
    return entry
budget.charge = charge
"""


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    """A node with published ages of a hundred people, in a process of its own."""
    folder = tmp_path_factory.mktemp("budget")
    (folder / "data").mkdir()
    (folder / "data" / "ages.csv").write_text(DATA)
    with node_process("clinic", store=str(folder / "store"), data=str(folder / "data"), prepare=FATAL) as process:
        yield process


@pytest.fixture
def people(place, hook):
    """Clients of alice, bob and the owner, and the id of the ages; without limits, whatever was spent before."""
    seen = {name: place.connect(hook, name) for name in ("owner", "alice", "bob")}
    for row in seen["owner"].budget.limits():
        seen["owner"].budget.remove(row["data"], row["user"])
    yield seen
    forget(hook, *seen.values())


def ages_at(client):
    return client.search("#ages")[0]


def spent(client, **which):
    (row,) = [row for row in client.budget.limits() if all(row[name] == value for name, value in which.items())]
    return row["spent"]


def place_api(place):
    connection = http.client.HTTPConnection("127.0.0.1", place.port, timeout=60)
    connection.request("GET", "/openapi.json")
    found = json.loads(connection.getresponse().read())
    connection.close()
    return found


def ask_http(place, method, path, user, body=None):
    connection = http.client.HTTPConnection("127.0.0.1", place.port, timeout=60)
    headers = {"Authorization": f"Bearer {place.tokens[user]}", "Content-Type": "application/json"}
    connection.request(method, f"/v1/{path}", None if body is None else json.dumps(body), headers)
    answer = connection.getresponse()
    text = answer.read().decode()
    connection.close()
    return answer.status, json.loads(text) if text else None


def test_a_node_answers_within_the_limit_and_no_further(place, people):
    alice, owner = people["alice"], people["owner"]
    pointer = ages_at(alice)
    with pytest.raises(BudgetExceededError, match="no privacy budget"):
        sy.dp.mean(pointer, 0, 100, epsilon=0.5)
    before = spent(owner, data=str(pointer.id_at_location)) if owner.budget.limits() else 0.0
    owner.budget.set(pointer, 10.0, delta=1e-6)
    owner.budget.set(pointer, 10.0, user="*")
    assert sy.dp.mean(pointer, 0, 100, epsilon=5.0) == pytest.approx(49.5, abs=10)
    assert sy.dp.sum(pointer, 0, 100, epsilon=4.0) == pytest.approx(4950, abs=600)
    with pytest.raises(BudgetExceededError, match="Nothing was charged"):
        sy.dp.count(pointer, epsilon=2.0)
    with pytest.raises(GetNotPermittedError):
        pointer.get()
    (together, each) = alice.budget()
    assert (together["user"], each["user"]) == (None, "*") and each["left"] == pytest.approx(1.0 - before, abs=1e-6)
    assert sy.dp.histogram(pointer, 2, 0, 100, epsilon=0.9).shape == (1, 2)


def test_only_owners_set_limits_and_read_about_others(place, people):
    alice, bob, owner = people["alice"], people["bob"], people["owner"]
    pointer = ages_at(alice)
    for change in (lambda: alice.budget.set(pointer, 99.0), lambda: alice.budget.set(None, 99.0),
                   lambda: alice.budget.remove(pointer), lambda: alice.budget.limits(),
                   lambda: alice.budget.set("dataset:new", 9.0), lambda: alice.budget.entries("bob"),
                   lambda: alice.budget.entries(user="owner")):  # fmt: skip
        with pytest.raises(NotPermittedError):
            change()
    owner.budget.set(pointer, 100.0, delta=1e-6)
    sy.dp.count(ages_at(bob), epsilon=0.01)
    assert {row["user"] for row in bob.budget.entries()} == {"bob"} == {r["user"] for r in owner.budget.entries("bob")}
    assert "bob" not in {row["user"] for row in alice.budget.entries()}
    for status, user, path in (
        (403, "alice", "budget?user=bob"), (403, "alice", "budget/entries?user=bob"), (200, "alice", "budget"),
        (200, "alice", "budget/entries?user=Alice"), (200, "owner", "budget/entries?user=bob&limit=1"),
        (422, "owner", "budget/entries?limit=0"), (200, "owner", "budget?user=bob"),
    ):  # fmt: skip
        assert ask_http(place, "GET", path, user)[0] == status, path
    assert ask_http(place, "PUT", "budget", "alice", {"epsilon": 1.0})[0] == 403
    assert ask_http(place, "DELETE", "budget", "alice")[0] == 403
    _, rows = ask_http(place, "GET", "budget/entries", "bob")
    assert rows and {row["user"] for row in rows} == {"bob"} and rows[0]["event"]["mechanism"] == "laplace"


@pytest.mark.parametrize("body", [
    {}, {"epsilon": -1}, {"epsilon": "1"}, {"epsilon": 1, "delta": 1}, {"epsilon": 1, "spent": 0}, {"epsilon": True},
    {"epsilon": 1.0, "user": ""}, {"epsilon": 1.0, "data": ""}, {"epsilon": 1.0, "data": 5},
])  # fmt: skip
def test_limits_over_http_are_checked(place, body):
    assert ask_http(place, "PUT", "budget", "owner", body)[0] == 422


def test_limits_over_http(place, people):
    ages = str(ages_at(people["owner"]).id_at_location)
    status, rows = ask_http(place, "PUT", "budget", "owner", {"data": ages, "epsilon": 77.0, "user": "Alice"})
    assert status == 200 and (rows[0]["user"], rows[0]["epsilon"], rows[0]["data"]) == ("alice", 77.0, ages)
    assert ask_http(place, "PUT", "budget", "owner", {"data": "no such data", "epsilon": 1.0})[0] == 404
    assert ask_http(place, "PUT", "budget", "owner", {"epsilon": 1.0, "user": "no/name"})[0] in (400, 403, 200)
    assert ask_http(place, "PUT", "budget", "owner", {"data": "dataset:later", "epsilon": 1.0})[0] == 200
    assert {row["data"] for row in ask_http(place, "GET", "budget", "owner")[1]} >= {ages, "dataset:later"}
    assert ask_http(place, "DELETE", f"budget?data={ages}&user=alice", "owner")[0] == 204
    assert ask_http(place, "DELETE", f"budget?data={ages}&user=alice", "owner")[0] == 404
    api = place_api(place)
    assert set(api["paths"]["/v1/budget"]) == {"get", "put", "delete"} and "get" in api["paths"]["/v1/budget/entries"]


def test_two_users_at_once_do_not_overspend_together(place, people):
    owner, limit = people["owner"], 0.1
    pointer = ages_at(owner)
    owner.budget.set(pointer, 1e3)
    start = spent(owner, data=str(pointer.id_at_location))
    owner.budget.set(pointer, start + limit)
    done, gate = [], threading.Barrier(2)

    def ask(client):
        mine = ages_at(client)
        gate.wait(60)
        for _ in range(8):
            try:
                done.append(sy.dp.count(mine, epsilon=0.01))
            except BudgetExceededError:
                return

    threads = [threading.Thread(target=ask, args=(people[name],)) for name in ("alice", "bob")]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(100)
    assert len(done) == 10
    assert spent(owner, data=str(pointer.id_at_location)) == pytest.approx(start + limit, rel=1e-6)


def test_a_request_that_is_sent_again_is_charged_once(place, people, hook):
    """The connection is cut at several points after the query was sent; the next connection has the answer."""
    owner = people["owner"]
    owner.budget.set(ages_at(owner), 1e4, delta=1e-6)
    line = Line(place.port)
    alice = place.connect(hook, "alice", port=line.port)
    try:
        pointer = ages_at(alice)
        before = len(owner.budget.entries("alice"))
        for after in (0, 1, 20):
            line.cut_after_received = after
            assert isinstance(sy.dp.count(pointer, epsilon=0.01), int)
        assert line.cuts == 3 and len(owner.budget.entries("alice")) == before + 3
    finally:
        forget(hook, alice)
        line.close()


def test_the_log_holds_charges_and_refusals(place, people):
    alice, owner = people["alice"], people["owner"]
    pointer = ages_at(alice)
    owner.budget.set(pointer, 9e3, delta=1e-6, user="alice")
    sy.dp.count(pointer, epsilon=0.02)
    with pytest.raises(BudgetExceededError):
        sy.dp.count(pointer, epsilon=9999.0)
    rows = sy.local_worker.send_msg(m.ListRightsMessage("audit"), owner)
    mine = [(r["action"], r["how"], r["allowed"], r["reason"]) for r in rows if r["user"] == "alice"][-2:]
    assert mine[0] == ("charge", "dp.count", True, "laplace epsilon=0.02")
    assert mine[1] == ("charge", "dp.count", False, "budget: laplace epsilon=9999")
    assert any(r["action"] == "budget" and r["how"] == "set" and "user=alice" in r["reason"] for r in rows)
    assert ask_http(place, "GET", "audit/verify", "owner")[0] == 200


def test_hostile_questions_about_budgets(people):
    stream = sy.local_worker.stream_to(people["alice"])
    for args, settings in (
        ((), {}), (("set",), {"by": "owner"}), (("steal",), {}), ((["left"],), {}), (("left", "x"), {}),
        (("left",), {"user": "bob"}), (("entries",), {"after": -1}), (("entries",), {"limit": True}),
        (("entries",), {"user": 5}),
    ):  # fmt: skip
        with pytest.raises(SyftError):
            stream.run(BUDGET, args, settings, None)
    with pytest.raises((SyftError, ValueError)):
        people["owner"].budget.set(None, float("nan"))
    with pytest.raises(ObjectNotFoundError):
        people["owner"].budget.set("nothing here", 1.0)


def test_the_command_line(place, people, monkeypatch):
    ages = str(ages_at(people["alice"]).id_at_location)
    where = ("--url", place.url)
    monkeypatch.setenv("SYFT_TOKEN", place.tokens["owner"])
    ran = run("node", "budget", "set", "--data", ages, "--epsilon", "55", "--delta", "1e-6", "--each-user", *where)
    assert ran.code == 0 and "each user" in ran.out and "epsilon 55" in ran.out, ran.err
    assert run("node", "budget", "set", "--epsilon", "5000", "--user", "bob", *where).code == 0
    sy.dp.count(ages_at(people["bob"]), epsilon=0.01)
    ran = run("node", "budget", "show", *where)
    assert ran.code == 0 and "each" in ran.out and "all data" in ran.out and ages in ran.out
    rows = json.loads(run("node", "budget", "show", "--user", "bob", "--json", *where).out)
    assert {(row["data"], row["user"]) for row in rows} == {(ages, "*"), (None, "bob")}
    ran = run("node", "budget", "entries", "--user", "bob", *where)
    assert "dp.count" in ran.out and "laplace, epsilon 0.01" in ran.out and "alice" not in ran.out
    assert json.loads(run("node", "budget", "entries", "--json", "--limit", "1", *where).out)[0]["number"] == 1
    assert run("node", "budget", "remove", "--user", "bob", *where).code == 0
    assert run("node", "budget", "remove", "--user", "bob", *where).code == 1
    assert run("node", "budget", "set", "--epsilon", "1", "--user", "bob", "--each-user", *where).code == 2
    assert run("node", "budget", "set", "--epsilon", "1", "--data", "nothing", *where).code == 1
    monkeypatch.setenv("SYFT_TOKEN", place.tokens["alice"])
    assert "each" in run("node", "budget", "show", *where).out
    assert run("node", "budget", "set", "--epsilon", "1", *where).code == 1


@pytest.fixture
def impatient():
    """Clients do not wait long for a node that has ended."""
    before = current().reconnect_timeout
    configure(reconnect_timeout=0.3)
    yield
    configure(reconnect_timeout=before)


def test_charges_outlive_a_crash_and_nothing_leaves_uncharged(place, people, hook, impatient):
    """The node is killed between charge and answer: the answer is lost, the charge is not. Runs last in this file."""
    owner, alice = people["owner"], people["alice"]
    pointer = ages_at(alice)
    ages = str(pointer.id_at_location)
    owner.budget.set(pointer, 1e4)
    start, entries = spent(owner, data=ages), len(alice.budget.entries())
    owner.budget.set(pointer, start + 1.0)
    with pytest.raises(BudgetExceededError):
        sy.dp.count(pointer, epsilon=1.5)
    with pytest.raises(SyftError):
        sy.dp.count(pointer, epsilon=0.625)
    assert place.process.wait(60) == -9
    place.process.stdout.close()
    place.start()
    again = place.connect(hook, "alice")
    try:
        (row,) = again.budget()
        assert (row["left"], row["epsilon"]) == (pytest.approx(0.375), start + 1.0)
        assert [entry["what"] for entry in again.budget.entries()[entries:]] == ["dp.count"]
        with pytest.raises(BudgetExceededError, match=r"0\.375 is left"):
            sy.dp.count(ages_at(again), epsilon=0.5)
        assert isinstance(sy.dp.count(ages_at(again), epsilon=0.25), int)
    finally:
        forget(hook, again)
