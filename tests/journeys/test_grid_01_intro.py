"""Grid part 1, introduction: a private grid of nodes that one knows, and a public one that a gateway knows."""

from __future__ import annotations

import pytest
import torch

import syft as sy
from syft.grid.authentication.account import AccountCredential
from syft.workers.node_client import NodeClient
from tests.helpers.grid.node_processes import Fleet, until

HOMES = ("intro-1", "intro-2")


@pytest.fixture(scope="module")
def fleet():
    with Fleet() as fleet:
        gateway = fleet.gateway()
        nodes = fleet.nodes(*HOMES, gateway=gateway, users=("alice", "bob"), accounts={"carol": "battery staple horse"})
        yield gateway, nodes
    for name in HOMES:
        sy.local_worker._known_workers.pop(name, None)


def test_a_private_grid(hook, fleet):
    _, ships = fleet
    nodes = [NodeClient(hook, ship.url, token=ship.tokens["alice"]) for ship in ships]
    assert [node.id for node in nodes] == list(HOMES)
    grid = sy.PrivateGridNetwork(*nodes)
    assert nodes[0].connect_nodes(nodes[1])["success"]
    pointers = [
        torch.tensor([1.0 + i, 2.0])
        .tag("#intro")
        .describe(f"numbers of {node.id}")
        .send(node, garbage_collect_data=False)
        for i, node in enumerate(nodes)
    ]
    found = grid.search("#intro")
    assert list(found) == list(HOMES)
    assert found["intro-2"][0].description == "numbers of intro-2"
    assert (pointers[0] + 1).get().tolist() == [2.0, 3.0]
    for node in nodes:
        node.close()


def test_a_public_grid(hook, fleet):
    """Data of others is found, and not given away; one's own is."""
    gateway, ships = fleet
    tokens = {ship.url: ship.tokens["bob"] for ship in ships}
    grid = sy.PublicGridNetwork(hook, gateway.url, tokens, token=gateway.tokens["alice"])
    until(lambda: list(grid.nodes()) == list(HOMES))
    until(lambda: len(grid.search("#intro")) == 2)
    found = grid.search("#intro")["intro-1"][0]
    assert found.shape == (2,)
    with pytest.raises(sy.exceptions.GetNotPermittedError):
        found.sum().get()
    grid.close()


def test_a_public_grid_with_user_and_password(hook, fleet):
    gateway, _ = fleet
    account = AccountCredential("carol", "battery staple horse")
    grid = sy.PublicGridNetwork(hook, gateway.url, account, token=gateway.tokens["alice"])
    until(lambda: len(grid.search("#intro")) == 2)
    grid.close()
    stranger = sy.PublicGridNetwork(
        hook, gateway.url, AccountCredential("carol", "wrong"), token=gateway.tokens["alice"]
    )
    with pytest.raises(sy.exceptions.SyftError, match="Invalid user"):
        stranger.search("#intro")
