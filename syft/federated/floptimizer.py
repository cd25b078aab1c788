"""Optims: one optimizer for each worker, so that its state, which derives from the worker's data, stays separate."""

from __future__ import annotations

import copy
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Any

import torch

from syft._suggestions import did_you_mean
from syft.display.facts import FactList, Shown
from syft.hook.optimizers import keep_at

if TYPE_CHECKING:
    from syft.workers.base import BaseWorker


class Optims(Shown):
    """Optimizers of one kind and with the same settings, one for each worker, for one model.

    Momentum and the moments of Adam derive from gradients, and so from data. A model that moves from worker to worker
    with a single optimizer carries them along. With Optims, each worker has its own optimizer, whose state stays where
    the model was trained and is used again when the model comes back. Using the optimizer of one worker while the model
    is at another raises an error.

    Each optimizer starts with a copy of the given one: settings, groups and state. Later changes to the given one, such
    as by a scheduler, do not affect them: give each its own scheduler, from `optimizers`.

    Args:
        workers: the workers, or their ids.
        optim: an optimizer of the model's parameters. It is copied, and never steps itself.

    Example:
        >>> import torch, syft as sy
        >>> hook = sy.TorchHook(torch)
        >>> bob, alice = (sy.VirtualWorker(hook, id=f"optims-{name}") for name in ("bob", "alice"))
        >>> model = torch.nn.Linear(2, 1)
        >>> optims = sy.federated.Optims([bob, alice], optim=torch.optim.Adam(model.parameters(), lr=0.1))
        >>> for data in (torch.ones(4, 2).send(bob), torch.zeros(4, 2).send(alice)):
        ...     _ = model.send(data.location)
        ...     optimizer = optims.get_optim(data.location.id)
        ...     optimizer.zero_grad()
        ...     model(data).sum().backward()
        ...     optimizer.step()
        ...     _ = model.get()
        >>> optims.count()
        2
    """

    def __init__(self, workers: Iterable[Any], optim: torch.optim.Optimizer) -> None:
        if not isinstance(optim, torch.optim.Optimizer):
            raise TypeError(
                f"Optims needs an optimizer to copy, got a {type(optim).__name__}. Use "
                "Optims(workers, optim=torch.optim.Adam(model.parameters()))."
            )
        if isinstance(workers, str) or not isinstance(workers, Iterable):
            raise TypeError('Optims takes the workers one after the other: Optims(["bob", "alice"], optim=...).')
        self.optim = optim
        self.optimizers: dict[Any, torch.optim.Optimizer] = {}
        for worker in workers:
            key = _id_of(worker)
            if key in self.optimizers:
                raise ValueError(f"The worker {key!r} is listed twice, but each has one optimizer.")
            self.optimizers[key] = _alike(optim, key)
        if not self.optimizers:
            raise ValueError("Optims needs at least one worker.")

    @property
    def workers(self) -> list[Any]:
        """The ids of the workers that have an optimizer."""
        return list(self.optimizers)

    def get_optim(self, worker: BaseWorker) -> torch.optim.Optimizer:
        """Return the optimizer of a worker.

        Args:
            worker: the worker, or its id: `data.location.id`.
        """
        key = _id_of(worker)
        if key not in self.optimizers:
            known = f"There are optimizers for {self.workers}.{did_you_mean(key, self.workers)}"
            raise KeyError(f"There is no optimizer for the worker {key!r}. {known}")
        return self.optimizers[key]

    __getitem__ = get_optim

    def count(self) -> int:
        """Return the number of optimizers, one for each worker."""
        return len(self.optimizers)

    def reset(self, worker: BaseWorker | None = None) -> None:
        """Reset the state of optimizers to that of the original; their settings are kept.

        Args:
            worker: the worker or its id; None for all.
        """
        for optimizer in self.optimizers.values() if worker is None else (self.get_optim(worker),):
            # Not just empty: some optimizers create state in their constructor.
            optimizer.state = copy.deepcopy(self.optim.state, _parameters(self.optim))

    def __len__(self) -> int:
        return len(self.optimizers)

    def __iter__(self) -> Iterator[Any]:
        return iter(self.optimizers)

    def __contains__(self, worker: BaseWorker) -> bool:
        return _id_of(worker) in self.optimizers

    def _facts(self) -> FactList:
        return (("optimizer", type(self.optim).__name__), ("workers", ", ".join(map(str, self.workers))))

    def __repr__(self) -> str:
        return f"<Optims of {type(self.optim).__name__} for {', '.join(map(str, self.workers))}>"


def _id_of(worker: BaseWorker) -> Any:
    return getattr(worker, "id", worker)


def _alike(pattern: torch.optim.Optimizer, worker: BaseWorker) -> torch.optim.Optimizer:
    """Return an optimizer of the same parameters, with copies of everything else."""
    # A scheduler replaces `step` on its optimizer; a copy of that would step the original.
    parts = {name: value for name, value in vars(pattern).items() if name != "step"}
    # Not a deepcopy of the optimizer: its pickled state lacks attributes that some need (LBFGS).
    made: torch.optim.Optimizer = object.__new__(type(pattern))
    made.__dict__.update(copy.deepcopy(parts, _parameters(pattern)))
    keep_at(made, worker)
    return made


def _parameters(optimizer: torch.optim.Optimizer) -> dict[int, Any]:
    """Return the parameters by identity, as a memo for deepcopy."""
    return {id(one): one for group in optimizer.param_groups for one in group["params"]}
