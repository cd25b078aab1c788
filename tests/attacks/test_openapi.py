"""Schemathesis over the HTTP API of a live node process: no crash, no answer that its description does not have."""

import http.client
import json
from urllib.parse import urlsplit

import hypothesis
import pytest
import schemathesis
from schemathesis import checks

from tests.helpers.cli import Served, run, told
from tests.helpers.depth import deep

EXAMPLES = deep(12, 60)
FEW = deep(3, 20)
CHECKS = [
    checks.not_a_server_error,
    checks.status_code_conformance,
    checks.content_type_conformance,
    checks.response_schema_conformance,
]


MODES = list(schemathesis.GenerationMode)


class Place:
    """A node that holds a value that must not show, and tokens for it."""

    def __init__(self, folder, kind="node", more=("--threads", 1)):
        (folder / "data").mkdir()
        (folder / "data" / "rows.csv").write_text("424242.5,424242.25\n")
        data = ("--data", folder / "data") if kind == "node" else ()
        self.node = Served(folder, kind, "start", "--id", "target", "--store", folder / "store", *data, *more)
        self.url = self.node.told["url"].replace("ws", "http", 1)
        with open(self.node.told["owner_token_file"]) as file:
            self.owner = file.read().strip()

    def ask(self, method, path, token=None, body=None):
        parts = urlsplit(self.url)
        connection = http.client.HTTPConnection(parts.hostname, parts.port, timeout=60)
        headers = {
            "Content-Type": "application/json",
            **({} if token is None else {"Authorization": f"Bearer {token}"}),
        }
        try:
            connection.request(method, path, None if body is None else json.dumps(body), headers)
            answer = connection.getresponse()
            return answer.status, json.loads(answer.read() or b"null")
        finally:
            connection.close()


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    made = Place(tmp_path_factory.mktemp("openapi"))
    yield made
    assert made.node.end() == 0
    log = made.node.log.read_text()
    assert "Traceback" not in log and "424242" not in told(log)


@pytest.fixture(scope="module")
def gateway(tmp_path_factory):
    made = Place(tmp_path_factory.mktemp("openapi-gateway"), "gateway", ())
    yield made
    assert made.node.end() == 0
    assert "Traceback" not in made.node.log.read_text()


def attack(place, token, examples):
    """Send made-up requests to every operation, good ones and bad ones; returns the statuses by operation."""
    schema = schemathesis.openapi.from_url(f"{place.url}/openapi.json")
    operations = [found.ok() for found in schema.get_all_operations()]
    return {operation.label: attack_one(operation, token, examples) for operation in operations}


def attack_one(operation, token, examples):
    statuses = set()
    headers = {} if token is None else {"Authorization": f"Bearer {token}"}

    @hypothesis.settings(
        max_examples=examples,
        derandomize=True,
        database=None,
        deadline=None,
        phases=[hypothesis.Phase.generate],
        suppress_health_check=list(hypothesis.HealthCheck),
    )
    @hypothesis.given(
        case=hypothesis.strategies.one_of([operation.as_strategy(generation_mode=mode) for mode in MODES])
    )
    def send(case):
        response = case.call(headers=headers, timeout=60)
        statuses.add(response.status_code)
        assert "424242" not in told(response.content.decode("latin-1"))
        case.validate_response(response, checks=CHECKS)

    send()
    return statuses


def test_as_the_owner(place):
    before = place.ask("GET", "/v1/objects", place.owner)[1]
    seen = attack(place, place.owner, EXAMPLES)
    assert len(seen) >= 20
    # It got through to where things are done, and to where they are refused.
    assert 200 in seen["GET /v1/objects"] and 422 in seen["GET /v1/objects"]
    assert 404 in seen["DELETE /v1/objects/{object_id}"]
    assert place.ask("GET", "/v1/objects", place.owner)[1] == before
    assert place.ask("GET", "/v1/audit/verify", place.owner)[0] == 200


def test_as_nobody(place):
    before = place.ask("GET", "/v1/users", place.owner)[1]
    seen = attack(place, None, FEW)
    open_to_all = {"GET /health", "GET /version", "POST /v1/login"}
    for label, statuses in seen.items():
        if label not in open_to_all:
            assert statuses <= {400, 401, 403, 422}, label
    assert place.ask("GET", "/v1/users", place.owner)[1] == before


# Operations of users; all others are for owners.
FOR_USERS = {
    "GET /health", "GET /version", "GET /metrics", "GET /v1/objects", "GET /v1/objects/{object_id}", "GET /v1/requests",
    "GET /v1/budget", "GET /v1/budget/entries", "GET /v1/whoami",
}  # fmt: skip


def test_as_a_user(place):
    status, made = place.ask("POST", "/v1/tokens", place.owner, {"user": "alice", "seconds": 600})
    assert status < 300
    before = [
        place.ask("GET", path, place.owner)[1] for path in ("/v1/objects", "/v1/users", "/v1/grants", "/v1/budget")
    ]
    seen = attack(place, made["token"], FEW)
    done = {label for label, statuses in seen.items() if min(statuses) < 400}
    assert "GET /v1/objects" in done and done <= FOR_USERS
    after = [
        place.ask("GET", path, place.owner)[1] for path in ("/v1/objects", "/v1/users", "/v1/grants", "/v1/budget")
    ]
    assert after == before


@pytest.mark.parametrize("whose", ["owner", "user", "nobody"])
def test_of_a_gateway(gateway, whose):
    token = {"owner": lambda: gateway.owner, "user": lambda: users_token(gateway), "nobody": lambda: None}[whose]()
    before = gateway.ask("GET", "/v1/nodes", gateway.owner)
    seen = attack(gateway, token, FEW)
    changes = {label: statuses for label, statuses in seen.items() if label.split()[0] in ("PUT", "DELETE")}
    assert changes and all(min(statuses) >= 400 for statuses in changes.values())
    if whose == "nobody":
        for label, statuses in seen.items():
            assert statuses <= {400, 401, 403, 422} or label in ("GET /health", "GET /version"), label
    assert gateway.ask("GET", "/v1/nodes", gateway.owner) == before and before[0] == 200


def users_token(gateway):
    found = run(
        "gateway",
        "token",
        "--user",
        "alice",
        "--store",
        gateway.node.told["owner_token_file"].split("/identity/")[0],
        "--id",
        "target",
    )
    assert found.code == 0, found.err
    return found.out.strip()
