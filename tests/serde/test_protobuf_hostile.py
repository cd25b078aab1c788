"""Malformed protobuf bytes: each raises SerdeError, soon, and without allocating memory."""

from __future__ import annotations

import resource
import struct
import time
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

import syft as sy
from syft.core.references import Ref
from syft.exceptions import (
    GetNotPermittedError,
    MalformedPlanError,
    ObjectNotFoundError,
    ResponseSignatureError,
    SerdeError,
    SyftError,
    UnsupportedOperationError,
    WorkerNotFoundError,
)
from syft.messaging import message as m
from syft.serde import protobuf
from syft.serde.protobuf import envelope, typed_messages
from syft.serde.protobuf.schema import syft_pb2 as pb
from tests.helpers.serde.protobuf_samples import VALUES, WIDE, plans
from tests.helpers.serde.round_trips import EXAMPLES, FORMATS, worker

pytestmark = pytest.mark.filterwarnings("ignore")
NONE = worker(compression="none")
NEED_A_WORKER = (WorkerNotFoundError, ObjectNotFoundError, MalformedPlanError)
# Reading one of these raises it.
ANSWERS = (GetNotPermittedError, ResponseSignatureError)


def varint(number: int) -> bytes:
    out = b""
    while number > 0x7F:
        out += bytes([number & 0x7F | 0x80])
        number >>= 7
    return out + bytes([number])


def field(number: int, data: bytes) -> bytes:
    """Write a length-delimited field."""
    return varint(number << 3 | 2) + varint(len(data)) + data


def message(value: Any, frames: tuple[bytes, ...] = ()) -> bytes:
    """Lay out an arbitrary value and frames by hand."""
    data = value if isinstance(value, bytes) else value.SerializeToString()
    return b"(\x08\x01" + field(2, data) + b"".join(field(3, frame) for frame in frames)


def refused(data: bytes, match: str | None = None, **options: Any) -> None:
    for unbufferizes in (True,) if match else (True, False):
        try:
            protobuf.deserialize(data, unbufferizes=unbufferizes, **options)
        except SerdeError as error:
            assert match is None or match in str(error), error
        else:
            assert not unbufferizes, "accepted"


def harmless(data: bytes) -> None:
    try:
        protobuf.deserialize(data)
    except SerdeError:
        pass
    except SyftError as error:  # a damaged byte may make a pointer or a protocol, which need a worker to belong to
        assert "No local worker" in str(error) or isinstance(error, (*NEED_A_WORKER, *ANSWERS))


def test_the_hand_written_layout_is_the_real_one():
    assert message(pb.Value(integer=5)) == protobuf.serialize(5)
    data = np.zeros(2000, np.float32).tobytes()
    value = protobuf.serialize(torch.zeros(2000), force_no_serialization=True).value
    assert message(value, (data,)) == protobuf.serialize(torch.zeros(2000), NONE)


SAMPLES = {
    "python": [1, (2.5, "text", b"bytes"), {"a": {3}}, 2**100, ..., slice(1, 2), range(4), 1j],
    "tensors": [torch.arange(5.0, requires_grad=True), torch.nn.Parameter(torch.ones(2)), torch.ones(2, 2).max(0)],
    "array": (np.arange(6).reshape(2, 3), np.float32(2), torch.float32, torch.device("cpu")),
    "messages": [m.Operation("torch.add", None, (Ref(WIDE), 3), {"a": 1}, (WIDE,)), m.ObjectMessage([1], "x")],
    "references": [VALUES[code] for code in (86, 87, 88, 89)],
    "frames": [torch.zeros(1100), bytes(4100)],
}


@pytest.mark.parametrize("sample", SAMPLES)
def test_cut_at_every_byte(sample):
    whole = protobuf.serialize(SAMPLES[sample], NONE)
    for end in range(0, len(whole), 1 + len(whole) // 2000):
        refused(whole[:end])
    refused(whole + b"\0")
    refused(whole + whole[1:])
    protobuf.deserialize(whole)


@pytest.mark.parametrize(("sample", "name"), [*((s, "raw") for s in SAMPLES), *(("tensors", f) for f in FORMATS[1:])])
def test_flipped_bytes_never_give_another_error(sample, name):
    whole = protobuf.serialize(SAMPLES[sample], worker(serializer=name, compression="none"))
    for position in range(0, len(whole), 1 + len(whole) // 1500):
        for mask in (0x01, 0x08, 0x80, 0xFF):
            damaged = bytearray(whole)
            damaged[position] ^= mask
            harmless(bytes(damaged))


@pytest.mark.parametrize("code", VALUES)
def test_every_bit_of_every_type(code):
    for obj in VALUES[code]:
        whole = protobuf.serialize(obj, NONE)
        for position in range(0, len(whole), 1 + len(whole) // 150):
            for bit in range(8):
                damaged = bytearray(whole)
                damaged[position] ^= 1 << bit
                harmless(bytes(damaged))


def test_damaged_pointers_never_give_another_error(hook, bob, alice):
    x = torch.ones(2).tag("#t").send(bob)
    whole = protobuf.serialize([x, sy.String("abc", id=3)], worker(compression="none"))
    for position in range(len(whole)):
        for mask in (0x01, 0x02, 0x10, 0x80, 0xFF):
            damaged = bytearray(whole)
            damaged[position] ^= mask
            try:
                protobuf.deserialize(bytes(damaged), alice)
            except sy.exceptions.SyftError:
                pass  # a worker or an object that is not there has an error of its own


def test_damaged_plans_never_give_another_error(hook):
    whole = protobuf.serialize(plans(), worker(compression="none"))
    for position in range(0, len(whole) - 20_000):
        for mask in (0x01, 0x02, 0x10, 0x80):
            damaged = bytearray(whole)
            damaged[position] ^= mask
            try:
                protobuf.deserialize(bytes(damaged))
            except (SerdeError, MalformedPlanError, UnsupportedOperationError):
                pass


@EXAMPLES
@given(st.binary(max_size=200))
def test_random_bytes(data):
    for prefix in (b"", b"(", b"(\x08\x01", b"(\x08\x01\x12" + varint(len(data)), b"\x29", b"\x2a"):
        harmless(prefix + data)


@EXAMPLES
@given(st.data())
def test_random_fields(data):
    """Random messages that follow the schema's numbers, so that they get past the first look."""
    numbers = st.sampled_from([field.number for field in pb.Value.DESCRIPTOR.fields]) | st.integers(1, 10)

    def fields(depth: int) -> bytes:
        out = b""
        for _ in range(data.draw(st.integers(0, 3))):
            number, kind = data.draw(numbers), data.draw(st.sampled_from([0, 1, 2, 2, 2]))
            if kind == 0:
                out += varint(number << 3) + varint(data.draw(st.integers(0, 2**64 - 1)))
            elif kind == 1:
                out += varint(number << 3 | 1) + struct.pack("<d", data.draw(st.floats()))
            else:
                out += field(number, fields(depth + 1) if depth < 4 else data.draw(st.binary(max_size=9)))
        return out

    harmless(message(fields(0)))


# The outermost level

GOOD = message(pb.Value(integer=5))


@pytest.mark.parametrize("version", [0, 2, 3, 127, 128, 2**32, 2**63])
def test_unknown_versions(version):
    refused(b"(\x08" + varint(version) + GOOD[3:], f"version {version} ")


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"(",
        b"(\x08",
        b"(\x08\x01",
        b"(\x08\x01\x12",
        b"(\x08\x01\x12\x05",
        GOOD[:1] + GOOD[3:],  # no version
        GOOD[:1] + GOOD[3:] + b"\x08\x01",  # the version last
        GOOD + GOOD[3:],  # two values
        GOOD + b"\x08\x01",
        GOOD + b"\x20\x01",  # an unknown number
        GOOD + field(4, b"x"),
        GOOD + b"\x1b",  # a group
        GOOD + field(3, b"unused frame"),
        b"(\x08\x81\x00" + GOOD[3:],  # more bytes than needed
        b"(\x88\x00\x01" + GOOD[3:],
        b"(\x08\x01\x12" + b"\xff" * 9 + b"\x01",
        b"(\x08\x01\x12" + b"\xff" * 50,
        b"(\x08\x01\x1a" + varint(2**40),
        GOOD[1:],
        sy.serialize(5),
        sy.serialize([torch.ones(2)]),
    ],
)
def test_malformed_envelopes(data):
    refused(data)


def test_a_message_of_the_other_strategy_gets_a_clear_error():
    with pytest.raises(SerdeError, match="strategy it was written with"):
        protobuf.deserialize(sy.serialize([1]))
    with pytest.raises(SerdeError):
        sy.deserialize(protobuf.serialize([1]))


def test_other_inputs_than_bytes():
    for value in (None, 5, "text", [1], pb.Envelope()):
        with pytest.raises(SerdeError, match="must be bytes"):
            protobuf.deserialize(value)
    assert protobuf.deserialize(memoryview(protobuf.serialize([1])).cast("b")) == [1]
    assert protobuf.deserialize(bytearray(protobuf.serialize([1])), owns_buffer=True) == [1]


def test_frames_are_used_exactly_once():
    data = bytes(8000)
    tensor = protobuf.serialize(torch.zeros(2000), force_no_serialization=True).value
    assert protobuf.deserialize(message(tensor, (data,))).shape == (2000,)
    twice = pb.Value()
    for _ in range(2):
        twice.list.parts.add().CopyFrom(tensor)
    refused(message(twice, (data,)), "twice")
    refused(message(twice, (data, data)), "twice")
    refused(message(tensor, ()), "does not have it")
    refused(message(tensor, (data, data)), "unused frames")
    refused(message(pb.Value(integer=1), (data,)), "unused frames")


def test_limits_on_size():
    data = protobuf.serialize([torch.zeros(5000)], NONE)
    with pytest.raises(SerdeError, match="max_message_bytes"):
        protobuf.deserialize(data, max_message_bytes=1000)
    small = protobuf.serialize([torch.zeros(50_000)], worker(compression="zstd"))
    assert len(small) < 1000
    with pytest.raises(SerdeError, match="limit"):
        protobuf.deserialize(small, max_message_bytes=1000)
    with sy.config.override(max_message_bytes=1000), pytest.raises(SerdeError):
        protobuf.deserialize(data)


def peak() -> int:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024


def test_many_tiny_values_are_refused_before_they_are_parsed():
    bomb = message(field(22, b"\x0a\x00" * (envelope.MAX_VALUE_BYTES // 2 + 8)))
    before, start = peak(), time.thread_time()
    refused(bomb, "limit")
    assert peak() - before < 10**8
    assert time.thread_time() - start < 5


def test_many_frames_are_refused_soon():
    start = time.thread_time()
    refused(message(pb.Value(integer=1), ()) + b"\x1a\x00" * 2_000_000, "frames")
    assert time.thread_time() - start < 5


@pytest.mark.parametrize("depth", [101, 500, 5000, 200_000])
def test_depth_bombs(depth):
    inner = pb.Value(integer=1).SerializeToString()
    kinds_of_levels = (lambda data: field(22, field(1, data)), lambda data: field(10, b"\x08\x02" + field(2, data)))
    for level in kinds_of_levels:
        data = inner
        for _ in range(min(depth, 5000)):
            data = level(data)
        refused(message(data))
    if depth > 5000:  # lengths that lie
        refused(message(b"\xb2\x01\x7f\x0a\x7d" * depth))


def test_bombs_of_packed_values():
    data = pb.Value(integer=1).SerializeToString()
    for _ in range(500):
        data = pb.Value(packed=data).SerializeToString()
        refused(message(data), "packed")

    def nested(levels: int, inner: bytes) -> bytes:
        for _ in range(levels):
            inner = field(22, field(1, inner))
        return inner

    leaf = pb.Value(integer=1).SerializeToString()
    assert protobuf.deserialize(message(nested(32, leaf)))  # bare values are never packed
    right = nested(32, pb.Value(packed=nested(1, leaf)).SerializeToString())
    assert protobuf.deserialize(message(right))
    for levels in (1, 16, 31):
        refused(message(nested(levels, pb.Value(packed=nested(1, leaf)).SerializeToString())), "packed")
    twice = pb.Value(packed=pb.Value(packed=nested(1, leaf)).SerializeToString()).SerializeToString()
    refused(message(nested(32, twice)), "packed")
    damaged = nested(32, pb.Value(packed=nested(1, leaf) + b"\x98\x3f\x01").SerializeToString())
    refused(message(damaged), "unknown fields")
    whole = nested(
        32, pb.Value(packed=nested(32, pb.Value(packed=nested(35, leaf)).SerializeToString())).SerializeToString()
    )
    assert protobuf.deserialize(message(whole))
    beyond = nested(
        32, pb.Value(packed=nested(32, pb.Value(packed=nested(40, leaf)).SerializeToString())).SerializeToString()
    )
    refused(message(beyond), "deeper")


# Unknown and absent fields


def test_unknown_fields_anywhere():
    extra = b"\x98\x3f\x01"  # number 1011
    refused(message(pb.Value(integer=5).SerializeToString() + extra), "unknown fields")
    refused(message(field(6 + 100, field(1, b"\x08\x05" + extra))), "unknown fields")  # Ref.id
    refused(message(field(22, field(1, b"\x18\x02" + extra))), "unknown fields")
    refused(message(field(60, extra)), "unknown fields")
    group = bytes([0xFB, 0x3F, 0xFC, 0x3F])  # number 1023: a group opens and closes
    refused(message(pb.Value(integer=5).SerializeToString() + group), "unknown fields")


def test_one_way_to_write_a_message():
    five = pb.Value(integer=5).SerializeToString()
    assert protobuf.deserialize(message(five)) == 5
    refused(message(five + five), "twice")
    refused(message(pb.Value(boolean=True).SerializeToString() + five), "twice")
    refused(message(b"\x98\x00" + five[1:]))
    refused(message(five[:-1] + bytes([five[-1] | 0x80, 0])), "more bytes")
    refused(message(field(106, field(1, b"\x08\x05") + field(2, b"a") + field(2, b"b"))), "twice")
    refused(message(field(62, b"\x08\x05")), "more bytes")  # a number by itself instead of packed
    # Those are shorter than they should be, and must not make room for a field that is unknown.
    shorter = field(22, field(1, field(62, b"\x08\x05")) * 3 + b"\x98\x3f\x01")
    refused(message(shorter), "unknown fields")
    reordered = field(106, field(2, b"grad") + field(1, b"\x08\x05"))  # allowed: protobuf promises no order
    assert protobuf.deserialize(message(reordered)) == Ref(5, "grad")
    refused(message(pb.Value(big_integer=b"\x05")), "small int")
    refused(message(pb.Value(big_integer=b"\x00" * 10 + b"\x01" * 9)), "more bytes")
    refused(message(pb.Value(big_integer=b"\x01" * 65)), "65 bytes")
    refused(message(pb.Value(big_integer=b"")), "0 bytes")
    refused(message(b"\x08\x01"), "None with a value")


def value(**kinds_of: Any) -> pb.Value:
    return pb.Value(**kinds_of)


ABSENT = {
    "nothing": value(),
    "empty composite": value(composite=pb.Composite()),
    "empty part": value(list=pb.Items(parts=[value()])),
    "unknown code": value(composite=pb.Composite(code=999)),
    "huge code": value(composite=pb.Composite(code=2**32 - 1)),
    "ref without id": value(ref=pb.Ref()),
    "ref with empty id": value(ref=pb.Ref(id=pb.Id())),
    "message without contents": value(message=pb.Message()),
    "message with empty contents": value(message=pb.Message(contents=value())),
    "is none without ref": value(is_none_message=pb.IsNoneMessage()),
    "parameter without tensor": value(parameter=pb.Parameter()),
    "pointer with nothing": value(pointer_tensor=pb.Pointer()),
    "meta with nothing": value(tensor_meta=pb.TensorMeta()),
    "tensor with nothing": value(tensor=pb.Tensor()),
    "tensor without data": value(tensor=pb.Tensor(format="raw")),
    "tensor with other data": value(tensor=pb.Tensor(format="raw", other=value(integer=1))),
    "tensor with both": value(
        tensor=pb.Tensor(
            format="raw",
            other=value(integer=1),
            data=pb.TensorData(dtype="float32", shape=[0], data=pb.Bytes(inline=b"")),
        )
    ),
    "tensor of unknown format": value(tensor=pb.Tensor(format="pickle", other=value(data=b"x"))),
    "tensor without format": value(tensor=pb.Tensor(other=value(data=b"x"))),
    "buffer outside": value(buffer=pb.Bytes(inline=b"x")),
    "buffer in a list": value(list=pb.Items(parts=[value(buffer=pb.Bytes(inline=b"x"))])),
    "buffer in a set": value(set=pb.Items(parts=[value(buffer=pb.Bytes(inline=b"x"))])),
    "buffer in a composite list": value(composite=pb.Composite(code=2, parts=[value(buffer=pb.Bytes(inline=b"x"))])),
    "buffer without bytes": value(tuple=pb.Items(parts=[value(buffer=pb.Bytes())])),
    "buffer in a message": value(message=pb.Message(contents=value(buffer=pb.Bytes(inline=b"x")))),
    "frame that is not there": value(tuple=pb.Items(parts=[value(buffer=pb.Bytes(frame=2**32 - 1))])),
    "odd dict": value(dict=pb.Table(keys=[value(integer=1)])),
    "unhashable key": value(dict=pb.Table(keys=[value(list=pb.Items())], values=[value(integer=1)])),
    "set of lists": value(set=pb.Items(parts=[value(list=pb.Items())])),
    "range of text": value(range=pb.Span(start=value(text="a"), stop=value(integer=1), step=value(integer=1))),
    "range by zero": value(range=pb.Span(start=value(integer=0), stop=value(integer=1), step=value(integer=0))),
    "short slice": value(slice=pb.Span(start=value(integer=0))),
    "slice with many parts": value(composite=pb.Composite(code=7, parts=[value(integer=0)] * 4)),
    "full ellipsis": value(composite=pb.Composite(code=8, parts=[value(integer=0)])),
    "dtype": value(dtype=pb.Dtype(name="complex1024")),
    "device": value(device=pb.Device(kind="cpu:1")),
    "device without kind": value(device=pb.Device()),
    "array of objects": value(array=pb.Array(dtype="|O", shape=[1], data=pb.Bytes(inline=bytes(8)))),
    "request of lists": value(object_request_message=pb.ObjectRequestMessage(contents=[value(list=pb.Items())])),
    "batch of numbers": value(batch_message=pb.BatchMessage(contents=[value(integer=1)])),
    "wrapper of a number": value(wrapper=pb.Wrapper(child=value(integer=1))),
    "tag twice": value(string=pb.String(text="a", id=pb.Id(number=1), tags=pb.Tags(words=["a", "a"]))),
}


@pytest.mark.parametrize("name", ABSENT)
def test_messages_that_describe_nothing(name):
    refused(message(ABSENT[name]))


def test_composites_of_every_code_with_wrong_parts():
    for code in sorted({*typed_messages.KINDS, *VALUES, 47, 48, 49, 161, 162}):
        for parts in ([], [value(integer=1)], [value(text="a")] * 4, [value(list=pb.Items())] * 8):
            harmless(message(value(composite=pb.Composite(code=code, parts=parts))))


@pytest.mark.parametrize("name", typed_messages.BY_NAME)
def test_empty_messages_of_every_kind(name):
    empty = pb.Value()
    getattr(empty, name).SetInParent()
    harmless(message(empty))
    with pytest.raises(SerdeError):
        protobuf.deserialize(message(field(typed_messages.BY_NAME[name].code + typed_messages.OFFSET, b"\xff\xff")))


def test_a_plan_with_too_many_operations_is_refused_before_it_is_rebuilt(hook):
    typed = protobuf.serialize(plans()[0], force_no_serialization=True)
    operation = typed.value.plan.program.operations[0]
    typed.value.plan.program.operations.extend([operation] * 50)
    # Errors inside an operation are not detected: it is not rebuilt.
    typed.value.plan.program.operations[5].cmd_args.add().integer = 1
    composite = value(composite=pb.Composite(code=100))
    for part in (1, 2, 3, 4):
        composite.composite.parts.add().integer = part
    program = composite.composite.parts.add().tuple
    program.parts.add().tuple.SetInParent()
    program.parts.add().tuple.parts.extend([value(integer=1)] * 50)
    for data in (protobuf.serialize(typed, NONE, simplified=True), message(composite)):
        with sy.config.override(max_plan_operations=20), pytest.raises(MalformedPlanError, match="at most 20"):
            protobuf.deserialize(data)


# Tensors


def tensor(dtype: str = "float32", shape: Any = (4,), data: bytes = bytes(16)) -> pb.Value:
    return value(
        tensor=pb.Tensor(format="raw", data=pb.TensorData(dtype=dtype, shape=shape, data=pb.Bytes(inline=data)))
    )


def test_a_hand_written_tensor():
    assert protobuf.deserialize(message(tensor())).tolist() == [0, 0, 0, 0]


@pytest.mark.parametrize(
    "shape", [(), (0,), (3,), (5,), (2, 3), (2**33,), (2**40, 2**40), (2**63 - 1,), (2**63,), (2**64 - 1,), (1,) * 65]
)
def test_no_room_is_made_before_the_size_is_checked(shape):
    before = peak()
    refused(message(tensor(shape=shape)))
    assert peak() - before < 10**8


@pytest.mark.parametrize("dtype", ["", "object", "qint8", "torch.float32", "float32 ", "double", "bits1", "é" * 100])
def test_dtypes_that_can_not_travel(dtype):
    refused(message(tensor(dtype=dtype)))


def test_booleans_that_are_neither():
    refused(message(tensor("bool", (2,), b"\x00\x02")))


def test_gradients_that_do_not_fit():
    for grad in (value(integer=1), tensor(shape=(2, 2)), tensor("int32")):
        bad = tensor()
        bad.tensor.requires_grad = True
        bad.tensor.grad.CopyFrom(grad)
        refused(message(bad))
    bad = tensor("int64", (2,))
    bad.tensor.requires_grad = True
    refused(message(bad))


def test_keys_of_one_hash_do_not_hang():
    prime = 2**61 - 1
    keys = [prime * i for i in range(1, 20_000)]
    start = time.thread_time()
    refused(protobuf.serialize(keys, force_no_compression=True).replace(b"\xb2\x01", b"\xc2\x01", 1), "one hash")
    assert time.thread_time() - start < 5
    honest = set(range(20_000)) | {f"{i}" for i in range(20_000)}
    assert protobuf.deserialize(protobuf.serialize(honest)) == honest


def test_memory_stays_near_the_size_of_the_message():
    data = protobuf.serialize([torch.zeros(5_000_000) for _ in range(4)], NONE)
    before = peak()
    protobuf.deserialize(data)
    assert peak() - before < 1.3 * len(data)
