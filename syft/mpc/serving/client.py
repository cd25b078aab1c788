"""Hosting an encrypted model at workers, and querying it: the calls of its owner and of its users.

The owner splits the model into shares here and sends each party its part of a fixed program. From then on the owner has
no part in requests.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import TYPE_CHECKING

import torch

from syft.core.context import local_worker
from syft.core.id_provider import ID_PROVIDER, ObjectId
from syft.exceptions import ModelError
from syft.hosting.client import inputs_of, plain_plan, shapes_of
from syft.hosting.server import PREFIX, Facts
from syft.messaging.hosting import HostSharesMessage, SharedInferenceMessage
from syft.mpc.runtime import client
from syft.mpc.runtime.worker import key_of
from syft.mpc.serving.client_shares import add_results, fetch_results, split_inputs
from syft.mpc.serving.model_recording import RecordedModel, record_model
from syft.mpc.serving.request_limits import DEFAULT_REQUESTS, check_limit
from syft.mpc.serving.server import EncryptedModel, contents_of, encodings_of
from syft.mpc.serving.shared_program import SharedProgram, Shares
from syft.pointers.object_pointer import ObjectPointer
from syft.pointers.remote_call import following_id
from syft.workers.delegation.introduction import fingerprints_of, introduce
from syft.workers.transport.stream import FailureGroup, Stream
from syft.workers.virtual import VirtualWorker

if TYPE_CHECKING:
    from syft.workers.base import BaseWorker

# Fractional bits of a hosted model: errors of about 1e-4, numbers up to 2^29.
PRECISION = {"base": 2, "precision_fractional": 16}


class EncryptedDraft:
    """A model that was split into shares here, and was not sent yet.

    Args:
        model: a plan that is built, or a module.
        name: the name of the model.
        holders: the workers that are to hold shares.
        provider: the worker that is to deal.
        allow_remote_inference: whether other users may query it.
        args_shape: the shapes of one request; by default those that the plan was built with.
        max_requests_per_user: the number of requests of one user in a day; None: no limit.
    """

    def __init__(
        self,
        model: object,
        name: str,
        holders: Sequence[BaseWorker],
        provider: BaseWorker,
        allow_remote_inference: bool,
        args_shape: Sequence[Sequence[int]] | None = None,
        max_requests_per_user: int | None = DEFAULT_REQUESTS,
    ) -> None:
        limit = check_limit(max_requests_per_user)
        plan = plain_plan(model, args_shape)
        shapes = list(shapes_of(plan) if args_shape is None else map(tuple, args_shape))
        if not shapes:
            raise ModelError(f"The input shapes of {name!r} are unknown. Pass args_shape=[(1, 64)].")
        keys = _keys_of([*holders, provider])
        proxy = plan.copy()
        # Workers of this process stand for the holders, so that no holder has shares before the model is complete.
        proxies = [VirtualWorker(None, id=worker.id, auto_add=False) for worker in holders]
        dealer = VirtualWorker(None, id=provider.id, auto_add=False)
        try:
            proxy.fix_precision_(**PRECISION).share_(*proxies, crypto_provider=dealer)
            recorded = record_model(proxy, shapes)
            programs = _programs(recorded, proxies, dealer.id)
        finally:
            for worker in (*proxies, dealer):
                worker.stop()
        encodings = recorded.inputs, recorded.outputs
        shared = *encodings, os.urandom(16).hex(), keys, limit
        self._parts = [EncryptedModel(name, allow_remote_inference, program, *shared) for program in programs]
        self.name, self.holders, self.provider = name, tuple(holders), provider

    def host(self, worker: BaseWorker) -> None:
        """Send a party its part."""
        part = self._parts[self.holders.index(worker)]
        message = HostSharesMessage(contents_of(part), part.name, part.allow_remote_inference)
        local_worker().send_msg(message, worker)


def _programs(recorded: RecordedModel, workers: Sequence[VirtualWorker], dealer: ObjectId) -> list[SharedProgram]:
    """Return the program of each party, with copies of its shares."""
    parties = [worker.id for worker in workers]
    programs = []
    for worker in workers:

        def copy_share(pointer: ObjectPointer, worker: VirtualWorker = worker) -> torch.Tensor:
            share: torch.Tensor = worker.object_store.get(pointer.id_at_location)
            return share.clone()

        programs.append(SharedProgram(*recorded.program_fields(worker.id, copy_share, parties, dealer)))
    return programs


def _keys_of(workers: Sequence[BaseWorker]) -> tuple[str, ...]:
    """Return the fingerprints of nodes; workers of this program have none, and are identified by id."""
    nodes = [worker for worker in workers if getattr(worker, "is_node", False)]
    return fingerprints_of(local_worker(), workers) if len(nodes) == len(workers) else ()


def ask_encrypted(
    holders: Sequence[BaseWorker], provider: BaseWorker, rows: Sequence[Facts], data: object
) -> torch.Tensor | tuple[torch.Tensor, ...]:
    """Query an encrypted model, and return its result.

    Args:
        holders: the workers that hold shares, in order.
        provider: the worker that deals.
        rows: the facts that each holder returned about the model.
        data: a tensor, or a tuple of them.
    """
    facts = _common_facts(holders, rows)
    subject = f"The model {facts['name']!r}"
    holders = [_for_purpose(worker, f"{PREFIX}{facts['name']}") for worker in holders]
    provider = _for_purpose(provider, f"dealer:{facts['name']}")
    inputs, outputs = encodings_of(facts["inputs"]), encodings_of(facts["outputs"])
    shares = split_inputs(inputs, inputs_of(data), len(holders), subject, ModelError)
    introduce(local_worker(), [*holders, provider])
    streams, ids = _post(facts, holders, shares, len(outputs))
    results = fetch_results(streams, lambda stream: stream.fetch_many(ids))
    return add_results(outputs, results, subject, ModelError)


def _for_purpose(worker: BaseWorker, purpose: str) -> BaseWorker:
    """Return a worker as it is reached for one purpose; workers of this program serve all purposes alike."""
    view = getattr(worker, "for_purpose", None)
    return worker if view is None else view(purpose)


def _post(
    facts: Facts, holders: Sequence[BaseWorker], shares: list[Shares], count: int
) -> tuple[list[Stream], list[ObjectId]]:
    """Send each party its shares; returns the streams, and the ids of the shares of the result."""
    me, run_id = local_worker(), ID_PROVIDER.pop()
    ids = [ID_PROVIDER.pop()]
    while len(ids) < count:
        ids.append(following_id(ids[-1]))
    streams = [me.stream_to(worker) for worker in holders]
    messages = [SharedInferenceMessage(mine, facts["name"], facts["version"], run_id, ids[0]) for mine in shares]
    client.post_run(list(zip(streams, messages, strict=True)), key_of(me.id, run_id), FailureGroup())
    return streams, ids


def _common_facts(holders: Sequence[BaseWorker], rows: Sequence[Facts]) -> Facts:
    """Return the facts about a model if all parties returned the same."""
    first = rows[0]
    if not first.get("mpc") or any(row != first for row in rows) or len(rows) != len(holders):
        raise ModelError(f"The parties of the model {first.get('name')!r} describe it differently. Host it again.")
    return first
