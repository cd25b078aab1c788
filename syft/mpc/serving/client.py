"""Hosting an encrypted model at workers, and asking it: what the owner and the clients do.

The owner splits the model into shares here and sends each party its part of a fixed program. From then on the owner has
no part in it: clients that may ask bring shares of their question to each party and add up the shares of the answer.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import Any

import torch

from syft.core.context import local_worker
from syft.core.id_provider import ID_PROVIDER, ObjectId
from syft.exceptions import ModelError, ObjectNotFoundError, PinnedPartyError, SyftError
from syft.hosting.client import inputs_of, plain_plan, shapes_of
from syft.hosting.server import PREFIX, Facts
from syft.messaging.hosting import HostSharesMessage, SharedInferenceMessage
from syft.mpc.runtime import client, rendezvous
from syft.mpc.runtime.worker import key_of
from syft.mpc.serving.endpoint import Served
from syft.mpc.serving.request_limits import DEFAULT_REQUESTS, check_limit
from syft.mpc.serving.serve import RecordedModel, given_to, record_model
from syft.mpc.serving.server import EncryptedModel, contents_of, numbers_of
from syft.mpc.values.sharing import generate_shares
from syft.pointers.object_pointer import ObjectPointer
from syft.pointers.remote_call import following_id
from syft.workers.delegation.introduction import fingerprints_of, introduce
from syft.workers.transport.stream import FailureGroup
from syft.workers.virtual import VirtualWorker

# Fractional bits of a hosted model: errors of about 1e-4, numbers up to 2^29.
PRECISION = {"base": 2, "precision_fractional": 16}


class EncryptedDraft:
    """A model that was split into shares here, and was sent to nobody yet.

    Args:
        model: a plan that is built, or a module.
        name: what it is called.
        holders: the workers that are to hold shares.
        provider: the worker that is to deal.
        allow_remote_inference: whether others may ask it.
        args_shape: the shapes of one request; by default those that the plan was built with.
        max_requests_per_user: the number of requests of one user in a day; None: no limit.
    """

    def __init__(
        self,
        model: Any,
        name: str,
        holders: Sequence[Any],
        provider: Any,
        allow_remote_inference: bool,
        args_shape: Any = None,
        max_requests_per_user: int | None = DEFAULT_REQUESTS,
    ) -> None:
        self._limit = check_limit(max_requests_per_user)
        plan = plain_plan(model, args_shape)
        shapes = [tuple(shape) for shape in args_shape] if args_shape is not None else list(shapes_of(plan))
        if not shapes:
            raise ModelError(f"The shapes of the inputs of {name!r} are not known here: give args_shape=[(1, 64)].")
        self._keys = _keys_of([*holders, provider])
        proxy = plan.copy()
        # Stand-ins of this process, so that shares are at no worker before the model is complete.
        stand_ins = [VirtualWorker(None, id=worker.id, auto_add=False) for worker in holders]
        dealer = VirtualWorker(None, id=provider.id, auto_add=False)
        try:
            proxy.fix_precision_(**PRECISION).share_(*stand_ins, crypto_provider=dealer)
            self._parts = self._draft(name, record_model(proxy, shapes), stand_ins, dealer, allow_remote_inference)
        finally:
            for worker in (*stand_ins, dealer):
                worker.stop()
        self.name, self.holders, self.provider = name, tuple(holders), provider

    def _draft(self, name: str, found: RecordedModel, holders: Any, dealer: Any, allowed: bool) -> list[EncryptedModel]:
        steps, outputs = found.part.options["steps"], found.part.options["outputs"]
        parties = tuple([worker.id for worker in holders])
        shapes = tuple([number.shape for number in found.inputs])
        version = os.urandom(16).hex()
        parts = []
        for worker in holders:
            given = [given_to(worker.id, item, found.values) for item in found.part.args]
            shares = tuple([_share(worker, item) if isinstance(item, ObjectPointer) else item for item in given])
            served = Served(steps, outputs, shares, shapes)
            model = EncryptedModel(name, allowed, served, parties, dealer.id, found.inputs, found.outputs, version)
            model.keys, model.max_requests_per_user = self._keys, self._limit
            parts.append(model)
        return parts

    def host(self, worker: Any) -> None:
        """Send a party its part."""
        part = self._parts[self.holders.index(worker)]
        message = HostSharesMessage(contents_of(part), part.name, part.allow_remote_inference)
        local_worker().send_msg(message, worker)


def _keys_of(workers: Sequence[Any]) -> tuple[str, ...]:
    """Return the fingerprints of nodes; workers of this program have none, and are pinned by id."""
    nodes = [worker for worker in workers if getattr(worker, "is_node", False)]
    return fingerprints_of(local_worker(), workers) if len(nodes) == len(workers) else ()


def _share(worker: Any, pointer: Any) -> torch.Tensor:
    share: torch.Tensor = worker.object_store.get(pointer.id_at_location)
    return share.clone()


def ask_encrypted(holders: Sequence[Any], provider: Any, rows: Sequence[Facts], data: Any) -> Any:
    """Ask an encrypted model, and return its answer.

    Args:
        holders: the workers that hold shares, in order.
        provider: the worker that deals.
        rows: what each holder says of the model.
        data: a tensor, or a tuple of them.
    """
    facts = _agreed(holders, rows)
    holders = [_for_purpose(worker, f"{PREFIX}{facts['name']}") for worker in holders]
    provider = _for_purpose(provider, f"dealer:{facts['name']}")
    inputs, outputs = numbers_of(facts["inputs"]), numbers_of(facts["outputs"])
    tensors = inputs_of(data)
    if [tuple(tensor.shape) for tensor in tensors] != [number.shape for number in inputs]:
        given = " and ".join(str(tuple(tensor.shape)) for tensor in tensors)
        takes = " and ".join(str(number.shape) for number in inputs)
        raise ModelError(f"The model {facts['name']!r} takes {takes} at a time, not {given}. Nothing was sent.")
    whole = [number.encode(tensor) for number, tensor in zip(inputs, tensors, strict=True)]
    shares = list(zip(*[generate_shares(each, len(holders)) for each in whole], strict=True))
    introduce(local_worker(), [*holders, provider])
    answers = _fetch(*_post(facts, holders, shares, len(outputs)))
    totals = [sum(column[1:], column[0]) for column in zip(*answers, strict=True)]
    if [tuple(total.shape) for total in totals] != [number.shape for number in outputs]:
        raise ModelError(f"A party of the model {facts['name']!r} sent something that is not an answer.")
    results = [number.decode(total) for number, total in zip(outputs, totals, strict=True)]
    return results[0] if len(results) == 1 else tuple(results)


def _for_purpose(worker: Any, purpose: str) -> Any:
    """Return a worker as it is reached for one purpose; workers of this program serve all purposes alike."""
    view = getattr(worker, "for_purpose", None)
    return worker if view is None else view(purpose)


def _post(facts: Facts, holders: Sequence[Any], shares: Any, count: int) -> tuple[list[Any], list[ObjectId]]:
    """Send each party its shares; returns the streams, and the ids of the shares of the answer."""
    me, run_id = local_worker(), ID_PROVIDER.pop()
    ids = [ID_PROVIDER.pop()]
    while len(ids) < count:
        ids.append(following_id(ids[-1]))
    streams = [me.stream_to(worker) for worker in holders]
    # Who answers in this thread comes last, so that nobody of them waits for one who was not asked yet.
    targets = sorted(zip(streams, shares, strict=True), key=lambda row: not client.has_thread(row[0]))
    fate = FailureGroup()
    with client.posting:  # all parties of two runs must hear of them in the same order
        for stream in streams:
            stream.raise_failure()
        try:
            for stream, mine in targets:
                told = facts["name"], facts["version"], run_id, ids[0]
                stream.post(SharedInferenceMessage(tuple(mine), *told), fate)
        except Exception as error:
            rendezvous.close(key_of(me.id, run_id), error)
            raise
    return streams, ids


def _fetch(streams: list[Any], ids: list[ObjectId]) -> list[list[torch.Tensor]]:
    """Fetch the shares of an answer."""
    answers: list[list[torch.Tensor]] = []
    errors: list[Exception] = []
    for stream in streams:
        try:
            answers.append(_checked(stream.fetch_many(ids)))
        except (SyftError, TimeoutError) as error:
            errors.append(error)
    if errors:
        # One says what went wrong; others may only say that a party gave up, or that they have nothing to give.
        raise min(errors, key=_vagueness)
    return answers


def _vagueness(error: Exception) -> int:
    """Return a rank of errors of one run: the lower, the more it says about the cause."""
    if isinstance(error, PinnedPartyError | ModelError):
        return 0
    return 2 if isinstance(error, ObjectNotFoundError) else 1


def _agreed(holders: Sequence[Any], rows: Sequence[Facts]) -> Facts:
    """Return what all parties say of a model."""
    first = rows[0]
    if not first.get("mpc") or any(row != first for row in rows) or len(rows) != len(holders):
        raise ModelError(f"The parties of the model {first.get('name')!r} do not say the same of it; host it again.")
    return first


def _checked(shares: Any) -> list[torch.Tensor]:
    if not all(type(share) is torch.Tensor and share.dtype is torch.int64 for share in shares):
        raise ModelError("A party sent something that is not a share of an answer.")
    return list(shares)
