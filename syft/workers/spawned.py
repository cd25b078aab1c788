"""SpawnedWorker: a worker in another process, as the process that made it sees it."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from syft.core.id_provider import ObjectId
from syft.workers.remote import RemoteWorker
from syft.workers.transport.handshake import Address
from syft.workers.transport.socket_stream import hub

if TYPE_CHECKING:
    import torch

    from syft.hook.torch_hook import TorchHook
    from syft.workers.base import BaseWorker


class SpawnedWorker(RemoteWorker):
    """A worker in another process, which this process made and gives orders to.

    What it holds is there, so everything that is asked about its objects goes through the stream of the local worker.

    Args:
        hook: the TorchHook.
        id: the name of the worker.
        data: tensors to hold from the start.
        verbose: log every message there.
        auto_add: make it and the workers known to the local worker know each other.
    """

    def __init__(
        self,
        hook: TorchHook | None,
        id: ObjectId,
        data: Iterable[torch.Tensor] | None,
        *,
        verbose: bool = False,
        auto_add: bool = True,
    ) -> None:
        # What clients reach this worker by, and what it reaches workers of this process by.
        self._admitted: dict[ObjectId, Address] = {}
        self._announced: list[Address] = []
        super().__init__(hook, id, data, verbose=verbose, auto_add=auto_add)

    # --- the process ------------------------------------------------------------------------------------------

    @property
    def pid(self) -> int:
        """The id of the worker's process."""
        raise NotImplementedError(f"{type(self).__name__} must say which process it is")

    @property
    def port(self) -> int:
        """The port on this machine at which the worker's process listens."""
        raise NotImplementedError(f"{type(self).__name__} must say where it listens")

    @property
    def orders_given(self) -> int:
        """How many orders the worker's process was given."""
        raise NotImplementedError(f"{type(self).__name__} must count orders")

    def is_alive(self) -> bool:
        """Say whether the worker's process is there."""
        raise NotImplementedError(f"{type(self).__name__} must say whether it is there")

    def why_lost(self) -> str:
        """Say what is known of why the worker can't be reached."""
        raise NotImplementedError(f"{type(self).__name__} must say why it is lost")

    def _control(self, order: tuple[Any, ...]) -> None:
        """Tell the worker's process something that only its maker may tell it."""
        raise NotImplementedError(f"{type(self).__name__} must say how orders are given")

    def _end(self) -> None:
        """End the worker's process."""
        raise NotImplementedError(f"{type(self).__name__} must say how it ends")

    # --- who gets in ------------------------------------------------------------------------------------------

    def admit(self, client_id: ObjectId) -> Address:
        """Have the worker's process let a client in, and return where and by what."""
        return dataclasses.replace(self._secrets_for(client_id), port=self.port)

    def _secrets_for(self, client_id: ObjectId) -> Address:
        """Have the worker's process let a client in, and return by what; where, is not known yet."""
        if client_id not in self._admitted:
            address = self._admitted[client_id] = Address.fresh(0)
            self._control(("admit", client_id, address.token, address.proof))
        return self._admitted[client_id]

    def invite(self, client_id: ObjectId, purpose: str) -> Address:
        """Have the worker's process let somebody in for one purpose and nothing else; returns where and by what.

        Args:
            client_id: who it is from then on, whatever it says.
            purpose: what a connection with these secrets is for.
        """
        address = Address.fresh(self.port)
        self._control(("admit", client_id, address.token, address.proof, purpose))
        return address

    def dismiss(self, client_id: ObjectId, address: Address) -> None:
        """Have the worker's process let nobody in any more by the secrets of an address."""
        self._control(("dismiss", client_id, address.token, address.proof))

    def _introduce(self, worker: BaseWorker) -> None:
        """Tell the worker's process how another worker is reached."""
        address = self._way_to(worker)
        if address is not None:
            self._control(("meet", worker.id, address.port, address.token, address.proof))

    def _way_to(self, worker: BaseWorker) -> Address | None:
        """Return how a process of this machine reaches a worker; None if it does not, or if that only sends."""
        if isinstance(worker, SpawnedWorker):
            return worker.admit(self.id) if worker.is_on_this_machine() else None
        if worker.is_client_worker or getattr(worker, "in_own_process", False):
            return None
        address = Address.fresh(hub().port)
        hub().announce(worker, self.id, address)
        self._announced.append(address)
        return address

    def is_on_this_machine(self) -> bool:
        """Say whether the worker's process is on this machine."""
        return True

    def stop(self) -> None:
        """End the worker's process, after what was sent to it is done; then raise what went wrong meanwhile."""
        try:
            self._close_incoming()
        finally:
            while self._announced:
                hub().dismiss(self._announced.pop())
            try:
                self.close()
            finally:
                self._end()

    def __repr__(self) -> str:
        state = f"pid:{self.pid}" if self.is_alive() else "(its process ended)"
        return f"<{type(self).__name__} id:{self.id} {state}>"
