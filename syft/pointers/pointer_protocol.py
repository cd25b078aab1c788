"""PointerProtocol: a reference to a protocol that a worker holds."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from syft.core.trees import map_tensors
from syft.pointers.object_pointer import ObjectPointer
from syft.pointers.remote_call import call_by_name, pointer_kinds

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
        inner_args, inner_kwargs = map_tensors(_unwrapped, (args, kwargs))
        result = call_by_name(RUN_PROTOCOL, (self, *inner_args), inner_kwargs, carries_local=True)
        return map_tensors(_wrapped, result)

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

    def wrap(self, register: bool = True, type: object = None, **kwargs: object) -> Any:
        """Return the pointer itself."""
        return self


def _unwrapped(leaf: object) -> Any:
    child = None if isinstance(leaf, ObjectPointer) else getattr(leaf, "child", None)
    return leaf if child is None else child


def _wrapped(leaf: object) -> Any:
    return leaf.wrap() if isinstance(leaf, ObjectPointer) else leaf


pointer_kinds["protocol"] = PointerProtocol
