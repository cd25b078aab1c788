from __future__ import annotations

import collections
import enum
import math
import threading
from collections.abc import Mapping

import pytest
import torch
from hypothesis import given

from syft.exceptions import CommandNotAllowedError, SerdeError
from syft.hook.size_bounds import bound_size_tensors
from syft.serde import deserialize, registry, serialize
from syft.serde.msgpack import serde as msgpack_strategy
from syft.serde.msgpack.serde import MAX_DEPTH
from syft.serde.protobuf import serde as protobuf_strategy
from tests.helpers.serde.round_trips import EXAMPLES, objects, roundtrip


def same_types(left: object, right: object) -> bool:
    if type(left) is not type(right):
        return False
    if isinstance(left, list | tuple):
        return all(map(same_types, left, right))
    if isinstance(left, dict):
        return all(same_types(left[key], right[key]) for key in left)
    return True


@EXAMPLES
@given(objects)
def test_nested_python_objects_come_back_equal_and_of_the_same_types(obj):
    back = roundtrip(obj)
    assert back == obj
    assert same_types(back, obj)


@pytest.mark.parametrize("value", [2**63, -(2**63) - 1, 2**64 - 1, 2**64, 2**127, -(2**127), 2**503, -(2**503)])
def test_large_ints(value):
    assert roundtrip(value) == value


def test_ints_beyond_the_limit_are_refused():
    with pytest.raises(SerdeError, match="64"):
        serialize(2**511)


def test_floats_keep_sign_and_nan():
    assert math.copysign(1, roundtrip(-0.0)) == -1
    assert math.isnan(roundtrip(float("nan")))
    assert roundtrip((math.inf, -math.inf)) == (math.inf, -math.inf)


@pytest.mark.parametrize("size", [0, 1, 4096, 4097, 100_000])
@pytest.mark.parametrize("kind", [bytes, bytearray])
def test_bytes_of_any_size(kind, size):
    value = kind(i % 251 for i in range(size))
    back = roundtrip([value, (value,)])
    assert back == [value, (value,)]
    assert type(back[0]) is kind


def test_text_that_is_not_unicode_is_refused():
    with pytest.raises(SerdeError):
        serialize("\ud800")


class Colour(enum.Enum):
    RED = 1


class Number(enum.IntEnum):
    ONE = 1


class Word(str):
    pass


class Table(dict):
    pass


Point = collections.namedtuple("Point", "x y")


@pytest.mark.parametrize(
    "obj",
    [
        Colour.RED,
        Number.ONE,
        Word("a"),
        Table(),
        Point(1, 2),
        collections.OrderedDict(),
        collections.deque(),
        object(),
    ],
    ids=lambda obj: type(obj).__name__,
)
def test_unregistered_classes_are_refused_by_name(obj):
    for value in (obj, [obj], {"a": (obj,)}):
        with pytest.raises(SerdeError, match=rf"{type(obj).__name__}.*register"):
            serialize(value)


def test_functions_and_memoryviews_are_refused():
    for value in (len, lambda: None, memoryview(b"a"), int):
        with pytest.raises(SerdeError):
            serialize(value)


def nest(levels: int) -> list:
    value: list = []
    for _ in range(levels - 1):
        value = [value]
    return value


def test_depth_limit_on_the_way_out():
    assert roundtrip(nest(MAX_DEPTH)) == nest(MAX_DEPTH)
    with pytest.raises(SerdeError, match="deeper"):
        serialize(nest(MAX_DEPTH + 1))


@pytest.mark.parametrize("depth", [101, 500, 5000, 1_000_000])
def test_depth_limit_on_the_way_in(depth):
    header = b"\x92\x01" * depth + b"\x01"
    message = b"(\x01" + len(header).to_bytes(4, "big") + bytes(4) + header
    with pytest.raises(SerdeError):
        deserialize(message)


def test_cycles_are_refused():
    loop: list = []
    loop.append(loop)
    table: dict = {}
    table["self"] = [table]
    for value in (loop, table):
        with pytest.raises(SerdeError, match="contains itself"):
            serialize(value)


def test_simplified_values_are_written_as_they_are():
    from syft.serde.msgpack.serde import _detail, _simplify

    value = {"a": [1, (2, 3)]}
    simplified = _simplify(None, value)
    assert serialize(simplified, simplified=True) == serialize(value)
    assert _detail(None, simplified) == value


def test_strategy_is_replaceable():
    assert serialize(1, strategy=lambda obj, *rest: b"mine") == b"mine"
    assert deserialize(b"mine", strategy=lambda binary, worker: binary.decode()) == "mine"


def test_many_threads_share_the_packers():
    import torch

    problems = []

    def work(seed: int) -> None:
        for i in range(200):
            value = [torch.full((5,), seed * 1000 + i), 2**100 + seed, "x" * seed]
            back = roundtrip(value)
            if not (torch.equal(back[0], value[0]) and back[1:] == value[1:]):
                problems.append(seed)

    threads = [threading.Thread(target=work, args=(seed,)) for seed in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not problems


def test_a_failed_write_leaves_nothing_behind():
    import torch

    with pytest.raises(SerdeError):
        serialize([torch.ones(3), 2**600])
    assert roundtrip(5) == 5
    assert torch.equal(roundtrip(torch.ones(2)), torch.ones(2))


@pytest.mark.parametrize("strategy", [msgpack_strategy, protobuf_strategy], ids=["msgpack", "protobuf"])
@pytest.mark.parametrize("kind", [collections.OrderedDict, collections.Counter, type("Mine", (dict,), {})])
def test_received_dicts_are_exactly_dicts(strategy, kind):
    """The checks of sizes walk exact dicts only: a tensor in another mapping would not be checked."""
    sent = {"size": torch.tensor([2**40]), "nested": [{"more": (torch.tensor(2**41),)}]}
    received = strategy.deserialize(strategy.serialize(sent))
    assert type(received) is type(received["nested"][0]) is dict
    with pytest.raises(CommandNotAllowedError, match="large number"):
        bound_size_tensors("torch.zeros", (received,), {})
    assert {entry.cls for entry in registry.BY_CODE.values() if issubclass(entry.cls, Mapping)} == {dict}
    with pytest.raises(SerdeError, match="can't be serialized"):
        strategy.serialize(kind(sent))
