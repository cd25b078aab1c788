"""Part 5, welcome to the sandbox: six workers with data in one call, tags, and searching one worker and all of them.

Boston housing is gone from scikit-learn; the diabetes data takes its place.
"""

from __future__ import annotations

import sys

import pytest
import torch

import syft as sy
from syft import sandbox
from syft.sandbox import WORKERS


@pytest.fixture(scope="module")
def notebook():
    """The names of a notebook after the first cell."""
    names = {"torch": torch}
    for name in WORKERS:  # of other tests in this process
        sy.TorchHook(torch).local_worker._known_workers.pop(name, None)
    sy.create_sandbox(names, verbose=False)
    yield names
    for worker in names["workers"]:
        worker.clear_objects()
        worker.stop()
    for other in (sy.local_worker, *names["workers"]):
        for name in WORKERS:
            other._known_workers.pop(name, None)


def test_the_sandbox_creates_workers_and_data(notebook):
    assert [worker.id for worker in notebook["workers"]] == list(WORKERS)
    assert notebook["bob"] is notebook["workers"][0]
    assert notebook["hook"].local_worker is sy.local_worker
    assert isinstance(notebook["grid"], sy.PrivateGridNetwork)


def test_a_tensor_is_found_by_its_tags(notebook):
    bob = notebook["bob"]
    x = torch.tensor([1, 2, 3, 4, 5]).tag("#fun", "#sample").describe("A very small tensor.").send(bob)
    (found,) = bob.search(["#fun", "#sample"])
    assert found.description == "A very small tensor." and found.get().tolist() == [1, 2, 3, 4, 5]
    assert x.tags == {"#fun", "#sample"} and bob.search(["#fun"]) == []


def test_a_data_set_at_one_worker(notebook):
    (found,) = notebook["bob"].search(["#diabetes", "#data"])
    assert found.shape == (74, 10) and "diabetes" in found.description.lower()
    assert {"#diabetes", "#data"} <= found.tags


@pytest.mark.parametrize(
    ("name", "shape", "target"),
    [
        ("diabetes", (442, 10), (442,)),
        ("digits", (1797, 64), (1797,)),
        ("iris", (150, 4), (150,)),
        ("wine", (178, 13), (178,)),
        ("breast_cancer", (569, 30), (569,)),
        ("linnerud", (20, 3), (20, 3)),
    ],
)
def test_a_data_set_over_the_grid(notebook, name, shape, target):
    grid = notebook["grid"]
    for half, whole in (("#data", shape), ("#target", target)):
        found = grid.search(f"#{name}", half)
        assert list(found) == list(WORKERS) and all(len(pointers) == 1 for pointers in found.values())
        assert sum(pointers[0].shape[0] for pointers in found.values()) == whole[0]
        assert {tuple(pointers[0].shape[1:]) for pointers in found.values()} == {whole[1:]}
        sizes = [pointers[0].shape[0] for pointers in found.values()]
        assert max(sizes) - min(sizes) <= 1


def test_the_cell_can_be_run_again(notebook):
    again = {"th": torch}
    sy.create_sandbox(again, verbose=False)
    assert again["workers"] == notebook["workers"]
    assert len(again["grid"].search("#iris", "#data")["bob"]) == 1


def test_the_short_form_has_no_data(monkeypatch, capsys):
    monkeypatch.setattr(sandbox, "_distribute", lambda *given: pytest.fail("data was loaded"))
    names = {"torch": torch}
    assert sy.hook(names) is None and "grid" in names and names["hook"] is not None
    assert capsys.readouterr().out == ""
    assert sy.hook.local_worker is sy.local_worker  # and it is the hook itself as well, as documented


def test_verbose_prints_each_step(notebook, capsys):
    for verbose, told in ((True, 6 + len(sandbox.DATASETS)), (False, 0)):
        sy.create_sandbox({"torch": torch}, verbose=verbose)
        assert len(capsys.readouterr().out.splitlines()) == told


def test_nothing_is_written_into_a_notebook_that_lacks_something(monkeypatch):
    for wrong in ({}, {"torch": "not torch"}, None, []):
        with pytest.raises(sy.exceptions.SyftError, match="Import torch"):
            sy.create_sandbox(wrong, verbose=False)
    names = {"torch": torch}
    monkeypatch.setitem(sys.modules, "sklearn", None)
    with pytest.raises(sy.exceptions.DependencyError, match="scikit-learn"):
        sy.create_sandbox(names, verbose=False)
    assert list(names) == ["torch"]
    sy.create_sandbox(names, download_data=False)  # workers need no data
    assert len(names["workers"]) == 6
