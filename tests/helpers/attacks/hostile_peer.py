"""A hostile peer: arbitrary bytes, and a session of its own. Shared by the attack tests."""

from __future__ import annotations

import itertools
from typing import Any

from syft.core.references import Ref
from syft.messaging import message as m
from syft.serde import compression, deserialize
from syft.serde.msgpack import frames
from syft.workers.transport.request_codec import answer, write_request

_number = itertools.count(1)
# Wire codes, written out: an attacker does not use our classes.
TUPLE, LIST, DICT, SET, RANGE = 1, 2, 3, 4, 6
TENSOR, SIZE, DEVICE, DTYPE = 40, 42, 43, 44
SHELL, LOGGING, POINTER, TENSOR_POINTER, CALLABLE_POINTER, WRAPPER = 60, 61, 80, 81, 83, 85
REF, TENSOR_META, OBJECT_META, SAME_AS = 86, 87, 88, 89
MESSAGE, OPERATION, OBJECT, REQUEST, IS_NONE, GET_SHAPE = 120, 121, 122, 123, 124, 125
DELETE, RETAIN, RELEASE, HAND_OVER, FETCH_THERE, SEARCH = 126, 127, 128, 129, 130, 131
BATCH, PLAN, ERROR, STRING = 132, 133, 134, 160


def wire(simplified: Any) -> bytes:
    """Write any tree of numbers, texts and tuples as a message, whether it makes sense or not."""
    return compression.join(frames.write(simplified), None)


def request(message: Any, waits: bool = True, released: tuple[Any, ...] = ()) -> bytes:
    """Write a request around a hand-made message."""
    return wire((TUPLE, (TUPLE, *released), message, waits, 0))


class Mallory:
    """A peer with a session at a worker, who sends what it likes and reads every byte that comes back."""

    def __init__(self, worker: Any, name: str = "mallory") -> None:
        self.worker = worker
        self.session = worker.open_session(name)
        self.seen: list[bytes] = []
        self.next_id = 10**6 * next(_number)

    def send(self, data: bytes) -> Any:
        """Send bytes; return the answer as an object (an ErrorMessage if it is one)."""
        written = answer(self.worker, self.session, data)
        assert isinstance(written, bytes)
        self.seen.append(written)
        return deserialize(written) if written else None

    def raw(self, message: Any) -> Any:
        """Send a hand-made message."""
        return self.send(request(message))

    def ask(self, message: m.Message) -> Any:
        """Send a message of a known type."""
        return self.send(write_request(None, (), message, True))

    def call(self, name: str, *args: Any, return_id: Any = None, **kwargs: Any) -> Any:
        """Ask for a call, and return the answer; the result is at `self.next_id` unless an id is given."""
        if return_id is None:
            self.next_id += 1000
            return_id = self.next_id
        return self.ask(m.Operation(name, None, args, kwargs, (return_id,)))

    def keep(self, name: str, *args: Any, **kwargs: Any) -> Ref:
        """Ask for a call that must succeed, and return a reference to its result."""
        response = self.call(name, *args, **kwargs)
        assert not isinstance(response, m.ErrorMessage), response
        return Ref(self.next_id)


def error_name(response: Any) -> str:
    """Return the type name of an error answer; fails if the answer is no error."""
    assert type(response) is m.ErrorMessage, response
    name: str = response.contents[0]
    return name


def still_answers(worker: Any) -> None:
    """Check that a worker goes on serving honest peers."""
    peer = Mallory(worker, "honest")
    ref = peer.keep("torch.ones", 2)
    assert peer.call("torch.Tensor.tolist", ref) == [1.0, 1.0]
    assert len(peer.ask(m.SearchMessage([ref.id]))) == 1
    assert isinstance(peer.ask(m.SearchMessage([])), list)
    peer.session.close()
    assert ref.id not in worker.object_store.objects
