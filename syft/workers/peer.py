"""PeerWorker: another worker, as seen from the process of a worker that connects to it."""

from __future__ import annotations

import socket

from syft.core.id_provider import ObjectId
from syft.exceptions import WorkerLostError
from syft.workers.base import BaseWorker


class PeerWorker(BaseWorker):
    """Another worker; subclasses supply the transport: `open_stream`, and `connect` for runs on shares."""

    # Completes "Worker ... is lost: ".
    lost_reason = "it can't be reached."

    def __init__(self, id: ObjectId) -> None:
        super().__init__(None, id, auto_add=False)

    def connect(self, purpose: str = "") -> socket.socket:
        """Open a connection to it for one purpose."""
        raise WorkerLostError(self.id, self.why_lost())

    def why_lost(self) -> str:
        """Return the known reason why it can't be reached."""
        return self.lost_reason

    def _may_hold(self, obj_id: ObjectId) -> bool:
        """Return True: its objects are not known here."""
        return True
