"""Calls as records: round trips, and hostile bytes raise SerdeError and nothing else."""

import random
import struct
import subprocess
import sys
from pathlib import Path

import msgpack
import numpy as np
import pytest
import torch
from hypothesis import example, given, settings
from hypothesis import strategies as st

import syft as sy
from syft.core.references import Ref
from syft.exceptions import SerdeError
from syft.grid.isolation.records import record_reader, records
from syft.grid.isolation.records.call_codec import operation_of, read_blob, write_blob, write_call, write_put
from syft.grid.isolation.records.record_reader import read_call, read_record
from syft.grid.isolation.records.records import (
    BlobAt,
    CallRecord,
    DeleteRecord,
    LoadRecord,
    Named,
    PutRecord,
    Size,
    encode,
)
from syft.messaging.message import Operation
from syft.serde import serialize

ID = 2**127 + 5


def _through(operation):
    written = write_call(operation)
    read = read_call(encode(written))
    assert read == written
    return operation_of(read)


# --- round trips --------------------------------------------------------------------------------------------------


def test_call_of_references_and_numbers_round_trips():
    operation = Operation("torch.Tensor.add", None, (Ref(ID), 3, 2.5, True, None), {"alpha": 2}, (ID + 1,), False)
    assert _through(operation) == operation


@pytest.mark.parametrize(
    "value",
    [
        None, True, -1, 2**63 - 1, -(2**63), 2**63, -(2**63) - 1, 2**255, -0.0, 1e300, float("inf"), 1 + 2j, "sum", "",
        "ü\n", (), [], {}, (1, [2, {"a": (3,), 4: None}]), slice(1, None, -2), slice(Ref(7), Ref("x"), None), ...,
        range(2, 30, 4), torch.float32, torch.bits8, torch.device("cpu"), torch.device("cuda", 1), torch.sparse_coo,
        torch.channels_last, torch.Size([2, 0, 3]), Ref(5), Ref(0), Ref("bob"), Ref(-3), Ref(2**200), Ref(ID, "grad"),
        Ref(1, "grad.T"), [Ref(ID), (Ref(3), 4)], "x" * 5000, list(range(1000)), {"k": list(range(500))},
        {ID: 1, (1, 2): 3}, range(2**70), b"abc", bytearray(b"x" * 9000), {1, 2},
    ],
    ids=lambda value: repr(value)[:30],
)  # fmt: skip
def test_every_kind_of_argument_round_trips(value):
    operation = Operation("torch.foo", None, (value,), {"key": value}, ("a", 3, 2**130))
    found = _through(operation)
    assert found == operation
    assert type(found.cmd_args[0]) is type(value)
    assert repr(found) == repr(operation)


def test_tensors_and_arrays_are_sent_as_blobs():
    tensor = torch.arange(6.0).reshape(2, 3).requires_grad_()
    operation = Operation("torch.cat", None, ([Ref(ID), tensor, np.arange(3)],), {"out": torch.nn.Parameter(tensor)})
    record = read_call(encode(write_call(operation)))
    assert record.args == ([Ref(ID), BlobAt(0), BlobAt(1)],)
    assert [(blob.kind, blob.spec) for blob in record.blobs] == [
        ("tensor", "float32 (2, 3)"), ("ndarray", ""), ("parameter", "float32 (2, 3)"),
    ]  # fmt: skip
    found = operation_of(record)
    assert torch.equal(found.cmd_args[0][1], tensor)
    assert found.cmd_args[0][1].requires_grad
    assert type(found.cmd_kwargs["out"]) is torch.nn.Parameter


def test_named_tuples_of_torch_become_tuples():
    result = torch.ones(2, 2).max(dim=0)
    found = _through(Operation("torch.cat", None, (result,)))
    assert type(found.cmd_args[0]) is tuple
    assert torch.equal(found.cmd_args[0][0], result[0])


def test_a_plan_is_a_blob_that_runs_again():
    @sy.func2plan(args_shape=[(2,)])
    def double(x):
        return x * 2

    record = read_record(encode(write_put(ID, double)))
    assert (record.obj_id, record.blob.kind, record.blob.spec) == (ID, "plan", "1 operations")
    assert torch.equal(read_blob(record.blob)(torch.ones(2)), torch.full((2,), 2.0))


@pytest.mark.parametrize(
    "record",
    [
        PutRecord("mine", write_blob(torch.ones(3))),
        DeleteRecord((1, "b", ID, -4, 2**200)),
        DeleteRecord(()),
        LoadRecord(ID, "patients", "float32 (100, 3)", 100),
        LoadRecord("x"),
    ],
    ids=lambda record: type(record).__name__,
)
def test_other_records_round_trip(record):
    assert read_record(encode(record)) == record
    with pytest.raises(SerdeError, match="where a call was expected"):
        read_call(encode(record))


def test_large_blobs_are_not_copied():
    record = write_call(Operation("torch.cat", None, (torch.zeros(2**20),)))
    frame = encode(record)
    view = read_call(frame).blobs[0].data
    assert isinstance(view, memoryview)
    assert view.obj is frame
    assert view.readonly


def test_arguments_that_can_not_be_serialized_are_refused():
    deep = []
    for _ in range(20):
        deep = [deep]
    for value in (object(), 2**300, deep, {(1, 2): Ref(3)}, [Ref(1)] * 9000, "\ud800"):
        with pytest.raises(SerdeError):
            encode(write_call(Operation("torch.foo", None, (value,))))


# --- refusals of a vault -----------------------------------------------------------------------------------------


def test_a_blob_of_another_kind_is_refused():
    good = write_call(Operation("torch.cat", None, (torch.ones(1),)))
    blob = good.blobs[0]
    lying = CallRecord(good.name, good.args, {}, (), True, (records.Blob("plan", "", blob.data),))
    with pytest.raises(SerdeError, match="kind 'plan' holds a 'tensor'"):
        operation_of(lying)


@pytest.mark.parametrize("hidden", [[Ref(1)], (1, {"a": Ref(2)}), [[slice(Ref(3))]]], ids=repr)
def test_references_hidden_in_a_blob_are_refused(hidden):
    kind = type(hidden).__name__
    record = CallRecord("torch.cat", (BlobAt(0),), blobs=(records.Blob(kind, "", serialize(hidden)),))
    with pytest.raises(SerdeError, match="holds a reference"):
        operation_of(read_call(encode(record)))


@pytest.mark.parametrize("named", [Named("dtype", "float31"), Named("device", "moon"), Named("layout", "x")], ids=repr)
def test_unknown_names_pass_the_reader_and_are_refused_by_the_vault(named):
    record = read_call(encode(CallRecord("torch.zeros", (named,))))
    with pytest.raises(SerdeError, match="There is no"):
        operation_of(record)


# --- hostile bytes ------------------------------------------------------------------------------------------------


def _frame(header, body=b""):
    packed = msgpack.packb(header)
    return struct.pack(">I", len(packed)) + packed + body


def _call(name="torch.add", grad=True, ids=(), args=(), kwargs=(), blobs=(), body=b""):
    return _frame([1, 1, name, grad, ids, args, kwargs, blobs], body)


def _nested(depth):
    value = 1
    for _ in range(depth):
        value = [records.LIST, value]
    return value


BAD = {
    "empty": b"",
    "short": b"\0\0",
    "header beyond the end": struct.pack(">I", 2**31) + b"x",
    "no array": _frame(3),
    "map": _frame([1, 1, {}]),
    "version": _frame([2, 1]),
    "true for a version": _frame([True, True, "torch.add", True, [], [], [], []]),
    "kind": _frame([1, 9]),
    "kind as float": _frame([1, 1.0, "torch.add", True, [], [], [], []]),
    "fields": _frame([1, 1, "torch.add"]),
    "name": _call(name="torch.add\nimport os"),
    "long name": _call(name="a" * 201),
    "name of another type": _call(name=3),
    "flag": _call(grad=1),
    "id of 15 bytes": _call(ids=[b"x" * 15]),
    "true for an id": _call(ids=[True]),
    "float for an id": _call(ids=[1.0]),
    "long id": _call(ids=["a" * 257]),
    "wide id": _call(ids=[[records.INT, b"\x01" * 40]]),
    "many ids": _call(ids=[1] * 9000),
    "depth": _call(args=[_nested(17)]),
    "great depth": struct.pack(">I", 2000) + b"\x91" * 2000,
    "items": _call(args=[[records.LIST, *range(100)]] * 100),
    "empty array": _call(args=[[]]),
    "tag": _call(args=[[99]]),
    "true for a tag": _call(args=[[True, 1]]),
    "text for a tag": _call(args=[["x"]]),
    "long text": _call(args=["a" * 1025]),
    "odd dict": _call(args=[[records.DICT, 1]]),
    "repeated key": _call(args=[[records.DICT, 1, 2, True, 3]]),
    "array for a key": _call(args=[[records.DICT, [records.TUPLE], 2]]),
    "attribute": _call(args=[[records.REF, 1, "__class__"]]),
    "long attribute": _call(args=[[records.REF, 1, ".".join(["T"] * 9)]]),
    "complex": _call(args=[[records.COMPLEX, 1, 2.0]]),
    "slice": _call(args=[[records.SLICE, 1, 2]]),
    "range without a step": _call(args=[[records.RANGE, 1, 2, 0]]),
    "range of floats": _call(args=[[records.RANGE, 1, 2.0, 1]]),
    "named": _call(args=[[records.NAMED, "dtype", "float32)"]]),
    "named module": _call(args=[[records.NAMED, "module", "os"]]),
    "size": _call(args=[[records.SIZE, -1]]),
    "many sizes": _call(args=[[records.SIZE, *range(65)]]),
    "missing blob": _call(args=[[records.BLOB, 0]]),
    "blob twice": _call(args=[[records.BLOB, 0]] * 2, blobs=[["tensor", "", 1]], body=b"x"),
    "unused blob": _call(blobs=[["tensor", "", 1]], body=b"x"),
    "blob beyond the end": _call(args=[[records.BLOB, 0]], blobs=[["tensor", "", 2]], body=b"x"),
    "blob of negative length": _call(args=[[records.BLOB, 0]], blobs=[["tensor", "", -1]], body=b"x"),
    "bytes behind": _call(body=b"x"),
    "blob kind": _call(args=[[records.BLOB, 0]], blobs=[["Tensor!", "", 1]], body=b"x"),
    "blob spec": _call(args=[[records.BLOB, 0]], blobs=[["tensor", "x" * 201, 1]], body=b"x"),
    "keyword without value": _call(kwargs=["a"]),
    "keyword twice": _call(kwargs=["a", 1, "a", 2]),
    "keyword name": _call(kwargs=["a b", 1]),
    "no keywords": _call(kwargs=0),
    "no blobs": _call(blobs=None),
    "array as a keyword": _call(kwargs=[[], 1]),
    "ext type": _call(args=[msgpack.ExtType(4, b"x")]),
    "timestamp": _call(args=[msgpack.Timestamp(3)]),
    "long bytes": _call(args=[b"x" * 65]),
    "short wide int": _call(args=[[records.INT, b"\x01"]]),
    "invalid utf-8": struct.pack(">I", 5) + b"\x93\x01\x01\xa1\xff",
    "two values": struct.pack(">I", 2) + b"\x01\x01",
    "put without blob": _frame([1, 2, 3, []]),
    "put with two": _frame([1, 2, 3, [["tensor", "", 1]] * 2], b"xy"),
    "delete with a body": _frame([1, 3, [1]], b"x"),
    "load rows": _frame([1, 4, 1, "n", "s", -1]),
}


@pytest.mark.parametrize("frame", BAD.values(), ids=BAD)
def test_malformed_records_are_refused(frame):
    with pytest.raises(SerdeError):
        read_record(frame)


def test_arrays_that_declare_more_than_they_hold_cost_little_memory():
    frame = struct.pack(">I", 2500) + b"\xdd\x00\x00\x1f\xff" * 500
    with pytest.raises(SerdeError):
        read_record(frame)
    with pytest.raises(SerdeError):
        read_record(struct.pack(">I", 5) + b"\xdd\xff\xff\xff\xff")


def _read_or_refuse(frame):
    try:
        record = read_record(frame)
    except SerdeError:
        return
    assert read_record(encode(record)) == record or "nan" in repr(record)


_VALUES = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**63), 2**64 - 1) | st.floats() | st.text(max_size=8) | st.binary(max_size=20),
    lambda inner: st.lists(inner, max_size=6) | st.builds(lambda tag, rest: [tag, *rest], st.integers(0, 12), st.lists(inner, max_size=4)),
    max_leaves=30,
)  # fmt: skip


@settings(max_examples=600, deadline=None)
@given(st.binary(max_size=200))
@example(b"")
def test_random_bytes_raise_nothing_else(data):
    _read_or_refuse(data)
    _read_or_refuse(struct.pack(">I", len(data)) + data)


@settings(max_examples=600, deadline=None)
@given(st.lists(_VALUES, max_size=4), st.lists(_VALUES, max_size=4), st.binary(max_size=20))
def test_random_trees_raise_nothing_else(args, kwargs, body):
    _read_or_refuse(_call(args=args, kwargs=kwargs))
    _read_or_refuse(_call(args=args, blobs=kwargs, body=body))
    _read_or_refuse(_frame([1, 2, *args], body))
    _read_or_refuse(_frame([1, 3, *args]))
    _read_or_refuse(_frame([1, 4, *args]))


def _samples():
    yield Operation("torch.Tensor.add", None, (Ref(ID), Ref(3, "grad"), 2.5), {"alpha": 2}, (ID + 1,))
    yield Operation("torch.cat", None, ([Ref(1), torch.ones(3)],), {"dim": 0, "dtype": torch.float32}, ("a", 3))
    yield Operation("torch.x", None, ((1, {"a": slice(1, 2)}, ..., range(3), 1j, torch.Size([1])), 2**90), {}, (1,))


def test_mutated_records_raise_nothing_else():
    rng = random.Random(0)
    for operation in _samples():
        frame = encode(write_call(operation))
        for _ in range(3000):
            mutated = bytearray(frame)
            for _ in range(rng.randint(1, 4)):
                at = rng.randrange(len(mutated))
                how = rng.randrange(4)
                if how == 0:
                    mutated[at] = rng.randrange(256)
                elif how == 1:
                    mutated[at] ^= 1 << rng.randrange(8)
                elif how == 2:
                    del mutated[at : at + rng.randint(1, 8)]
                else:
                    mutated[at:at] = rng.randbytes(rng.randint(1, 8))
                if not mutated:
                    break
            _read_or_refuse(bytes(mutated))


def test_every_prefix_of_a_record_is_refused():
    for operation in _samples():
        frame = encode(write_call(operation))
        for end in range(len(frame)):
            with pytest.raises(SerdeError):
                read_record(frame[:end])


def test_reading_touches_neither_torch_nor_serde():
    code = (
        "import sys, syft.grid.isolation.records.record_reader as r;"
        "frame = bytes.fromhex(sys.argv[1]);"
        "[sys.modules.pop(name) for name in list(sys.modules) if name.split('.')[0] == 'torch'];"
        "sys.modules['torch'] = None;"
        "print(r.read_call(frame).args)"
    )
    frame = encode(
        write_call(Operation("torch.zeros", None, (Ref(3),), {"dtype": torch.float32, "out": torch.ones(2)}))
    )
    ran = subprocess.run([sys.executable, "-c", code, frame.hex()], capture_output=True, text=True, timeout=120)
    assert ran.stdout.strip() == "(Ref(id=3, attribute=None),)", ran.stderr
    source = Path(record_reader.__file__).read_text() + Path(records.__file__).read_text()
    assert "import torch" not in source
    assert "serde" not in source.replace("SerdeError", "").replace("syft.serde.serialize", "")


def test_sizes_are_plain_data_for_the_supervisor():
    record = read_call(encode(write_call(Operation("torch.Tensor.view", None, (Ref(1), torch.Size([2, 3]))))))
    assert record.args[1] == Size((2, 3))
