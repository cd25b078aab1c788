"""Calls of the remote table on private data, written to a node as messages, many before the first answer is read."""

from __future__ import annotations

import itertools
from collections import Counter

import torch

import syft as sy
from syft.core.references import Ref, TensorMeta
from syft.messaging import message as m
from syft.workers.transport.request_codec import read_answer
from tests.helpers.remote.sample import replaced, tensors
from tests.helpers.rights.noninterference import BIT, SECONDS, ask, fetch

# Ids between the first result of a sample and the first result of the next one.
_APART = 1 << 12
_FIRST = 1 << 100


class TableCalls:
    """Calls over one connection of a client.

    Args:
        client: the node.
        rng: chooses the argument of each call that depends on private values.

    Attributes:
        answered: the number of calls that gave a result or an answer.
        results: the number of their tensors.
        errors: the texts of all other answers, with their number.
    """

    def __init__(self, client, rng):
        self.client = client
        self.answered = self.results = 0
        self.errors = Counter()
        self._stream = sy.local_worker.stream_to(client)
        self._rng = rng
        self._bases = itertools.count(_FIRST, _APART)

    def run(self, calls):
        """Make calls, then try to fetch their arguments and results.

        Args:
            calls: names of calls, each with a sample of its arguments.
        """
        made = [self._call(name, sample) for name, sample in calls]
        asked = []
        for base, own, hidden, future in made:
            hidden = [*range(base, base + self._count(future, len(own) + 1)), *hidden]
            # Objects in the vault go one by one: a batch ends at the first refusal.
            asked += [ask(self.client, fetch(obj_id)) for obj_id in hidden]
            asked += [ask(self.client, m.BatchMessage(tuple(map(fetch, own))))] if own else []
            for obj_id in (*hidden, *own):
                self._stream.release(obj_id)
        for future in asked:
            future.result(SECONDS)

    def _call(self, name, sample):
        """Send tensors, let one of them depend on a private bit, make the call, and ask for all specs."""
        base = next(self._bases)
        ids = itertools.count(base + _APART // 2)
        private = self._rng.randrange(len(tensors(sample)))
        parts, sent = [], []

        def send(tensor):
            obj_id = next(ids)
            parts.append(m.ObjectMessage(tensor.detach().clone(), obj_id))
            if len(sent) == private:
                obj_id = self._mix(parts, obj_id, tensor.dtype, ids)
            sent.append(obj_id)
            return Ref(obj_id)

        args, kwargs = replaced(sample, send)
        parts.append(m.Operation(name, None, args, kwargs, (base,)))
        parts += [m.GetShapeMessage(Ref(obj_id)) for obj_id in sent]
        hidden = [sent.pop(private)] if sample.mutates else []
        own = [obj_id for place, obj_id in enumerate(sent) if hidden or place != private]
        return base, own, hidden, ask(self.client, m.BatchMessage(tuple(parts)))

    def _mix(self, parts, obj_id, dtype, ids):
        """Add the private bit to a tensor, and return the id of the sum."""
        bit, mixed = next(ids), next(ids)
        add = "__xor__" if dtype is torch.bool else "add"
        # A conversion to the same dtype would return the argument, and no new object.
        convert = m.Operation("torch.Tensor.to", None, (Ref(BIT), dtype), {"copy": True}, (bit,))
        parts += [convert, m.Operation(f"torch.Tensor.{add}", None, (Ref(obj_id), Ref(bit)), {}, (mixed,))]
        return mixed

    def _count(self, future, shapes):
        """Return the number of new tensors in the answer to a call."""
        written = future.result(SECONDS)
        try:
            response = read_answer(sy.local_worker, self.client, written)[-shapes - 1]
        except Exception as error:
            self.errors[f"{type(error).__name__}: {error}"[:200]] += 1
            return 0
        self.answered += 1
        count = sum(1 for _ in _metas(response))
        self.results += count
        return count


def _metas(response):
    if isinstance(response, TensorMeta):
        yield response
    elif isinstance(response, dict | tuple | list):
        for item in response.values() if isinstance(response, dict) else response:
            yield from _metas(item)
