"""Servers that the journeys over websockets share: three processes on this machine, started once."""

from __future__ import annotations

import contextlib
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
import torch
from sklearn.datasets import load_digits

import syft as sy
from tests.helpers.fixed_randomness import same_words as same_words
from tests.helpers.nodes import websocket_server

NAMES = ("alice", "bob", "charlie")
TRAINED_ON = 1500

# Set-up of a server by its owner: three data sets. The samples of "meeting" are there when all three
# owners have been asked for theirs, so who asks one after the other waits in vain.
PREPARE = """
import time
from pathlib import Path
import numpy as np
from torch.utils.data import Dataset, TensorDataset

folder, mine, all_names = Path({folder!r}), {name!r}, {names!r}
worker.add_dataset(
    sy.BaseDataset(torch.tensor([[1.0, 1.0], [0.0, 1.0], [1.0, 0.0], [0.0, 0.0]]), torch.tensor([1.0, 1.0, 1.0, 0.0])),
    key="xor",
)
data = np.load(folder / "digits.npz")
shares = np.array_split(np.arange(len(data["train"])), len(all_names))[all_names.index(mine)]
for key, part in (("digits", shares), ("digits_testing", None)):
    pictures, target = (data["train"][part], data["train_target"][part]) if part is not None else (
        data["test"], data["test_target"])
    worker.add_dataset(TensorDataset(torch.tensor(pictures), torch.tensor(target)), key=key)


class Meeting(Dataset):
    def __len__(self):
        return 4

    def __getitem__(self, index):
        (folder / f"begun-{{mine}}").touch()
        end = time.monotonic() + 90
        while len(list(folder.glob("begun-*"))) < len(all_names):
            if time.monotonic() > end:
                raise RuntimeError("the others did not begin")
            time.sleep(0.01)
        return torch.zeros(1, 8, 8), 0


worker.add_dataset(Meeting(), key="meeting")
"""


@pytest.fixture(scope="session")
def digits():
    """Pictures and targets, to train with and to test with."""
    found = load_digits()
    data, target = torch.tensor(found.images, dtype=torch.float32).unsqueeze(1) / 16, torch.tensor(found.target)
    return data[:TRAINED_ON], target[:TRAINED_ON], data[TRAINED_ON:], target[TRAINED_ON:]


@pytest.fixture(scope="session")
def servers(digits, tmp_path_factory):
    """Three servers, each in a process of its own, by their names."""
    folder = tmp_path_factory.mktemp("owners")
    names = ("train", "train_target", "test", "test_target")
    np.savez(folder / "digits.npz", **dict(zip(names, (part.numpy() for part in digits), strict=True)))
    with contextlib.ExitStack() as stack, ThreadPoolExecutor(len(NAMES)) as pool:

        def start(name):
            prepare = PREPARE.format(folder=str(folder), name=name, names=NAMES)
            return websocket_server(f"journey-{name}", prepare=prepare, trust_script_modules=True)

        started = {name: start(name) for name in NAMES}
        entered = dict(zip(NAMES, pool.map(lambda manager: manager.__enter__(), started.values()), strict=True))
        for manager in started.values():
            stack.push(manager)
        yield entered


@pytest.fixture
def owners(hook, servers):
    """The three servers as a client sees them."""
    made = [
        sy.WebsocketClientWorker(hook, host="localhost", port=server.port, id=f"journey-{name}")
        for name, server in servers.items()
    ]
    yield made
    for worker in made:
        worker.close()
        for other in (hook.local_worker, *list(hook.local_worker._known_workers.values())):
            other._known_workers.pop(worker.id, None)
