"""FederatedDataLoader: batches of every worker, and iterators that go through the whole data set."""

from __future__ import annotations

import logging
import math
from collections import Counter

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

import syft as sy
from syft.federated.dataloader import default_collate
from syft.federated.loader_schedule import lengths, routes
from tests.federated.test_dataloader import fetched, spread

NAMES = ("bob", "alice", "carol", "dave")


@pytest.fixture
def make_loader(make_worker):
    def make(sizes, batch_size=2, **options):
        workers = [make_worker(name) for name in NAMES[: len(sizes)]]
        return workers, sy.FederatedDataLoader(spread(workers, sizes), batch_size=batch_size, **options)

    return make


def test_f4_iter_per_worker_has_a_batch_of_every_worker(make_loader):
    workers, loader = make_loader((6, 4, 5), iter_per_worker=True, shuffle=True)
    assert loader.num_iterators == 3
    steps = list(loader)
    assert len(steps) == len(loader) == 2  # alice has no more
    for step in steps:
        assert len(step) == loader.num_iterators and set(step) == set(workers)
        assert all(batch[0].location is worker for worker, batch in step.items())
    assert sorted(n for step in steps for n in fetched(step[workers[1]])[1]) == [6, 7, 8, 9]


def test_f4_iter_per_worker_ignores_num_iterators(make_loader):
    for wanted in (1, 2, 99):
        workers, loader = make_loader((3, 3), iter_per_worker=True, num_iterators=wanted)
        assert loader.num_iterators == len(workers) == 2


def test_f4_iter_per_worker_of_one_worker(make_loader):
    (bob,), loader = make_loader((3,), iter_per_worker=True)
    assert loader.num_iterators == 1 and [list(step) for step in loader] == [[bob], [bob]]


@pytest.mark.parametrize(("drop_last", "steps"), [(False, 3), (True, 2)])
def test_f4_iter_per_worker_with_drop_last(make_loader, drop_last, steps):
    _, loader = make_loader((5, 6), iter_per_worker=True, drop_last=drop_last)
    assert len(list(loader)) == len(loader) == steps


@pytest.mark.parametrize("shuffle", [False, True])
@pytest.mark.parametrize("sizes", [(2, 4, 4), (4, 4, 4), (1, 2, 3), (7, 7, 8, 6)])
def test_f4_every_step_has_as_many_keys_as_iterators(make_loader, sizes, shuffle):
    """The iterators are capped at the number of workers less one, and each sees all samples."""
    workers, loader = make_loader(sizes, num_iterators=len(sizes), shuffle=shuffle)
    used = loader.num_iterators
    assert used == len(sizes) - 1
    total = sum(math.ceil(size / 2) for size in sizes)
    for _ in range(2):  # passes are independent
        steps = list(loader)
        assert len(steps) == len(loader) == total
        assert all(len(step) == used for step in steps)
        if sizes != (1, 2, 3):  # there an iterator is at the last worker all the time
            assert set(steps[0]) == set(workers[:used])
        seen = Counter(n for step in steps for batch in step.values() for n in fetched(batch)[1])
        assert seen == dict.fromkeys(range(sum(sizes)), used)


def test_f4_iterators_hop_to_a_worker_that_no_other_is_at(make_loader):
    """Counts of 1, 2 and 2 batches: each iterator stays until a worker is done, then takes the first free one."""
    workers, loader = make_loader((2, 4, 4), num_iterators=2)
    bob, alice, carol = workers
    found = [{worker: fetched(batch)[1] for worker, batch in step.items()} for step in loader]
    assert found == [
        {bob: [0, 1], alice: [2, 3]},
        {carol: [6, 7], alice: [4, 5]},
        {carol: [8, 9], bob: [0, 1]},
        {alice: [2, 3], carol: [6, 7]},
        {alice: [4, 5], carol: [8, 9]},
    ]


def test_f4_one_iterator_yields_pairs(make_loader):
    _, loader = make_loader((3, 2), num_iterators=5)
    assert loader.num_iterators == 1
    assert [fetched(batch)[1] for batch in loader] == [[0, 1], [2], [3, 4]] and len(loader) == 3


def test_f4_a_worker_with_most_of_the_batches_shortens_the_pass(make_loader, caplog):
    with caplog.at_level(logging.WARNING, "syft.federated"):
        _, loader = make_loader((12, 2, 2), num_iterators=2)
    assert "more than 1/2 of all batches" in caplog.text
    steps = list(loader)
    assert len(steps) == len(loader) == 4 and all(len(step) == 2 for step in steps)
    seen = Counter(n for step in steps for batch in step.values() for n in fetched(batch)[1])
    assert [seen[n] for n in range(12, 16)] == [2, 2, 2, 2]
    assert sum(seen[n] for n in range(12)) == 8 and max(seen[n] for n in range(12)) == 1  # different ones


def test_f4_drop_last_and_workers_without_batches(make_loader):
    workers, loader = make_loader((1, 4, 5, 4), num_iterators=3, drop_last=True)
    steps = list(loader)
    assert len(steps) == len(loader) == 6
    assert all(set(step) == set(workers[1:]) for step in steps)
    assert loader.batches_of(workers[0].id) == 0


def test_f4_collate_fn_makes_the_batches_of_each_iterator(make_loader):
    def backwards(pairs):
        return default_collate(pairs[::-1])

    _, loader = make_loader((2, 2, 2), num_iterators=2, collate_fn=backwards)
    found = [fetched(batch)[1] for step in loader for batch in step.values()]
    assert sorted(found) == sorted([[1, 0], [3, 2], [5, 4]] * 2)


def test_f4_a_program_trains_with_a_model_for_each_worker(make_loader):
    """The loop of the tutorials: at each step all workers train on their batch."""
    workers, loader = make_loader((8, 8, 8), batch_size=4, iter_per_worker=True)
    models = {worker: torch.nn.Linear(2, 1) for worker in workers}
    before = {worker: model.weight.detach().clone() for worker, model in models.items()}
    for step in loader:
        for worker in workers:
            data, target = step[worker]
            model = models[worker].send(worker)
            optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
            loss = ((model(data).squeeze(1) - target) ** 2).mean()
            loss.backward()
            optimizer.step()
            model.get()
    assert all(not torch.equal(before[worker], models[worker].weight) for worker in workers)


@given(counts=st.lists(st.integers(0, 7), min_size=2, max_size=7), data=st.data())
def test_f4_routes_meet_nobody_and_take_each_batch_once(counts, data):
    present = len(counts) - counts.count(0)
    width = data.draw(st.integers(1, max(1, present - 1)))
    made = routes(counts, width)
    steps = sum(lengths(counts, width))
    taken = [
        [(stay.worker, n % counts[stay.worker]) for stay in route for n in range(stay.start, stay.stop)]
        for route in made
    ]
    assert [len(route) for route in taken] == [steps] * (width if steps else 0)
    assert all(len(set(route)) == len(route) for route in taken)
    assert all(len({worker for worker, _ in step}) == width for step in zip(*taken, strict=True))
    if width * max(counts, default=0) <= sum(counts):
        assert steps == sum(counts)
