"""What a worker does when it is asked to take part in a run."""

from __future__ import annotations

import functools
from typing import Any

import torch

from syft.core.id_provider import is_id
from syft.core.references import Ref
from syft.core.trees import iter_tensors, map_tensors
from syft.exceptions import IdNotUniqueError, ProtocolError, SyftError
from syft.messaging.message import RunMessage
from syft.mpc.runtime import rendezvous
from syft.mpc.runtime.party import Party
from syft.mpc.runtime.protocol_registry import ProtocolSpec, entry_of
from syft.pointers.remote_call import following_id
from syft.workers.access.policy import check_release
from syft.workers.execution.copies import copy_tensor
from syft.workers.execution.execute import resolve
from syft.workers.execution.router import handles
from syft.workers.execution.session import Session

MAX_PARTIES = 64


def key_of(client_id: Any, run_id: Any) -> tuple[Any, Any]:
    """Return what a run is known by: its id is chosen by the client, so it counts only together with who that is."""
    return client_id, run_id


def place_of(worker: Any, message: RunMessage, entry: ProtocolSpec) -> tuple[int, int]:
    """Return which party a worker is, and how many take part; a helper comes after the parties."""
    parties = message.parties
    if not 2 <= len(parties) <= MAX_PARTIES or not all(map(is_id, parties)) or len(set(parties)) != len(parties):
        raise ProtocolError(f"A run takes from 2 to {MAX_PARTIES} different parties.")
    seats = len(parties) + (entry.helper and len(parties) == 2)
    if worker.id in parties:
        return parties.index(worker.id), seats
    if seats > len(parties) and worker.id == message.provider:
        return len(parties), seats
    raise ProtocolError(f"Worker {worker.id!r} is not one of the parties of this run.")


_PLAIN = (int, float, bool, str, type(None), torch.Size)


def _check_plain(value: Any, refs: bool) -> None:
    """Refuse anything but plain tensors, numbers and texts: a pointer would make this worker act at another one."""
    if type(value) in (tuple, list):
        for item in value:
            _check_plain(item, refs)
    elif type(value) is Ref:
        if not refs or value.attribute is not None:
            raise ProtocolError("The shares of a run are its arguments, as they are.")
    elif type(value) is not torch.Tensor and type(value) not in _PLAIN:
        raise ProtocolError(f"A run takes shares, plain tensors and numbers, not a {type(value).__name__}.")


def arguments_of(worker: Any, session: Session, message: RunMessage) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """Return the arguments of a run, with this worker's shares in place of their names."""
    _check_plain(message.contents, refs=True)
    for name, value in message.options.items():
        if type(name) is not str:
            raise ProtocolError("The options of a run have names.")
        _check_plain(value, refs=False)

    def local(leaf: Any) -> Any:
        if type(leaf) is not Ref:
            return copy_tensor(leaf) if isinstance(leaf, torch.Tensor) else leaf
        share = resolve(worker, leaf)
        if type(share) is not torch.Tensor or share.dtype is not torch.int64:
            raise ProtocolError(f"What worker {worker.id!r} holds as {leaf.id!r} is not a share: those are of int64.")
        # What parties open or reconstruct leaves this worker.
        check_release(worker, session, share, f"run {message.name}", obj_id=leaf.id)
        return share

    return map_tensors(local, message.contents), message.options


def runtime_of(worker: Any, session: Session) -> Any:
    """Return what a worker takes part in a client's runs with, over the network; None: in lockstep, in this process.

    A worker of this process that is served to others too (`WebsocketServerWorker`) does either.
    """
    runtime = getattr(worker, "mpc_runtime", None)
    if session.circle is None and getattr(worker, "is_in_this_process", False):
        return None
    return runtime


@handles(RunMessage)
def take_part(worker: Any, session: Session, message: RunMessage) -> None:
    """Take part in a run: with workers of this process in lockstep, or over the network."""
    entry = entry_of(message.name)
    if worker.progress is not None:
        worker.progress.write(message.name)
    index, seats = place_of(worker, message, entry)
    key = key_of(session.client_id, message.run_id)
    runtime = runtime_of(worker, session)
    try:
        try:
            args, options = arguments_of(worker, session, message)
        except Exception as error:
            if runtime is not None:
                runtime.give_up(session, message, seats, error)
            raise
        start = functools.partial(_start, entry, args, options)
        finish = functools.partial(_keep, worker, session, message)
        if runtime is not None:
            runtime.run(session, message, index, seats, start, finish)
        else:
            seat = rendezvous.Participant(worker.id, start, finish, _forms(message, args))
            rendezvous.join(key, index, len(message.parties), seats, seat, session.may_wait)
    except Exception as error:
        if runtime is None:
            rendezvous.close(key, error)
        worker.object_store.note_departure(
            message.return_id,
            f"the run that should have made it ({message.name}) failed",
        )
        if isinstance(error, SyftError):
            raise
        # Texts of torch may show numbers of its arguments, and those are shares, perhaps of another party.
        raise ProtocolError(
            f"The protocol {message.name!r} failed at worker {worker.id!r} with a {type(error).__name__}; "
            "its text may show shares, so it is not told."
        ) from None


def _forms(message: RunMessage, args: tuple[Any, ...]) -> Any:
    """Return what all parties must agree on before they begin."""
    shapes = [tuple(leaf.shape) for leaf in iter_tensors(args) if isinstance(leaf, torch.Tensor)]
    options = {name: value for name, value in message.options.items() if not isinstance(value, torch.Tensor)}
    return message.name, message.parties, message.provider, shapes, options


def _start(entry: ProtocolSpec, args: tuple[Any, ...], options: dict[str, Any], party: Party) -> Any:
    return entry.function(party, *args, **options)


def _compact(share: torch.Tensor) -> torch.Tensor:
    """Return a share in memory of its own: what is kept must not hold on to masks, or to the shares it is a part of."""
    return share if share.untyped_storage().nbytes() == share.nbytes else share.clone()


def _keep(worker: Any, session: Session, message: RunMessage, result: Any) -> None:
    """Store the results of a run under the ids that the client chose: all of them, or none."""
    if result is None:  # a helper holds no shares
        return
    obj_id = message.return_id
    kept: list[Any] = []
    for tensor in result if isinstance(result, tuple | list) else (result,):
        if type(tensor) is not torch.Tensor or tensor.dtype is not torch.int64:
            raise ProtocolError(f"The protocol {message.name!r} gave something that is not a share.")
        if obj_id in worker.object_store.objects:
            for other in kept:
                session.release(other)
            raise IdNotUniqueError(f"Worker {worker.id!r} already holds an object with id {obj_id!r}.")
        session.keep(obj_id, _compact(tensor))
        kept.append(obj_id)
        obj_id = following_id(obj_id)
