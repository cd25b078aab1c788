"""Models at several node processes: replicas share the questions; encrypted ones are found through a gateway."""

from __future__ import annotations

import json
import subprocess
import threading

import pytest
import torch

import syft as sy
from syft.grid.certificates import issue, make_authority
from syft.workers.node_client import NodeClient, parse_address
from syft.workers.transport.http import ask
from syft.workers.websocket_client import where_of
from tests.helpers import warm_processes as warm
from tests.helpers.grid.node_processes import Fleet, until
from tests.helpers.nodes import forget

X = torch.tensor([[1.0, 2.0]])


@pytest.fixture(scope="module")
def fleet():
    with Fleet() as made:
        yield made


# --- replicas ---------------------------------------------------------------------------------------------------


def figure(ship, name):
    """Return what a node counts itself: /metrics and /v1/status say the same."""
    where = where_of(*parse_address(ship.url), ship.tokens["owner"], None)
    return int(ask(where, "GET", "/v1/status")["figures"][name])


def answered(ship):
    return figure(ship, "syft_requests_total")


def received(ship):
    return figure(ship, "syft_received_bytes_total")


@pytest.fixture(scope="module")
def replicas(fleet):
    return fleet.nodes("replica-1", "replica-2", "replica-3", users=("alice", "bob"))


@pytest.fixture
def grid(hook, replicas):
    nodes = [NodeClient(hook, ship.url, token=ship.tokens["alice"]) for ship in replicas]
    yield sy.PrivateGridNetwork(*nodes)
    forget(hook, *nodes)


def work(weight):
    """A plan that takes a while for many rows, and a moment for few."""
    factor = torch.full((64, 64), weight)

    @sy.func2plan(args_shape=[(1, 64)], state=(factor,))
    def slow(x, state):
        (factor,) = state.read()
        for _ in range(40):
            x = torch.tanh(x @ factor)
        return x.sum(1)

    return slow


def since(before, replicas):
    return [now - then for then, now in zip(before, map(answered, replicas), strict=True)]


def test_replicas_share_the_questions(grid, replicas):
    grid.serve_model(work(0.5), id="shared", allow_remote_inference=True, n_replica=3)
    first = grid.run_remote_inference("shared", torch.ones(1, 64))
    before = [answered(ship) for ship in replicas]
    for _ in range(12):
        assert torch.equal(grid.run_remote_inference("shared", torch.ones(1, 64)), first)
    # Each is asked every time whether it has the model, and a third of the questions.
    assert since(before, replicas) == [12 + 4] * 3


@pytest.mark.timeout(120)
def test_a_busy_replica_is_spared(hook, grid, replicas):
    grid.serve_model(work(0.25), id="busy", allow_remote_inference=True, n_replica=3)
    grid.run_remote_inference("busy", torch.ones(1, 64))
    long = torch.randn(100_000, 64)  # equal numbers would be sent as few bytes
    me, answers = sy.VirtualWorker(hook, id="patient", auto_add=False), []

    def wait_long():
        with sy.acting_as(me):
            answers.append(grid.run_remote_inference("busy", long))

    thread = threading.Thread(target=wait_long)
    thread.start()
    until(lambda: max(received(ship) for ship in replicas) > long.nbytes)
    busy = [received(ship) > long.nbytes for ship in replicas].index(True)
    before = [answered(ship) for ship in replicas]
    for _ in range(6):
        grid.run_remote_inference("busy", torch.ones(1, 64))
    assert thread.is_alive(), "the long question ended too soon to say anything"
    asked = since(before, replicas)
    thread.join(100)
    assert asked.pop(busy) == 6 and asked == [6 + 3] * 2
    assert answers[0].shape == (100_000,)
    me.close()


# --- encrypted, through a gateway -------------------------------------------------------------------------------

# Somebody who knows the gateway and has tokens, and nothing else.
CLIENT = """
import json, sys, time
import torch, syft as sy
torch.set_num_threads(1)
told = json.loads(sys.argv[1])
hook = sy.TorchHook(torch)
grid = sy.PublicGridNetwork(hook, told["gateway"], told["tokens"], token=told["token"], ca=told["ca"])
for _ in range(300):  # until all nodes have told the gateway
    try:
        hosts = [node.id for node in grid.query_model_hosts("secret-model", mpc=True)]
        break
    except sy.exceptions.ModelError:
        time.sleep(0.1)
answer = grid.run_remote_inference("secret-model", torch.tensor([[1.0, 2.0]]), mpc=True)
refused = None
try:
    grid.run_remote_inference("secret-model", torch.tensor([[1.0, 2.0]]))
except sy.exceptions.SyftError as error:
    refused = type(error).__name__
print(json.dumps({"hosts": hosts, "answer": answer.tolist(), "plain": refused}), flush=True)
grid.close()
"""


@pytest.fixture(scope="module")
def city(fleet, tmp_path_factory):
    """A gateway and four nodes, with TLS: three hold shares, the fourth is the dealer."""
    folder = tmp_path_factory.mktemp("city")
    authority = make_authority(folder / "ca", "city")
    made = issue(authority, ["localhost", "127.0.0.1"], folder / "node")
    tls = {"certificate": str(made.certificate), "key": str(made.key), "ca": str(authority.certificate)}
    gateway = fleet.gateway(lifetime=30.0, users=("nodes", "alice", "bob"), **tls)
    nodes = fleet.nodes("east", "west", "north", "south", gateway=gateway, users=("alice", "bob"), **tls)
    return gateway, nodes, str(authority.certificate)


@pytest.mark.timeout(120)
def test_an_encrypted_model_is_hosted_and_asked_through_the_gateway(hook, city):
    gateway, nodes, ca = city
    module = torch.nn.Linear(2, 1)
    torch.nn.init.constant_(module.weight, 4.0), torch.nn.init.ones_(module.bias)
    plan = sy.Plan(name="linear", forward_func=module).build(X)
    tokens = {user: {node.url: node.tokens[user] for node in nodes} for user in ("alice", "bob")}
    grid = sy.PublicGridNetwork(hook, gateway.url, tokens["alice"], token=gateway.tokens["alice"], ca=ca)
    until(lambda: len(grid.nodes()) == 4)
    grid.serve_model(plan, id="secret-model", mpc=True, allow_remote_inference=True)
    *holders, dealer = [node.id for node in grid.query_model_hosts("secret-model", mpc=True)]
    assert len(holders) == 3
    told = {"gateway": gateway.url, "tokens": tokens["bob"], "token": gateway.tokens["bob"], "ca": ca}
    fresh = warm.popen(CLIENT, json.dumps(told), stdout=subprocess.PIPE, text=True)
    said = json.loads(fresh.communicate(timeout=100)[0])
    assert said["answer"] == [[pytest.approx(13.0, abs=1e-2)]]
    assert sorted(said["hosts"]) == ["east", "north", "south", "west"] and said["hosts"][-1] == dealer
    assert said["plain"] == "ModelNotFoundError"
    grid.close()
    for node in ("east", "west", "north", "south"):
        hook.local_worker._known_workers.pop(node, None)
