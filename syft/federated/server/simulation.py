"""Simulation: many clients on few cores, each with a part of one data set. A client is created when it is chosen."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, overload

import torch
from torch.utils.data import TensorDataset

from syft._suggestions import did_you_mean
from syft.display.facts import FactList, Shown
from syft.exceptions import TrainingError
from syft.federated.client.training_loop import pair_of
from syft.federated.partition import partition_of
from syft.federated.server.clients import ClientStateCache, LocalClient


class Simulation(Shown, Sequence[Any]):
    """Clients by index, each with a part of a data set.

    The parts are views of one data set: a client that is not chosen uses only its row indices.

    Args:
        dataset: pairs of samples and targets, or two tensors of them.
        count: number of clients.
        partition: how samples are assigned: `sy.federated.Dirichlet(alpha=0.5)`, or its name, such as "dirichlet";
            "iid", uniformly at random, by default.
        seed: determines the parts.
        backend: None to compute in this process, "ray" for a pool of processes on a Ray cluster.
        **options: settings of the backend; see `syft.federated.server.ray.pool.RayPool`.

    Example:
        >>> import torch, syft as sy
        >>> data, targets = torch.rand(100, 4), torch.arange(100) % 2
        >>> clients = sy.federated.Simulation((data, targets), 10)
        >>> len(clients), len(clients[3].dataset)
        (10, 10)
    """

    def __init__(
        self,
        dataset: object,
        count: int,
        partition: object = None,
        seed: int = 0,
        backend: str | None = None,
        **options: object,
    ) -> None:
        self.data, self.targets = two_tensors(dataset)
        self.partition = partition_of(partition)
        self._rows = self.partition.split(self.targets, count, seed)
        self._memories = ClientStateCache()
        self.pool: Any = _pool(backend, self, options)

    def part(self, number: int) -> TensorDataset:
        """Return the samples of a client."""
        rows = self._rows[number]
        return TensorDataset(self.data[rows], self.targets[rows])

    def __len__(self) -> int:
        return len(self._rows)

    @overload
    def __getitem__(self, index: int) -> Any: ...
    @overload
    def __getitem__(self, index: slice) -> Sequence[Any]: ...
    def __getitem__(self, index: int | slice) -> Any:
        if isinstance(index, slice):
            return [self[number] for number in range(*index.indices(len(self)))]
        number = range(len(self))[index]
        name = f"client-{number}"
        if self.pool is not None:
            return self.pool.client(number, name)
        return LocalClient(name, self.part(number), self._memories)

    def close(self) -> None:
        """Stop the processes of the backend, if any."""
        if self.pool is not None:
            self.pool.close()

    def __enter__(self) -> Simulation:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    def _facts(self) -> FactList:
        yield from (("clients", len(self)), ("samples", len(self.targets)), ("partition", repr(self.partition)))
        yield "runs", "in this process" if self.pool is None else f"on {self.pool!r}"

    def __repr__(self) -> str:
        where = "" if self.pool is None else f" on {self.pool!r}"
        return f"<Simulation of {len(self)} clients with {len(self.targets)} samples, {self.partition!r}{where}>"


def two_tensors(dataset: Any) -> tuple[torch.Tensor, torch.Tensor]:
    """Return the samples and the targets of a data set as two tensors of as many rows."""
    if isinstance(dataset, tuple | list) and len(dataset) == 2:
        pair: Any = tuple(dataset)
    else:
        pair = pair_of(dataset)
    data, targets = (torch.as_tensor(part).detach() for part in pair)
    if data.dim() == 0 or targets.dim() == 0 or len(data) != len(targets) or not len(data):
        raise TrainingError("A data set must be a tensor of samples and a tensor of as many targets, at least one.")
    return data, targets


def _pool(backend: str | None, simulation: Simulation, options: dict[str, Any]) -> Any:
    if backend is None:
        if options:
            hint = did_you_mean(min(options), ("dataset", "clients", "partition", "seed", "backend"))
            raise TypeError(f"A simulation without a backend does not accept {', '.join(sorted(options))}.{hint}")
        return None
    if backend == "ray":
        from syft.federated.server.ray.pool import RayPool

        return RayPool(simulation, **options)
    hint = did_you_mean(backend, ["ray"])
    raise ValueError(f"The backend {backend!r:.50} is unknown.{hint} Use None (this process) or 'ray'.")
