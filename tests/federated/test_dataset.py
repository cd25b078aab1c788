"""BaseDataset, FederatedDataset, and splitting any data set over workers."""

import numpy as np
import pytest
import torch
from torch.utils.data import ConcatDataset, DataLoader, Dataset, IterableDataset, Subset, TensorDataset

import syft as sy
from syft.exceptions import SyftError
from syft.federated.dataset import BaseDataset, FederatedDataset, dataset_federate

DATA = torch.arange(10.0).view(5, 2)
TARGETS = torch.tensor([0, 1, 2, 3, 4])


def base():
    return sy.BaseDataset(DATA.clone(), TARGETS.clone())


def test_documented_paths():
    from syft.frameworks.torch.federated import dataset as older
    from syft.frameworks.torch.fl.dataset import BaseDataset as documented

    assert documented is sy.BaseDataset is older.BaseDataset and sy.FederatedDataset is FederatedDataset


def test_samples_and_targets():
    dataset = base()
    assert len(dataset) == 5 and dataset.location is None
    data, target = dataset[3]
    assert torch.equal(data, DATA[3]) and target == 3
    assert [len(target) for _, target in DataLoader(dataset, batch_size=2)] == [2, 2, 1]
    assert repr(dataset) == "<BaseDataset of 5 samples here>"


def test_transforms():
    dataset = sy.BaseDataset(DATA, TARGETS, transform=lambda array: array * 2)
    assert torch.equal(dataset[1][0], DATA[1] * 2) and torch.equal(dataset.data, DATA)
    dataset = base()
    dataset.transform(np.sqrt)
    assert torch.equal(dataset.data, DATA.sqrt())


def test_sends_and_gets_in_place(workers, nothing_left):
    bob, _ = workers
    dataset = base()
    assert dataset.send(bob) is dataset and dataset.location is bob
    assert len(dataset) == 5 and bob.id in repr(dataset)
    data, target = dataset[1]
    assert data.location is bob and target.location is bob
    assert torch.equal(data.get(), DATA[1])
    for wrong in (dataset.transform, lambda function: sy.BaseDataset(dataset.data, dataset.targets, function)[0]):
        with pytest.raises(TypeError):
            wrong(lambda array: array)
    assert dataset.get() is dataset and torch.equal(dataset.data, DATA) and torch.equal(dataset.targets, TARGETS)
    del data, target
    nothing_left(bob)


def test_encoded_and_shared(workers, make_worker):
    bob, alice = workers
    carol = make_worker("carol")
    dataset = base()
    assert dataset.fix_precision().share(bob, alice, crypto_provider=carol) is dataset
    shared = dataset[1][0]
    assert torch.equal(shared.get().float_precision(), DATA[1])
    assert torch.equal(dataset.get().float_prec().data, DATA)
    assert BaseDataset.fix_prec is BaseDataset.fix_precision and BaseDataset.float_prec is BaseDataset.float_precision


def test_tags_make_it_findable(bob):
    base().tag("#numbers").describe("five of them").send(bob)
    found = bob.search(["#numbers", "five"])
    assert sorted(tuple(pointer.shape) for pointer in found) == [(5,), (5, 2)]


def test_parts_by_worker(workers, nothing_left):
    bob, alice = workers
    federated = base().federate((bob, alice))
    assert federated.workers == [bob.id, alice.id] == list(federated)
    assert (len(federated), len(federated[bob.id]), len(federated[alice])) == (5, 3, 2)
    assert "(" + ", ".join(f"{worker.id}: {size}" for worker, size in ((bob, 3), (alice, 2))) + ")" in repr(federated)
    with pytest.raises(KeyError, match="No part of this data set is at 'nobody'"):
        federated["nobody"]
    part = federated.get_dataset(alice)
    assert torch.equal(part.data, DATA[3:]) and torch.equal(part.targets, TARGETS[3:])
    assert federated.workers == [bob.id] and len(federated) == 3
    del federated
    nothing_left(bob, alice)


def test_pointers_that_were_found_make_one(workers):
    pointers = [(DATA[:2].send(w), TARGETS[:2].send(w)) for w in workers]
    federated = sy.FederatedDataset([sy.BaseDataset(*pair) for pair in pointers])
    assert len(federated) == 4


def test_parts_that_do_not_fit(bob):
    with pytest.raises(ValueError, match="Send it first"):
        sy.FederatedDataset([base()])
    with pytest.raises(ValueError, match=f"Two parts are at '{bob.id}'"):
        sy.FederatedDataset([base().send(bob), base().send(bob)])
    with pytest.raises(ValueError, match="has 5 samples and 4 targets"):
        sy.FederatedDataset([sy.BaseDataset(DATA.send(bob), TARGETS[:4].send(bob))])


class Own(Dataset):
    """A data set of the user's own, with samples of numpy and plain numbers as targets."""

    def __len__(self):
        return 5

    def __getitem__(self, index):
        return DATA[index].numpy() + 1, int(TARGETS[index])


class Endless(IterableDataset):
    def __iter__(self):
        return iter(())


KINDS = {
    "own": (Own(), DATA + 1),
    "tensors": (TensorDataset(DATA, TARGETS), DATA),
    "subset": (Subset(TensorDataset(DATA.repeat(2, 1), TARGETS.repeat(2)), range(5, 10)), DATA),
    "joined": (ConcatDataset([TensorDataset(DATA[:1], TARGETS[:1]), TensorDataset(DATA[1:], TARGETS[1:])]), DATA),
    "transformed": (sy.BaseDataset(DATA, TARGETS, transform=lambda array: array * 3), DATA * 3),
}


@pytest.mark.parametrize("name", list(KINDS))
def test_any_data_set_is_split(hook, workers, make_worker, name):
    dataset, expected = KINDS[name]
    several = (*workers, make_worker("carol"))
    federated = dataset.federate(several)
    assert [len(federated[worker]) for worker in several] == [2, 2, 1]
    parts = [federated.get_dataset(worker) for worker in several]
    assert torch.equal(torch.cat([part.data for part in parts]), expected)
    assert torch.equal(torch.cat([part.targets for part in parts]), TARGETS)


def test_one_worker_gets_all(bob):
    assert len(dataset_federate(base(), bob)[bob]) == 5


def test_splitting_invalid_data_sets_raises(bob, alice):
    with pytest.raises(ValueError, match="1 samples can't be split over 2 workers"):
        TensorDataset(DATA[:1], TARGETS[:1]).federate((bob, alice))
    with pytest.raises(ValueError, match="0 workers"):
        base().federate(())
    with pytest.raises(ValueError, match="listed twice"):
        base().federate((bob, bob))
    with pytest.raises(TypeError, match="has no length"):
        Endless().federate((bob,))
    with pytest.raises(TypeError, match="pairs of a sample and its target"):
        TensorDataset(DATA).federate((bob,))
    with pytest.raises(SyftError, match="Fetch it before splitting it"):
        base().send(bob).federate((bob, alice))
