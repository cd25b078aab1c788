"""The sandbox: printed steps, and a data set in place of one that is no longer shipped."""

from __future__ import annotations

import pytest
import torch

import syft as sy
from syft.sandbox import DATASETS, WORKERS


@pytest.fixture
def notebook():
    names = {"torch": torch}
    for name in WORKERS:  # of other tests in this process
        sy.TorchHook(torch).local_worker._known_workers.pop(name, None)
    yield names
    for worker in names.get("workers", ()):
        worker.clear_objects()
        worker.stop()
        for other in (sy.local_worker, *names["workers"]):
            other._known_workers.pop(worker.id, None)


def test_t8_the_sandbox_prints_what_it_did(notebook, capsys):
    sy.create_sandbox(notebook)
    told = capsys.readouterr().out
    for word in ("Setting up", "torch", *WORKERS, *DATASETS, "grid", "Done", "Boston housing", "#housing"):
        assert word in told, word
    sy.create_sandbox(notebook, verbose=False)
    assert capsys.readouterr().out == ""


def test_t8_programs_that_search_boston_housing_find_its_replacement(notebook):
    """The search of the tutorials, and the training that follows it."""
    sy.create_sandbox(notebook, verbose=False)
    (result,) = notebook["bob"].search(["#boston", "#housing", "#data"])
    assert "takes the place of Boston housing" in result.description and "diabetes" in result.description.lower()
    grid = notebook["grid"]
    data, target = grid.search("#boston", "#data"), grid.search("#boston", "#target")
    assert list(data) == list(target) == list(WORKERS)
    assert grid.search("#boston_housing", "#data").keys() == data.keys()
    model = torch.nn.Linear(data["alice"][0].shape[1], 1)
    dataset = sy.FederatedDataset([sy.BaseDataset(data[name][0], target[name][0]) for name in WORKERS])
    for x, y in sy.FederatedDataLoader(dataset, batch_size=64):
        sent = model.send(x.location)
        loss = ((sent(x).squeeze(1) - y) ** 2).mean()
        loss.backward()
        sent.get()
    assert model.weight.grad is not None
