"""Federated learning over nodes, parts 1 and 2: the owners populate nodes and leave; a data scientist trains there.

Two client processes, as two notebooks: what the first published must be there after it is gone. Two data sets: digits,
and messages of which some are spam, for a GRU.
"""

from __future__ import annotations

import json

import pytest
import torch
from sklearn.datasets import load_digits
from sklearn.metrics import roc_auc_score

import syft as sy
from syft.exceptions import GetNotPermittedError
from syft.workers.node_client import NodeClient
from tests.helpers import warm_processes as warm
from tests.helpers.grid.node_processes import Fleet
from tests.helpers.spam import GRU, WORDS, messages

HOSPITALS = ("populate-1", "populate-2")

OWNER = """
import json, sys, torch, syft as sy
from sklearn.datasets import load_digits
from syft.workers.node_client import NodeClient
from tests.helpers.spam import messages
hook = sy.TorchHook(torch)
nodes = [NodeClient(hook, url, token=token) for url, token in json.loads(sys.argv[1])]
digits = load_digits()
images = torch.tensor(digits.data, dtype=torch.float32) / 16
labels = torch.tensor(digits.target)
for node, X, Y in zip(nodes, images[:1000].chunk(len(nodes)), labels[:1000].chunk(len(nodes))):
    X.private_tensor(allowed_users=["scientist"]).tag("#X", "#mnist", "#dataset").describe("digits").send(
        node, garbage_collect_data=False, user="scientist")
    Y.private_tensor(allowed_users=["scientist"]).tag("#Y", "#mnist", "#dataset").describe("labels").send(
        node, garbage_collect_data=False, user="scientist")
words, spam = messages(480)
for node, X, Y in zip(nodes, words.chunk(len(nodes)), spam.chunk(len(nodes))):
    for half, part in (("#X", X), ("#Y", Y)):
        part.private_tensor(allowed_users=["scientist"]).tag(half, "#spam", "#dataset").describe("messages").send(
            node, garbage_collect_data=False, user="scientist")
for node in nodes:
    node.close()
print("populated")
"""


@pytest.fixture(scope="module")
def ships():
    with Fleet() as fleet:
        ships = fleet.nodes(*HOSPITALS, users=("scientist", "stranger"))
        told = json.dumps([[ship.url, ship.tokens["owner"]] for ship in ships])
        done = warm.run(OWNER, told, timeout=100)
        assert done.stdout.strip() == "populated", done.stderr[-2000:]
        yield ships


@pytest.fixture
def grid_of(hook, ships):
    made = []

    def make(user):
        made.extend(nodes := [NodeClient(hook, ship.url, token=ship.tokens[user]) for ship in ships])
        return sy.PrivateGridNetwork(*nodes)

    yield make
    for node in made:
        node.close()
        sy.local_worker._known_workers.pop(node.id, None)


def test_the_data_survives_its_owner_and_a_model_is_trained_on_it(grid_of):
    grid = grid_of("scientist")
    data, target = grid.search("#X", "#mnist", "#dataset"), grid.search("#Y", "#mnist", "#dataset")
    assert list(data) == list(target) == list(HOSPITALS)
    assert [tuple(pointers[0].shape) for pointers in data.values()] == [(500, 64)] * 2

    model = torch.nn.Sequential(torch.nn.Linear(64, 32), torch.nn.ReLU(), torch.nn.Linear(32, 10))
    losses = []
    for _ in range(6):
        for worker in grid.workers:
            model.send(worker)
            optimizer = torch.optim.SGD(model.parameters(), lr=0.3)
            X, Y = data[worker.id][0], target[worker.id][0]
            for start in range(0, 500, 100):
                optimizer.zero_grad()
                loss = torch.nn.functional.cross_entropy(model(X[start : start + 100]), Y[start : start + 100])
                loss.backward()
                optimizer.step()
            model.get()
            losses.append(loss.get().item())
    digits = load_digits()
    images, labels = torch.tensor(digits.data[1000:], dtype=torch.float32) / 16, torch.tensor(digits.target[1000:])
    with torch.no_grad():
        accuracy = (model(images).argmax(dim=1) == labels).float().mean().item()
    assert losses[-1] < 0.6 < losses[0] and accuracy > 0.8
    assert len(grid.search("#X", "#mnist")) == 2  # still there


def test_a_gru_learns_from_messages_that_were_found(grid_of):
    grid = grid_of("scientist")
    data, target = grid.search("#X", "#spam"), grid.search("#Y", "#spam")
    vocab_size = max(int(pointers[0].max().get()) for pointers in data.values()) + 1
    assert vocab_size == WORDS + 1
    model = GRU(vocab_size)
    optims = sy.federated.Optims(HOSPITALS, torch.optim.Adam(model.parameters(), lr=0.05))
    losses, batch = [], 80
    for _ in range(4):
        for worker in grid.workers:
            X, Y = data[worker.id][0], target[worker.id][0]
            optimizer = optims.get_optim(worker.id)
            h = torch.zeros(batch, model.hidden_dim).send(worker)
            model.send(worker)
            for start in range(0, X.shape[0], batch):
                optimizer.zero_grad()
                output, _ = model(X[start : start + batch], h)
                loss = torch.nn.functional.binary_cross_entropy(output, Y[start : start + batch])
                loss.backward()
                torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
                optimizer.step()
            model.get()
            losses.append(loss.get().item())
    test_data, test_target = messages(200, seed=1)
    with torch.no_grad():
        predicted, _ = model(test_data, torch.zeros(len(test_data), model.hidden_dim))
    assert roc_auc_score(test_target, predicted) >= 0.85 and losses[-1] < 0.7 * losses[0], losses


def test_other_users_find_the_data_and_can_not_fetch_it(grid_of):
    pointer = grid_of("stranger").search("#X", "#mnist")["populate-1"][0]
    assert pointer.shape == (500, 64)
    with pytest.raises(GetNotPermittedError):
        pointer.get()
    with pytest.raises(GetNotPermittedError):
        pointer.sum().get()
    words = grid_of("stranger").search("#X", "#spam")["populate-1"][0]
    assert words[2:5].shape == (3, 8)
    for told in (lambda: int(words.max().get()), lambda: int(words.max()), lambda: words[:1].get()):
        with pytest.raises(GetNotPermittedError):
            told()
