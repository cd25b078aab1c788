"""The protobuf strategy: every type by both strategies, the documented functions, and the structure of the bytes."""

from __future__ import annotations

import collections
import dataclasses
import math
import os
import pathlib
import re
import subprocess
import sys
import threading

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

import syft as sy
from syft.core.object import AbstractObject, Bufferizable
from syft.core.references import Ref
from syft.exceptions import GetNotPermittedError, ResponseSignatureError, SerdeError, SpentPointerError
from syft.messaging import message as m
from syft.messaging.plan import Plan, State, func2plan
from syft.messaging.protocol import Protocol
from syft.serde import Buffer, msgpack, protobuf, register, registry, table, unregister
from syft.serde.msgpack.serde import MAX_DEPTH
from syft.serde.protobuf import engine, envelope, typed_messages
from syft.serde.protobuf import serde as protobuf_serde
from syft.serde.protobuf.proto import get_protobuf_id, set_protobuf_id
from syft.serde.protobuf.schema import syft_pb2 as pb
from syft.serde.protobuf.torch_serde import protobuf_tensor_deserializer, protobuf_tensor_serializer
from syft.tensors.placeholder import PlaceHolder
from tests.helpers.serde.protobuf_samples import VALUES, WIDE, chains, exact, plans, protocol, roles, scripts
from tests.helpers.serde.round_trips import (
    EXAMPLES,
    FORMATS,
    MESSAGE_TYPES,
    assert_same,
    dtypes,
    filled,
    objects,
    shapes,
    views,
    worker,
)
from tests.messaging.test_message import MESSAGES
from tests.serde.test_native import nest, same_types

pytestmark = pytest.mark.filterwarnings("ignore:ComplexHalf")
SCALARS = {1: "double", 4: "uint64", 8: "bool", 9: "string", 12: "bytes", 13: "uint32", 18: "sint64"}
CASES = [(code, index) for code in VALUES for index in range(len(VALUES[code]))]


def roundtrip(obj, sender=None, receiver=None):
    """Send an object by both strategies, see that the results are the same, and return one of them."""
    got = sy.deserialize(
        sy.serialize(obj, sender, strategy=protobuf.serialize), receiver, strategy=protobuf.deserialize
    )
    also = sy.deserialize(sy.serialize(obj, sender), receiver)
    assert type(got) is type(also)
    assert exact(got) == exact(also)
    return got


@pytest.mark.parametrize(("code", "index"), CASES)
def test_every_type_comes_back_the_same_by_both_strategies(code, index):
    obj = VALUES[code][index]
    assert registry.row_for(type(obj)).code == code
    got = roundtrip(obj)
    assert type(got) is type(obj)
    assert exact(got) == exact(obj)


def test_types_that_belong_to_a_worker(hook, bob, alice):
    me = hook.local_worker
    carol = sy.VirtualWorker(hook, id="carol-protobuf")
    try:
        for code, samples in chains(me, bob, alice).items():
            for obj in samples:
                assert registry.row_for(type(obj)).code == code
                got = roundtrip(obj, me, carol)
                assert type(got) is type(obj)
                assert exact(got) == exact(obj)
    finally:
        for known in (me, bob, alice):
            known._known_workers.pop(carol.id, None)


def test_a_pointer_sent_to_its_location_becomes_the_object(hook, bob):
    x = torch.ones(2).send(bob)
    back = protobuf.deserialize(protobuf.serialize(x, hook.local_worker), bob)
    assert back is bob._objects[x.id_at_location]
    x.get()
    with pytest.raises(SpentPointerError):
        protobuf.serialize(x, hook.local_worker)


def test_plans_run_after_the_journey(hook, bob):
    built = plans()[0]
    there = protobuf.deserialize(protobuf.serialize(built), bob)
    for plan in (there, Plan.unbufferize(bob, Plan.bufferize(bob, built))):
        result = plan(torch.tensor([1.0, 2.0]))
        assert result["a"][0].tolist() == [5] and result["a"][1].tolist() == [0, 0]
        assert result["b"][0].tolist() == [1, 2] and result["b"][1] == 2.5
    message = Plan.bufferize(bob, built)
    assert isinstance(message, pb.Plan) and message.program.operations[0].cmd_name == "torch.Tensor.mul"
    assert isinstance(State.bufferize(bob, built.state), pb.State)
    assert isinstance(PlaceHolder.bufferize(bob, PlaceHolder(id=1)), pb.PlaceHolder)


def test_protocols_run_after_the_journey(hook, bob, alice):
    got = roundtrip(protocol(), hook.local_worker, hook.local_worker)
    result = got.deploy(bob, alice).run(torch.tensor([1.5]))
    assert result.location is alice and result.get().tolist() == [6]
    assert isinstance(Protocol.bufferize(None, got), pb.Protocol)
    got = roundtrip(roles(), hook.local_worker, hook.local_worker)
    ran = got.deploy(alice=alice, bob=bob).run(alice=torch.ones(1), bob=torch.ones(1))
    assert ran.get().tolist() == [11]
    assert isinstance(type(got).bufferize(None, roles()), pb.RoleProtocol)


def test_a_plan_takes_its_translations_along(hook, bob):
    @func2plan(args_shape=[(2,)])
    def plan(x):
        return x + 1

    plan.add_translation("torchscript")
    assert plan.translations["torchscript"]
    back = roundtrip(plan, hook.local_worker, bob)
    assert back.translations == plan.translations
    again = Plan.unbufferize(bob, Plan.bufferize(bob, plan))
    assert again.translations == plan.translations


def test_scripts_need_trust():
    trusting = worker(trusts_script_modules=True)
    for code, (obj,) in scripts().items():
        assert registry.row_for(type(obj)).code == code
        data = protobuf.serialize(obj)
        assert protobuf.deserialize(data, trusting)(torch.ones(2)).tolist() == [2, 2]
        with pytest.raises(SerdeError, match="trusts_script_modules"):
            protobuf.deserialize(data)


def test_a_worker_with_all_it_holds(hook, bob):
    x = torch.ones(2).send(bob)
    data = protobuf.serialize(bob, force_full_simplification=True)
    copy = protobuf.deserialize(data, hook.local_worker)
    assert copy is not bob and torch.equal(copy._objects[x.id_at_location], torch.ones(2))


# Errors that are answers: reading one raises it.
RAISED = {173: GetNotPermittedError("refused: é"), 174: ResponseSignatureError((1, "two"))}


@pytest.mark.parametrize("code", RAISED)
def test_errors_that_are_answers_are_raised(code):
    error = RAISED[code]
    assert registry.row_for(type(error)).code == code
    with pytest.raises(type(error)) as raised:
        protobuf.deserialize(protobuf.serialize(error))
    assert str(raised.value) == str(error) and vars(raised.value) == vars(error)


def test_no_type_of_the_library_is_left_out(hook, bob, alice):
    covered = {*VALUES, *chains(hook.local_worker, bob, alice), *scripts(), 162, *RAISED}
    assert {code for code, _ in table() if code < registry.FIRST_USER_CODE} == covered


def test_the_numbers_of_the_schema_are_wire_codes():
    for kind in typed_messages.BY_NAME.values():
        assert kind.code in registry.BY_CODE, kind.name
    numbers = {name: field.number for name, field in pb.Value.DESCRIPTOR.fields_by_name.items()}
    assert (numbers["tensor"], numbers["operation"], numbers["pointer_tensor"]) == (60, 141, 101)
    # A message that stands inside another must belong to one type.
    inside = {
        field.message_type.name
        for message in pb.DESCRIPTOR.message_types_by_name.values()
        if message.name != "Value"
        for field in message.fields
        if field.message_type is not None
    }
    for name in inside:
        owners = [kind for kind in typed_messages.BY_NAME.values() if kind.message.DESCRIPTOR.name == name]
        assert len(owners) <= 1, name


@EXAMPLES
@given(objects)
def test_nested_python_objects(obj):
    back = roundtrip(obj)
    assert back == obj
    assert same_types(back, obj)


@EXAMPLES
@given(MESSAGES)
def test_messages(message):
    back = roundtrip(message)
    assert type(back) is type(message) and back == message
    again = type(message).unbufferize(None, message.bufferize(None, message)) if hasattr(message, "bufferize") else back
    assert again == message
    if isinstance(message, m.Message):
        batch = m.BatchMessage((message,) * 2)
        assert roundtrip(batch) == batch


@EXAMPLES
@given(dtypes, shapes, st.integers(0, 99), st.booleans())
def test_tensors(dtype, shape, seed, requires_grad):
    tensor = filled(dtype, shape, seed)
    if requires_grad and (dtype.is_floating_point or dtype.is_complex):
        tensor.requires_grad_()
    got = protobuf.deserialize(protobuf.serialize(tensor))
    assert_same(got, tensor)
    assert_same(protobuf_tensor_deserializer(None, protobuf_tensor_serializer(None, tensor)), tensor.detach())


@pytest.mark.parametrize("name", FORMATS)
@pytest.mark.parametrize("view", views(torch.arange(24.0).reshape(4, 6)))
def test_tensor_formats_and_layouts(name, view):
    tensor = views(torch.arange(24.0).reshape(4, 6))[view]
    sender = worker(serializer=name)
    assert_same(roundtrip(tensor, sender), tensor.contiguous())
    assert protobuf.serialize(tensor, sender, force_no_serialization=True).value.tensor.format == name


@pytest.mark.parametrize(
    "value", [2**63 - 1, -(2**63), 2**63, -(2**63) - 1, 2**64, 2**127, -(2**127), 2**503, -(2**503), 2**511 - 1]
)
def test_ints_of_any_size(value):
    assert roundtrip(value) == value
    assert roundtrip([value, {value: value}]) == [value, {value: value}]


def test_ints_beyond_the_limit_and_text_that_is_not_unicode_are_refused():
    for value in (2**511, -(2**511), "\ud800", {"\ud800": 1}, sy.String("\ud800"), m.RetainMessage(2**300)):
        with pytest.raises(SerdeError):
            protobuf.serialize(value)


def test_floats_keep_sign_and_nan():
    assert math.copysign(1, roundtrip(-0.0)) == -1
    assert math.isnan(roundtrip(float("nan")))
    assert roundtrip((math.inf, -math.inf)) == (math.inf, -math.inf)


@pytest.mark.parametrize("scheme", ["none", "lz4", "zstd"])
def test_compression(scheme):
    obj = [torch.zeros(10_000), "text" * 1000]
    sender = worker(compression=scheme)
    data = protobuf.serialize(obj, sender)
    assert data[0] == {"none": 40, "lz4": 41, "zstd": 42}[scheme]
    assert (len(data) > 40_000) is (scheme == "none")
    back = protobuf.deserialize(data)
    assert torch.equal(back[0], obj[0]) and back[1] == obj[1]
    assert protobuf.serialize(obj, sender, force_no_compression=True)[0] == 40


def test_the_bytes_are_an_envelope_that_any_protobuf_reader_takes():
    obj = {"a": [torch.arange(3.0), torch.zeros(5000)], "b": b"x" * 9000}
    data = protobuf.serialize(obj, force_no_compression=True)
    message = pb.Envelope.FromString(data[1:])
    assert message.SerializeToString() == data[1:]
    assert message.version == 1
    assert [len(frame) for frame in message.frames] == [20_000, 9000]
    tensors = message.value.dict.values[0].list.parts
    assert tensors[0].tensor.data.data.inline == np.arange(3, dtype="<f4").tobytes()
    assert (tensors[1].tensor.data.dtype, list(tensors[1].tensor.data.shape)) == ("float32", [5000])


def test_message_objects_instead_of_bytes():
    obj = [torch.zeros(5000), 1]
    message = protobuf.serialize(obj, force_no_serialization=True)
    assert isinstance(message, pb.Envelope)
    data = protobuf.serialize(obj)
    assert protobuf.deserialize(data, unbufferizes=False) == message
    assert protobuf.serialize(message, simplified=True) == data
    assert protobuf.deserialize(protobuf.serialize(pb.Value(integer=5), simplified=True)) == 5
    for wrong in (5, pb.Id(number=1), pb.Envelope(version=2)):
        with pytest.raises(SerdeError):
            protobuf.serialize(wrong, simplified=True)


def test_anything_may_be_outermost():
    for obj in (None, False, 0, "", b"", (), [], {}, torch.ones(1), Ref(0), torch.float32):
        assert exact(protobuf.deserialize(protobuf.serialize(obj))) == exact(obj)


def test_depth():
    for levels in (31, 32, 33, 34, 64, 65, 97, MAX_DEPTH):
        assert roundtrip(nest(levels)) == nest(levels)
        obj = m.Message(1)
        for _ in range(levels - 1):
            obj = m.Message(obj)
        assert roundtrip(obj) == obj
    with pytest.raises(SerdeError, match="deeper"):
        protobuf.serialize(nest(MAX_DEPTH + 1))


def test_depth_through_messages_that_stand_inside_others():
    obj = 1
    for _ in range((MAX_DEPTH - 2) // 2):
        obj = m.Operation("x", None, (), {"a": obj}, ())
    assert roundtrip(obj) == obj
    grad = torch.ones(1)
    for _ in range(40):
        tensor = torch.ones(1, requires_grad=True)
        tensor.grad = grad
        grad = tensor
    assert exact(protobuf.deserialize(protobuf.serialize(grad))) == exact(grad)


def test_cycles_are_refused():
    loop: list = []
    loop.append(loop)
    with pytest.raises(SerdeError, match="contains itself"):
        protobuf.serialize(loop)


def test_a_failed_write_leaves_nothing_behind():
    for bad in ([torch.ones(5000), 2**600], [nest(60), 2**600]):
        with pytest.raises(SerdeError):
            protobuf.serialize(bad)
    assert roundtrip(5) == 5


class Point:
    def __init__(self, x, y):
        self.x, self.y = x, y

    @staticmethod
    def simplify(worker, point):
        return point.x, point.y

    @staticmethod
    def detail(worker, parts):
        return Point(*parts)


@pytest.fixture
def point():
    register(Point, code=1000)
    yield Point
    unregister(Point)


def test_types_of_users(point):
    back = roundtrip([Point({"a": 1}, Point(torch.ones(2), None))])[0]
    assert type(back) is Point and type(back.y) is Point
    data = protobuf.serialize(Point(1, 2))
    unregister(Point)
    with pytest.raises(SerdeError, match="1000"):
        protobuf.deserialize(data)
    with pytest.raises(SerdeError, match="register"):
        protobuf.serialize(Point(1, 2))
    register(Point, code=1000)


def test_buffers_of_users_arrive_as_views():
    for size in (3, 5000):
        register(
            Point,
            code=1000,
            simplify=lambda worker, point: (Buffer(bytes(point.x)), (1, Buffer(b"in a tuple"))),
            detail=lambda worker, parts: parts,
        )
        try:
            outer, (one, inner) = protobuf.deserialize(protobuf.serialize(Point(size, 2)))
            assert type(outer) is memoryview and outer == bytes(size) and outer.readonly
            assert one == 1 and inner == b"in a tuple"
        finally:
            unregister(Point)


def test_a_screen_sees_the_same_by_both_strategies():
    seen = []
    register(Point, code=1000, screen=seen.append)
    try:
        obj = Point((1, [2.5, "a"], (b"x", True, None)), {"a": Ref(1)})
        for strategy in (msgpack, protobuf):
            strategy.deserialize(strategy.serialize(obj))
        assert seen[0] == seen[1] == (1000, (1, 1, (2, 2.5, "a"), (1, b"x", True, None)), (3, "a", (86, 1, None)))
        for levels in (31, 32):  # packed or not
            obj = Point((1, 2), 3)
            for _ in range(levels):
                obj = [obj]
            protobuf.deserialize(protobuf.serialize(obj))
            assert seen[-1] == (1000, (1, 1, 2), 3)
    finally:
        unregister(Point)


def test_a_screen_that_refuses_or_fails():
    def fails(parts):
        raise ZeroDivisionError

    register(Point, code=1000, screen=fails)
    try:
        with pytest.raises(SerdeError, match="valid Point"):
            protobuf.deserialize(protobuf.serialize(Point(1, 2)))
    finally:
        unregister(Point)


def test_complete_form():
    register(
        Point,
        code=1000,
        simplify=lambda worker, obj: ("short",),
        detail=lambda worker, parts: parts[0],
        forced_code=1001,
        force_simplify=lambda worker, obj: ("complete",),
        force_detail=lambda worker, parts: parts[0],
    )
    try:
        for full, wanted in ((False, "short"), (True, "complete")):
            data = sy.serialize(Point(1, 2), force_full_simplification=full, strategy=protobuf.serialize)
            assert sy.deserialize(data, strategy=protobuf.deserialize) == wanted
    finally:
        unregister(Point)
    assert protobuf.deserialize(protobuf.serialize([1], force_full_simplification=True)) == [1]


def test_a_simplifier_must_return_a_tuple():
    register(Point, code=1000, simplify=lambda worker, obj: [1], detail=lambda worker, parts: None)
    try:
        with pytest.raises(SerdeError, match="tuple"):
            protobuf.serialize(Point(1, 2))
    finally:
        unregister(Point)


def test_unregistered_classes_are_refused_by_name():
    Pair = collections.namedtuple("Pair", "x y")
    for obj in (object(), Pair(1, 2), collections.OrderedDict(), len, torch.nn.Linear(1, 1)):
        with pytest.raises(SerdeError, match=type(obj).__name__):
            protobuf.serialize([obj])


def test_parts_that_do_not_fit_their_message_are_refused():
    for bad in (
        m.IsNoneMessage("no ref"),
        m.ObjectMessage(torch.ones(1), obj_id=1.5),
        m.HandOverMessage(1, 2, 3, "yes"),
        m.Operation(cmd_name=5),
        m.Operation("torch.add", None, [1], {}, ()),
        m.Operation("torch.add", None, (), {}, (1.5,)),
        m.ErrorMessage((1, 2, 3)),
        m.SearchMessage("word"),
        m.RetainMessage(True),
        sy.String("a", id=1, tags=["x"]).tag(5),
    ):
        with pytest.raises(SerdeError):
            protobuf.deserialize(protobuf.serialize(bad))


# bufferize and unbufferize


def subclasses(cls):
    return {cls}.union(*(subclasses(sub) for sub in cls.__subclasses__()))


def test_every_class_has_both_methods(hook, bob, alice):
    found = {State} | subclasses(AbstractObject) | subclasses(m.Message)
    kinds_of_objects = [cls for cls in found if cls in registry.BY_TYPE]
    assert len(kinds_of_objects) >= 30
    for cls in kinds_of_objects:
        assert issubclass(cls, Bufferizable) and callable(cls.bufferize) and callable(cls.unbufferize)
    samples = {**{code: VALUES[code] for code in range(120, 137)}, **chains(hook.local_worker, bob, alice)}
    carol = sy.VirtualWorker(hook, id="carol-bufferize")
    try:
        for code, objs in samples.items():
            for obj in objs:
                if not isinstance(obj, Bufferizable):
                    continue
                message = type(obj).bufferize(hook.local_worker, obj)
                assert isinstance(
                    message, typed_messages.KINDS[code].message if code in typed_messages.KINDS else pb.Composite
                )
                back = type(obj).unbufferize(carol, type(message).FromString(message.SerializeToString()))
                assert type(back) is type(obj)
                assert exact(back) == exact(obj)
    finally:
        for known in (hook.local_worker, bob, alice):
            known._known_workers.pop(carol.id, None)


def test_documented_messages(hook, bob):
    x = torch.ones(2).send(bob)
    pointer = sy.PointerTensor.bufferize(hook.local_worker, x.child)
    assert isinstance(pointer, pb.Pointer) and get_protobuf_id(pointer.location) == bob.id
    assert pointer.garbage_collect_data and pointer.meta.dtype.name == "float32"
    assert isinstance(m.Operation.bufferize(None, m.Operation("torch.add")), pb.Operation)
    held = m.ObjectMessage.bufferize(None, m.ObjectMessage(torch.ones(5000)))
    assert isinstance(held, pb.ObjectMessage)
    assert torch.equal(m.ObjectMessage.unbufferize(None, held).contents, torch.ones(5000))


def test_a_large_tensor_fits_in_a_message_object():
    tensor = torch.arange(10_000_000, dtype=torch.float32)
    back = m.Message.unbufferize(None, m.Message.bufferize(None, m.Message(tensor)))
    assert torch.equal(back.contents, tensor)


def test_a_class_without_a_typed_message_gets_a_composite():
    class Thing(AbstractObject):
        @staticmethod
        def simplify(worker, thing):
            return (thing.id,)

        @staticmethod
        def detail(worker, parts):
            return Thing(id=parts[0])

    with pytest.raises(SerdeError, match="register"):
        Thing.bufferize(None, Thing())
    register(Thing, code=1000)
    try:
        message = Thing.bufferize(None, Thing(id="t"))
        assert isinstance(message, pb.Composite) and message.code == 1000
        assert Thing.unbufferize(None, message).id == "t"
        with pytest.raises(SerdeError, match="999"):
            Thing.unbufferize(None, pb.Composite(code=999))
        with pytest.raises(SerdeError, match="Composite"):
            Thing.unbufferize(None, pb.Ref())
    finally:
        unregister(Thing)


def test_unbufferize_refuses_other_messages_and_unexpected_fields():
    for wrong in (pb.Ref(), pb.Value(), None, b"", pb.RetainMessage()):
        with pytest.raises(SerdeError):
            m.Operation.unbufferize(None, wrong)
    with pytest.raises(SerdeError, match="unknown fields"):
        m.RetainMessage.unbufferize(None, pb.RetainMessage.FromString(b"\x0a\x02\x08\x05\x98\x06\x01"))
    framed = pb.Message()
    framed.contents.tensor.data.data.frame = 0
    framed.contents.tensor.format = "raw"
    with pytest.raises(SerdeError, match="frame"):
        m.Message.unbufferize(None, framed)


# The documented functions


@EXAMPLES
@given(st.integers(-(2**256) + 1, 2**256 - 1) | st.text(max_size=256))
def test_ids(obj_id):
    field = pb.Id()
    set_protobuf_id(field, obj_id)
    back = get_protobuf_id(pb.Id.FromString(field.SerializeToString()))
    assert back == obj_id and type(back) is type(obj_id)


@pytest.mark.parametrize("obj_id", [0, 2**64 - 1, 2**64, 2**128 - 1, 2**128, -1, -(2**255), "", "é" * 256])
def test_ids_at_the_edges(obj_id):
    field = pb.Id()
    set_protobuf_id(field, obj_id)
    assert get_protobuf_id(field) == obj_id


def test_ids_that_are_none():
    for wrong in (None, 1.5, True, b"x", (1,), 2**256, -(2**256)):
        with pytest.raises(SerdeError):
            set_protobuf_id(pb.Id(), wrong)
    for field in (
        pb.Id(),
        pb.Id(wide=b""),
        pb.Id(wide=bytes(16)),
        pb.Id(wide=b"\xff" * 17),
        pb.Id(other=b""),
        pb.Id(other=b"\x05"),
        pb.Id(other=b"\xff\xff"),
        pb.Id(other=b"\x01" * 40),
        pb.Id(name="x" * 257),
    ):
        with pytest.raises(SerdeError):
            get_protobuf_id(field)


def test_tensor_data():
    message = protobuf_tensor_serializer(None, torch.arange(6, dtype=torch.int16).reshape(2, 3))
    assert (message.dtype, list(message.shape)) == ("int16", [2, 3])
    assert message.data.inline == np.arange(6, dtype="<i2").tobytes()
    for wrong in (None, pb.Tensor(), pb.TensorData(), pb.TensorData(dtype="float32", shape=[2], data=message.data)):
        with pytest.raises(SerdeError):
            protobuf_tensor_deserializer(None, wrong)


def test_too_many_plain_values_are_refused_with_advice(monkeypatch):
    monkeypatch.setattr(envelope, "MAX_FRAMES", 3)
    with pytest.raises(SerdeError, match="send fewer"):
        protobuf.serialize([torch.zeros(2000) for _ in range(4)])
    with pytest.raises(SerdeError, match="send large data as tensors"):
        envelope.to_bytes(pb.Value(text="x" * 100), 50)
    assert engine.LEVELS_IN_ONE_PIECE * 2 + 10 < 100


def test_many_threads():
    problems = []

    def work(seed):
        for i in range(50):
            value = [torch.full((2000,), seed * 1000 + i), 2**100 + seed, nest(50)]
            back = protobuf.deserialize(protobuf.serialize(value))
            if not (torch.equal(back[0], value[0]) and back[1:] == value[1:]):
                problems.append(seed)

    threads = [threading.Thread(target=work, args=(seed,)) for seed in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not problems


LAZY = """
import sys, syft as sy
assert not [name for name in sys.modules if name.startswith("google")]
sy.deserialize(sy.serialize([1]))
sy.String.bufferize, sy.serde.protobuf
assert not [name for name in sys.modules if name.startswith("google")]
data = sy.serialize([1], strategy=sy.serde.protobuf.serialize)
assert sy.deserialize(data, strategy=sy.serde.protobuf.deserialize) == [1]
assert sy.serde.protobuf.proto.set_protobuf_id and sy.serde.protobuf.torch_serde.protobuf_tensor_serializer
"""


def test_protobuf_is_loaded_only_when_used():
    subprocess.run([sys.executable, "-c", LAZY], check=True, timeout=100)
    with pytest.raises(AttributeError, match="nothing"):
        protobuf.nothing


def test_the_slow_runtime_of_protobuf_reads_and_writes_the_same():
    code = (
        "import sys, torch; from syft.serde import protobuf; from google.protobuf.internal import api_implementation\n"
        "assert api_implementation.Type() == 'python'\n"
        "data = sys.stdin.buffer.read(); obj = protobuf.deserialize(data)\n"
        "sys.stdout.buffer.write(protobuf.serialize(obj))"
    )
    obj = [
        torch.arange(2000.0),
        nest(90),
        {"a": (None, 2**100, "é", -0.0)},
        m.Operation("x", None, (Ref(WIDE),), {}, (1,)),
    ]
    data = protobuf.serialize(obj)
    done = subprocess.run(
        [sys.executable, "-c", code],
        input=data,
        capture_output=True,
        check=True,
        timeout=100,
        env={**os.environ, "PROTOCOL_BUFFERS_PYTHON_IMPLEMENTATION": "python"},
    )
    assert done.stdout == data


def test_the_generated_code_is_made_from_the_schema():
    schema = pathlib.Path(pb.__file__).with_name("syft.proto").read_text()
    written = {}
    for name, body in re.findall(r"^message (\w+) \{\n(.*?)^\}", schema, re.M | re.S):
        fields = re.findall(r"^ +((?:optional |repeated )?)(\w+) (\w+) = (\d+);", body, re.M)
        written[name] = [(kind, name, int(number), label.strip()) for label, kind, name, number in fields]
    assert written == {message.name: described(message) for message in pb.DESCRIPTOR.message_types_by_name.values()}


def described(message):
    """Return (type, name, number, label) of each field of a message, as the schema writes them."""
    rows = []
    for field in message.fields:
        kind = field.message_type or field.enum_type
        oneof = field.containing_oneof
        optional = oneof is not None and oneof.name.startswith("_")
        label = "repeated" if field.is_repeated else "optional" if optional else ""
        rows.append((kind.name if kind else SCALARS[field.type], field.name, field.number, label))
    return rows


def test_the_documented_paths():
    assert protobuf.serialize is protobuf_serde.serialize and protobuf.deserialize is protobuf_serde.deserialize
    assert all(dataclasses.is_dataclass(kind) and not kind.__dictoffset__ for kind in MESSAGE_TYPES)
