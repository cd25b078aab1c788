"""Grid part 3, smart cities: homes publish what they use; the city averages it without collecting it."""

from __future__ import annotations

import pytest
import torch

import syft as sy
from syft.exceptions import GetNotPermittedError
from syft.workers.node_client import NodeClient
from tests.helpers.grid.node_processes import Fleet

HOMES = {"home-1": [25.0, 28.0, 19.0], "home-2": [26.5, 25.5, 27.5], "home-3": [29.0, 30.0, 23.0]}


@pytest.fixture(scope="module")
def ships():
    with Fleet() as fleet:
        yield fleet.nodes(*HOMES, users=("city", "burglar"))


@pytest.fixture
def clients(hook, ships):
    made = []

    def make(user):
        made.extend(nodes := [NodeClient(hook, ship.url, token=ship.tokens[user]) for ship in ships])
        return nodes

    yield make
    for node in made:
        node.close()
        sy.local_worker._known_workers.pop(node.id, None)


def test_the_average_of_three_homes(clients):
    homes = clients("owner")
    for home, used in zip(homes, HOMES.values(), strict=True):
        (
            torch.tensor(used)
            .private_tensor(allowed_users=["city"])
            .tag("#energy-consumption", "#iot")
            .describe("What this home uses, in kWh a day.")
            .send(home, garbage_collect_data=False, user="city")
        )
        home.close()  # the sensor goes, what it published stays

    grid = sy.PrivateGridNetwork(*clients("city"))
    found = grid.search("#energy-consumption")
    assert list(found) == list(HOMES)
    total, *others = [pointers[0] for pointers in found.values()]
    assert total.description == "What this home uses, in kWh a day."
    total = total.mean()
    for other in others:
        mean = other.mean()
        total = total.move(mean.location) + mean
    expected = torch.tensor(list(HOMES.values())).mean()
    assert (total / 3).get() == pytest.approx(expected.item(), abs=1e-5)
    assert len(grid.search("#energy-consumption")) == 3  # nothing was taken away

    # A user that the homes did not name sees that data exists, and gets none of it.
    burglars = sy.PrivateGridNetwork(*clients("burglar"))
    seen = burglars.search("#energy-consumption")["home-1"][0]
    for way in (lambda: seen.get(), lambda: seen.mean().get(), lambda: seen.mean().move(burglars.workers[1])):
        with pytest.raises(GetNotPermittedError):
            way()
