"""Grid part 2, a secure service: a model is encrypted over four nodes and queried with encrypted inputs."""

from __future__ import annotations

import pytest
import torch

import syft as sy
from syft.exceptions import ModelError, ModelNotFoundError, SyftError
from syft.workers.node_client import NodeClient
from tests.helpers.grid.node_processes import Fleet

HOSTS = ("mlaas-1", "mlaas-2", "mlaas-3", "mlaas-4")


class Net(sy.Plan):
    """The model of the tutorial: 1000 + 4a + 9b."""

    def __init__(self):
        super().__init__(id="convnet")
        self.fc1 = torch.nn.Linear(2, 1)
        self.fc1.weight.data = torch.tensor([[4.0, 9.0]])
        self.fc1.bias.data = torch.zeros(1)
        self.bias = torch.tensor([1000.0])

    def forward(self, x):
        return self.fc1(x) + self.bias


@pytest.fixture(scope="module")
def fleet():
    with Fleet() as fleet:
        yield fleet


@pytest.fixture(scope="module")
def ships(fleet, tmp_path_factory):
    folder = tmp_path_factory.mktemp("mlaas")
    return fleet.nodes(*HOSTS, users=("company", "patient"), store=f"{folder}/{{id}}")


@pytest.fixture
def grid_of(hook, ships):
    made = []

    def make(user):
        nodes = [NodeClient(hook, ship.url, token=ship.tokens[user]) for ship in ships]
        made.extend(nodes)
        return sy.PrivateGridNetwork(*nodes)

    yield make
    for node in made:
        node.close()
        sy.local_worker._known_workers.pop(node.id, None)


def test_an_encrypted_model_as_a_service(grid_of):
    model = Net()
    model.build(torch.tensor([[1.0, 2.0]]))
    company = grid_of("company")
    company.serve_model(model, id=model.id, allow_remote_inference=True, mpc=True)
    for worker in company.workers:
        worker.close()

    patient = grid_of("patient")
    data = torch.tensor([[1.0, 2.0]])
    answer = patient.run_remote_inference("convnet", data, mpc=True)
    assert answer.shape == (1, 1) and answer.item() == pytest.approx(1022, abs=1e-2)
    *holders, dealer = patient.query_model_hosts("convnet", mpc=True)
    assert len(holders) == 3 and {node.id for node in (*holders, dealer)} == set(HOSTS)
    assert sorted(len(node.models) for node in patient.workers) == [0, 1, 1, 1]

    # Users with permission get answers, and nothing of the model.
    for holder in holders:
        with pytest.raises(ModelError, match="may not be downloaded"):
            holder.download_model("convnet")
        with pytest.raises(SyftError):
            sy.local_worker.stream_to(holder).fetch("model:convnet")
        with pytest.raises(RuntimeError, match="Only the user who hosts the model"):
            holder.delete_model("convnet")
    assert patient.run_remote_inference("convnet", 2 * data, mpc=True).item() == pytest.approx(1044, abs=1e-2)
    with pytest.raises(ModelNotFoundError):
        patient.run_remote_inference("convnet", data)  # in clear it is nowhere


def test_the_service_survives_a_crash(fleet, ships, grid_of):
    """After kill -9 a node that holds shares has them again, and goes on."""
    holder = grid_of("patient").query_model_hosts("convnet", mpc=True)[0].id
    place = HOSTS.index(holder)
    ships[place].kill()
    ships[place] = fleet.again(ships[place])
    answer = grid_of("patient").run_remote_inference("convnet", torch.tensor([[1.0, 2.0]]), mpc=True)
    assert answer.item() == pytest.approx(1022, abs=1e-2)


def test_a_model_in_clear(grid_of):
    model = Net()
    model.build(torch.tensor([[1.0, 2.0]]))
    company = grid_of("company")
    company.serve_model(model, id="plain", allow_remote_inference=True, n_replica=2)
    patient = grid_of("patient")
    assert patient.run_remote_inference("plain", torch.tensor([[1.0, 2.0]])).item() == 1022
    assert len(patient.query_model_hosts("plain")) == 2
    company.serve_model(model, id="closed")
    with pytest.raises(ModelNotFoundError):
        patient.run_remote_inference("closed", torch.tensor([[1.0, 2.0]]))
