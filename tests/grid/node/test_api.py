"""The HTTP API of a node: permissions, refusals, and that it carries no data values."""

import asyncio
import contextlib
import http.client
import json
import re
import sqlite3
import threading

import argon2
import pytest
import torch
from fastapi import Request

import syft as sy
from syft.grid.node.api import ROUTERS
from syft.grid.node.api.access import PasswordLogin
from syft.grid.node.node import Node
from syft.grid.node.settings import Settings
from tests.helpers.nodes import forget

SECRET = 424242.5  # a value that must show nowhere


class Api:
    """Calls to one node, without anything that could help it."""

    def __init__(self, node):
        self.node = node
        self.owner = node.identity.tokens.issue("olga", "owner", 600)
        self.alice = node.identity.tokens.issue("alice", "user", 600)

    def __call__(self, method, path, body=None, token=None, headers=(), raw=None):
        connection = http.client.HTTPConnection("127.0.0.1", self.node.port, timeout=60)
        sent = {"Content-Type": "application/json", **dict(headers)}
        if token is not None:
            sent["Authorization"] = f"Bearer {token}"
        data = raw if raw is not None else (None if body is None else json.dumps(body))
        try:
            connection.request(method, path, data, sent)
            answer = connection.getresponse()
            self.headers = dict(answer.getheaders())
            text = answer.read().decode()
        finally:
            connection.close()
        assert str(SECRET) not in re.sub(r"\d{10}\.\d+", "", text)  # a time may have the same digits, by chance
        is_json = answer.headers.get_content_type() == "application/json"
        return answer.status, json.loads(text) if is_json and text else text


@pytest.fixture(scope="module")
def node(tmp_path_factory):
    folder = tmp_path_factory.mktemp("node")
    made = Node(Settings(id="hospital-a", store=folder / "store", owner="Dr. Olga <olga@example>"), ROUTERS)
    users = made.identity.users
    users._hasher = argon2.PasswordHasher(1, 8, 1)  # passwords of tests need not be hard to guess
    users._nobody = users._hasher.hash("nobody")
    made.start()
    yield made
    made.stop()


@pytest.fixture(scope="module")
def api(node):
    return Api(node)


@pytest.fixture
def data(node):
    """A private data set of the node's owner."""
    from syft.grid.storage.admin import ObjectAdmin

    admin = ObjectAdmin(node.object_manager)
    obj_id = admin.publish(torch.full((3, 2), SECRET), {"#biopsies", "<b>#x</b>"}, "three rows")
    yield obj_id
    if obj_id in node.worker.object_store.objects:
        admin.delete(obj_id)


def test_requests_without_a_token_are_refused(api):
    for method, path in (
        ("GET", "/v1/whoami"),
        ("GET", "/v1/objects"),
        ("GET", "/v1/requests"),
        ("GET", "/v1/users"),
        ("GET", "/v1/status"),
        ("GET", "/v1/audit"),
        ("DELETE", "/v1/objects/1"),
    ):
        status, told = api(method, path)
        assert status == 401 and "token" in told["detail"] and api.headers["www-authenticate"] == "Bearer"
        assert api(method, path, token="made.up.token")[0] == 401
    assert api("GET", "/health") == (200, {"status": "ok", "id": "hospital-a"})


def test_users_can_not_call_routes_of_owners(api, data):
    for method, path, body in (
        ("GET", "/v1/users", None),
        ("POST", "/v1/users", {"user": "eve", "password": "long enough"}),
        ("DELETE", "/v1/users/alice", None),
        ("POST", "/v1/tokens", {"user": "eve", "role": "owner"}),
        ("POST", "/v1/tokens/revoke", {"user": "olga"}),
        ("DELETE", f"/v1/objects/{data}", None),
        ("POST", "/v1/requests/abc/approve", {}),
        ("POST", "/v1/requests/abc/deny", {}),
        ("GET", "/v1/grants", None),
        ("DELETE", "/v1/grants/abc", None),
        ("GET", "/v1/audit", None),
        ("GET", "/v1/audit/verify", None),
        ("GET", "/v1/status", None),
        ("PUT", "/v1/users/olga/password", {"password": "something else"}),
    ):
        status, told = api(method, path, body, token=api.alice)
        assert status == 403 and told["detail"], path
    assert data in api.node.worker.object_store.objects


def test_whoami(api):
    status, told = api("GET", "/v1/whoami", token=api.alice)
    assert status == 200 and (told["user"], told["role"], told["node"]) == ("alice", "user", "hospital-a")
    assert told["may"] == ["compute", "host_model", "request"] and told["expires"] > 0
    assert "decide" in api("GET", "/v1/whoami", token=api.owner)[1]["may"]


def test_log_in_with_a_password(api):
    new = {"user": "Rosa", "password": "correct horse"}
    assert api("POST", "/v1/users", new, token=api.owner)[1]["user"] == "rosa"
    status, told = api("POST", "/v1/users", new, token=api.owner)
    assert status == 409 and "already" in told["detail"]
    status, told = api("POST", "/v1/login", {"user": "ROSA", "password": "correct horse"})
    assert status == 200 and (told["user"], told["role"]) == ("rosa", "user")
    token = told["token"]
    assert api("GET", "/v1/whoami", token=token)[1]["user"] == "rosa"
    status, told = api("POST", "/v1/login", {"user": "rosa", "password": "wrong horse"})
    assert status == 401 and "Wrong user" in told["detail"] and "wrong horse" not in told["detail"]
    # Her own password she changes with the one she has, and nobody else's.
    path = "/v1/users/rosa/password"
    assert api("PUT", path, {"password": "battery staple"}, token=token)[0] == 400
    assert api("PUT", path, {"password": "battery staple", "current": "wrong horse"}, token=token)[0] == 401
    assert api("PUT", path, {"password": "battery staple", "current": "correct horse"}, token=token)[0] == 204
    assert api("GET", "/v1/whoami", token=token)[0] == 401  # her tokens ended with it
    assert api("PUT", path, {"password": "short"}, token=api.owner)[0] == 400
    assert api("PUT", path, {"password": "set by owner"}, token=api.owner)[0] == 204
    names = [row["user"] for row in api("GET", "/v1/users", token=api.owner)[1]]
    assert names == ["rosa"]
    assert api("DELETE", "/v1/users/rosa", token=api.owner)[0] == 204
    assert api("DELETE", "/v1/users/rosa", token=api.owner)[0] == 404
    actions = [(row["action"], row["allowed"]) for row in api("GET", "/v1/audit", token=api.owner)[1]]
    assert ("login", True) in actions and ("login", False) in actions and ("add user", True) in actions


def test_guessing_is_slowed_down(api):
    found = []
    while 429 not in found and len(found) < 40:  # each wait is longer than the one before
        found.append(api("POST", "/v1/login", {"user": "mallory", "password": f"guess {len(found)}"})[0])
    assert found[0] == 401 and found[-1] == 429
    assert int(api.headers["retry-after"]) >= 1


def test_many_logins_at_once_do_not_block_other_requests(api):
    found = []
    threads = [
        threading.Thread(
            target=lambda n=n: found.append(
                Api.__call__(Api(api.node), "POST", "/v1/login", {"user": f"u{n}", "password": "x"})[0]
            )
        )
        for n in range(30)
    ]
    for thread in threads:
        thread.start()
    assert api("GET", "/health")[0] == 200
    for thread in threads:
        thread.join(100)
    assert len(found) == 30 and set(found) <= {401, 429}


def test_few_wait_for_their_password_to_be_compared():
    async def crowd():
        passwords, done = PasswordLogin(), threading.Event()
        home, away = (Request({"type": "http", "client": (address, 1)}) for address in ("127.0.0.1", "127.0.0.2"))
        waiting = [asyncio.ensure_future(passwords.run(home, "eve", done.wait, 60)) for _ in range(2)]
        await asyncio.sleep(0)
        with pytest.raises(sy.exceptions.TooManyAttemptsError):  # nobody takes all places
            await passwords.run(home, "eve", done.wait, 60)
        others = [*((home, f"user-{n}") for n in range(13)), (away, "eve")]
        waiting += [asyncio.ensure_future(passwords.run(*who, done.wait, 60)) for who in others]
        await asyncio.sleep(0)
        with pytest.raises(sy.exceptions.TooManyAttemptsError):
            await passwords.run(home, "bob", done.wait, 60)
        done.set()
        assert all(await asyncio.gather(*waiting))
        assert await passwords.run(home, "eve", str, 1) == "1"

    asyncio.run(crowd())


def test_tokens_are_issued_and_revoked(api):
    status, told = api("POST", "/v1/tokens", {"user": "Carol", "seconds": 60}, token=api.owner)
    assert status == 201 and (told["user"], told["role"]) == ("carol", "user")
    carol = told["token"]
    assert api("GET", "/v1/whoami", token=carol)[0] == 200
    assert api("POST", "/v1/tokens/revoke", {"token": carol}, token=api.owner)[0] == 204
    assert api("GET", "/v1/whoami", token=carol)[0] == 401
    one, two = (api("POST", "/v1/tokens", {"user": "carol"}, token=api.owner)[1] for _ in range(2))
    assert api("POST", "/v1/tokens/revoke", {"token_id": one["token_id"]}, token=api.owner)[0] == 204
    assert [api("GET", "/v1/whoami", token=each["token"])[0] for each in (one, two)] == [401, 200]
    assert api("POST", "/v1/tokens/revoke", {"user": "carol"}, token=api.owner)[0] == 204
    assert api("GET", "/v1/whoami", token=two["token"])[0] == 401
    assert api("POST", "/v1/tokens/revoke", {"user": "carol", "token_id": one["token_id"]}, token=api.owner)[0] == 422
    assert api("POST", "/v1/tokens/revoke", {"token": "no.token.atall"}, token=api.owner)[0] == 400
    assert api("POST", "/v1/tokens", {"user": "../x"}, token=api.owner)[0] == 400


def test_objects_are_listed_without_values(api, data):
    status, rows = api("GET", "/v1/objects", token=api.alice)
    (row,) = [row for row in rows if row["id"] == str(data)]
    assert status == 200 and row["shape"] == [3, 2] and row["dtype"] == "float32" and row["kind"] == "tensor"
    assert row["tags"] == ["#biopsies", "<b>#x</b>"] and row["description"] == "three rows" and row["owner"] is None
    assert row["published"] is True and row["size"] is None  # she may not read it
    (seen,) = [row for row in api("GET", "/v1/objects", token=api.owner)[1] if row["id"] == str(data)]
    assert seen["size"] >= 24 and {**seen, "size": None} == row
    assert api("GET", "/v1/objects?tag=%23biopsies", token=api.alice)[1] == [row]
    assert api("GET", "/v1/objects?tag=nothing", token=api.alice)[1] == []
    assert api("GET", "/v1/objects?limit=1&skip=1000", token=api.alice)[1] == []


def test_temporaries_are_hidden_from_other_users(api, data, hook):
    bob = api.node.identity.tokens.issue("bob", "user", 60)
    client = sy.connect(api.node.url, token=bob, hook=hook)
    pointer = torch.full((5,), SECRET).send(client)
    client.synchronize()
    for token in (api.alice, api.owner, bob):
        rows = api("GET", "/v1/objects?published=false", token=token)[1]
        assert str(pointer.id_at_location) not in [row["id"] for row in rows]
    del pointer
    forget(hook, client)


def test_the_owner_deletes(api, data):
    assert api("DELETE", f"/v1/objects/{data}", token=api.owner)[0] == 204
    assert api("DELETE", f"/v1/objects/{data}", token=api.owner)[0] == 404
    assert data not in api.node.worker.object_store.objects and not api.node.storage.items()
    for path in ("..%2F..%2Fetc", "%00", "-1", "9" * 250, "%F0%9F%90%8D"):
        assert api("DELETE", f"/v1/objects/{path}", token=api.owner)[0] == 404, path


def test_the_owner_shares(api, data, hook):
    client = sy.connect(api.node.url, token=api.alice, hook=hook)
    path = f"/v1/objects/{data}/users"
    try:
        (x,) = client.search("#biopsies")
        assert api("PUT", path, {"users": ["alice"]}, token=api.alice)[0] == 403
        with pytest.raises(sy.exceptions.GetNotPermittedError):
            x.sum().get()
        assert api("PUT", path, {"users": ["Bob", "ALICE"]}, token=api.owner)[0] == 204
        assert api.node.storage.items()[-1].facts.allowed_users == ("alice", "bob")  # on disk already
        assert x.sum().get().item() == 6 * SECRET
        assert api("PUT", path, {"users": []}, token=api.owner)[0] == 204
        with pytest.raises(sy.exceptions.GetNotPermittedError):
            x.sum().get()
        assert api("PUT", path, {"users": ["../x"]}, token=api.owner)[0] == 400
        assert api("PUT", "/v1/objects/5/users", {}, token=api.owner)[0] == 404
    finally:
        client.close()
        hook.local_worker._known_workers.pop("hospital-a", None)


def test_requests_are_decided(api, data, hook):
    client = sy.connect(api.node.url, token=api.alice, hook=hook)
    try:
        (x,) = client.search("#biopsies")
        mean = x.mean()
        with pytest.raises(sy.exceptions.GetNotPermittedError):
            mean.copy().get()
        one, two = mean.request(reason="the mean"), x.sum().request(reason="the sum\x1b[31m")
        (mine, other) = api("GET", "/v1/requests?status=pending", token=api.alice)[1]
        assert (mine["id"], mine["user"], mine["reason"], mine["status"]) == (one.id, "alice", "the mean", "pending")
        assert "\x1b" not in other["reason"]
        bob = api.node.identity.tokens.issue("bob", "user", 60)
        assert api("GET", "/v1/requests", token=bob)[1] == []
        body = {"seconds": 60, "answer": "fine"}
        status, told = api("POST", f"/v1/requests/{one.id}/approve", body, token=api.owner)
        assert status == 200 and told["status"] == "approved" and told["decided_by"] == "olga" and told["expires"]
        assert api("POST", f"/v1/requests/{one.id}/approve", body, token=api.owner)[0] == 409
        assert api("POST", "/v1/requests/nothing/approve", body, token=api.owner)[0] == 404
        assert api("POST", f"/v1/requests/{two.id}/deny", {"reason": "too much"}, token=api.owner)[0] == 200
        assert (one.status(), two.status(), two.answer) == ("approved", "denied", "too much")
        assert mean.copy is not None and mean.get().item() == SECRET
        (grant,) = api("GET", "/v1/grants", token=api.owner)[1]
        assert grant["user"] == "alice" and grant["scope"] == "result" and grant["revoked_at"] is None
        assert api("DELETE", f"/v1/grants/{grant['id']}", token=api.owner)[0] == 204
        assert api("GET", "/v1/grants", token=api.owner)[1][0]["revoked_at"] > 0
        assert api("DELETE", "/v1/grants/nothing", token=api.owner)[0] == 404
    finally:
        client.close()
        hook.local_worker._known_workers.pop("hospital-a", None)


def test_the_log_is_read_and_verified(api):
    rows = api("GET", "/v1/audit", token=api.owner)[1]
    assert rows and [row["number"] for row in rows] == list(range(1, len(rows) + 1))
    assert api("GET", "/v1/audit?after=2&limit=1", token=api.owner)[1] == rows[2:3]
    assert api("GET", "/v1/audit/verify", token=api.owner)[1]["rows"] == len(rows)


def test_a_log_that_was_changed_shows(api):
    def change(old, new):
        with contextlib.closing(sqlite3.connect(api.node.settings.store / "index.sqlite", timeout=60)) as index, index:
            done = index.execute("UPDATE log SET value = replace(value, ?, ?) WHERE area = 'audit'", (old, new))
            assert done.rowcount > 0

    change('"login"', '"lagin"')
    try:
        status, told = api("GET", "/v1/audit/verify", token=api.owner)
        assert status == 409 and "tampered" in told["detail"]
    finally:
        change('"lagin"', '"login"')
    assert api("GET", "/v1/audit/verify", token=api.owner)[0] == 200


def test_status(api):
    status, told = api("GET", "/v1/status", token=api.owner)
    assert status == 200 and told["id"] == "hospital-a" and told["durable"] and told["tokens"] and not told["tls"]
    assert told["figures"]["syft_objects"] >= 0 and told["fingerprint"].startswith("SHA256:")


@pytest.mark.parametrize(
    "body",
    [
        {"user": "rosa"},
        {"user": "rosa", "password": "x" * 1025},
        {"user": "", "password": "hidden words"},
        {"user": "rosa", "password": ["hidden words"]},
        {"user": "rosa", "password": "hidden words", "role": "owner"},
        ["hidden words"],
        None,
    ],
)
def test_bad_fields_are_refused_and_not_repeated(api, body):
    status, told = api("POST", "/v1/login", body)
    assert status == 422 and isinstance(told["detail"], str) and "hidden" not in told["detail"]


@pytest.mark.parametrize("query", ["limit=0", "limit=1001", "limit=x", "skip=-1", f"tag={'x' * 300}"])
def test_numbers_have_bounds(api, query):
    assert api("GET", f"/v1/objects?{query}", token=api.owner)[0] == 422


def test_large_bodies_are_refused_before_they_are_read(api):
    status, told = api("POST", "/v1/login", headers={"Content-Length": str(1 << 30)}, raw=b"")
    assert status == 413 and "bytes" in told["detail"]
    for length in ("-1", "1e3", "9" * 40, "٣"):
        assert api("POST", "/v1/login", headers={"Content-Length": length.encode()}, raw=b"")[0] in (400, 413)

    sent = []

    def chunks():
        for _ in range(200):
            sent.append(1)
            yield b"x" * (1 << 18)

    try:
        status, _ = api("POST", "/v1/login", raw=chunks())
    except (BrokenPipeError, ConnectionResetError):  # it was refused while it was still being sent
        status = 413
    assert status == 413 and len(sent) < 200


def test_deep_json_is_refused(api):
    assert api("POST", "/v1/login", raw=b"[" * 100_000)[0] in (400, 422)


def test_pages_of_browsers_are_refused(api):
    status, told = api("GET", "/v1/whoami", token=api.owner, headers={"Origin": "https://evil.example"})
    assert status == 403 and "browsers" in told["detail"]
    assert "access-control-allow-origin" not in api.headers
    assert api("OPTIONS", "/v1/whoami", headers={"Origin": "https://evil.example"})[0] == 403


def test_every_answer_has_security_headers(api):
    for path, token in (
        ("/", None),
        ("/health", None),
        ("/v1/whoami", None),
        ("/v1/whoami", api.alice),
        ("/nowhere", None),
    ):
        api("GET", path, token=token)
        assert api.headers["x-content-type-options"] == "nosniff" and api.headers["x-frame-options"] == "DENY"
        assert (
            api.headers["cache-control"] == "no-store"
            and "default-src 'none'" in api.headers["content-security-policy"]
        )
        assert "server" not in api.headers


def test_the_page_describes_the_node(api, data):
    status, page = api("GET", "/")
    assert status == 200 and "hospital-a" in page and api.node.identity.fingerprint in page
    assert "Dr. Olga &lt;olga@example&gt;" in page and "<olga@example>" not in page
    assert f"sy.connect(&quot;{api.node.url}&quot;" in page
    assert "unsafe-inline" not in api.headers["content-security-policy"]
    assert "<script" not in page and "src=" not in page and "http://" not in page


def test_an_open_node_has_no_owner_over_http(hook):
    node = Node(Settings(id="open-node", tokens=False), ROUTERS)
    node.start()
    try:
        api = Api(node)
        assert api("GET", "/v1/whoami")[1] == {
            "node": "open-node", "user": None, "role": "user", "may": ["compute", "host_model", "request"],
            "expires": None, "objects": 0, "bytes": 0,
        }  # fmt: skip
        for method, path in (
            ("GET", "/v1/users"),
            ("GET", "/v1/audit"),
            ("DELETE", "/v1/objects/1"),
            ("GET", "/v1/status"),
        ):
            status, told = api(method, path, token=api.owner)
            assert status == 403 and "without tokens" in told["detail"]
        assert api("POST", "/v1/login", {"user": "rosa", "password": "x"})[0] == 403
        assert api("GET", "/v1/requests")[1] == []
        # A page that was made to look as if it came from here: its name gives it away.
        for path in ("/", "/health", "/v1/objects"):
            assert api("GET", path, headers={"Host": "evil.example"})[0] == 403
            assert api("GET", path, headers={"Origin": "http://127.0.0.1"})[0] == 403
    finally:
        node.stop()
