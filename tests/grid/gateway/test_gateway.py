"""The gateway of a grid: who registers what, what is found, what it is trusted with; over real sockets."""

from __future__ import annotations

import http.server
import json
import threading

import pytest
import torch

import syft as sy
from syft.codes import GATEWAY_ENDPOINTS
from syft.exceptions import AuthenticationError, ExposureError, NotPermittedError, SyftError
from syft.grid.authentication.account import AccountCredential
from syft.grid.certificates import issue, make_authority
from syft.grid.gateway import Gateway, GatewaySettings
from syft.grid.gateway.address_challenge import PATH, answer
from syft.grid.gateway.registration import index_of
from syft.grid.gateway.registry import Registry, TakenError, UnknownNodeError
from syft.workers.node_client import parse_address
from syft.workers.transport.http import ask
from syft.workers.websocket_client import where_of
from tests.helpers.grid.node_processes import Fleet, until

SECRET = "ab" * 32
ALL = "0.0.0.0"  # noqa: S104


class Clock:
    now = 0.0

    def __call__(self):
        return self.now


# --- the registry ---------------------------------------------------------------------------------------------


def test_registrations_expire_unless_they_are_renewed():
    clock = Clock()
    registry = Registry(lifetime=10, clock=clock)
    lease = registry.add("a", "ws://a:1", "ann")
    clock.now = 9
    registry.renew("a", lease, "ann")
    clock.now = 18
    assert [member.id for member in registry.alive()] == ["a"]
    clock.now = 29
    assert registry.alive() == []
    with pytest.raises(UnknownNodeError, match="Register it again"):
        registry.renew("a", lease, "ann")


def test_a_name_stays_its_users_whatever_happens(tmp_path):
    clock = Clock()
    registry = Registry(lifetime=1, owners=tmp_path / "nodes.json", clock=clock)
    lease = registry.add("hospital", "ws://a:1", "ann")
    clock.now = 100
    for again in (registry, Registry(owners=tmp_path / "nodes.json")):  # and after a restart
        with pytest.raises(TakenError, match="another user"):
            again.add("hospital", "ws://evil:1", "eve")
    fresh = registry.add("hospital", "ws://a:2", "ann")
    for user, shown in (("eve", fresh), ("ann", lease), ("ann", "00" * 32)):
        with pytest.raises(NotPermittedError):
            registry.renew("hospital", shown, user)
        with pytest.raises(NotPermittedError):
            registry.leave("hospital", shown, user)
    registry.leave("hospital", fresh, "ann")
    assert registry.alive() == []
    registry.remove("hospital")
    registry.add("hospital", "ws://b:1", "bob")


def test_there_is_a_limit_to_how_many_nodes():
    registry = Registry(most=3, each=2)
    registry.add("a", "ws://a:1", "ann"), registry.add("b", "ws://a:2", "ann")
    with pytest.raises(TakenError, match="registry of this gateway is full"):
        registry.add("c", "ws://a:3", "ann")
    registry.add("c", "ws://b:1", "bob")
    with pytest.raises(TakenError):
        registry.add("d", "ws://c:1", "cid")


def test_the_nodes_with_the_fewest_models_are_chosen():
    registry = Registry()
    for number in range(5):
        registry.add(str(number), f"ws://a:{number + 1}", "ann")
    for member in registry.alive():
        member.models = frozenset((f"m{i}", False) for i in range(int(member.id)))
    assert {member.id for member in registry.choose(3, least=3)} == {"0", "1", "2"}
    with pytest.raises(TakenError, match="needs 6 nodes"):
        registry.choose(6, least=6)


def test_an_index_has_tags_and_names_and_no_values(make_worker):
    from syft.hosting import client as hosting_client

    worker = make_worker("index")
    kept = torch.tensor([987654.0]).tag("#a", "#b").describe("a secret 4711").send(worker)
    unpublished = torch.tensor([1.0]).tag("#c").send(worker, garbage_collect_data=True)
    plan = sy.Plan(forward_func=torch.nn.Linear(2, 1)).build(torch.zeros(1, 2))
    hosting_client.host(worker, plan, "open", allow_remote_inference=True)
    hosting_client.host(worker, plan, "closed")
    index = index_of(worker)
    assert index == {"tags": [["#a", "#b"]], "models": [{"name": "open", "mpc": False}]}
    assert "4711" not in json.dumps(index) and kept is not None and unpublished is not None


# --- the server, in a thread -------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def gateway(tmp_path_factory):
    made = Gateway(GatewaySettings(id="grid", store=tmp_path_factory.mktemp("gateway"), lifetime=60))
    made.start()
    yield made
    made.stop()


@pytest.fixture(scope="module")
def shown(gateway):
    """Where the gateway is, with the tokens of some users."""

    def where(user="ann", role="user"):
        token = None if user is None else gateway.identity.tokens.issue(user, role, 600)
        return where_of(*parse_address(gateway.url), token, None)

    return where


class Stub:
    """Something that answers challenges as a node does, or not."""

    def __init__(self, id, secret=SECRET):
        class Handler(http.server.BaseHTTPRequestHandler):
            def do_GET(self):
                challenge = self.path.partition("challenge=")[2]
                good = self.path.startswith(PATH) and secret is not None
                told = answer(bytes.fromhex(secret), challenge, id) if good else "no"
                body = json.dumps({"answer": told}).encode()
                self.send_response(200)
                self.send_header("content-length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, *args):
                pass

        self.server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"ws://127.0.0.1:{self.server.server_port}"
        threading.Thread(target=self.server.serve_forever, daemon=True).start()

    def __enter__(self):
        return self

    def __exit__(self, *exception):
        self.server.shutdown()
        self.server.server_close()


def register(where, id, address, secret=SECRET, **index):
    return ask(where, "POST", "/v1/nodes", {"id": id, "address": address, "secret": secret, "index": index})


def test_a_node_registers_by_answering_at_its_address(shown):
    with Stub("stub") as stub:
        made = register(shown(), "stub", stub.url, tags=[["#x", "#y"], ["#z"]], models=[{"name": "m", "mpc": False}])
        assert made["lifetime"] == 60 and len(made["lease"]) == 64
        where = shown("searcher")
        for query, found in ((["#x", "#y"], 1), (["#x"], 1), (["#x", "#z"], 0), (["#unknown"], 0), ([], 1)):
            nodes = ask(where, "POST", GATEWAY_ENDPOINTS.SEARCH_TAGS, {"query": query})["nodes"]
            assert nodes == [{"id": "stub", "address": stub.url}][:found]
        model = {"model_id": "m"}
        assert len(ask(where, "POST", GATEWAY_ENDPOINTS.SEARCH_MODEL, model)["nodes"]) == 1
        assert ask(where, "POST", GATEWAY_ENDPOINTS.SEARCH_ENCRYPTED_MODEL, model)["nodes"] == []
        assert len(ask(where, "GET", f"{GATEWAY_ENDPOINTS.SELECT_MODEL_HOST}?model_id=n")["nodes"]) == 1
        with pytest.raises(SyftError, match="needs 3 nodes"):
            ask(where, "GET", f"{GATEWAY_ENDPOINTS.SELECT_ENCRYPTED_MODEL_HOSTS}?model_id=n&count=4")
        with pytest.raises(SyftError, match="another user"):
            register(shown("eve"), "stub", stub.url)
        with pytest.raises(AuthenticationError, match="another user"):
            ask(shown("eve"), "PUT", "/v1/nodes/stub", {"lease": made["lease"]})
        with pytest.raises(AuthenticationError, match="owner of the gateway"):
            ask(shown("eve"), "DELETE", "/v1/nodes/stub")
        ask(shown(), "PUT", "/v1/nodes/stub", {"lease": made["lease"], "index": {"tags": [["#new"]], "models": []}})
        assert ask(where, "POST", GATEWAY_ENDPOINTS.SEARCH_TAGS, {"query": ["#x"]})["nodes"] == []
        ask(shown(), "POST", "/v1/nodes/stub/leave", {"lease": made["lease"]})
        assert ask(where, "GET", "/v1/nodes")["nodes"] == []
        ask(shown("root", "owner"), "DELETE", "/v1/nodes/stub")


@pytest.mark.parametrize(
    "address", ["wrong proof", "silent", "ws://10.1.2.3:80", "http://127.0.0.1:1", "file:///etc", "x" * 299]
)
def test_a_node_that_does_not_answer_is_not_registered(shown, address):
    with Stub("liar", secret=None) as liar:
        place = {"wrong proof": liar.url, "silent": "ws://127.0.0.1:9"}.get(address, address)
        with pytest.raises(SyftError) as caught:
            register(shown(), "liar", place)
        assert "Traceback" not in str(caught.value)
    assert ask(shown(), "GET", "/v1/nodes?id=liar")["nodes"] == []


def test_nothing_without_a_token(shown, gateway):
    nobody = shown(None)
    other = where_of(*parse_address(gateway.url), "x.y.z", None)
    for where in (nobody, other):
        for method, path, body in (
            ("POST", "/v1/nodes", {"id": "a", "address": "ws://127.0.0.1:1", "secret": SECRET}),
            ("GET", "/v1/nodes", None),
            ("PUT", "/v1/nodes/a", {"lease": SECRET}),
            ("POST", GATEWAY_ENDPOINTS.SEARCH_TAGS, {"query": []}),
            ("POST", GATEWAY_ENDPOINTS.SEARCH_MODEL, {"model_id": "m"}),
            ("GET", f"{GATEWAY_ENDPOINTS.SELECT_MODEL_HOST}?model_id=m", None),
        ):
            with pytest.raises(AuthenticationError):
                ask(where, method, path, body)
    assert ask(nobody, "GET", "/health") == {"status": "ok", "id": "grid"}


@pytest.mark.parametrize(
    "body",
    [
        {"id": "", "address": "ws://a:1", "secret": SECRET},
        {"id": "a", "address": "ws://a:1", "secret": "zz"},
        {"id": "a", "address": "ws://a:1", "secret": SECRET, "token": "x"},
        {"id": "a", "address": "ws://a:1", "secret": SECRET, "index": {"tags": [["x" * 257]]}},
        {"id": "a", "address": "ws://a:1", "secret": SECRET, "index": {"tags": [[["#x"]]]}},
        {"id": "a", "address": "ws://a:1", "secret": SECRET, "index": {"values": [1.0]}},
        [],
    ],
)
def test_invalid_registrations_are_refused(shown, body):
    with pytest.raises(SyftError, match=" (is|has) "):
        ask(shown(), "POST", "/v1/nodes", body)


def test_large_bodies_are_refused(shown):
    with pytest.raises((SyftError, OSError)):
        ask(shown(), "POST", GATEWAY_ENDPOINTS.SEARCH_TAGS, {"query": ["x" * 200] * 20_000})


def test_it_is_described_completely(shown):
    found = ask(shown(None), "GET", "/openapi.json")
    for path in (
        GATEWAY_ENDPOINTS.SEARCH_TAGS,
        GATEWAY_ENDPOINTS.SEARCH_MODEL,
        GATEWAY_ENDPOINTS.SEARCH_ENCRYPTED_MODEL,
        GATEWAY_ENDPOINTS.SELECT_MODEL_HOST,
        GATEWAY_ENDPOINTS.SELECT_ENCRYPTED_MODEL_HOSTS,
    ):
        for operation in found["paths"][path].values():
            assert "$ref" in operation["responses"]["200"]["content"]["application/json"]["schema"]
            assert {"401", "413", "422"} <= set(operation["responses"]) and operation["security"]


def test_it_is_open_to_others_only_with_tls_and_tokens(tmp_path):
    with pytest.raises(ExposureError):
        GatewaySettings(host=ALL)
    with pytest.raises(ExposureError):
        GatewaySettings(host=ALL, certificate="a", key="b", tokens=False)
    GatewaySettings(host=ALL, certificate="a", key="b")


# --- with nodes in processes ----------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def team(tmp_path_factory):
    """A gateway and two nodes with TLS of a team's own authority, and a store."""
    folder = tmp_path_factory.mktemp("team")
    authority = make_authority(folder / "ca", "team")
    made = issue(authority, ["localhost", "127.0.0.1"], folder / "node")
    tls = {"certificate": str(made.certificate), "key": str(made.key), "ca": str(authority.certificate)}
    with Fleet() as fleet:
        gateway = fleet.gateway(lifetime=6.0, **tls)  # nodes that are slow to say that they are there stay known
        accounts = {"dora": "correct horse battery"}
        nodes = fleet.nodes("north", "south", gateway=gateway, accounts=accounts, store=f"{folder}/{{id}}", **tls)
        yield fleet, gateway, nodes, str(authority.certificate)


@pytest.fixture
def public(team, hook):
    made = []

    def make(credential=None, **more):
        _, gateway, nodes, ca = team
        if credential is None:
            credential = {node.url: node.tokens["alice"] for node in nodes}
        made.append(sy.PublicGridNetwork(hook, gateway.url, credential, token=gateway.tokens["alice"], ca=ca, **more))
        return made[-1]

    yield make
    for grid in made:
        grid.close()
        for client in ("north", "south"):
            sy.local_worker._known_workers.pop(client, None)


def test_data_is_found_through_the_gateway_and_nodes_are_asked_directly(team, public):
    grid = public()
    until(lambda: list(grid.nodes()) == ["north", "south"])
    north, south = (grid.connect(node.told["settings"]["id"], node.url) for node in team[2])
    for node, value in ((north, 1.0), (south, 3.0)):
        torch.full((2,), value).tag("#team", f"#{node.id}").send(node, garbage_collect_data=False)
    until(lambda: len(grid.search("#team")) == 2)
    found = grid.search("#team")
    assert [found[key][0].get().tolist() for key in ("north", "south")] == [[1, 1], [3, 3]]
    assert grid.search("#team", "#nowhere") == {}


def test_models_are_hosted_and_asked_through_the_gateway(public):
    grid = public()
    plan = sy.Plan(forward_func=torch.nn.Linear(2, 1)).build(torch.zeros(1, 2))
    grid.serve_model(plan, id="through", allow_remote_inference=True, n_replica=2)
    x = torch.tensor([[1.0, 2.0]])
    assert torch.equal(grid.run_remote_inference("through", x), plan(x).detach())
    other = public(AccountCredential("dora", "correct horse battery"))
    until(lambda: len(other._known_hosts("through", False)) == 2)
    assert {node.id for node in other.query_model_hosts("through")} == {"north", "south"}
    assert torch.equal(other.run_remote_inference("through", x), plan(x).detach())
    with pytest.raises(RuntimeError, match="Only the user who hosts the model"):
        other.query_model_hosts("through")[0].delete_model("through")
    with pytest.raises(sy.exceptions.ModelError, match="can't be replaced|could not be hosted"):
        other.serve_model(plan, id="through", n_replica=1)


def test_tokens_go_where_they_belong(team, public, hook):
    _, gateway, nodes, ca = team
    only_north = public({nodes[0].url: nodes[0].tokens["alice"]})
    with pytest.warns(UserWarning, match="no token for node 'south'"):
        assert [node.id for node in only_north._candidates("m", 2, False)] == ["north"]
    chosen = public(nodes=[nodes[1].url])
    assert [node.id for node in chosen._candidates("m", 2, False)] == ["south"]
    by_id = public({"north": nodes[0].tokens["alice"], "south": nodes[1].tokens["alice"]})
    assert len(by_id._candidates("m", 2, False)) == 2
    with pytest.raises(AuthenticationError, match="The gateway .* refused access. Pass token="):
        sy.PublicGridNetwork(hook, gateway.url, {}, token="x", ca=ca).search("#x")
    with pytest.raises(SyftError, match="can't be reached|certificate"):
        sy.PublicGridNetwork(hook, gateway.url, {}, token=gateway.tokens["alice"]).search("#x")
    with pytest.raises(SyftError, match="requires TLS"):
        sy.PublicGridNetwork(hook, "http://grid.example:80")


def test_a_killed_node_is_forgotten_and_comes_back_with_its_model(team, public):
    fleet, _, nodes, _ = team
    grid = public()
    plan = sy.Plan(forward_func=torch.nn.Linear(2, 1)).build(torch.zeros(1, 2))
    north = grid.connect("north", nodes[0].url)
    north.serve_model(plan, "durable", allow_remote_inference=True)
    x = torch.tensor([[1.0, 2.0]])
    nodes[0].kill()
    until(lambda: list(grid.nodes()) == ["south"])
    nodes[0] = fleet.again(nodes[0])
    fresh = public()
    until(lambda: any(node.id == "north" for node in fresh._known_hosts("durable", False)))
    assert torch.equal(fresh.run_remote_inference("durable", x), plan(x).detach())
    client = fresh.connect("north", nodes[0].url)
    assert client.models == ["durable", "through"] and client.delete_model("durable")
