"""Errors of workers, nodes and the sessions at them."""

from __future__ import annotations

from syft.exceptions.base import SyftError


class WorkerNotFoundError(SyftError):
    """The id names no known worker."""

    code = "SY201"

    def __init__(self, worker_id: object = None, known: tuple[object, ...] = ()) -> None:
        names = ", ".join(repr(name) for name in known) or "none"
        super().__init__(
            f"No worker {worker_id!r} is known here (known: {names}). "
            "Create it, or introduce it with add_worker(worker)."
        )


class WorkerLostError(SyftError):
    """The process of a worker ended or can't be reached; the objects it held are gone."""

    code = "SY202"

    def __init__(self, worker_id: object = None, why: str = "") -> None:
        self.worker_id = worker_id
        super().__init__(
            f"Worker {worker_id!r} is lost with its objects" + (f": {why}" if why else ".") + " Make a worker "
            "of this id again and send the data again; other workers go on."
        )


class NodeLostError(WorkerLostError):
    """A session at a node is over: published objects stay there, the session's other objects are gone."""

    code = "SY203"

    def __init__(self, worker_id: object = None, why: str = "") -> None:
        SyftError.__init__(
            self,
            f"The session at node {worker_id!r} is over" + (f": {why}" if why else ".") + " Published objects stay "
            "there; the session's other objects are gone. Find them with node.search(...), which connects again.",
        )
        self.worker_id = worker_id


class NodeUnreachableError(NodeLostError):
    """The connection to a node failed; there is no session."""

    code = "SY204"

    def __init__(self, url: object = None, why: str = "") -> None:
        SyftError.__init__(self, f"Could not reach {url}: {why}")
        self.worker_id = url


class ClientLostError(WorkerLostError):
    """The process of a simulated client of a federated run ended."""

    code = "SY205"

    def __init__(self, worker_id: object = None, why: str = "") -> None:
        SyftError.__init__(self, f"Client {worker_id!r} was lost" + (f": {why}" if why else "."))
        self.worker_id = worker_id


class SessionEndedError(SyftError):
    """The process that served a session at a node ended: it exceeded a limit, or a call crashed it."""

    code = "SY206"


class NotDoneError(SyftError):
    """A worker did not run a call, because an earlier call failed whose error the client has not received yet.

    Streams repeat the call, or raise the error of the failed one, so users never see this error.
    """

    code = "SY207"
