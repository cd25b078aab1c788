"""PointerProtocol: a reference to a protocol that a worker holds."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from syft.pointers.object_pointer import ObjectPointer
from syft.pointers.remote_call import call_object, pointer_kinds

if TYPE_CHECKING:
    from syft.workers.base import BaseWorker

RUN_PROTOCOL = "syft.run_protocol"


class PointerProtocol(ObjectPointer):
    """A pointer to a protocol; calling it runs the protocol at its worker. See ObjectPointer for the arguments."""

    def run(self, *args: object, **kwargs: object) -> Any:
        """Run the protocol at the worker that holds it, with one message.

        Args:
            *args: pointers to that worker, or local tensors, which are sent in the same message.
            **kwargs: the same, by name.

        Returns:
            Pointers to the pointers of that worker: `.get().get()` fetches a result.
        """
        return call_object(RUN_PROTOCOL, self, args, kwargs, carries_local=True)

    __call__ = run

    def request_remote_run(self, location: BaseWorker, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """Run the protocol at the worker that holds it.

        Args:
            location: the worker.
            args: the arguments.
            kwargs: the keyword arguments.

        Raises:
            RuntimeError: the protocol is at another worker.
        """
        worker = self._owner.get_worker(location, fail_hard=True)
        if worker is not self.location:
            raise RuntimeError(
                f"The protocol is at {self.location.id!r}, not at {worker.id!r}. Send it there: protocol.send(worker)."
            )
        return self.run(*args, **(kwargs or {}))


pointer_kinds["protocol"] = PointerProtocol
