"""The client's side of runs: one message to each party, and shared tensors that stand for the results at once."""

from __future__ import annotations

import functools
import threading
from typing import Any

import torch

from syft.core.id_provider import ID_PROVIDER
from syft.core.references import TensorMeta
from syft.core.trees import iter_tensors, map_tensors
from syft.exceptions import ProtocolError, TensorsNotCollocatedException, UnsupportedOperation
from syft.messaging.message import RunMessage
from syft.mpc.runtime import cost_meter, recording, rendezvous
from syft.mpc.runtime.protocol_registry import ProtocolSpec, entry_of
from syft.mpc.runtime.worker import key_of
from syft.pointers.lease import Lease
from syft.pointers.pointer_tensor import PointerTensor
from syft.pointers.remote_call import following_id
from syft.tensors.additive_shared import AdditiveSharingTensor
from syft.workers.delegation.introduction import introduce
from syft.workers.transport.stream import FailureGroup

posting = threading.RLock()


def run(name: str, *args: Any, **options: Any) -> Any:
    """Have the parties run a protocol, without waiting for it.

    Args:
        name: the protocol.
        *args: shared tensors (links), plain tensors, numbers, or lists of them.
        **options: named public arguments.

    Returns:
        A link, or a tuple of links, for what the parties will hold. Inside a recording nothing is sent: outlines.
    """
    entry = entry_of(name)
    links = [leaf for leaf in iter_tensors(args) if isinstance(leaf, AdditiveSharingTensor)]
    if not links:
        raise ProtocolError(f"The protocol {name!r} needs a shared tensor: share one first with x.share(alice, bob).")
    model = _collocated(name, links)
    provider = model.crypto_provider
    if provider is None and entry.needs_dealer(options):
        raise ProtocolError(
            f"{name} on shared tensors needs a crypto provider, a worker that is not one of the parties. "
            "Name it when sharing: x.share(alice, bob, crypto_provider=carol)."
        )
    shapes = entry.shape(*map_tensors(_form_of, args), **options)
    recorded = recording.current.recording
    if recorded is not None:
        return recorded.note(name, args, options, model, provider if entry.needs_dealer(options) else None, shapes)
    return ask(entry, args, options, model, provider, shapes)


def _form_of(leaf: Any) -> Any:
    """Return an argument without its values."""
    if isinstance(leaf, AdditiveSharingTensor):
        return torch.empty(leaf.shape, dtype=torch.int64, device="meta")
    return leaf


def _collocated(name: str, links: list[AdditiveSharingTensor]) -> AdditiveSharingTensor:
    """Return the link that results are made after, if all are shared among the same parties, with the same dealer.

    An operand that is dealt for insecurely, by one of its parties, has no say where another one is not.
    """
    secure = [link for link in links if link.crypto_provider is not None and not link.insecure]
    model = next(iter(secure or [link for link in links if link.crypto_provider is not None]), links[0])
    for other in links:
        if other.child.keys() != model.child.keys():
            places = [f"one is shared among {', '.join(map(repr, link.child))}" for link in (model, other)]
            raise TensorsNotCollocatedException(name, places, "Share both among the same parties.")
    providers = {_id_of(link.crypto_provider) for link in secure}
    if len(providers) > 1:
        raise ProtocolError(
            f"{name} on tensors with different crypto providers, {', '.join(map(repr, sorted(providers, key=str)))}: "
            "share both with the same one."
        )
    if not model.insecure and _id_of(model.crypto_provider) in model.child:
        raise ProtocolError(
            f"The crypto provider {_id_of(model.crypto_provider)!r} is one of the parties, so it could read what is "
            "computed. Share with a provider that is not, or say insecure=True."
        )
    return model


def _id_of(worker: Any) -> Any:
    return getattr(worker, "id", worker)


def ask(
    entry: ProtocolSpec,
    args: tuple[Any, ...],
    options: dict[str, Any],
    model: AdditiveSharingTensor,
    provider: Any,
    shapes: Any,
) -> Any:
    """Send the message of a run to every party, and make links for its results.

    Args:
        entry: the protocol.
        args: its arguments.
        options: its named arguments.
        model: the link that results are made after; it tells the parties.
        provider: who deals.
        shapes: the shape of the result, or a list of shapes.
    """
    # A worker that computes on a sharing it holds does so in its own name.
    owner = next(iter(model.child.values()))._owner
    provider = None if provider is None else owner.get_worker(provider, fail_hard=True)
    streams = [owner.stream_to(pointer.location) for pointer in model.child.values()]
    helped = entry.helper and len(streams) == 2
    if helped and any(stream.location is provider for stream in streams):
        raise UnsupportedOperation(entry.name, "parties that deal for themselves", "Name a third worker.")
    check_kinds([stream.location for stream in streams], provider)
    introduce(owner, [*(stream.location for stream in streams), *(() if provider is None else (provider,))])
    run_id, first_id = ID_PROVIDER.pop(), ID_PROVIDER.pop()
    if cost_meter.meters:
        cost_meter.begin(key_of(owner.id, run_id), entry.name, owner, [stream.location for stream in streams])
    header = (
        run_id,
        entry.name,
        tuple(stream.location.id for stream in streams),
        None if provider is None else provider.id,
    )
    targets = [*streams, owner.stream_to(provider)] if helped else list(streams)
    # Who answers in this thread comes last, so that nobody of them waits for one who was not asked yet.
    targets.sort(key=lambda stream: not has_thread(stream))
    fate = FailureGroup()
    with posting:  # all parties of two runs must hear of them in the same order
        for stream in targets:
            stream.raise_failure()
        try:
            for stream in targets:
                mine = map_tensors(functools.partial(_for_party, stream.location.id), args)
                stream.post(RunMessage(mine, *header, options, first_id), fate)
        except Exception as error:
            rendezvous.close(key_of(owner.id, run_id), error)
            raise
    if len({has_thread(stream) for stream in targets}) > 1:
        try:
            rendezvous.settle(key_of(owner.id, run_id))
        except ProtocolError:
            fate.report()  # here and now, so not again later
            raise
    return _results(shapes, first_id, owner, streams, model)


def check_kinds(parties: list[Any], provider: Any) -> None:
    """Refuse parties that can't reach each other: of this process, of processes of its own, and nodes."""
    kinds = {kind_of_place(worker) for worker in (*parties, provider) if worker is not None}
    if len(kinds) > 1:
        raise ProtocolError(
            f"Some of these parties (or the crypto provider) live {' and some '.join(sorted(kinds))}. "
            "Parties of one kind only can compute together."
        )


def kind_of_place(worker: Any) -> str:
    """Say where a worker lives, as far as that decides whom it can compute with."""
    if getattr(worker, "is_node", False):
        return "on nodes"
    return "in processes of their own" if getattr(worker, "in_own_process", False) else "in this process"


def has_thread(stream: Any) -> bool:
    """Say whether what a stream carries is done in another thread than the one that sends it."""
    session = getattr(stream, "session", None)
    return session is None or bool(session.may_wait)


def _for_party(party: Any, leaf: Any) -> Any:
    """Return an argument as one party gets it: a reference to its share; a helper gets the shape alone."""
    if not isinstance(leaf, AdditiveSharingTensor):
        return leaf
    return leaf.child[party].ref() if party in leaf.child else tuple(leaf.shape)


def _results(shapes: Any, first_id: Any, owner: Any, streams: list[Any], model: AdditiveSharingTensor) -> Any:
    several = isinstance(shapes, list)
    made = []
    obj_id = first_id
    for shape in shapes if several else [shapes]:
        meta = TensorMeta(torch.Size(shape), torch.int64)
        children = {stream.location.id: PointerTensor._attach(Lease(stream, obj_id), owner, meta) for stream in streams}
        made.append(model.like(children))
        obj_id = following_id(obj_id)
    return tuple(made) if several else made[0]
