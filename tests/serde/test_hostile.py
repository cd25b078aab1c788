from __future__ import annotations

import io
import pathlib
import pickle
import struct
import tracemalloc
import zipfile
from typing import Any

import msgpack
import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from syft.exceptions import SerdeError
from syft.serde import deserialize, serialize
from syft.serde.buffer import Buffer
from syft.serde.msgpack import frames
from syft.serde.torch import archive, npy
from tests.helpers.serde.round_trips import EXAMPLES, FORMATS, filled, worker

NONE = worker(compression="none")


def message(header: Any, parts: tuple[bytes, ...] = (), raw: bool = False) -> bytes:
    """Lay out an arbitrary header and frames by hand."""
    packed = header if raw else msgpack.packb(header)
    out = bytearray(b"(\x01" + struct.pack(">II", len(packed), len(parts)))
    out += struct.pack(f">{len(parts)}Q", *map(len, parts)) + packed
    for part in parts:
        out += bytes(-len(out) % 64) + part
    return bytes(out)


def frame(index: int) -> msgpack.ExtType:
    return msgpack.ExtType(1, struct.pack(">I", index))


def tensor(values: Any, serializer: str = "raw", **changes: Any) -> list[Any]:
    parts = {
        "id": None,
        "bin": values,
        "chain": None,
        "grad": None,
        "tags": None,
        "text": None,
        "how": serializer,
    }
    return [40, *{**parts, **changes}.values()]


def raw(name: Any = "float32", shape: Any = (1, 4), data: Any = b"") -> list[Any]:
    return tensor([1, name, shape, data])


def refused(data: bytes, **options: Any) -> None:
    with pytest.raises(SerdeError):
        deserialize(data, **options)


def test_the_hand_written_layout_is_the_real_one():
    assert deserialize(message([2, 1, "a"])) == [1, "a"]
    data = np.arange(4, dtype=np.float32).tobytes()
    assert deserialize(message(raw(data=frame(0)), (data,))).tolist() == [0, 1, 2, 3]
    assert message([2, 1]) == serialize([1])


SAMPLES = {
    "python": [1, (2.5, "text", b"bytes"), {"a": {3}}, 2**100, ..., slice(1, 2)],
    "tensors": [
        torch.arange(5.0, requires_grad=True),
        torch.nn.Parameter(torch.ones(2)),
        torch.ones(2, 2).max(0),
    ],
    "array": (np.arange(6).reshape(2, 3), np.float32(2), torch.float32, torch.device("cpu")),
}


@pytest.mark.parametrize("sample", SAMPLES)
@pytest.mark.parametrize("name", FORMATS)
def test_cut_at_every_byte(sample, name):
    whole = serialize(SAMPLES[sample], worker(serializer=name, compression="none"))
    for end in range(len(whole)):
        refused(whole[:end])
    refused(whole + b"\0")
    deserialize(whole)


@pytest.mark.parametrize("sample", SAMPLES)
@pytest.mark.parametrize("name", FORMATS)
@pytest.mark.filterwarnings("ignore")
def test_flipped_bytes_never_give_another_error(sample, name):
    whole = serialize(SAMPLES[sample], worker(serializer=name, compression="none"))
    for position in range(0, len(whole), 1 + len(whole) // 1500):
        for mask in (0x01, 0x80, 0xFF):
            damaged = bytearray(whole)
            damaged[position] ^= mask
            try:
                deserialize(bytes(damaged))
            except SerdeError:
                pass


@EXAMPLES
@given(st.binary(max_size=200))
def test_random_bytes(data):
    for prefix in (b"", b"(", b"(\x01", b"\x29", b"\x2a"):
        try:
            deserialize(prefix + data)
        except SerdeError:
            pass


values = st.recursive(
    st.none() | st.booleans() | st.integers(-5, 60) | st.floats() | st.text(max_size=5) | st.binary(max_size=9),
    lambda inner: st.lists(inner, max_size=9),
    max_leaves=25,
)


@EXAMPLES
@given(st.sampled_from([*range(1, 12), 30, 31, *range(40, 51)]), st.lists(values, max_size=8))
@pytest.mark.filterwarnings("ignore")
def test_random_payloads_of_every_code(code, payload):
    try:
        deserialize(message([code, *payload]))
    except SerdeError:
        pass


def test_other_inputs_than_bytes():
    for value in (None, 5, "text", [1], torch.ones(2)):
        with pytest.raises(SerdeError, match="must be bytes"):
            deserialize(value)
    assert deserialize(memoryview(serialize([1])).cast("b")) == [1]


HEADERS = {
    "map": {"a": 1},
    "map inside": [1, {"a": 1}],
    "timestamp": [1, msgpack.Timestamp(1)],
    "other ext": [1, msgpack.ExtType(3, b"a")],
    "empty array": [],
    "unknown code": [999, 1],
    "text code": ["a"],
    "bool code": [True, 1],
    "float code": [1.0, 1],
    "huge code": [2**63],
    "array code": [[1]],
    "empty int": [1, msgpack.ExtType(2, b"")],
    "long int": [1, msgpack.ExtType(2, b"\x01" * 65)],
    "absent frame": raw(data=frame(0)),
    "short index": raw(data=msgpack.ExtType(1, b"\0")),
    "unhashable key": [3, [2], 1],
    "odd dict": [3, 1],
    "set of lists": [4, [2]],
    "range of text": [6, "a", 1, 1],
    "range by zero": [6, 0, 1, 0],
    "short slice": [7, 1],
    "full ellipsis": [8, 1],
    "complex of text": [9, "a", 1.0],
    "bytes of int": [10, 2**40],
    "bytearray of int": [11, 2**40],
}


@pytest.mark.parametrize("name", HEADERS)
def test_malformed_headers(name):
    refused(message(HEADERS[name]))


@pytest.mark.parametrize("size", [0, 3, 5, 2**33])
def test_no_room_is_made_before_the_size_is_checked(size):
    with pytest.raises(SerdeError, match=f"a tensor of {4 * size} bytes with 16 bytes of data"):
        deserialize(message(raw(shape=[1, size], data=frame(0)), (bytes(16),)))
    with pytest.raises(SerdeError, match=f"a tensor of {4 * size} bytes with 16 bytes of data"):
        npy.read_tensor(npy_file(NPY.replace("4,", f"{size},"), bytes(16)))


def test_frames_are_used_exactly_once():
    data = bytes(16)
    refused(message([2, raw(data=frame(0)), raw(data=frame(0))], (data,)))
    refused(message([2, raw(data=frame(0))], (data, data)))
    refused(message([2, raw(data=frame(0)), raw(data=frame(0))], (data, data)))
    refused(message([2], (data,)))
    refused(message(frame(0), (data,)))  # a bare frame is no object
    refused(message([2, frame(0)], (data,)))


def test_prefix_lies():
    good = message(raw(data=frame(0)), (bytes(16),))
    deserialize(good)
    for version in (0, 2, 255):
        refused(good[:1] + bytes([version]) + good[2:])
    for length in (0, 1, 2**31, 2**32 - 1):
        refused(good[:2] + struct.pack(">I", length) + good[6:])
    for count in (0, 2, 65_537, 2**32 - 1):
        refused(good[:6] + struct.pack(">I", count) + good[10:])
    for length in (0, 15, 17, 2**40, 2**64 - 1):
        refused(good[:10] + struct.pack(">Q", length) + good[18:])
    dirty = bytearray(good)
    dirty[-17] = 1  # the padding
    refused(bytes(dirty))


def test_too_many_frames_are_refused_on_the_way_out():
    with pytest.raises(SerdeError, match="at most"):
        frames.write([Buffer(b"a")] * (frames.MAX_FRAMES + 1))


@pytest.mark.parametrize(
    "declared",
    [
        b"\xdd\xff\xff\xff\xff",  # an array of 2**32 - 1 items
        b"\xc6\xff\xff\xff\xff",  # as many bytes
        b"\xdb\xff\xff\xff\xff",  # a text
        b"\xc9\xff\xff\xff\xff\x01",  # an ext
        b"\xdf\xff\xff\xff\xff",  # a map
    ],
)
def test_declared_sizes_do_not_make_room(declared):
    tracemalloc.start()
    try:
        refused(message(declared, raw=True))
        refused(message(b"\x92\x02" + declared, raw=True))
        assert tracemalloc.get_traced_memory()[1] < 10**6
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize(
    "shape",
    [
        [1, 3],
        [1, 5],
        [1, -4],
        [1, 2, -2],
        [1, 2.0, 2],
        [1, True],
        [1, 2**62, 4],
        [1, 2**63],
        "ab",
        None,
        [2, 4],
        [1] + [1] * 65,
        [1, 0, 2**63],
    ],
)
def test_shapes_that_do_not_explain_the_bytes(shape):
    refused(message(raw(shape=shape, data=frame(0)), (bytes(16),)))
    refused(message([30, "<f4", shape, frame(0)], (bytes(16),)))


@pytest.mark.parametrize("name", ["qint8", "uint4", "object", "__class__", "float", "", 5, None, [1]])
def test_dtypes_off_the_table(name):
    refused(message(raw(name=name, shape=[1, 0], data=b"")))
    refused(message([30, name, [1, 0], b""]))
    refused(message([31, name, b""]))
    refused(message([44, name if name != "qint8" and name != "uint4" else "nothing"]))


@pytest.mark.parametrize("name", ["|O", "O", "<U4", "|S4", "<M8[ns]", "|V8"])
def test_numpy_dtypes_off_the_table(name):
    refused(message([30, name, [1, 1], bytes(8)]))


def test_booleans_must_be_zero_or_one():
    refused(message(raw("bool", [1, 2], b"\x00\x02")))
    refused(message([30, "|b1", [1, 2], b"\x00\x02"]))
    good = torch.tensor([True, False])
    for name in ("torch", "numpy"):
        packed = serialize(good, worker(serializer=name, compression="none"))
        assert deserialize(packed).tolist() == [True, False]
    refused(message(tensor(npy.write_tensor(good)[:-1] + b"\x07", "numpy")))


CHANGES: list[dict[str, Any]] = [
    {"id": 1.5},
    {"id": [2]},
    {"chain": 1},
    {"grad": 1},
    {"grad": "a"},
    {"tags": "a"},
    {"tags": [4, 1]},
    {"tags": [2, "a"]},
    {"text": 1},
    {"more": False},
    {"more": 1, "even": 2},
    {"how": "pickle"},
    {"how": None},
    {"how": [2]},
    {"bin": None},
    {"bin": b"abc"},
    {"grad": raw(shape=[1, 3], data=bytes(12))},
]


@pytest.mark.parametrize("changes", CHANGES, ids=str)
def test_malformed_tensor_payloads(changes):
    good = [1, "float32", [1, 4], bytes(16)]
    deserialize(message(tensor(good)))
    refused(message(tensor(good, **changes)))


def test_gradient_on_integers_is_refused():
    refused(message(tensor([1, "int32", [1, 4], bytes(16)], more=True)))


@pytest.mark.parametrize(
    "payload",
    [
        [[1, 2], "float32", [2, 1.0]],
        [[1, 1], "float32", [2, "a"]],
        [[1, 1], "float32", [2, [2, 1.0]]],
        [[1, 1], "uint8", [2, 300]],
        [[1, 2**40], "float32", [2, 1.0]],
        [[1, 1], "int64", [2, 2**63]],
        [[1, 1], "bool", [2, 1]],
        [[1, 1], "bits8", [2, 1.0]],
        [[1, 1], "float32", "a"],
        [[1, 1], "float32", 5],
        [[1, 1], "float32"],
    ],
)
def test_malformed_lists_of_values(payload):
    refused(message(tensor([1, *payload], "all")))


class Touch:
    def __init__(self, path: pathlib.Path) -> None:
        self.path = path

    def __reduce__(self) -> Any:
        return pathlib.Path.touch, (self.path,)


def saved(obj: Any, **options: Any) -> bytes:
    out = io.BytesIO()
    torch.save(obj, out, **options)
    return out.getvalue()


@pytest.mark.parametrize("zipped", [True, False])
def test_a_pickle_is_never_executed(tmp_path, zipped):
    marker = tmp_path / "marker"
    payloads = [saved(Touch(marker), _use_new_zipfile_serialization=zipped), pickle.dumps(Touch(marker))]
    for payload in payloads:
        for name in FORMATS:
            refused(message(tensor(payload, name)))
        refused(message([47, payload]))
        refused(payload)
        refused(message(payload, raw=True))
        with pytest.raises(SerdeError):
            archive.read_tensor(payload)
    assert not marker.exists()
    pickle.loads(payloads[1])
    assert marker.exists()  # the payload does work where it is executed


@pytest.mark.parametrize(
    "make",
    [
        lambda: [torch.ones(2)],
        lambda: {"a": torch.ones(2)},
        lambda: torch.nn.Parameter(torch.ones(2)),
        lambda: 5,
        lambda: torch.eye(2).to_sparse(),
        lambda: torch.ones(2, requires_grad=True).as_subclass(torch.Tensor)[:0].to("meta"),
        lambda: torch.ones(2, dtype=torch.complex64).conj(),
        lambda: bytearray(5),
        lambda: torch.nn.Linear(1, 1),
    ],
)
def test_saved_files_of_other_things_are_refused(make):
    with pytest.raises(SerdeError):
        archive.read_tensor(saved(make()))


def edited(change: Any, compression: int = zipfile.ZIP_STORED, tensor: torch.Tensor | None = None) -> bytes:
    """Rewrite the entries of a saved tensor."""
    source = zipfile.ZipFile(io.BytesIO(saved(torch.ones(3) if tensor is None else tensor)))
    entries = {info.filename.partition("/")[2]: source.read(info) for info in source.infolist()}
    change(entries)
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", compression) as target:
        for name, data in entries.items():
            target.writestr("archive/" + name, data)
    return out.getvalue()


def pickled(old: bytes, new: bytes) -> Any:
    def change(entries: dict[str, bytes]) -> None:
        assert old in entries["data.pkl"]
        entries["data.pkl"] = entries["data.pkl"].replace(old, new, 1)

    return change


BIG = b"J\xff\xff\xff\x7f"  # BININT 2**31 - 1
# The end of a saved torch.ones(3): offset K0, size K3 TUPLE1, stride K1 TUPLE1
EDITS = {
    "size": pickled(b"K\x00K\x03\x85", b"K\x00" + BIG + b"\x85"),
    "size with stride 0": pickled(b"K\x00K\x03\x85q\x06K\x01\x85", b"K\x00" + BIG + b"\x85q\x06K\x00\x85"),
    "negative size": pickled(b"K\x00K\x03\x85", b"K\x00J\xff\xff\xff\xff\x85"),
    "stride": pickled(b"K\x01\x85", BIG + b"\x85"),
    "negative stride": pickled(b"K\x01\x85", b"J\xff\xff\xff\xff\x85"),
    "offset": pickled(b"K\x00K\x03\x85", b"K\x01K\x03\x85"),
    "storage size": pickled(b"cpuq\x04K\x03", b"cpuq\x04" + BIG),
    "place": pickled(b"X\x03\x00\x00\x00cpu", b"X\x04\x00\x00\x00meta"),
    "storage key": pickled(b"X\x01\x00\x00\x000", b"X\x05\x00\x00\x00../.."),
    "storage type": pickled(b"torch\nFloatStorage", b"torch\nDoubleStorage"),
    "unknown global": pickled(b"torch\nFloatStorage", b"posix\nsystem"),
    "rebuild": pickled(b"_rebuild_tensor_v2", b"_rebuild_qtensor"),
    "hooks": pickled(b"collections\nOrderedDict", b"collections\nCounter"),
    "no storage": lambda entries: entries.pop("data/0"),
    "short storage": lambda entries: entries.update({"data/0": bytes(4)}),
    "no description": lambda entries: entries.pop("data.pkl"),
    "long description": lambda entries: entries.update({"data.pkl": b"N" * 100_000 + b"."}),
    "many entries": lambda entries: entries.update({f"data/{i}": b"" for i in range(1, 100)}),
    "big-endian": lambda entries: entries.update(byteorder=b"big"),
    "garbage description": lambda entries: entries.update({"data.pkl": b"\x80\x02garbage"}),
    "unbalanced": lambda entries: entries.update({"data.pkl": b"\x80\x02t."}),
    "empty stack": lambda entries: entries.update({"data.pkl": b"\x80\x02R."}),
}


def test_rewriting_entries_alone_keeps_a_file_valid():
    assert archive.read_tensor(edited(lambda entries: None)).tolist() == [1, 1, 1]


@pytest.mark.parametrize("name", EDITS)
def test_edited_torch_files_are_refused_without_making_room(name):
    data = edited(EDITS[name])
    tracemalloc.start()
    try:
        with pytest.raises(SerdeError):
            archive.read_tensor(data)
        assert tracemalloc.get_traced_memory()[1] < 2 * 10**6
    finally:
        tracemalloc.stop()


def test_compressed_torch_files_are_refused():
    bomb = edited(lambda entries: None, zipfile.ZIP_DEFLATED, torch.zeros(2**20))
    assert len(bomb) < 10_000
    with pytest.raises(SerdeError, match="compressed"):
        archive.read_tensor(bomb)


def npy_file(header: str, data: bytes = b"", version: int = 1) -> bytes:
    length = struct.pack("<H" if version == 1 else "<I", len(header))
    return b"\x93NUMPY" + bytes([version, 0]) + length + header.encode() + data


NPY = "{'descr': '<f4', 'fortran_order': False, 'shape': (4,), }"


def test_hand_written_npy_files_of_every_version():
    for version in (1, 2, 3):
        assert npy.read_tensor(npy_file(NPY, bytes(16), version)).tolist() == [0] * 4


@pytest.mark.parametrize(
    "header",
    [
        NPY.replace("4,", "1000000000000,"),
        NPY.replace("4,", "5,"),
        NPY.replace("4,", "-4,"),
        NPY.replace("4,", "2, 2, 2"),
        NPY.replace("4,", "4" * 30),
        NPY.replace("4,", ",,"),
        NPY.replace("<f4", "|O"),
        NPY.replace("<f4", "<U1"),
        NPY.replace("<f4", ">f4"),
        NPY.replace("'<f4'", "[('a', '<f4')]"),
        NPY.replace("'<f4'", "[('bfloat16', '<i4')]"),
        NPY.replace("'<f4'", "[('float32', '<i4')]"),
        NPY.replace("4,", "__import__('os').system('true'),"),
        "{" * 3000,
        "-" * 4000,
        " " * 5000,
        "",
        NPY.replace("4,", "4,) + ("),
    ],
)
def test_malformed_npy_headers(header):
    tracemalloc.start()
    try:
        with pytest.raises(SerdeError):
            npy.read_tensor(npy_file(header, bytes(16)))
        assert tracemalloc.get_traced_memory()[1] < 10**6
    finally:
        tracemalloc.stop()


def test_npy_pickles_are_refused(tmp_path):
    out = io.BytesIO()
    np.save(out, np.array([Touch(tmp_path / "marker")]), allow_pickle=True)
    with pytest.raises(SerdeError):
        npy.read_tensor(out.getvalue())
    assert not list(tmp_path.iterdir())


def test_keys_of_one_hash_do_not_hang():
    prime = 2**61 - 1
    keys = [msgpack.ExtType(2, (prime * i).to_bytes(20, "big")) for i in range(1, 100_000)]
    refused(message([4, *keys]))
    refused(message([5, *keys]))
    refused(message([3, *(part for key in keys for part in (key, 1))]))
    honest = set(range(50_000)) | {f"{i}" for i in range(50_000)}
    assert deserialize(serialize(honest)) == honest


def test_memory_stays_near_the_size_of_the_message():
    payload = serialize([filled(torch.float32, (1000, 1000)) for _ in range(4)], NONE)
    bytearrays = serialize([bytearray(4_000_000)] * 4, NONE)
    for data in (payload, bytearrays):
        tracemalloc.start()
        try:
            deserialize(data)
            assert tracemalloc.get_traced_memory()[1] < 1.1 * len(data)
        finally:
            tracemalloc.stop()
