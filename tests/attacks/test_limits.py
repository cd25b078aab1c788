"""Limits: small messages with large sizes, depths or loops are refused or answered within bounds."""

from __future__ import annotations

import contextlib
import os
import resource
import struct
import sys
import threading
import time
import tracemalloc
from pathlib import Path

import lz4.frame
import pytest
import torch

import syft as sy
from syft import config
from syft.core.references import Ref
from syft.messaging import message as m
from syft.serde import compression, deserialize, serialize
from syft.workers.transport.request_codec import MAX_ERROR_CHARS, MAX_HOPS
from tests.helpers import warm_processes as warm
from tests.helpers.attacks.hostile_peer import (
    BATCH,
    DEVICE,
    DICT,
    DTYPE,
    GET_SHAPE,
    IS_NONE,
    LIST,
    OBJECT,
    OPERATION,
    RANGE,
    REF,
    REQUEST,
    SEARCH,
    SHELL,
    SIZE,
    TENSOR,
    TENSOR_META,
    TENSOR_POINTER,
    TUPLE,
    Mallory,
    error_name,
    request,
    still_answers,
    wire,
)  # fmt: skip

ROOT = Path(__file__).parent.parent.parent


@contextlib.contextmanager
def cheap(peak=64 * 2**20):
    """Check that a block ends, and takes little memory of Python's (buffers included)."""
    tracemalloc.start()
    started = time.perf_counter()
    try:
        yield
        took = time.perf_counter() - started
        used = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert took < 60, f"{took:.1f} s"
    assert used < peak, f"{used / 2**20:.0f} MiB"


@pytest.fixture
def mallory(bob):
    bob.object_store.objects[1] = torch.ones(3)
    yield Mallory(bob)
    still_answers(bob)
    assert bob.object_store.objects[1].tolist() == [1, 1, 1]


def test_the_size_limit_holds_before_and_after_decompression(mallory):
    big = serialize(((), m.ObjectMessage(torch.zeros(100_000), 5), True, 0))
    assert len(big) < 10_000  # compressed
    plain = wire((TUPLE, (TUPLE,), (SEARCH, (LIST, "x" * 20_000)), True, 0))
    with config.override(max_message_bytes=10_000):
        for data in (big, b"(" + bytes(20_000), b"(" + plain, bytes(10_001)):
            assert error_name(mallory.send(data)) == "SerdeError"
        assert 5 not in mallory.worker.object_store.objects
        assert mallory.raw((IS_NONE, (REF, 1, None))) is False
    assert mallory.send(big) is None
    mallory.worker.object_store.remove(5)


@pytest.mark.parametrize("scheme", ["lz4", "zstd", "lz4 without a size", "zstd without a size"])
def test_decompression_bombs(mallory, scheme):
    zeros = bytes(512 * 2**20)
    if scheme.startswith("lz4"):
        bomb = b")" + lz4.frame.compress(zeros, store_size=scheme == "lz4")
    else:
        zstd = compression._zstd()
        options = {zstd.CompressionParameter.content_size_flag: int(scheme == "zstd")}
        bomb = b"*" + zstd.ZstdCompressor(options=options).compress(zeros, zstd.ZstdCompressor.FLUSH_FRAME)
    del zeros
    assert len(bomb) < 4 * 2**20
    with config.override(max_message_bytes=8 * 2**20), cheap(peak=40 * 2**20):
        assert error_name(mallory.send(bomb)) == "SerdeError"


def test_huge_shapes_with_tiny_buffers(mallory):
    shapes = [
        (2**62,),
        (2**31, 2**31),
        (2**32, 2**32),
        (2**63 - 1,),
        (2**63,),
        (-1,),
        (10**9, 10**9, 0),
        (1,) * 65,
        (1,) * 10**4,
    ]
    with cheap():
        for shape in shapes:
            for strategy, values in (
                ("raw", (TUPLE, "float32", (TUPLE, *shape), b"1234")), ("all", (TUPLE, (TUPLE, *shape), "float32", (LIST, 1.0))),
                ("numpy", b"\x93NUMPY\x01\x00v\x00" + f"{{'descr': '<f4', 'fortran_order': False, 'shape': {shape}, }}".encode()[:118].ljust(118) + b"1234"),
            ):  # fmt: skip
                response = mallory.raw((OBJECT, (TENSOR, 1, values, None, None, None, None, strategy), 5, False, None))
                assert error_name(response) == "SerdeError"
            mallory.raw((OPERATION, "torch.ones", (TUPLE, (SIZE, *shape)), (DICT,), (TUPLE, 6), True))
            mallory.worker.object_store.remove(6)


def test_false_lengths_are_refused(mallory):
    prefix = struct.Struct(">BII")
    with cheap():
        for header, count in (
            (2**32 - 1, 0),
            (0, 2**32 - 1),
            (2**31, 2**31),
            (5, 65_536),
            (5, 65_537),
            (64 * 2**20, 1),
        ):
            assert error_name(mallory.send(b"(" + prefix.pack(1, header, count) + b"\xc0" * 9)) == "SerdeError"
        for marker in (b"\xdd", b"\xdf", b"\xdb", b"\xc6", b"\xc9"):  # array, map, text, bytes and ext of 2^32 - 1
            body = marker + b"\xff\xff\xff\xff" + b"\x00" * 9
            assert error_name(mallory.send(b"(" + prefix.pack(1, len(body), 0) + body)) == "SerdeError"


def test_too_many_frames(mallory):
    count = 65_537
    data = b"(" + struct.pack(">BII", 1, 1, count) + bytes(8 * count) + b"\xc0"
    assert error_name(mallory.send(data)) == "SerdeError"


@pytest.mark.parametrize("depth", [40, 60, 500, 10_000, 200_000])
def test_batches_in_batches(mallory, depth):
    head = b"\x92\xcc\x84\x92\x01"  # (BATCH, (TUPLE,
    body = b"\x95\x01\x91\x01" + head * depth + b"\x92\xcc\x84\x91\x01" + b"\xc3\x00"
    with cheap():
        response = mallory.send(b"(" + struct.pack(">BII", 1, len(body), 0) + body)
    assert type(response) is tuple if depth == 40 else error_name(response) == "SerdeError"


def test_a_batch_of_a_million(mallory):
    with config.override(max_message_bytes=16 * 2**20):
        parts = ((IS_NONE, (REF, 1, None)),) * 20_000
        assert mallory.raw((BATCH, (TUPLE, *parts))) == (False,) * 20_000
        nothing = mallory.raw((BATCH, (TUPLE, *((BATCH, (TUPLE,)),) * 500_000)))
        assert len(nothing) == 500_000


def test_an_error_in_a_batch_loses_no_object(mallory):
    store = mallory.worker.object_store
    store.objects[7] = torch.arange(3)
    for wrong in (
        (REQUEST, (TUPLE, 999, None, "")),
        (OPERATION, "torch.nope", (TUPLE,), (DICT,), (TUPLE, 9), True),
        (120, 1),
    ):
        for batch in (
            ((REQUEST, (TUPLE, 7, None, "")), wrong),
            ((BATCH, (TUPLE, (REQUEST, (TUPLE, 7, None, "")))), wrong),
        ):
            error_name(mallory.raw((BATCH, (TUPLE, *batch))))
            assert store.objects[7].tolist() == [0, 1, 2]
    nested = mallory.raw((BATCH, (TUPLE, (BATCH, (TUPLE, (REQUEST, (TUPLE, 7, None, "")))))))
    assert nested[0][0].tolist() == [0, 1, 2] and 7 not in store.objects


def test_an_object_that_can_not_be_written_is_not_lost(mallory, make_worker):
    store = mallory.worker.object_store
    store.objects[7] = torch.ones(3, device="meta")
    assert error_name(mallory.ask(m.ObjectRequestMessage((7, None, "")))) == "SerdeError"
    assert 7 in store.objects
    store.remove(7)
    carol = make_worker("carol")
    pointer = torch.ones(3).send(carol)
    carol.object_store.objects[pointer.id_at_location] = torch.eye(3).to_sparse()
    with pytest.raises(sy.exceptions.SerdeError):
        pointer.get()
    assert pointer.id_at_location in carol.object_store.objects


@pytest.mark.parametrize("top", [2**21, 2**62, 2**63, 2**200])
def test_ranges_are_not_unfolded(mallory, top):
    for ranges in (
        (RANGE, 0, top, 1),
        (LIST, (RANGE, 0, top, 1)),
        (LIST, *((RANGE, 0, 2**20, 1),) * 100),
        (RANGE, top, 0, -1),
    ):
        for name in ("torch.tensor", "torch.as_tensor", "torch.zeros", "torch.stack"):
            with cheap():
                response = mallory.raw((OPERATION, name, (TUPLE, ranges), (DICT,), (TUPLE, 6), True))
            assert error_name(response) == "CommandNotAllowedError"
        response = mallory.raw(
            (OPERATION, "torch.Tensor.__getitem__", (TUPLE, (REF, 1, None), ranges), (DICT,), (TUPLE, 6), True)
        )
        assert error_name(response) == "CommandNotAllowedError"
    assert mallory.call("torch.Tensor.tolist", mallory.keep("torch.tensor", range(4))) == [0, 1, 2, 3]


@pytest.mark.parametrize(
    "number", [2**31, 2**63 - 1, 2**63, 2**64, -(2**63), 2**200, -(2**400), float("inf"), float("nan"), 1e308]
)
def test_huge_numbers_as_arguments(mallory, number):
    names = "torch.add torch.Tensor.expand torch.Tensor.repeat torch.Tensor.__getitem__ torch.Tensor.sum torch.Tensor.roll torch.unsqueeze"
    for name in names.split():
        if name == "torch.Tensor.repeat" and isinstance(number, int) and 0 < number < 2**40:
            continue  # an honest request for gigabytes: see the quota below
        mallory.call(name, Ref(1), number)
    mallory.session.close()


def test_one_call_does_not_take_gigabytes(mallory):
    """At a worker with a quota; without one, what a stranger may compute is bounded by the machine only."""
    code = (
        "import torch, syft as sy; from tests.helpers.attacks.hostile_peer import Mallory\n"
        "from syft.grid.storage import ObjectManager, Quota\n"
        "hook = sy.TorchHook(torch); bob = sy.VirtualWorker(hook, id='bob'); ObjectManager(bob, quota=Quota(max_bytes=2**26))\n"
        "pages = lambda: int(open('/proc/self/statm').read().split()[1])\n"  # now: the peak begins with the parent's
        "before = pages(); Mallory(bob).call('torch.ones', 2**28)\n"
        "assert pages() - before < 2**17"
    )
    warm.run(code, cwd=ROOT, check=True)


@pytest.mark.parametrize("size", [300, 10**6, 3 * 10**7])
def test_long_ids_are_refused_and_not_repeated(mallory, size):
    long = "\0" * size
    departed = mallory.worker.object_store._departed
    messages = [
        (OPERATION, "torch.nope", (TUPLE,), (DICT,), (TUPLE, long), True), (GET_SHAPE, (REF, long, None)), (126, long),
        (OPERATION, "torch.add", (TUPLE, 1, "x"), (DICT,), (TUPLE, long), True), (OBJECT, 5, long, False), (127, long),
        (REQUEST, (TUPLE, long, None, "")), (SEARCH, (LIST, long)), (133, (TUPLE, 1), long), (TENSOR, long), (long,), long,
    ]  # fmt: skip
    for message in messages:
        response = mallory.raw(message)
        assert type(response) is m.ErrorMessage or response == []
        assert len(mallory.seen[-1]) < 8 * MAX_ERROR_CHARS
    error_name(mallory.send(request((SEARCH, (LIST,)), released=(long,))))
    assert sum(len(str(key)) for key in departed) < 10_000
    mallory.seen.clear()


def test_ids_at_the_edge_do_not_spoil_the_store(mallory):
    for edge in (2**511 - 1, 2**500, -(2**300), 2**256):
        assert error_name(mallory.call("torch.sort", Ref(1), return_id=edge)) == "SerdeError"
    assert type(mallory.call("torch.sort", Ref(1), return_id=2**256 - 1)) is not m.ErrorMessage
    assert (
        len(mallory.ask(m.SearchMessage([]))) == 3
    )  # its second result is beyond what a peer may choose, and can be shown
    mallory.session.close()


def test_names_of_many_results_do_not_grow(mallory):
    wide = mallory.keep("torch.ones", 5_000)
    with cheap(peak=25 * 2**20):
        mallory.call("torch.unbind", wide, return_id="base")
    assert max(len(str(key)) for key in mallory.worker.object_store.objects) < 30
    mallory.session.close()


def test_long_walks_through_attributes(mallory):
    mallory.worker.object_store.objects[2] = torch.ones(2, 2, requires_grad=True)
    for step in ("data", "T", "mT", "real", "grad"):
        with cheap():
            assert (
                error_name(mallory.ask(m.IsNoneMessage(Ref(2, ".".join([step] * 1_000_000)))))
                == "CommandNotAllowedError"
            )


KEYS = [
    "",
    "a b",
    "self",
    "input",
    "__class__",
    "out",
    "é",
    "\0",
    "lambda",
    "*args",
    "0",
    "x" * 10_000,
    "dtype",
    "name",
    "string",
    "worker",
]


@pytest.mark.parametrize("key", KEYS)
def test_odd_keywords(mallory, key):
    for name in (
        "torch.add",
        "torch.Tensor.sum",
        "str.upper",
        "syft.call",
        "syft.tag",
        "syft.describe",
        "torch.zeros",
        "torch.cat",
    ):
        for args in ((), ((REF, 1, None),), ((REF, 1, None), 1)):
            for value in (None, 1, "x", (REF, 1, None), (LIST,), (DICT,)):
                mallory.raw((OPERATION, name, (TUPLE, *args), (DICT, key, value), (TUPLE, 77), True))
                mallory.worker.object_store.remove(77)
    for wrong in (1, None, (TUPLE, 1), (REF, 1, None), b"k", True):
        assert (
            error_name(mallory.raw((OPERATION, "torch.zeros", (TUPLE, 1), (DICT, wrong, 1), (TUPLE, 77), True)))
            == "SerdeError"
        )
    mallory.worker.object_store.objects[1] = torch.ones(3)


STRING_BOMBS = {
    "mul": ("__mul__", "x" * 1000, 10**12), "rmul": ("__rmul__", "x", 10**15), "zfill": ("zfill", "1", 10**12), "ljust": ("ljust", "1", 10**12),
    "center": ("center", "1", 10**12, "é"), "tabs": ("expandtabs", "\t" * 1000, 10**9), "width": ("__mod__", "%999999999999d", 1),
    "precision": ("__mod__", "%.999999999999f", 1.5), "star": ("__mod__", "%*d", (10**12, 1)), "dot star": ("__mod__", "%.*f", (10**12, 1.5)),
    "many": ("__mod__", "%(a)s" * 1000, {"a": "x" * 10**6}), "named width": ("__mod__", "%(a)999999999999s", {"a": 1}),
    "replace": ("replace", "x" * 10**5, "x", "y" * 10**5), "replace nothing": ("replace", "x" * 10**5, "", "y" * 10**5),
    "translate": ("translate", "x" * 10**5, {120: "y" * 10**5}), "translate list": ("translate", "\0" * 10**5, ["y" * 10**5]),
    "split": ("split", "a " * 10**5), "rsplit": ("rsplit", "a," * 10**5, ","), "lines": ("splitlines", "\n" * 10**5),
    "punycode": ("encode", "é" * 10**6, "punycode"), "idna": ("encode", "é" * 10**6, "idna"), "odd codec": ("encode", "x", "../../evil"),
}  # fmt: skip


@pytest.mark.parametrize("name", list(STRING_BOMBS))
def test_text_methods_do_not_explode(mallory, name):
    method, *args = STRING_BOMBS[name]
    with cheap():
        assert error_name(mallory.call(f"str.{method}", *args)) == "CommandNotAllowedError"
        held = mallory.keep("str.lower", args[0])
        assert error_name(mallory.call(f"str.{method}", held, *args[1:])) == "CommandNotAllowedError"


def test_a_text_held_once_is_not_joined_many_times(mallory):
    piece = mallory.keep("str.lower", "x" * 10**6)
    with cheap():
        assert error_name(mallory.call("str.join", piece, [piece] * 1000)) == "CommandNotAllowedError"
        assert error_name(mallory.call("str.join", ",", tuple([piece] * 1000))) == "CommandNotAllowedError"
        assert error_name(mallory.call("str.join", ",", range(10**12))) == "CommandNotAllowedError"
        assert error_name(mallory.call("str.__mod__", "%s" * 1000, tuple([piece] * 1000))) == "CommandNotAllowedError"


def test_text_methods_within_bounds_work(mallory):
    cases = [
        ("__mul__", "ab", 3),
        ("zfill", "1", 5),
        ("replace", "aXa", "X", "b"),
        ("__mod__", "%s-%03d", ("a", 7)),
        ("join", ",", ["a", "b"]),
    ]
    texts = [
        mallory.ask(m.ObjectRequestMessage((mallory.keep(f"str.{name}", *args).id, None, ""))).child
        for name, *args in cases
    ]
    assert texts == ["ababab", "00001", "aba", "a-007", "a,b"]
    assert mallory.call("str.encode", "é", "utf-8") == "é".encode()


@pytest.mark.parametrize(
    "pattern", ["{0.__class__}", "{0.__init__.__globals__}", "{a[0]}", "%(a.__class__)s", "%(__class__)s", "%s{0}"]
)
def test_format_strings_reach_no_attributes(mallory, pattern):
    for name in ("str.format", "str.format_map", "str.__format__", "format", "str.__mod__"):
        for value in (Ref(1), {"a": Ref(1)}, {"a": 1}, (1,), "x"):
            response = mallory.call(name, pattern, value)
            if not isinstance(response, m.ErrorMessage):
                text = mallory.worker.object_store.objects[mallory.next_id].child
                assert not any(word in text for word in ("<class", "<built", "function", "Tensor"))


def _pointer(worker, obj_id):
    meta = (TENSOR_META, (SIZE, 3), (DTYPE, "float32"), False, (DEVICE, "cpu", None))
    return (SHELL, (TENSOR_POINTER, 1, obj_id, worker.id, None, (4,), None, False, meta), False, False, 1, None, None)


def _loop(bob, alice):
    """Make two workers hold pointers to each other's pointer."""
    at_bob, at_alice = Mallory(bob), Mallory(alice)
    assert at_bob.raw((OBJECT, _pointer(alice, 2), 1, False, None)) is None
    assert at_alice.raw((OBJECT, _pointer(bob, 1), 2, False, None)) is None
    return at_bob


@pytest.mark.parametrize("kind", ["inline", "bytes"])
def test_pointers_in_a_circle_end_in_an_error(make_worker, kind):
    bob, alice = make_worker("bob", kind), make_worker("alice", kind)
    mallory = _loop(bob, alice)
    limit = sys.getrecursionlimit()
    assert error_name(mallory.call("torch.add", Ref(1), 1)) in ("RecursionError", "SerdeError")
    assert type(mallory.ask(m.FetchThereMessage(1))) is m.ErrorMessage
    assert sys.getrecursionlimit() == limit
    for worker in (bob, alice):
        still_answers(worker)
        worker.object_store.clear()


def test_pointers_in_a_circle_of_threaded_workers_end(make_worker):
    bob, alice = make_worker("bob", "thread"), make_worker("alice", "thread")
    mallory = _loop(bob, alice)
    bob.log_msgs = True
    mallory.call("torch.add", Ref(1), 1)
    for _ in range(20):  # more rounds than a request may be passed on
        for worker in (bob, alice):
            for stream in list(worker._streams.values()):
                with contextlib.suppress(Exception):  # the refusal surfaces somewhere along the way
                    stream.synchronize()
    passed = [message for message in bob.msg_history if isinstance(message, m.Operation)]
    assert 1 <= len(passed) <= MAX_HOPS
    for worker in (bob, alice):
        worker.object_store.clear()


def test_an_object_handed_over_to_its_own_worker(make_worker, kind):
    bob = make_worker("bob", kind)
    bob.object_store.objects[1] = torch.ones(3)
    mallory = Mallory(bob)
    for step in range(1, 6):
        mallory.ask(m.HandOverMessage(step, bob.id, step + 1, True))
    mallory.call("torch.add", Ref(1), 1)
    assert type(mallory.ask(m.HandOverMessage(1, bob.id, 2, True))) is m.ErrorMessage
    still_answers(bob)
    bob.object_store.clear()


def test_many_peers_at_once(bob):
    bob.object_store.objects[1] = torch.ones(3)
    failures = []

    def attack(number):
        try:
            peer = Mallory(bob, f"peer {number}")
            for turn in range(60):
                peer.send(os.urandom(turn))
                peer.call("torch.Tensor.view", Ref(1), 77)
                peer.ask(m.SearchMessage([]))
                assert peer.call("torch.Tensor.tolist", peer.keep("torch.full", (2,), float(number))) == [
                    number,
                    number,
                ]
            peer.session.close()
        except BaseException as error:
            failures.append(error)

    threads = [threading.Thread(target=attack, args=(number,)) for number in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(100)
    assert not failures and list(bob.object_store.objects) == [1]


def test_the_memory_measure_works():
    with pytest.raises(AssertionError, match="MiB"), cheap():
        bytearray(100 * 2**20)
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss > 0
    assert deserialize(serialize(1)) == 1
