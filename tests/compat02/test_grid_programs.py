"""Programs of the grid tutorials at nodes without tokens: one program is one user, whichever client objects it has."""

from __future__ import annotations

import json
import secrets
import socket
import sys
from concurrent.futures import ThreadPoolExecutor

import pytest
import torch
from sklearn.datasets import load_digits
from torch.nn import functional as F
from websockets.sync.client import connect as open_websocket

import syft as sy
from syft.exceptions import NodeRefusedError
from syft.workers.node_client import NodeClient
from syft.workers.transport import program_key
from syft.workers.transport.websocket import WebsocketPipe
from syft.workers.websocket_client import where_of
from tests.helpers import warm_processes as warm
from tests.helpers.grid.node_processes import Fleet, until

HOMES = ("open-1", "open-2", "open-3")
USED = {"open-1": [25.0, 28.0, 19.0], "open-2": [26.5, 25.5, 27.5], "open-3": [29.0, 30.0, 23.0]}

STRANGER = """
import json, sys, torch, syft as sy
from syft.workers.node_client import NodeClient
hook = sy.TorchHook(torch)
node = NodeClient(hook, sys.argv[1])
found = node.search(sys.argv[2])
told = {"found": len(found)}
for name, way in (("get", lambda: found[0].get()), ("sum", lambda: found[0].sum().get())):
    try:
        told[name] = str(way())
    except sy.exceptions.GetNotPermittedError:
        told[name] = "refused"
print(json.dumps(told))
"""


@pytest.fixture(scope="module")
def fleet():
    with Fleet() as fleet:
        gateway = fleet.gateway(users=(), tokens=False)
        ships = fleet.nodes(*HOMES, gateway=gateway, users=(), tokens=False)
        yield gateway, ships


@pytest.fixture
def clients(hook, fleet):
    """Make clients of the nodes; afterwards nothing of this program is left there."""
    _, ships = fleet

    def make():
        return [NodeClient(hook, ship.url) for ship in ships]

    yield make
    for node in make():
        node.clear_objects()
        node.synchronize()
        node.close()
        sy.local_worker._known_workers.pop(node.id, None)


@pytest.fixture
def grid(hook, fleet):
    gateway, _ = fleet
    made = sy.PublicGridNetwork(hook, gateway.url)
    until(lambda: list(made.nodes()) == list(HOMES))
    return made


def publish(nodes, tag, values=USED):
    for node, used in zip(nodes, values.values(), strict=True):
        torch.tensor(used).tag(tag, "#iot").describe("kWh a day").send(node, garbage_collect_data=False)


def test_t4_a_search_right_after_a_send_finds_everything(clients, grid):
    nodes = clients()
    for number in range(3):
        publish(nodes, f"#now-{number}")
        found = grid.search(f"#now-{number}")
        assert list(found) == list(HOMES) and [len(pointers) for pointers in found.values()] == [1, 1, 1]
        assert found["open-2"][0].description == "kWh a day"
    assert {node: len(pointers) for node, pointers in grid.search("#iot").items()} == dict.fromkeys(HOMES, 3)
    assert grid.search("#never-sent") == {}


def test_t4_the_objects_of_a_first_search_are_found(hook, fleet, clients):
    """The grid was made before, and has no connections yet."""
    gateway, ships = fleet
    grid = sy.PublicGridNetwork(hook, gateway.url)
    only = sy.PublicGridNetwork(hook, gateway.url, nodes=[ships[1].url])
    publish(clients(), "#first")
    assert list(grid.search("#first")) == list(HOMES)
    assert list(only.search("#first")) == ["open-2"]


def test_t4_a_removed_object_is_not_found(clients, grid):
    nodes = clients()
    publish(nodes, "#gone")
    assert grid.search("#gone")["open-1"][0].get().tolist() == USED["open-1"]
    assert list(grid.search("#gone")) == list(HOMES[1:])


def test_t5_smart_cities(clients, grid):
    """Grid part 3: homes publish their consumption; the city moves the numbers from home to home, and averages."""
    publish(clients(), "#energy-consumption")
    x, y, z = (pointers[0] for pointers in grid.search("#energy-consumption").values())
    total = x.move(y.location) + y
    total = total.move(z.location) + z
    expected = torch.tensor(list(USED.values())).sum(dim=0) / 3
    assert torch.allclose((total / 3).get(), expected)


def test_t5_an_object_is_fetched_and_moved_through_other_clients(clients, grid):
    first = clients()
    x = torch.tensor([1.0, 2.0]).tag("#mine").send(first[0])
    second = clients()
    assert second == first  # this program has one client of each such node
    again = second[0].search("#mine")[0]
    assert again.move(second[1]).get().tolist() == [1.0, 2.0]
    del x
    y = torch.tensor([3.0]).tag("#mine").send(first[1])
    assert (grid.search("#mine")["open-2"][0] + y).get().tolist() == [6.0]


def test_t5_objects_stay_those_of_a_program_that_connects_again(hook, fleet, clients):
    _, ships = fleet
    publish(clients(), "#stays")
    for node in clients():
        node.close()
        sy.local_worker._known_workers.pop(node.id)
    unregistered = [NodeClient(hook, ship.url, auto_add=False) for ship in ships]
    assert not {id(node) for node in unregistered} & {id(node) for node in clients()}
    values = [node.search("#stays")[0].get().tolist() for node in unregistered]
    assert values == list(USED.values())
    for node in unregistered:
        node.close()


def test_t5_a_model_is_trained_on_data_that_was_found(clients, grid):
    """Grid, federated learning on digits: populate the nodes, then search, train and fetch the model."""
    digits = load_digits()
    images, labels = torch.tensor(digits.data, dtype=torch.float32) / 16, torch.tensor(digits.target)
    nodes = clients()
    for node, X, Y in zip(nodes, images[:900].chunk(3), labels[:900].chunk(3), strict=True):
        X.tag("#X", "#mnist", "#dataset").describe("digits").send(node, garbage_collect_data=False)
        Y.tag("#Y", "#mnist", "#dataset").describe("labels").send(node, garbage_collect_data=False)
        node.close()
    data, target = grid.search("#X", "#mnist", "#dataset"), grid.search("#Y", "#mnist", "#dataset")
    model = torch.nn.Linear(64, 10)
    losses = []
    for _ in range(3):
        for worker in HOMES:
            X, Y = data[worker][0], target[worker][0]
            model.send(X.location)
            optimizer = torch.optim.SGD(model.parameters(), lr=0.5)
            for start in range(0, 300, 100):
                optimizer.zero_grad()
                loss = F.cross_entropy(model(X[start : start + 100]), Y[start : start + 100])
                loss.backward()
                optimizer.step()
            model.get()
            losses.append(loss.get().item())
    accuracy = (model(images[900:]).argmax(dim=1) == labels[900:]).float().mean().item()
    assert losses[-1] < losses[0] and accuracy > 0.6


def test_t5_another_program_is_another_user(fleet, clients):
    """It finds the object, and gets nothing of it."""
    _, ships = fleet
    publish(clients(), "#foreign")
    clients()[0].synchronize()
    done = warm.run(STRANGER, ships[0].url, "#foreign", timeout=60)
    assert json.loads(done.stdout or "null") == {"found": 1, "get": "refused", "sum": "refused"}, done.stderr[-2000:]


FORK = """
import os
from syft.workers.transport.program_key import program_key
if os.fork():
    os.wait()
print(program_key("127.0.0.1", 1), flush=True)
os._exit(0)
"""


def test_t5_a_forked_process_is_another_program():
    child, parent = warm.run(FORK, timeout=60).stdout.split()
    assert len(child) == len(parent) == 64 and child != parent


def test_t5_names_do_not_reveal_keys_and_servers_have_different_ones():
    key, other = program_key.program_key("127.0.0.1", 8777), program_key.program_key("127.0.0.1", 8778)
    assert len({key, other, program_key.program_key("127.0.0.2", 8777)}) == 3 and len(key) == 64
    assert program_key.name_of(key) not in key and program_key.name_of(key) != program_key.name_of(other)
    for forged in ("", "x", key[:-1], key.upper(), f"{key}0", f"{key}\n", program_key.name_of(key)):
        assert program_key.name_of(forged) == ""


@pytest.mark.skipif(sys.platform != "linux", reason="other systems have one loopback address of IPv4")
def test_t5_servers_at_one_port_of_two_addresses_receive_different_keys():
    """Another program may listen at the same port of another address of this machine."""
    keys = []
    with ThreadPoolExecutor(1) as pool, socket.create_server(("127.0.0.1", 0)) as first:
        port = first.getsockname()[1]
        with socket.create_server(("127.0.0.2", port)) as second:
            for server, host in ((first, "127.0.0.1"), (first, "localhost"), (second, "127.0.0.2")):
                reader = pool.submit(_read_key, server)
                with pytest.raises((OSError, sy.exceptions.SyftError)):
                    WebsocketPipe(where_of(host, port, False, None, None), timeout=10.0)
                keys.append(reader.result(10))
    assert keys[0] == keys[1] != keys[2] and all(map(program_key.name_of, keys))


def _read_key(server):
    """Return the key that the next client sends, and hang up."""
    accepted, _ = server.accept()
    with accepted, accepted.makefile("rb") as lines:
        headers = dict(line.decode().strip().partition(": ")[::2] for line in iter(lines.readline, b"\r\n"))
    return headers[program_key.HEADER]


def test_t5_nodes_with_tokens_ignore_the_key(hook):
    """With a key of another program a client without a token gets nowhere."""
    with Fleet() as fleet:
        (ship,) = fleet.nodes("closed-1", users=("alice",))
        with pytest.raises(Exception, match="401"):
            open_websocket(f"{ship.url}/stream", additional_headers={program_key.HEADER: secrets.token_hex(32)})
        with pytest.raises(sy.exceptions.AuthenticationError):
            NodeClient(hook, ship.url)


def test_k1_a_missing_gateway_refuses_the_connection(hook):
    grid = sy.PublicGridNetwork(hook, "http://localhost:1")
    with pytest.raises(ConnectionRefusedError, match="Check that the gateway runs") as refused:
        grid.search("#any")
    assert isinstance(refused.value, NodeRefusedError)


def test_k2_pointers_to_objects_of_nodes_survive_close_and_connect(clients):
    """A node keeps the process of the session, and other nodes still reach it for the program."""
    first, second, _ = clients()
    x = torch.tensor([1.0, 2.0]).send(first)
    y = torch.tensor([3.0, 4.0]).send(second)
    moved = x.copy().move(second)
    for node in (first, second):
        node.close()
        node.connect()
    assert (moved + y).get().tolist() == [4.0, 6.0]
    assert (x.move(second) * y).get().tolist() == [3.0, 8.0]
