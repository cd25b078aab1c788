"""Mutate messages and feed them to a worker; run as a process of its own, with a bound on its memory."""

from __future__ import annotations

import os
import random
import resource
import struct
import sys
import time
import traceback
import warnings
from typing import Any

import torch

import syft as sy
from syft.core.references import Ref
from syft.exceptions import SyftError
from syft.hosting.server import HostedModel, id_of_model
from syft.messaging import call_batch
from syft.messaging import message as m
from syft.messaging.hosting import DeleteModelMessage
from syft.pointers import ObjectWrapper
from syft.serde import compression, deserialize, serialize, table
from syft.serde.buffer import Buffer
from syft.serde.msgpack import frames
from syft.workers.access.policy import ALLOW_ALL, DenyAll
from syft.workers.transport.request_codec import answer
from tests.helpers.attacks.message_samples import linear, samples

SECRET = (41.4375, -7341.625, 0.0078125)
# Tensors are little-endian on the wire, numbers of msgpack big-endian.
NEEDLES = (
    *(struct.pack(f"{order}d", value) for order in "<>" for value in SECRET[:2]),
    b"41.43",
    b"7341.6",
    b"7.3416e",
)
# The parts of a message that say which objects it is about.
NAMING = ("contents", "obj_id", "new_id", "return_id")
SLOWEST = 60.0  # it ends; how fast is for the benchmarks
MAX_GROWTH = 250 * 2**20
ROOM = 3 * 2**30
INTERESTING = (0, 1, -1, 7, 63, 64, 127, 128, 255, 2**31 - 1, 2**31, 2**32, 2**62, 2**63 - 1, 2**64, -(2**63), 2**200)
TEXTS = (
    "", "grad", "data", "__class__", "torch.load", "torch.save", "os.system", "self", "float64", "bob", "alice", "cpu",
    "meta", "raw", "torch", "numpy", "all", "torch.Tensor.data.__get__", "torch.Tensor.tolist", "syft.describe",
    "\0", "%s" * 9, "é" * 99,
)  # fmt: skip


class Target:
    """A worker with private objects, and a second worker it knows."""

    def __init__(self) -> None:
        hook = sy.TorchHook(torch)
        self.bob = sy.VirtualWorker(hook, id="bob")
        self.alice = sy.VirtualWorker(hook, id="alice")
        self.bob.trusts_script_modules = False
        self.alice.trusts_script_modules = False
        self.bob.compression = self.alice.compression = "none"
        self.session = self.bob.open_session("mallory")
        self._linear = serialize(linear(), self.alice)
        self.fill()

    def fill(self) -> None:
        """Put the objects back as they were."""
        self.alice.object_store.clear()
        self.alice.object_store.objects[8] = torch.arange(3.0)
        store = self.bob.object_store
        store.clear()
        self.session.temporaries.clear()
        pointer = torch.arange(3.0).tag("#far").send(self.alice)
        pointer.child._owner = self.bob
        store.objects.update(
            {
                1: torch.tensor(SECRET, dtype=torch.float64).tag("#secret"),
                2: torch.arange(6.0).view(2, 3).requires_grad_(),
                3: torch.tensor([1, 2]),
                4: sy.String("some text"),
                5: ObjectWrapper(sy.String("inside"), id=5),
                6: torch.ones(3, dtype=torch.float64),
                "name": torch.tensor([True, False]),
                7: pointer,
                10: self._plan(),
                id_of_model("model"): HostedModel("model", self._plan(), True, True, ((1, 3),)),
            }
        )
        self.before = self.state()

    def _plan(self) -> Any:
        """Return a fresh plan; to read one is cheaper than to build one."""
        return deserialize(self._linear, self.bob)

    def state(self) -> dict[Any, Any]:
        """Describe what the worker holds, values included."""
        return {obj_id: _describe(obj) for obj_id, obj in self.bob.object_store.objects.items()}


def _describe(obj: Any) -> Any:
    if isinstance(obj, sy.String):
        return obj.child, frozenset(obj.tags), obj.description
    if not isinstance(obj, torch.Tensor) or hasattr(obj, "child"):
        return type(obj), id(obj)
    notes = obj.__dict__
    labels = frozenset(notes.get("_syft_tags") or ()), notes.get("_syft_description")
    grad = None if not obj.is_leaf or obj.grad is None else tuple(obj.grad.shape)
    return obj.dtype, tuple(obj.shape), obj.requires_grad, grad, labels, obj.detach().numpy().tobytes()


def corpus(target: Target) -> list[bytes]:
    """Every message, in every tensor format, compressed in every way."""
    found = []
    for message in samples(target.bob.object_store.objects[7]):
        for waits, released in ((True, ()), (False, (3, "name"))):
            for serializer in ("raw", "torch", "numpy", "all"):
                target.alice.serializer = serializer
                body = (released, message, waits, 0)
                plain = serialize(body, target.alice)
                for scheme in compression.SCHEMES.values():
                    data, code = scheme(plain[1:])
                    found.append(bytes((code,)) + bytes(data))
                if serializer == "raw" and type(message) is not m.ObjectMessage:
                    break
    target.alice.serializer = "raw"
    return found


def flip(rng: random.Random, data: bytes, pool: list[bytes]) -> bytes:
    out = bytearray(data)
    for _ in range(rng.choice((1, 1, 1, 2, 3, 8, 40))):
        out[rng.randrange(len(out))] ^= 1 << rng.randrange(8)
    return bytes(out)


def overwrite(rng: random.Random, data: bytes, pool: list[bytes]) -> bytes:
    out = bytearray(data)
    for _ in range(rng.choice((1, 1, 2, 4))):
        out[rng.randrange(len(out))] = rng.randrange(256)
    return bytes(out)


def truncate(rng: random.Random, data: bytes, pool: list[bytes]) -> bytes:
    return data[: rng.randrange(len(data))]


def cut_out(rng: random.Random, data: bytes, pool: list[bytes]) -> bytes:
    start = rng.randrange(len(data))
    return data[:start] + data[start + rng.choice((1, 2, 4, 16, 64)) :]


def insert(rng: random.Random, data: bytes, pool: list[bytes]) -> bytes:
    start = rng.randrange(len(data) + 1)
    return data[:start] + rng.randbytes(rng.choice((1, 1, 2, 4, 16, 200))) + data[start:]


def splice(rng: random.Random, data: bytes, pool: list[bytes]) -> bytes:
    other = rng.choice(pool)
    return data[: rng.randrange(len(data))] + other[rng.randrange(len(other)) :]


def edit_lengths(rng: random.Random, data: bytes, pool: list[bytes]) -> bytes:
    """Lie in the length of the header, the number of frames or the length of a frame."""
    out = bytearray(data)
    at, size, code = rng.choice(((2, 4, ">I"), (6, 4, ">I"), (10, 8, ">Q"), (18, 8, ">Q")))
    if len(out) >= at + size:
        old = struct.unpack_from(code, out, at)[0]
        new = rng.choice((0, 1, old + 1, max(old - 1, 0), old * 2, 2**31, 2 ** (8 * size) - 1))
        struct.pack_into(code, out, at, new % 2 ** (8 * size))
    return bytes(out)


def edit_tree(rng: random.Random, data: bytes, pool: list[bytes]) -> bytes:
    """Change codes, ids, types and structure inside the msgpack header, and write it again as a valid one."""
    body = memoryview(bytes(compression._decompress(data)))
    tree = frames.read(body, len(body))
    for _ in range(rng.choice((1, 1, 1, 2, 3))):
        tree = _mutated(rng, tree, pool)
    try:
        parts = frames.write(_with_buffers(tree, {}))
    except SyftError:
        return data
    scheme = rng.choice(list(compression.SCHEMES.values()))
    out, code = scheme(b"".join(parts))
    return bytes((code,)) + bytes(out)


def _with_buffers(value: Any, seen: dict[int, Any]) -> Any:
    if isinstance(value, tuple):
        return tuple(_with_buffers(item, seen) for item in value)
    return Buffer(value) if isinstance(value, memoryview) else value


def _paths(value: Any, at: tuple[int, ...] = ()) -> list[tuple[int, ...]]:
    found = [at]
    if isinstance(value, tuple):
        for position, item in enumerate(value):
            found.extend(_paths(item, (*at, position)))
    return found


def _at(value: Any, path: tuple[int, ...]) -> Any:
    for position in path:
        value = value[position]
    return value


def _replaced(value: Any, path: tuple[int, ...], new: Any) -> Any:
    if not path:
        return new
    return (*value[: path[0]], _replaced(value[path[0]], path[1:], new), *value[path[0] + 1 :])


CODES = [code for code, _ in table()]


def _mutated(rng: random.Random, tree: Any, pool: list[bytes]) -> Any:
    paths = _paths(tree)
    path = rng.choice(paths)
    old = _at(tree, path)
    kind = rng.randrange(8)
    if kind == 0 and isinstance(old, tuple) and old:
        new: Any = (rng.choice(CODES), *old[1:])
    elif kind == 1:
        new = rng.choice(INTERESTING)
    elif kind == 2:
        new = rng.choice((None, True, False, 0.0, float("nan"), float("inf"), b"", b"\x80\x04.", (), (1,), (2,), (3,)))
    elif kind == 3:
        new = rng.choice(TEXTS)
    elif kind == 4 and isinstance(old, tuple) and old:
        position = rng.randrange(len(old))
        new = rng.choice((old[:position] + old[position + 1 :], (*old, old[position]), old[::-1]))
    elif kind == 5:
        new = _at(tree, rng.choice(paths))
    elif kind == 6:
        body = memoryview(bytes(compression._decompress(rng.choice(pool))))
        other = frames.read(body, len(body))
        new = _at(other, rng.choice(_paths(other)))
    else:
        new = rng.choice(
            (
                (80, 1, 1, "bob", None, (4,), None, True),
                (81, 1, 8, "alice", None, (4,), None, True, None),
                (86, rng.choice((1, 2, 3, 4, 5, 6, 7, "name")), rng.choice((None, "grad", "data", "T"))),
                (6, 0, rng.choice(INTERESTING), 1),
                (rng.choice(CODES), *rng.choices(INTERESTING, k=rng.randrange(6))),
            )
        )
    return _replaced(tree, path, new)


MUTATIONS = (
    flip,
    overwrite,
    truncate,
    cut_out,
    insert,
    splice,
    edit_lengths,
    edit_tree,
    edit_tree,
    edit_tree,
    edit_tree,
)


def _named(value: Any, found: set[Any]) -> None:
    """Collect every number and text that a decoded request mentions: only such ids may change."""
    if isinstance(value, bool | int | str):
        found.add(value)
    elif isinstance(value, tuple | list | set | frozenset):
        for item in value:
            _named(item, found)
    elif isinstance(value, dict):
        for item in value.items():
            _named(item, found)
    elif isinstance(value, Ref):
        found.add(value.id)
    elif isinstance(value, m.Operation):
        _named((value.cmd_args, value.cmd_kwargs), found)
        for base in value.return_ids[:1]:
            found.add(base)
            if isinstance(base, int):
                found.update(range(base, base + 50))
            else:
                found.update(f"{base}+{n}" for n in range(50))
    elif type(value) is call_batch.StepsMessage:
        found.update(
            call_batch.read_id(part) for step in value.contents for part in step if type(part) is bytes and part
        )
    elif isinstance(value, m.Message):
        _named(tuple(getattr(value, name, None) for name in NAMING), found)
        first = getattr(value, "return_id", None)
        found.update(range(first, first + 50) if isinstance(first, int) else ())
        if type(getattr(value, "name", None)) is str:
            found.add(id_of_model(value.name))
        if type(value) is DeleteModelMessage:
            found.add(id_of_model(value.contents))
        if type(value) is m.ObjectMessage and value.obj_id is None and hasattr(value.contents, "id"):
            found.add(value.contents.id)
    elif isinstance(value, torch.Tensor) and "_syft_id" in value.__dict__:
        found.add(value.__dict__["_syft_id"])


def check(target: Target, data: bytes, private: bool) -> tuple[bool, bool]:
    """Feed one message; returns (it was a request, the answer was an error)."""
    bob = target.bob
    bob.policy = DenyAll() if private else ALLOW_ALL
    named: set[Any] = set()
    valid = False
    try:
        decoded = deserialize(data, bob)
        valid = type(decoded) is tuple and len(decoded) == 4 and type(decoded[3]) is int and 0 <= decoded[3] <= 16
        _named(decoded, named)
        del decoded
    except SyftError:
        pass
    started = time.perf_counter()
    written = answer(bob, target.session, data)
    took = time.perf_counter() - started
    assert took < SLOWEST, f"{took:.1f} s"
    assert type(written) is bytes
    response = deserialize(written) if written else None
    failed = isinstance(response, m.ErrorMessage)
    assert valid or failed, "bytes that are no request were answered"
    if private:
        assert not any(needle in written for needle in NEEDLES), "a private value left"
    after = target.state()
    changed = {key for key in after.keys() | target.before.keys() if after.get(key) != target.before.get(key)}
    assert valid or not changed, f"bytes that are no request changed {changed}"
    # An object that was sent without an id gets a fresh one.
    changed = {key for key in changed if key in target.before or not isinstance(key, int) or key < 2**64}
    assert changed <= named, f"{changed - named} changed, but the message names only {sorted(map(str, named))[:40]}"
    if after != target.before or bob.object_store.claims._offers or len(bob.object_store._departed) > 50:
        target.fill()
    return valid, failed


def _resident() -> int:
    with open("/proc/self/statm") as file:
        return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")


def main(seed: int, count: int) -> None:
    """Run one shard; prints what it did, or the first message that broke something."""
    warnings.simplefilter("ignore")
    sys.stdout.reconfigure(errors="replace")  # type: ignore[union-attr]
    sy.LoggingTensor.out = staticmethod(lambda text: None)  # type: ignore[assignment]
    torch.set_num_threads(1)
    target = Target()
    rng = random.Random(seed)
    pool = corpus(target)
    for data in pool:  # also warms every cache up before memory is measured
        for private in (True, False):
            check(target, data, private)
    in_use = int(open("/proc/self/statm").read().split()[0]) * os.sysconf("SC_PAGE_SIZE")
    resource.setrlimit(resource.RLIMIT_AS, (in_use + ROOM, resource.RLIM_INFINITY))
    before = _resident()
    requests = errors = 0
    for number in range(count):
        data = rng.choice(MUTATIONS)(rng, rng.choice(pool), pool)
        try:
            valid, failed = check(target, data, private=number % 2 == 0)
        except BaseException:
            traceback.print_exc(file=sys.stdout)
            print(f"seed {seed}, message {number}, {len(data)} bytes: {data[:2000].hex()}")
            sys.exit(1)
        requests += valid
        errors += failed
    growth = _resident() - before
    assert growth < MAX_GROWTH, f"memory grew by {growth} bytes"
    assert len(target.bob._sessions) < 10
    bystander = target.bob.open_session("honest")
    target.bob.policy = ALLOW_ALL
    target.fill()
    written = answer(target.bob, bystander, serialize(((), m.ObjectRequestMessage((1, None, "")), True, 0)))
    assert deserialize(written).tolist() == list(SECRET)
    print(f"{count} messages: {requests} valid requests, {errors} errors, {growth / 2**20:.1f} MiB more memory")
