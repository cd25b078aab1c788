"""The client's side of runs: one message to each party, and shared tensors that stand for the results at once."""

from __future__ import annotations

import functools
import threading
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import torch

from syft.core.id_provider import ID_PROVIDER, ObjectId
from syft.core.references import TensorMeta
from syft.core.trees import iter_tensors, map_tensors
from syft.exceptions import ProtocolError, TensorsNotCollocatedError, UnsupportedOperationError
from syft.messaging.message import Message, RunMessage
from syft.mpc.runtime import cost_meter, recording, rendezvous
from syft.mpc.runtime.protocol_registry import ProtocolSpec, entry_of
from syft.mpc.runtime.rendezvous import RunKey
from syft.pointers.lease import Lease
from syft.pointers.pointer_tensor import PointerTensor
from syft.pointers.remote_call import following_id
from syft.tensors.additive_shared import AdditiveSharingTensor
from syft.workers.delegation.introduction import introduce
from syft.workers.transport.stream import FailureGroup, Stream

if TYPE_CHECKING:
    from syft.workers.base import BaseWorker

# The shape of a result, or a list of shapes.
Shapes = torch.Size | tuple[int, ...] | list[torch.Size]
posting = threading.RLock()


def run(name: str, *args: object, **options: object) -> Any:
    """Start a protocol at the parties, without waiting for it.

    Args:
        name: the protocol.
        *args: shared tensors (links), plain tensors, numbers, or lists of them.
        **options: named public arguments.

    Returns:
        A link, or a tuple of links, to the results of the parties. Inside a recording nothing is sent.
    """
    entry = entry_of(name)
    links = [leaf for leaf in iter_tensors(args) if isinstance(leaf, AdditiveSharingTensor)]
    if not links:
        raise ProtocolError(f"The protocol {name!r} needs a shared tensor. Share one first: x.share(alice, bob).")
    model = _collocated(name, links)
    provider = model.crypto_provider
    if provider is None and entry.needs_dealer(options):
        raise ProtocolError(
            f"{name} on shared tensors needs a crypto provider, a worker that is not one of the parties. "
            "Name it when sharing: x.share(alice, bob, crypto_provider=carol)."
        )
    shapes = entry.shape(*map_tensors(_to_meta, args), **options)
    recorded = recording.current.recording
    if recorded is not None:
        return recorded.note(name, args, options, model, provider if entry.needs_dealer(options) else None, shapes)
    return ask(entry, args, options, model, provider, shapes)


def _to_meta(leaf: object) -> object:
    """Return an argument without its values."""
    if isinstance(leaf, AdditiveSharingTensor):
        return torch.empty(leaf.shape, dtype=torch.int64, device="meta")
    return leaf


def _collocated(name: str, links: list[AdditiveSharingTensor]) -> AdditiveSharingTensor:
    """Return the link that is the template of results, if all links have the same parties and the same dealer.

    The dealer of an `insecure` operand, which is one of its parties, counts only if all operands are insecure.
    """
    secure = [link for link in links if link.crypto_provider is not None and not link.insecure]
    model = next(iter(secure or [link for link in links if link.crypto_provider is not None]), links[0])
    for other in links:
        if other.child.keys() != model.child.keys():
            places = [f"one is shared among {', '.join(map(repr, link.child))}" for link in (model, other)]
            raise TensorsNotCollocatedError(name, places, "Share both among the same parties.")
    providers = {_id_of(link.crypto_provider) for link in secure}
    if len(providers) > 1:
        raise ProtocolError(
            f"{name} got tensors with different crypto providers, {', '.join(map(repr, sorted(providers, key=str)))}. "
            "Share both with the same one."
        )
    if not model.insecure and _id_of(model.crypto_provider) in model.child:
        raise ProtocolError(
            f"The crypto provider {_id_of(model.crypto_provider)!r} is one of the parties, so it could read all "
            "values. Share with another provider, or pass insecure=True."
        )
    return model


def _id_of(worker: BaseWorker | ObjectId | None) -> Any:
    return getattr(worker, "id", worker)


def ask(
    entry: ProtocolSpec,
    args: tuple[Any, ...],
    options: dict[str, Any],
    model: AdditiveSharingTensor,
    provider: BaseWorker | ObjectId | None,
    shapes: Shapes,
) -> Any:
    """Send the message of a run to every party, and make links for its results."""
    # A worker that computes on shares it holds acts as the client.
    owner = next(iter(model.child.values()))._owner
    dealer: BaseWorker | None = None if provider is None else owner.get_worker(provider, fail_hard=True)
    streams = [owner.stream_to(pointer.location) for pointer in model.child.values()]
    helped = entry.helper and len(streams) == 2
    if helped and any(stream.location is dealer for stream in streams):
        raise UnsupportedOperationError(entry.name, "parties that deal for themselves", "Name a third worker.")
    check_kinds([stream.location for stream in streams], dealer)
    introduce(owner, [*(stream.location for stream in streams), *(() if dealer is None else (dealer,))])
    run_id, first_id = ID_PROVIDER.pop(), ID_PROVIDER.pop()
    key = (owner.id, run_id)
    if cost_meter.meters:
        cost_meter.begin(key, entry.name, owner, [stream.location for stream in streams])
    header = (
        run_id,
        entry.name,
        tuple(stream.location.id for stream in streams),
        None if dealer is None else dealer.id,
    )
    targets = [*streams, owner.stream_to(dealer)] if helped else streams
    messages = []
    for stream in targets:
        mine = map_tensors(functools.partial(_for_party, stream.location.id), args)
        messages.append((stream, RunMessage(mine, *header, options, first_id)))
    fate = FailureGroup()
    post_run(messages, key, fate)
    if len({has_thread(stream) for stream in targets}) > 1:
        try:
            rendezvous.barrier(key)
        except ProtocolError:
            fate.report()  # reported here, so not again later
            raise
    return _results(shapes, first_id, owner, streams, model)


def post_run(messages: Sequence[tuple[Stream, Message]], key: RunKey, fate: FailureGroup) -> None:
    """Send the messages of a run, one to each party."""
    # Streams that answer in this thread come last, so that none waits for a party without a message.
    messages = sorted(messages, key=lambda row: not has_thread(row[0]))
    with posting:  # all parties must receive two runs in the same order
        for stream, _ in messages:
            stream.raise_failure()
        try:
            for stream, message in messages:
                stream.post(message, fate)
        except Exception as error:
            rendezvous.close(key, error)
            raise


def check_kinds(parties: list[BaseWorker], provider: BaseWorker | None) -> None:
    """Refuse parties that can't reach each other: in this process, in processes of their own, and on nodes."""
    kinds = {location_kind(worker) for worker in (*parties, provider) if worker is not None}
    if len(kinds) > 1:
        raise ProtocolError(
            f"Some of these parties (or the crypto provider) live {' and some '.join(sorted(kinds))}. "
            "Use parties of one kind."
        )


def location_kind(worker: BaseWorker) -> str:
    """Return where a worker lives; workers of different kinds can't compute together."""
    if getattr(worker, "is_node", False):
        return "on nodes"
    return "in processes of their own" if getattr(worker, "in_own_process", False) else "in this process"


def has_thread(stream: Stream) -> bool:
    """Return whether the messages of a stream are handled in another thread than the sender's."""
    session = getattr(stream, "session", None)
    return session is None or bool(session.may_wait)


def _for_party(party: ObjectId, leaf: object) -> object:
    """Return an argument as one party gets it: a reference to its share; a helper gets the shape."""
    if not isinstance(leaf, AdditiveSharingTensor):
        return leaf
    return leaf.child[party].ref() if party in leaf.child else tuple(leaf.shape)


def _results(
    shapes: Shapes, first_id: ObjectId, owner: BaseWorker, streams: list[Stream], model: AdditiveSharingTensor
) -> Any:
    several = isinstance(shapes, list)
    made = []
    obj_id = first_id
    for shape in shapes if isinstance(shapes, list) else [shapes]:
        meta = TensorMeta(torch.Size(shape), torch.int64)
        children = {stream.location.id: PointerTensor._attach(Lease(stream, obj_id), owner, meta) for stream in streams}
        made.append(model.like(children))
        obj_id = following_id(obj_id)
    return tuple(made) if several else made[0]
