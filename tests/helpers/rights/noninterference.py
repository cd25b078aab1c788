"""Two nodes that differ in private values only: the bytes that they send to a client must be equal.

A client talks to both at once. Every byte it sends goes to both, and what the first one answers is what it sees. The
frames of both are kept and compared. This asks nothing of the code that is tested but what it does, so it finds ways
that nobody thought of.
"""

from __future__ import annotations

import contextlib
import functools
import itertools
import json
import random
import re
import threading
from concurrent.futures import Future

import torch

import syft as sy
from syft.core import id_provider
from syft.grid.isolation.session import process
from syft.messaging import message as m
from syft.workers.transport.framing import HEADER
from syft.workers.transport.reconnecting_stream import WebsocketStream
from syft.workers.transport.websocket import Endpoint, WebsocketPipe
from tests.helpers.depth import IS_DEEP
from tests.helpers.nodes import NODE, NodeProcess, forget

MATRIX, VECTOR, BIT = 1 << 90, 1 << 91, 1 << 92
PRIVATE = (
    ([[1.0, 2.0, 3.0], [4.0, 5.0, 6.0], [7.0, 8.0, 9.5]], [0.5, -1.5, 2.5], 0.0),
    ([[-3.0, 0.25, 1.0], [2.0, -4.0, 0.5], [0.0, 6.0, -2.0]], [3.5, 1.25, -0.5], 1.0),
)
# Maximum seconds until an answer of a node.
SECONDS = 120
USERS = {f"user{number}": "user" for number in range(64)}
# Session processes of both nodes draw the same numbers; vaults do not.
_SEED = """
from syft.grid.isolation import entry_points
entry_points.ENTRY_POINTS.update(session="tests.helpers.rights.noninterference:session_main")
"""
_LOAD = """
from syft.core.labels import set_id
data = {private!r}
made = [torch.tensor(value).tag(tag) for value, tag in zip(data, ("#matrix", "#vector", "#bit"))]
for tensor, number in zip(made, (1 << 90, 1 << 91, 1 << 92)):
    set_id(tensor, number)
node.worker.load_data(made)
"""
# Properties of a tensor beside its values, sizes and dtype.
LOOKS = [
    lambda link: link.is_leaf, lambda link: link.stride(), lambda link: link.is_contiguous(),
    lambda link: link.storage_offset(), lambda link: link._version, lambda link: link.retains_grad,
    lambda link: link.output_nr, lambda link: link.is_conj(), lambda link: link.is_neg(), lambda link: link.dim_order(),
]  # fmt: skip


def session_main(fds, settings):
    """Run a session process whose generators have a fixed seed."""
    torch.manual_seed(11)
    rng = random.Random(11)
    id_provider._draw = lambda count: [rng.getrandbits(127) for _ in range(count)]
    sy.ID_PROVIDER._ready.clear()
    process.main(fds, settings)


prepare = process.prepare


class SeededNode(NodeProcess):
    """A node with one of the two sets of private values."""

    def __init__(self, private, **settings):
        self.id, self.settings = "hospital", {"id": "hospital", **settings}
        code = _SEED + NODE.format(prepare=_LOAD.format(private=private), before="")
        super(NodeProcess, self).__init__(code, json.dumps(self.settings), json.dumps({"owner": "owner", **USERS}))


class TwoPipes(WebsocketPipe):
    """A pipe to one node whose bytes also go to another one; it records the bytes of both."""

    def __init__(self, where, other, timeout):
        super().__init__(where, timeout)
        self._other = WebsocketPipe(other, timeout)
        self.said, self.other_said = bytearray(), bytearray()
        self._reader = threading.Thread(target=self._read_other, daemon=True)
        self._reader.start()

    def _read_other(self):
        while data := self._other.recv():
            self.other_said += data

    def recv(self, within=None):
        data = super().recv(within)
        self.said += data
        return data

    def send(self, data):
        data = bytes(data)
        super().send(data)
        self._other.send(data)

    def finish(self):
        super().finish()
        with contextlib.suppress(OSError):
            self._other.finish()

    def close(self):
        super().close()
        self._reader.join(20)
        self._other.close()


class Pair:
    """Two nodes, and clients that talk to both."""

    def __init__(self, **settings):
        self.nodes = [SeededNode(private, **settings) for private in PRIVATE]

    @contextlib.contextmanager
    def connect(self, hook, user):
        """Return a client of the first node; its bytes go to both nodes, and `pipes` holds both answers."""
        first, second = self.nodes
        pipes = []

        def dial(stream, timeout):
            where = stream._where
            other = Endpoint(second.url, second.tokens[user], where.context).at("/stream")
            pipes.append(TwoPipes(where, other, timeout))
            return pipes[-1]

        before, WebsocketStream._dial = WebsocketStream._dial, dial
        try:
            client = first.connect(hook, user)
        finally:
            WebsocketStream._dial = before
        try:
            yield client, pipes
        finally:
            forget(hook, client)

    def stop(self):
        for node in self.nodes:
            node.stop()


def frames_in(data):
    """Split bytes into frames, without the first one, which has a random secret."""
    found, at = [], 0
    while at + HEADER.size <= len(data):
        kind, number, length = HEADER.unpack_from(data, at)
        if at + HEADER.size + length > len(data):
            break
        found.append((kind, number, bytes(data[at + HEADER.size : at + HEADER.size + length])))
        at += HEADER.size + length
    return found[1:]


def difference(pipes):
    """Return the first frames that differ, or None; and the number of frames that were compared."""
    count = 0
    for pipe in pipes:
        ours, theirs = frames_in(pipe.said), frames_in(pipe.other_said)
        for one, other in itertools.zip_longest(ours, theirs):
            if one != other:
                return (one, other), count
            count += 1
    return None, count


def fetch(obj_id):
    """Return the message that asks for a value."""
    return m.ObjectRequestMessage((obj_id, None, ""))


def ask(client, message):
    """Write a message, and return the future of its answer; calls that failed before do not keep it from being done."""
    future = Future()
    sy.local_worker.stream_to(client)._send(message, None, future, True)
    return future


class World:
    """The two nodes as a client sees them, with private data and the client's own tensors and plans.

    Args:
        client: the client.
        private: pointers to the private matrix and vector.
    """

    def __init__(self, client, private):
        self.node = client
        self.matrix, self.vector = private
        self.own = [
            torch.ones(3, 3).send(client), torch.arange(3.0).send(client),
            torch.eye(3).send(client).requires_grad_(), torch.full((3,), 2.0).send(client).requires_grad_(),
        ]  # fmt: skip
        self.pool = [self.matrix, self.vector, *self.own]
        self.left = []

    @functools.cached_property
    def plans(self):
        """Plans at the node, sent when they are first needed."""
        return [plan.send(self.node) for plan in make_plans()]

    def note(self, function):
        """Call a function, record its outcome, and return its result if there is one."""
        try:
            result = function()
        except Exception as error:
            self.left.append((type(error).__name__, re.sub(r"\d{10,}", "#", str(error))))
            return None
        self.left.append(observable(result))
        return result

    def add(self, function):
        """Call a function that returns remote tensors, and use them from now on."""
        result = self.note(function)
        for item in result if isinstance(result, tuple | list) else (result,):
            if isinstance(item, torch.Tensor) and item.location is not None and len(self.pool) < 40:
                self.pool.append(item)
        return result

    def take_everything(self, thorough=True):
        """Try to fetch copies of all values, and if thorough, all other properties."""
        pool = list(self.pool) if IS_DEEP else self.pool[-8:]
        copies = [self.note(lambda pointer=pointer: pointer.copy()) for pointer in pool]
        ids = [copy.child.id_at_location for copy in copies if copy is not None]
        self.left += [future.result(SECONDS) for future in [ask(self.node, fetch(obj_id)) for obj_id in ids]]
        if thorough:
            self._look_at(pool)

    def _look_at(self, pool):
        for pointer in pool:
            self.note(lambda pointer=pointer: pointer.grad)
            self.note(lambda pointer=pointer: pointer.grad.copy().get())
            self.note(lambda pointer=pointer: pointer.data.copy().get())
            self.note(lambda pointer=pointer: pointer.tolist())
            for look in LOOKS:
                self.note(lambda pointer=pointer, look=look: look(pointer.child))
            self.note(lambda pointer=pointer: pointer.contiguous() is pointer)
        for plan in self.__dict__.get("plans", ()):
            self.note(lambda plan=plan: [t.detach() for t in plan.copy().get().state.tensors()])

    def close(self):
        """Release all objects."""
        self.__dict__.pop("plans", None)
        self.pool.clear(), self.own.clear()


@functools.cache
def make_plans():
    """Plans that compute, that change their arguments, and that train."""
    weight, start = torch.ones(3, 3), torch.full((3,), 0.5)

    @sy.func2plan(args_shape=[(3, 3), (3, 3)], state=(weight,))
    def mix(x, y, state):
        (w,) = state.read()
        return x @ w + y, x.mean()

    @sy.func2plan(args_shape=[(3, 3), (3, 3)])
    def write(x, y):
        return x.add_(y)

    model = torch.nn.Linear(3, 1)
    with torch.no_grad():
        model.weight.fill_(0.5)
        model.bias.zero_()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)

    @sy.func2plan(args_shape=[(3, 3)])
    def train(x):
        optimizer.zero_grad()
        loss = model(x).pow(2).mean()
        loss.backward()
        optimizer.step()
        return loss.detach()

    @sy.func2plan(args_shape=[(3,)], state=(start,))
    def remember(x, state):
        (kept,) = state.read()
        kept.add_(x)
        return kept * 2

    return [mix, write, train, remember]


def observable(result):
    """Return the parts of a result that a user can observe."""
    if isinstance(result, tuple | list):
        return [observable(item) for item in result]
    if isinstance(result, torch.Tensor) and result.location is not None:
        return ("remote", tuple(result.shape), str(result.dtype), result.requires_grad)
    if isinstance(result, torch.Tensor):
        grad = None if result.grad is None else observable(result.grad)
        return ("value", tuple(result.shape), result.detach().tolist(), grad)
    return repr(result) if not isinstance(result, sy.PointerPlan) else "plan"
