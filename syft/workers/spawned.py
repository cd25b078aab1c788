"""SpawnedWorker: a worker in another process, as seen by the process that started it."""

from __future__ import annotations

import dataclasses
import functools
from typing import TYPE_CHECKING, Any

from syft.core.id_provider import ObjectId
from syft.workers.remote import RemoteWorker
from syft.workers.transport.handshake import Address
from syft.workers.transport.socket_stream import hub
from syft.workers.transport.stream import close_incoming

if TYPE_CHECKING:
    from syft.workers.base import BaseWorker


class SpawnedWorker(RemoteWorker):
    """A worker in another process, which this process started and controls.

    Its objects are in that process, so queries about them go through the stream of the local worker.
    """

    # The process: a `ChildHandle` or an `Actor`, set by subclasses before this class is initialized.
    _handle: Any

    @functools.cached_property
    def _admitted(self) -> dict[ObjectId, Address]:
        """The secrets of clients for this worker."""
        return {}

    @functools.cached_property
    def _announced(self) -> list[Address]:
        """The secrets of this worker for workers of this process."""
        return []

    # --- the process ------------------------------------------------------------------------------------------

    @property
    def pid(self) -> int:
        """The id of the worker's process."""
        return int(self._handle.pid)

    @property
    def port(self) -> int:
        """The port on this machine at which the worker's process listens."""
        return int(self._handle.port)

    @property
    def orders_given(self) -> int:
        """The number of orders that the worker's process was given."""
        return int(self._handle.orders)

    def is_alive(self) -> bool:
        """Return whether the worker's process is alive."""
        return bool(self._handle.is_alive())

    def _can_be_reused(self) -> bool:
        return self.is_alive()

    def why_lost(self) -> str:
        """Return the known reason why the worker can't be reached."""
        return str(self._handle.why_lost())

    def _control(self, order: tuple[Any, ...]) -> None:
        """Send an order to the worker's process, which accepts orders from its maker only."""
        self._handle.control(order)

    def _end(self) -> None:
        self._handle.end()

    # --- who gets in ------------------------------------------------------------------------------------------

    def admit(self, client_id: ObjectId) -> Address:
        """Have the worker's process accept a client, and return the client's address."""
        return dataclasses.replace(self._secrets_for(client_id), port=self.port)

    def _secrets_for(self, client_id: ObjectId) -> Address:
        """Have the worker's process accept a client, and return the client's secrets; the port is not known yet."""
        if client_id not in self._admitted:
            address = self._admitted[client_id] = Address.fresh(0)
            self._control(("admit", client_id, address.token, address.proof))
        return self._admitted[client_id]

    def invite(self, client_id: ObjectId, purpose: str) -> Address:
        """Have the worker's process accept a client for one purpose only; returns the client's address."""
        address = Address.fresh(self.port)
        self._control(("admit", client_id, address.token, address.proof, purpose))
        return address

    def dismiss(self, client_id: ObjectId, address: Address) -> None:
        """Have the worker's process reject the secrets of an address from now on."""
        self._control(("dismiss", client_id, address.token, address.proof))

    def _introduce(self, worker: BaseWorker) -> None:
        """Inform the worker's process how to reach another worker."""
        address = self._way_to(worker)
        if address is not None:
            self._control(("meet", worker.id, address.port, address.token, address.proof))

    def _way_to(self, worker: BaseWorker) -> Address | None:
        """Return the address of a worker for a process of this machine; None if it is not reachable, or only sends."""
        if isinstance(worker, SpawnedWorker):
            return worker.admit(self.id) if worker.is_on_this_machine() else None
        if worker.is_client_worker or getattr(worker, "in_own_process", False):
            return None
        address = Address.fresh(hub().port)
        hub().announce(worker, self.id, address)
        self._announced.append(address)
        return address

    def is_on_this_machine(self) -> bool:
        """Return whether the worker's process is on this machine."""
        return True

    def stop(self) -> None:
        """End the worker's process, after pending requests are done; then raise the first error."""
        try:
            close_incoming(self)
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
