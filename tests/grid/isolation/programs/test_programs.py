"""Programs that an owner allows: their users, data sets and numbers of runs; and the log of every decision."""

import threading

import argon2
import pytest
import torch

import syft as sy
from syft.exceptions import NotPermittedError, SyftError
from syft.grid.isolation.programs.rules import MAX_PLAN_BYTES, ProgramRules, load_plan, save_plan
from syft.grid.node.api import ROUTERS
from syft.grid.node.node import Node
from syft.grid.node.settings import Settings
from syft.grid.rights import AuditLog, RowStore
from syft.grid.storage import open_storage
from syft.messaging.plan.plan_hash import plan_hash
from syft.serde import deserialize, serialize
from tests.grid.node.test_api import Api
from tests.helpers.cli import run

HASH = "ab" * 32
PATIENTS = 2**127 + 1


class Clock:
    now = 1000.0

    def __call__(self):
        return self.now


@pytest.fixture
def rules(tmp_path):
    with open_storage(str(tmp_path / "store")) as storage:
        audit, clock = AuditLog(storage.records), Clock()
        records = [RowStore(storage.records, area) for area in ("programs", "program_plans")]
        made = ProgramRules(*records, audit, clock)
        made.audit, made.time = audit, clock
        yield made


def _allow(rules, **changed):
    given = {
        "plan": b"plan",
        "hash": HASH,
        "name": "means",
        "data": [PATIENTS],
        "users": ["alice"],
        "runs": 2,
        "max_outputs": 3,
    }
    return rules.allow(**{**given, **changed})


def test_a_rule_counts_runs(rules):
    rule = _allow(rules)
    assert rules.plan_bytes(rule) == b"plan"
    assert (rule.data, rule.users, rule.runs, rule.taken, rule.max_outputs) == ((PATIENTS,), ("alice",), 2, 0, 3)
    assert [rules.count_run("alice", HASH, [PATIENTS]).taken for _ in range(2)] == [1, 2]
    with pytest.raises(NotPermittedError, match="was run 2 times, the maximum of its rule"):
        rules.count_run("alice", HASH, [PATIENTS])
    assert rules.list()[0].taken == 2


@pytest.mark.parametrize(
    ("user", "hash", "data", "reason"),
    [
        ("bob", HASH, [PATIENTS], "is not allowed for 'bob'"),
        (None, HASH, [PATIENTS], "is not allowed for 'None'"),
        ("alice", "cd" * 32, [PATIENTS], "is not allowed at this node"),
        ("alice", HASH, [PATIENTS, 7], "is not allowed on '7'"),
        ("alice", HASH, [str(PATIENTS)], "is not allowed on"),
    ],
)
def test_runs_that_no_rule_allows_are_refused(rules, user, hash, data, reason):
    _allow(rules)
    with pytest.raises(NotPermittedError, match=reason):
        rules.count_run(user, hash, data)
    assert rules.list()[0].taken == 0
    assert rules.audit.rows()[-1]["allowed"] is False


def test_rules_for_all_users_without_a_limit(rules):
    _allow(rules, users=None, runs=None)
    for user in ("alice", "bob"):
        for _ in range(3):
            rules.count_run(user, HASH, [])
    assert rules.list()[0].taken == 6


def test_expired_and_revoked_rules(rules):
    rule = _allow(rules, until=1500.0)
    rules.time.now = 1500.0
    with pytest.raises(NotPermittedError, match="has expired"):
        rules.count_run("alice", HASH, [PATIENTS])
    assert rules.count_run("alice", HASH, [PATIENTS], now=1499.0).id == rule.id
    assert rules.revoke(rule.id, by="olga").revoked_at == 1500.0
    rules.time.now = 1600.0
    assert rules.revoke(rule.id, by="olga").revoked_at == 1500.0
    with pytest.raises(NotPermittedError, match="was revoked"):
        rules.count_run("alice", HASH, [PATIENTS], now=1499.0)
    with pytest.raises(SyftError, match="There is no program 'nothing'"):
        rules.revoke("nothing")


def test_another_rule_for_the_same_program_is_used(rules):
    _allow(rules, runs=1)
    rules.time.now += 1
    _allow(rules, users=["bob"], runs=1)
    rules.count_run("alice", HASH, [PATIENTS])
    rules.count_run("bob", HASH, [PATIENTS])
    assert [rule.taken for rule in rules.list()] == [1, 1]


def test_decisions_are_logged(rules):
    rule = _allow(rules)
    rules.count_run("alice", HASH, [PATIENTS])
    rules.revoke(rule.id, by="olga")
    with pytest.raises(NotPermittedError):
        rules.count_run("alice", HASH, [PATIENTS])
    rows = rules.audit.rows()
    assert [(row["action"], row["allowed"]) for row in rows] == [
        ("allow program", True), ("run program", True), ("revoke program", None), ("run program", False),
    ]  # fmt: skip
    assert [row["user"] for row in rows] == ["owner", "alice", "olga", "alice"]
    assert rows[1]["request"] == rule.id


def test_many_threads_run_exactly_as_often_as_allowed(rules):
    _allow(rules, runs=20)
    taken = []

    def take():
        for _ in range(10):
            try:
                taken.append(rules.count_run("alice", HASH, [PATIENTS]))
            except NotPermittedError:
                pass

    threads = [threading.Thread(target=take) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert len(taken) == 20
    assert rules.list()[0].taken == 20


@pytest.mark.parametrize(
    "changed",
    [{"hash": "short"}, {"hash": "x" * 64}, {"data": []}, {"users": []}, {"runs": 0}, {"max_outputs": 0}, {"plan": b"x" * (MAX_PLAN_BYTES + 1)}],
    ids=lambda changed: next(iter(changed)),
)  # fmt: skip
def test_invalid_rules_are_refused(rules, changed):
    with pytest.raises(SyftError):
        _allow(rules, **changed)
    assert not rules.list()


def test_rules_outlive_the_process(tmp_path):
    for expected in (1, 2):
        with open_storage(str(tmp_path / "store")) as storage:
            records = [RowStore(storage.records, area) for area in ("programs", "program_plans")]
            rules = ProgramRules(*records, AuditLog(storage.records))
            if not rules.list():
                _allow(rules)
            assert rules.count_run("alice", HASH, [PATIENTS]).taken == expected
            assert rules.plan_bytes(rules.list()[0]) == b"plan"


# --- HTTP and the command line ------------------------------------------------------------------------------------


def _plan():
    @sy.func2plan(args_shape=[(3, 2)])
    def means(x):
        return x.mean(dim=0)

    return means


@pytest.fixture(scope="module")
def node(tmp_path_factory):
    folder = tmp_path_factory.mktemp("node")
    made = Node(Settings(id="hospital-a", store=folder / "store", owner="Dr. Olga <olga@example>"), ROUTERS)
    made.identity.users._hasher = argon2.PasswordHasher(1, 8, 1)
    made.start()
    yield made
    made.stop()


@pytest.fixture(scope="module")
def held(node):
    """A published plan and a data set."""
    from syft.grid.storage.admin import ObjectAdmin

    admin = ObjectAdmin(node.object_manager)
    data = admin.publish(torch.ones(3, 2), {"#patients"}, "rows")
    plan = admin.publish(_plan(), {"#means"}, "means of columns")
    return str(plan), str(data)


def test_programs_over_http(node, held):
    api = Api(node)
    plan, data = held
    body = {"object": plan, "data": [data], "users": ["alice"], "max_outputs": 2, "name": "means", "seconds": 60.0}
    assert api("POST", "/v1/programs", body, api.alice)[0] == 403
    assert api("GET", "/v1/programs", None, api.alice)[0] == 403
    assert api("GET", "/v1/programs")[0] == 401
    status, row = api("POST", "/v1/programs", body, api.owner)
    assert status == 200, row
    assert (row["data"], row["users"], row["runs"], row["taken"]) == ([data], ["alice"], 1, 0)
    assert row["hash"] == plan_hash(_plan())
    (listed,) = api("GET", "/v1/programs", None, api.owner)[1]
    assert listed.items() <= row.items()
    assert "mean" in row["code"] and (row["object"], row["publisher"]) == (plan, None)
    status, code = api("GET", f"/v1/programs/{row['id']}/code", None, api.owner)
    assert status == 200
    assert "mean" in code["code"]
    rule = node.programs.count_run("alice", row["hash"], [int(data)])
    run_again = deserialize(node.programs.plan_bytes(rule))
    assert torch.equal(run_again(torch.ones(3, 2)), torch.ones(2))
    assert api("DELETE", f"/v1/programs/{row['id']}", None, api.alice)[0] == 403
    assert api("DELETE", f"/v1/programs/{row['id']}", None, api.owner)[0] == 204
    with pytest.raises(NotPermittedError, match="was revoked"):
        node.programs.count_run("alice", row["hash"], [int(data)])


def test_the_code_of_a_published_plan_can_be_read_before_it_is_allowed(node, held):
    api = Api(node)
    plan, data = held
    for named in (plan, "%23means"):
        status, found = api("GET", f"/v1/programs/code?object={named}", None, api.owner)
        assert status == 200 and "mean" in found["code"] and found["hash"] == plan_hash(_plan())
        assert (found["object"], found["publisher"]) == (plan, None)
        assert api("GET", f"/v1/programs/code?object={named}", None, api.alice)[0] == 403
    assert api("GET", f"/v1/programs/code?object={data}", None, api.owner)[0] == 409
    assert api("GET", "/v1/programs/code?object=nothing", None, api.owner)[0] == 404
    body = {"object": plan, "data": [data], "users": ["alice"], "max_outputs": 2}
    status, refused = api("POST", "/v1/programs", {**body, "hash": HASH}, api.owner)
    assert status == 409 and plan_hash(_plan()) in refused["detail"] and HASH in refused["detail"]
    assert api("POST", "/v1/programs", {**body, "hash": found["hash"]}, api.owner)[0] == 200


def test_programs_by_tag(node, held):
    api = Api(node)
    body = {"object": "#means", "data": [held[1]], "everybody": True, "max_outputs": 2, "runs": None}
    status, row = api("POST", "/v1/programs", body, api.owner)
    assert status == 200, row
    assert row["users"] is None
    assert row["runs"] is None


@pytest.mark.parametrize(
    ("changed", "status"),
    [
        ({"object": "#nothing"}, 404), ({"data": ["nothing"]}, 404), ({"data": []}, 422), ({"users": []}, 422),
        ({"everybody": True}, 422), ({"runs": 0}, 422), ({"max_outputs": 0}, 422), ({"object": "DATA"}, 409),
        ({"extra": 1}, 422), ({"seconds": -1.0}, 422), ({"hash": "abc"}, 422), ({"hash": HASH}, 409),
    ],
    ids=str,
)  # fmt: skip
def test_bad_programs_over_http(node, held, changed, status):
    api = Api(node)
    plan, data = held
    changed = {key: data if value == "DATA" else value for key, value in changed.items()}
    body = {"object": plan, "data": [data], "users": ["alice"], "max_outputs": 2, **changed}
    assert api("POST", "/v1/programs", body, api.owner)[0] == status
    assert api("DELETE", "/v1/programs/nothing", None, api.owner)[0] == 404
    assert api("GET", "/v1/programs/nothing/code", None, api.owner)[0] == 404


def test_programs_on_the_command_line(tmp_path):
    store = ("--store", str(tmp_path / "store"))
    with_node = Node(Settings(id="hospital-b", store=tmp_path / "store", owner="olga"), ROUTERS)
    from syft.cli.node_record import NodeRecord
    from syft.grid.storage.admin import ObjectAdmin

    data = str(ObjectAdmin(with_node.object_manager).publish(torch.ones(3, 2), {"#patients"}, "rows"))
    with_node.close()
    folder = Settings(store=tmp_path / "store").identity_folder
    NodeRecord(id="hospital-b", owner="olga").write(folder)
    file = tmp_path / "means.plan"
    save_plan(_plan(), file)
    bad = run("node", "programs", "allow", file, "--data", data, "--max-outputs", 2, *store)
    assert bad.code == 2
    done = run(
        "node",
        "programs",
        "allow",
        file,
        "--data",
        data,
        "--max-outputs",
        2,
        "--user",
        "alice",
        "--runs",
        5,
        "--expires",
        "7d",
        *store,
    )
    assert done.code == 0, done.err
    assert plan_hash(_plan()) in done.out
    assert "alice may run it 5 times, until" in done.out
    listed = run("node", "programs", "list", *store)
    assert "means" in listed.out
    assert "0 of 5" in listed.out
    program = done.out.split()[1].rstrip(",")
    shown = run("node", "programs", "show", program, *store)
    assert "mean" in shown.out
    before = run("node", "programs", "show", file, *store)
    assert "mean" in before.out and f"hash {plan_hash(_plan())}" in before.out
    again = ("node", "programs", "allow", file, "--data", data, "--max-outputs", 2, "--user", "alice", *store, "--hash")
    refused = run(*again, HASH)
    assert refused.code == 1 and "it changed after its code was read" in refused.err
    assert run(*again, "abc").code == 2
    done = run(*again, plan_hash(_plan()))
    assert done.code == 0 and "mean" in done.out, done.err
    assert run("node", "programs", "show", "#nothing", *store).code == 1
    assert run("node", "programs", "revoke", program, *store).code == 0
    assert run("node", "programs", "revoke", "nothing", *store).code == 1
    left = run("node", "data", "list", "--json", *store)
    assert "means" not in left.out


def test_files_of_plans(tmp_path):
    save_plan(_plan(), tmp_path / "a.plan")
    assert plan_hash(load_plan(tmp_path / "a.plan")) == plan_hash(_plan())
    (tmp_path / "b.plan").write_bytes(serialize(torch.ones(2)))
    with pytest.raises(SyftError, match="does not hold a built plan"):
        load_plan(tmp_path / "b.plan")
    with pytest.raises(SyftError):
        save_plan(sy.Plan(name="x"), tmp_path / "c.plan")
