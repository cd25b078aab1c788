"""The unpacked size of a message is limited by its size, by the configuration and by the budget of the request."""

from __future__ import annotations

import struct
import time
import tracemalloc

import msgpack
import pytest
import torch

from syft import config
from syft.core.byte_budget import ByteBudget, spending
from syft.exceptions import ByteBudgetError, SerdeError
from syft.serde import compression, deserialize, protobuf, serialize
from syft.serde.msgpack.serde import read_plain_tuple
from tests.helpers.serde.round_trips import worker
from tests.serde.test_hostile import message

MiB = 1 << 20


def array(count, items):
    """The msgpack bytes of an array that announces a length."""
    return b"\xdd" + struct.pack(">I", count) + items


def packed(data, scheme=compression.apply_zstd_compression):
    return compression._compress(data[1:], scheme)


BOMBS = {
    "lists": array(12_000_001, b"\x02" + b"\x91\x02" * 12_000_000),
    "dicts": array(6_000_001, b"\x02" + b"\x93\x03\x01\x02" * 6_000_000),
    "small numbers": array(60_000_001, b"\x02" + b"\x05" * 60_000_000),
    "rows": array(6001, b"\x02" + array(10_001, b"\x02" + b"\x05" * 10_000) * 6000),
}


@pytest.mark.parametrize("kind", BOMBS)
def test_a_small_message_that_unfolds_into_gigabytes(kind):
    whole = message(BOMBS[kind], raw=True)
    for scheme in (compression.apply_zstd_compression, compression.apply_lz4_compression):
        small = packed(whole, scheme)
        assert len(small) < len(whole) / 100
        tracemalloc.start()
        began = time.perf_counter()
        with pytest.raises(SerdeError, match="nested values"):
            deserialize(small)
        took, used = time.perf_counter() - began, tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        assert used < 500 * MiB and took < 30


@pytest.mark.parametrize("size", [5000, 60_000, 2_000_000])
def test_arrays_that_announce_more_than_there_is(size):
    """Each of a thousand nested arrays announces as many items as the header has bytes."""
    nested = array(size - 6, b"") * 1000
    header = nested[: size // 10 * 5] + b"\x01" * (size - len(nested[: size // 10 * 5]))
    tracemalloc.start()
    with pytest.raises(SerdeError, match="damaged header"):
        deserialize(message(header, raw=True))
    used = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert used < 20 * MiB


def test_the_configuration_bounds_uncompressed_messages():
    rows = [[1, 2, 3]] * 50_000
    data = serialize(rows, worker(compression="none"))
    assert deserialize(data) == rows
    with config.override(max_nested_bytes=4 * MiB), pytest.raises(SerdeError, match="nested values"):
        deserialize(data)


@pytest.mark.parametrize("value", [
    torch.rand(1_000_000).tolist(),
    [[float(i)] for i in range(300_000)],
    {i: str(i) for i in range(200_000)},
    [0] * 2_000_000,
], ids=["a million floats", "300,000 lists", "200,000 keys", "equal numbers"])  # fmt: skip
def test_large_values_that_are_meant(value):
    for scheme in ("none", "lz4", "zstd"):
        assert deserialize(serialize(value, worker(compression=scheme))) == value


def test_reading_asks_the_budget_of_the_request():
    budget = ByteBudget(8 * MiB)
    tensor = serialize(torch.zeros(4 * MiB), worker(compression="zstd"))
    rows = serialize([[1]] * 200_000, worker(compression="none"))
    for data in (tensor, rows, serialize([[1]] * 200_000, worker(compression="lz4"))):
        with spending(budget), pytest.raises(ByteBudgetError):
            deserialize(data)
        assert budget.taken == 0
        deserialize(data)
    small = serialize(torch.zeros(MiB), worker(compression="zstd"))
    with spending(budget):
        assert deserialize(small).shape == (MiB,)
        assert 4 * MiB <= budget.taken <= 5 * MiB
    assert budget.taken == 0


def test_a_frame_without_a_stated_size_is_counted_while_it_is_read():
    import lz4.frame

    body = serialize(torch.zeros(4 * MiB), worker(compression="none"))[1:]
    data = b"\x29" + lz4.frame.compress(body, store_size=False)
    assert deserialize(data).shape == (4 * MiB,)
    with spending(ByteBudget(8 * MiB)), pytest.raises(ByteBudgetError):
        deserialize(data)


def test_writing_asks_the_budget_of_the_request():
    with spending(ByteBudget(MiB)), pytest.raises(ByteBudgetError):
        serialize(torch.zeros(MiB))


def test_protobuf_asks_before_it_parses():
    data = protobuf.serialize([0] * 100_000)
    with spending(ByteBudget(MiB)), pytest.raises(ByteBudgetError):
        protobuf.deserialize(data)
    assert len(protobuf.deserialize(data)) == 100_000


def test_the_sample_bomb_is_valid():
    assert deserialize(message(array(3, b"\x02" + b"\x91\x02" * 2), raw=True)) == [[], []]
    assert msgpack.unpackb(array(3, b"\x02\x05\x05")) == [2, 5, 5]


def test_plain_tuples_are_read_without_building_anything_else():
    """A server reads how a client begins in this way, before anything is known of it."""
    assert read_plain_tuple(serialize((1, "id", b"secret", None, 2.5)), 4096) == (1, "id", b"secret", None, 2.5)
    for value in (torch.ones(2), (1, torch.ones(2)), (1, (2,)), [1, 2], 3, (range(5),)):
        with pytest.raises(SerdeError, match="not a tuple"):
            read_plain_tuple(serialize(value), 4096)
    with pytest.raises(SerdeError):
        read_plain_tuple(serialize((bytes(5000),)), 4096)
