"""ClientActor: the actor of a `RayPool`. It answers calls for many simulated clients, one after the other.

Ray sees numbers and bytes only: what is in the bytes is written and read by this library.
"""

from __future__ import annotations

import os
import time
import warnings
from typing import Any

import numpy as np
import torch
from torch.utils.data import TensorDataset

from syft.federated.client.payload import Payload
from syft.federated.server.clients import ClientStateCache, LocalClient
from syft.messaging.message import ErrorMessage
from syft.serde import deserialize, serialize

# How much of the text of an error is told.
MAX_TEXT = 2000

Bytes = np.ndarray[Any, np.dtype[np.uint8]]


def bytes_of(tensor: torch.Tensor) -> Bytes:
    """Return the memory of a tensor, for Ray's object store."""
    flat = tensor.detach().cpu().contiguous().reshape(-1)
    found: Bytes = flat.view(torch.uint8).numpy() if flat.numel() else np.zeros(0, np.uint8)
    return found


def tensor_of(memory: Bytes, dtype: torch.dtype, shape: tuple[int, ...]) -> torch.Tensor:
    """Return the tensor in some memory, without a copy. It may be memory that is only read."""
    if not len(memory):
        return torch.zeros(shape, dtype=dtype)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # torch warns that it must not be written to, and nobody does
        return torch.from_numpy(memory).view(dtype).view(shape)


def pack(contents: dict[str, Any]) -> Bytes:
    """Write values by name; as an array, which Ray keeps in shared memory if it is large."""
    return np.frombuffer(serialize(Payload(contents)), dtype=np.uint8)


def unpack(written: Any) -> dict[str, Any]:
    """Read what `pack` wrote."""
    contents: dict[str, Any] = deserialize(memoryview(written)).contents
    return contents


def merge(common: dict[str, Any], own: dict[str, Any]) -> dict[str, Any]:
    """Put together what is the same for many clients, and what is a client's own."""
    merged = dict(common)
    for name, value in own.items():
        both = type(value) is dict and type(common.get(name)) is dict
        merged[name] = merge(common[name], value) if both else value
    return merged


class ClientActor:
    """What Ray makes an actor of.

    Args:
        forms: how the memory of samples, of targets and of rows is read.
        data: the memory of the samples of all clients.
        targets: that of their targets.
        rows: which rows are of which client, all in a line.
        ends: where the rows of each client end in it.
    """

    def __init__(self, forms: object, data: Bytes, targets: Bytes, rows: Bytes, ends: Bytes) -> None:
        torch.set_num_threads(1)
        torch.optim.SGD([torch.zeros(1, requires_grad=True)])  # the first optimizer of a process imports a lot
        parts = zip((data, targets, rows, ends), unpack(forms)["forms"], strict=True)
        self._data, self._targets, self._rows, self._ends = (
            tensor_of(memory, _DTYPES[dtype], tuple(shape)) for memory, (dtype, shape) in parts
        )
        self._memories = ClientStateCache()
        self._common: tuple[int, dict[str, Any]] = (0, {})

    def hello(self) -> int:
        """Say that this desk is there, and which process it is."""
        return os.getpid()

    def work(self, number: int, common: object, chunk: object, seconds: float | None) -> Any:
        """Answer the calls of a chunk, one after the other.

        Args:
            number: what is common to all chunks of a round is known by this number.
            common: what is the same for all of them.
            chunk: the number of each client, its name, and what is its own.
            seconds: after how long nobody waits any more; None: somebody always does.
        """
        began = time.monotonic()
        if self._common[0] != number:
            self._common = number, unpack(common)
        outcomes: list[tuple[str, Any, bool]] = []
        for client, name, own in unpack(chunk)["jobs"]:
            if seconds is not None and outcomes and time.monotonic() - began >= seconds:
                break
            outcomes.append((name, *self._answer(client, name, merge(self._common[1], own))))
        return pack({"outcomes": outcomes, "seconds": time.monotonic() - began})

    def _answer(self, client: int, name: str, job: dict[str, Any]) -> tuple[Any, bool]:
        """Return the answer to a call, or its error, and whether the client remembers something from now on."""
        first = int(self._ends[client - 1]) if client else 0
        rows = self._rows[first : int(self._ends[client])]
        here = LocalClient(name, TensorDataset(self._data[rows], self._targets[rows]), self._memories)
        try:
            answer: Any = here.call(job["run"], job["call"], job["payload"])
        except Exception as error:  # it is the client that failed, not the desk
            text = str(error)[:MAX_TEXT].encode("utf-8", "backslashreplace").decode("utf-8")
            answer = ErrorMessage((type(error).__name__, text, ""))
        return answer, self._memories.find(job["run"], name) is not None


_DTYPES = {str(kind): kind for kind in vars(torch).values() if isinstance(kind, torch.dtype)}
