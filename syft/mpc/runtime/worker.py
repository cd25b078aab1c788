"""The handler of a run at a worker: checks the arguments, joins the other parties, and stores the results."""

from __future__ import annotations

import functools
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import torch

from syft.core.id_provider import ObjectId, is_id
from syft.core.references import Ref
from syft.core.trees import iter_tensors, map_tensors
from syft.exceptions import IdNotUniqueError, ProtocolError, SyftError
from syft.messaging.message import RunMessage
from syft.mpc.runtime import rendezvous
from syft.mpc.runtime.party import MAX_PARTIES
from syft.mpc.runtime.protocol_registry import ProtocolSpec, entry_of
from syft.mpc.runtime.rendezvous import Finish, Prepare, Start
from syft.pointers.remote_call import following_id
from syft.workers.access.policy import check_release
from syft.workers.execution.copies import copy_tensor
from syft.workers.execution.execute import resolve
from syft.workers.execution.router import handles
from syft.workers.execution.session import Session

if TYPE_CHECKING:
    from syft.mpc.runtime.network import Runtime
    from syft.workers.base import BaseWorker

_PLAIN = (int, float, bool, str, type(None), torch.Size)


def party_index(worker: BaseWorker, message: RunMessage, entry: ProtocolSpec) -> tuple[int, int]:
    """Return the index of a worker in a run, and the number of participants; a helper comes after the parties."""
    parties = message.parties
    if not 2 <= len(parties) <= MAX_PARTIES or not all(map(is_id, parties)) or len(set(parties)) != len(parties):
        raise ProtocolError(f"A run needs 2 to {MAX_PARTIES} different parties, got {len(parties)}.")
    seats = len(parties) + (entry.helper and len(parties) == 2)
    if worker.id in parties:
        return parties.index(worker.id), seats
    if seats > len(parties) and worker.id == message.provider:
        return len(parties), seats
    raise ProtocolError(f"Worker {worker.id!r} is not one of the parties of this run.")


def _check_plain(value: object, refs: bool) -> None:
    """Refuse all but plain tensors, numbers and strings: a pointer would make this worker act at another one."""
    if isinstance(value, tuple | list) and type(value) in (tuple, list):
        for item in value:
            _check_plain(item, refs)
    elif type(value) is Ref:
        if not refs or value.attribute is not None:
            raise ProtocolError("References in a run name shares as a whole, and only in its arguments.")
    elif type(value) is not torch.Tensor and type(value) not in _PLAIN:
        raise ProtocolError(f"A run takes shares, plain tensors and numbers, not a {type(value).__name__}.")


def arguments_of(worker: BaseWorker, session: Session, message: RunMessage) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """Return the arguments of a run, with this worker's shares in place of references."""
    _check_plain(message.contents, refs=True)
    for name, value in message.options.items():
        if type(name) is not str:
            raise ProtocolError(f"The names of a run's options are strings, not a {type(name).__name__}.")
        _check_plain(value, refs=False)

    def local(leaf: object) -> object:
        if type(leaf) is not Ref:
            return copy_tensor(leaf) if isinstance(leaf, torch.Tensor) else leaf
        share = resolve(worker, leaf)
        if type(share) is not torch.Tensor or share.dtype is not torch.int64:
            raise ProtocolError(f"Object {leaf.id!r} at worker {worker.id!r} is not a share: shares are int64 tensors.")
        # Values that parties open or reconstruct leave this worker.
        check_release(worker, session, share, f"run {message.name}", obj_id=leaf.id)
        return share

    return map_tensors(local, message.contents), message.options


def runtime_of(worker: BaseWorker, session: Session) -> Runtime | None:
    """Return the runtime for runs of a client over the network; None: in lockstep, in this process.

    A worker of this process that is also served to others (`WebsocketServerWorker`) can do both.
    """
    runtime: Runtime | None = getattr(worker, "mpc_runtime", None)
    if session.delegation is None and getattr(worker, "is_in_this_process", False):
        return None
    return runtime


@handles(RunMessage)
def take_part(worker: BaseWorker, session: Session, message: RunMessage) -> None:
    """Take part in a run: with workers of this process in lockstep, or over the network."""
    entry = entry_of(message.name)
    if worker.progress is not None:
        worker.progress.write(message.name)
    index, seats = party_index(worker, message, entry)

    def prepare() -> tuple[Start, object]:
        args, options = arguments_of(worker, session, message)
        return lambda party: entry.function(party, *args, **options), _agreement(message, args)

    finish = functools.partial(store_results, worker, session, message)
    try:
        join_run(worker, session, message, (index, seats), prepare, finish, f"The protocol {message.name!r}")
    except Exception:
        worker.object_store.note_departure(
            message.return_id,
            f"the run that should have made it ({message.name}) failed",
        )
        raise


def join_run(
    worker: BaseWorker,
    session: Session,
    message: RunMessage,
    seat: tuple[int, int],
    prepare: Prepare,
    finish: Finish,
    subject: str,
    pins: Mapping[ObjectId, str] | None = None,
) -> None:
    """Run one party's part of a protocol, and raise an error without numbers if it fails.

    The other parties are notified if `prepare` fails. With `pins`, parties and dealer prove these key fingerprints;
    without, they are identified by id.
    """
    key = (session.client_id, message.run_id)
    runtime = runtime_of(worker, session)
    index, seats = seat
    try:
        if runtime is not None:
            runtime.run(session, message, index, seats, prepare, finish, pins)
        else:
            start, agreement = prepare()
            participant = rendezvous.Participant(worker.id, start, finish, agreement)
            rendezvous.join(key, index, len(message.parties), seats, participant, session.may_wait)
    except Exception as error:
        if runtime is None:
            rendezvous.close(key, error)
        if isinstance(error, SyftError):
            raise
        # Error texts of torch may show arguments, and those are shares, perhaps of another party.
        raise ProtocolError(
            f"{subject} failed at worker {worker.id!r} with a {type(error).__name__}; "
            "its text may show shares, so it is hidden."
        ) from None


def _agreement(message: RunMessage, args: tuple[Any, ...]) -> object:
    """Return what must be equal at every party before a run starts."""
    shapes = [tuple(leaf.shape) for leaf in iter_tensors(args) if isinstance(leaf, torch.Tensor)]
    options = {name: value for name, value in message.options.items() if not isinstance(value, torch.Tensor)}
    return message.name, message.parties, message.provider, shapes, options


def _compact(share: torch.Tensor) -> torch.Tensor:
    """Return a share with a storage of its own, so that a stored share keeps no mask and no larger tensor alive."""
    return share if share.untyped_storage().nbytes() == share.nbytes else share.clone()


def store_results(worker: BaseWorker, session: Session, message: RunMessage, result: object) -> None:
    """Store the results of a run under the ids that the client chose: all of them, or none."""
    if result is None:  # a helper holds no shares
        return
    obj_id = message.return_id
    stored: list[ObjectId] = []
    try:
        for tensor in result if isinstance(result, tuple | list) else (result,):
            if type(tensor) is not torch.Tensor or tensor.dtype is not torch.int64:
                raise ProtocolError(f"The protocol {message.name!r} returned a value that is not a share.")
            if obj_id in worker.object_store.objects:
                raise IdNotUniqueError(f"Worker {worker.id!r} already holds an object with id {obj_id!r}.")
            session.keep(obj_id, _compact(tensor))
            stored.append(obj_id)
            obj_id = following_id(obj_id)
    except Exception:
        for other in stored:
            session.release(other)
        raise
