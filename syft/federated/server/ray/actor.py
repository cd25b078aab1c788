"""ClientActor: the actor of a `RayPool`. It runs calls for many simulated clients, one after the other.

Ray sees only numbers and bytes: this library serializes the values.
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

# Maximum length of an error text.
MAX_TEXT = 2000

Bytes = np.ndarray[Any, np.dtype[np.uint8]]


def bytes_of(tensor: torch.Tensor) -> Bytes:
    """Return the bytes of a tensor, for Ray's object store."""
    flat = tensor.detach().cpu().contiguous().reshape(-1)
    found: Bytes = flat.view(torch.uint8).numpy() if flat.numel() else np.zeros(0, np.uint8)
    return found


def tensor_of(memory: Bytes, dtype: torch.dtype, shape: tuple[int, ...]) -> torch.Tensor:
    """Return a tensor over some memory, without a copy. The memory may be read-only."""
    if not len(memory):
        return torch.zeros(shape, dtype=dtype)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # torch warns about read-only memory, which is never written to
        return torch.from_numpy(memory).view(dtype).view(shape)


def pack(contents: dict[str, Any]) -> Bytes:
    """Serialize values by name, as an array: Ray keeps large arrays in shared memory."""
    return np.frombuffer(serialize(Payload(contents)), dtype=np.uint8)


def unpack(written: Any) -> dict[str, Any]:
    """Deserialize the result of `pack`."""
    contents: dict[str, Any] = deserialize(memoryview(written)).contents
    return contents


def merge(common: dict[str, Any], own: dict[str, Any]) -> dict[str, Any]:
    """Merge values that many clients share with those of one client."""
    merged = dict(common)
    for name, value in own.items():
        both = type(value) is dict and type(common.get(name)) is dict
        merged[name] = merge(common[name], value) if both else value
    return merged


class ClientActor:
    """The class of the Ray actors.

    It gets the samples and targets of all clients, their row indices, concatenated, and the end of each client's rows
    in it, each as bytes; `specs` has their dtypes and shapes, and the number of threads that torch uses.
    """

    def __init__(self, specs: object, data: Bytes, targets: Bytes, rows: Bytes, ends: Bytes) -> None:
        given = unpack(specs)
        torch.set_num_threads(given["threads"])
        torch.optim.SGD([torch.zeros(1, requires_grad=True)])  # the first optimizer of a process imports many modules
        parts = zip((data, targets, rows, ends), given["specs"], strict=True)
        self._data, self._targets, self._rows, self._ends = (
            tensor_of(memory, _DTYPES[dtype], tuple(shape)) for memory, (dtype, shape) in parts
        )
        self._memories = ClientStateCache()
        self._common: tuple[int, dict[str, Any]] = (0, {})

    def hello(self) -> int:
        """Return the process id, once the actor runs."""
        return os.getpid()

    def work(self, number: int, common: object, chunk: object, seconds: float | None) -> Any:
        """Run the calls of a chunk, one after the other. `number` identifies the shared values of a round, `common`."""
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
        """Return the result of a call, or its error, and whether the client has state from now on."""
        first = int(self._ends[client - 1]) if client else 0
        rows = self._rows[first : int(self._ends[client])]
        here = LocalClient(name, TensorDataset(self._data[rows], self._targets[rows]), self._memories)
        try:
            answer: Any = here.call(job["run"], job["call"], job["payload"])
        except Exception as error:  # the client failed, not the actor
            text = str(error)[:MAX_TEXT].encode("utf-8", "backslashreplace").decode("utf-8")
            answer = ErrorMessage((type(error).__name__, text, ""))
        return answer, self._memories.find(job["run"], name) is not None


_DTYPES = {str(kind): kind for kind in vars(torch).values() if isinstance(kind, torch.dtype)}
