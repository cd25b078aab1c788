"""FederatedDataLoader against a plain DataLoader: the same samples, in batches that stay at their worker."""

import logging
import math

import pytest
import torch
from torch.utils.data import DataLoader, TensorDataset

import syft as sy
from syft.federated.dataloader import _DataLoaderIter, _DataLoaderOneWorkerIter, default_collate


def spread(workers, sizes):
    """A federated data set of consecutive numbers from 0, with the given count at each worker."""
    numbers, parts = iter(range(sum(sizes))), []
    for worker, size in zip(workers, sizes, strict=True):
        targets = torch.tensor([next(numbers) for _ in range(size)])
        parts.append(sy.BaseDataset(targets.float().unsqueeze(1) * torch.ones(2), targets).send(worker))
    return sy.FederatedDataset(parts)


def fetched(batch):
    data, targets = batch
    assert data.location is targets.location
    where, data, targets = data.location, data.get(), targets.get()
    assert torch.equal(data, targets.float().unsqueeze(1) * torch.ones(2))
    return where, targets.tolist()


@pytest.mark.parametrize("drop_last", [False, True])
@pytest.mark.parametrize("batch_size", [1, 2, 3, 8])
def test_the_batches_of_a_plain_loader_for_each_worker(workers, batch_size, drop_last, nothing_left):
    bob, alice = workers
    federated = spread(workers, (7, 4))
    loader = sy.FederatedDataLoader(federated, batch_size=batch_size, drop_last=drop_last)
    expected = []
    for worker, numbers in ((bob, torch.arange(7)), (alice, torch.arange(7, 11))):
        plain = DataLoader(TensorDataset(numbers), batch_size=batch_size, drop_last=drop_last)
        expected += [(worker, batch.tolist()) for (batch,) in plain]
    for _ in range(2):
        assert [fetched(batch) for batch in loader] == expected
    assert len(loader) == len(expected)
    del federated, loader
    nothing_left(*workers)


def test_shuffled_passes_see_everything_once_in_another_order(workers):
    loader = sy.FederatedDataLoader(spread(workers, (40, 30)), batch_size=8, shuffle=True)
    passes = [[fetched(batch) for batch in loader] for _ in range(2)]
    for found in passes:
        for worker, numbers in zip(workers, (range(40), range(40, 70)), strict=True):
            assert sorted(n for where, batch in found if where is worker for n in batch) == list(numbers)
    assert passes[0] != passes[1]
    torch.manual_seed(5)
    first = [fetched(batch) for batch in loader]
    torch.manual_seed(5)
    assert [fetched(batch) for batch in loader] == first


def test_two_messages_a_batch_and_no_waiting(make_worker, kind):
    loader = sy.FederatedDataLoader(spread([make_worker("bob", kind)], (64,)), batch_size=32, shuffle=True)
    with sy.count_messages() as count:
        batches = list(loader)
    assert len(batches) == 2 and (count.messages, count.rounds) == (4, 0)


@pytest.mark.parametrize("sizes", [(5, 2, 3), (1, 1, 6), (4, 4, 4)])
def test_a_batch_of_every_worker_at_a_time(make_worker, sizes):
    workers = [make_worker(name) for name in ("bob", "alice", "carol")]
    loader = sy.FederatedDataLoader(spread(workers, sizes), batch_size=2, iter_per_worker=True)
    seen = {worker: [] for worker in workers}
    steps = 0
    for batches in loader:
        steps += 1
        assert isinstance(batches, dict)
        for worker, batch in batches.items():
            where, numbers = fetched(batch)
            assert where is worker
            seen[worker] += numbers
        assert list(batches) == workers
    assert steps == len(loader) == min(math.ceil(size / 2) for size in sizes)
    starts = [sum(sizes[:number]) for number in range(3)]
    expected = [list(range(s, s + size))[: 2 * steps] for s, size in zip(starts, sizes, strict=True)]
    assert list(seen.values()) == expected


@pytest.mark.parametrize(("wanted", "used"), [(1, 1), (2, 2), (3, 3), (4, 3), (99, 3)])
def test_each_of_several_iterators_goes_through_everything(make_worker, wanted, used):
    workers = [make_worker(name) for name in ("bob", "alice", "carol", "dave")]
    sizes = (4, 4, 3, 4)
    loader = sy.FederatedDataLoader(spread(workers, sizes), batch_size=2, num_iterators=wanted)
    assert loader.num_iterators == used
    steps = [batch if isinstance(batch, dict) else {batch[0].location: batch} for batch in loader]
    assert len(steps) == len(loader) == 8
    assert {len(step) for step in steps} == {used}
    assert all(isinstance(batch, dict) is (used > 1) for batch in loader)
    seen = {worker: [] for worker in workers}
    for step in steps:
        for worker, batch in step.items():
            seen[worker] += fetched(batch)[1]
    assert sorted(number for numbers in seen.values() for number in numbers) == sorted([*range(15)] * used)
    assert [len(numbers) for numbers in seen.values()] == [used * size for size in sizes]


def test_passes_do_not_disturb_each_other(workers):
    loader = sy.FederatedDataLoader(spread(workers, (2, 2)), batch_size=1)
    assert sum(1 for _ in loader for _ in loader) == 16


def test_next_goes_on_with_the_last_pass(workers):
    loader = sy.FederatedDataLoader(spread(workers, (2, 1)), batch_size=1)
    assert fetched(next(loader))[1] == [0]
    iter(loader)
    assert [fetched(next(loader))[1] for _ in range(3)] == [[0], [1], [2]]
    with pytest.raises(StopIteration):
        next(loader)


def test_iterators_of_one_worker_and_of_all(workers):
    loader = sy.FederatedDataLoader(spread(workers, (3, 2)), batch_size=2)
    assert loader.workers == [worker.id for worker in workers]
    assert [fetched(batch)[1] for batch in _DataLoaderOneWorkerIter(loader, 1)] == [[3, 4]]
    assert [fetched(batch)[1] for batch in _DataLoaderIter(loader, 1)] == [[3, 4], [0, 1], [2]]
    for iterator in (_DataLoaderIter(loader, 0), _DataLoaderOneWorkerIter(loader, 0)):
        next(iterator)
        iterator.stop()
        assert list(iterator) == []


def test_a_collate_of_the_users_own(workers):
    def reversed_batch(pairs):
        data, targets = default_collate(pairs[::-1])
        return data, targets

    loader = sy.FederatedDataLoader(spread(workers, (3, 1)), batch_size=2, collate_fn=reversed_batch)
    assert [fetched(batch)[1] for batch in loader] == [[1, 0], [2], [3]]


def test_options_that_are_not_known_or_not_right(workers, caplog):
    federated = spread(workers, (2, 2))
    with caplog.at_level(logging.WARNING, "syft.federated"):
        sy.FederatedDataLoader(federated, num_workers=3)
    assert "num_workers" in caplog.text
    with pytest.raises(TypeError, match="needs a FederatedDataset, got a TensorDataset"):
        sy.FederatedDataLoader(TensorDataset(torch.zeros(1)))
    for wrong in ({"batch_size": 0}, {"batch_size": 1.5}, {"num_iterators": 0}):
        with pytest.raises(ValueError, match="at least 1"):
            sy.FederatedDataLoader(federated, **wrong)
    assert list(sy.FederatedDataLoader(sy.FederatedDataset([]))) == []
    assert len(sy.FederatedDataLoader(sy.FederatedDataset([]), iter_per_worker=True)) == 0


def test_documented_path():
    from syft.frameworks.torch.fl.dataloader import FederatedDataLoader

    assert FederatedDataLoader is sy.FederatedDataLoader
