from __future__ import annotations

import numpy as np
import pytest
import torch

from syft.exceptions import (
    ObjectNotFoundError,
    SerdeError,
    UndefinedProtocolTypeError,
    UndefinedProtocolTypePropertyError,
)
from syft.serde import Buffer, deserialize, register, serialize, serializes, table, unregister
from syft.serde.msgpack.proto import TypeInfo, fullname, proto_type_info
from tests.helpers.serde.round_trips import roundtrip


class Point:
    def __init__(self, x, y):
        self.x, self.y = x, y

    @staticmethod
    def simplify(worker, point):
        return point.x, point.y

    @staticmethod
    def detail(worker, parts):
        return Point(*parts)


class Point3(Point):
    pass


class Other:
    pass


@pytest.fixture
def point():
    register(Point, code=1000)
    yield Point
    unregister(Point)


def test_own_type_with_anything_inside(point):
    back = roundtrip([Point({"a": 1}, Point(torch.ones(2), None))])[0]
    assert type(back) is Point and type(back.y) is Point
    assert back.x == {"a": 1} and torch.equal(back.y.x, torch.ones(2))


def test_after_unregistering_it_is_unknown_both_ways():
    register(Point, code=1000)
    message = serialize(Point(1, 2))
    unregister(Point)
    with pytest.raises(SerdeError, match="1000"):
        deserialize(message)
    with pytest.raises(SerdeError, match="register"):
        serialize(Point(1, 2))
    with pytest.raises(SerdeError, match="not registered"):
        unregister(Point)


def test_duplicates_are_refused(point):
    with pytest.raises(SerdeError, match="already registered with code 1000"):
        register(Point, code=1001)
    with pytest.raises(SerdeError, match=r"1000 .*belongs to .*Point"):
        register(Other, code=1000, simplify=Point.simplify, detail=Point.detail)
    with pytest.raises(SerdeError, match="already registered"):
        register(dict, code=1002, simplify=Point.simplify, detail=Point.detail)
    assert (1001 not in dict(table())) and (1002 not in dict(table()))


@pytest.mark.parametrize("code", [0, -1, 2**31, True, "a", None])
def test_bad_codes_are_refused(code):
    with pytest.raises(SerdeError):
        register(Point, code=code)


def test_missing_functions_are_refused():
    with pytest.raises(SerdeError, match="simplify"):
        register(Other, code=1000)


def test_subclasses_use_the_row_of_their_base_unless_it_is_exact(point):
    assert type(roundtrip(Point3(1, 2))) is Point
    unregister(Point)
    register(Point, code=1000, exact=True)
    with pytest.raises(SerdeError, match="Point3"):
        serialize(Point3(1, 2))


def test_decorator():
    @serializes(Other, code=1005)
    class Functions:
        @staticmethod
        def simplify(worker, obj):
            return (Buffer(b"abc"),)

        @staticmethod
        def detail(worker, parts):
            return bytes(parts[0])

    try:
        assert roundtrip(Other()) == b"abc"
        assert (1005, f"{Other.__module__}.Other") in table()
    finally:
        unregister(Other)


def test_errors_of_a_detailer():
    def lost(worker, parts):
        raise ObjectNotFoundError(5, "bob")

    def broken(worker, parts):
        raise ZeroDivisionError("oops")

    for detail, error in ((lost, ObjectNotFoundError), (broken, SerdeError)):
        register(Other, code=1000, simplify=lambda worker, obj: (), detail=detail)
        try:
            message = serialize([Other()])
            with pytest.raises(error):
                deserialize(message)
        finally:
            unregister(Other)


def test_a_simplifier_must_return_a_tuple():
    register(Other, code=1000, simplify=lambda worker, obj: [1], detail=lambda worker, parts: None)
    try:
        with pytest.raises(SerdeError, match="tuple"):
            serialize(Other())
    finally:
        unregister(Other)


def test_worker_is_passed_to_both_functions():
    seen = []
    register(
        Other,
        code=1000,
        simplify=lambda worker, obj: seen.append(worker) or (),
        detail=lambda worker, parts: seen.append(worker),
    )
    try:
        alice, bob = Other(), Other()
        deserialize(serialize([Other()], alice), bob)
        assert seen == [alice, bob]
    finally:
        unregister(Other)


def test_complete_form():
    register(
        Other,
        code=1000,
        simplify=lambda worker, obj: ("short",),
        detail=lambda worker, parts: parts[0],
        forced_code=1001,
        force_simplify=lambda worker, obj: ("complete",),
        force_detail=lambda worker, parts: parts[0],
    )
    try:
        assert deserialize(serialize(Other())) == "short"
        assert deserialize(serialize(Other(), force_full_simplification=True)) == "complete"
        assert deserialize(serialize([1], force_full_simplification=True)) == [1]
        assert proto_type_info(Other).forced_code == 1001
    finally:
        unregister(Other)
    assert not {1000, 1001} & set(dict(table()))


def test_table_is_sorted_and_within_the_ranges():
    rows = dict(table())
    assert list(rows) == sorted(rows)
    assert rows[1] == "builtins.tuple" and rows[30] == "numpy.ndarray" and rows[40] == "torch.Tensor"


def test_proto():
    assert proto_type_info(dict).code == 3
    assert fullname(dict) == "dict" and fullname(np.ndarray) == "numpy.ndarray"
    with pytest.raises(UndefinedProtocolTypePropertyError):
        proto_type_info(dict).forced_code
    with pytest.raises(UndefinedProtocolTypePropertyError):
        TypeInfo("a", {}).code
    with pytest.raises(UndefinedProtocolTypeError):
        proto_type_info(Other)
