from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from syft.exceptions import SerdeError
from syft.serde import deserialize, serialize
from syft.serde.msgpack.numpy_serde import DTYPES, SCALARS
from tests.helpers.serde.round_trips import EXAMPLES, roundtrip, shapes

names = st.sampled_from(sorted(name for name in DTYPES if "16" not in name and "c32" not in name))


@EXAMPLES
@given(
    names.flatmap(lambda name: hnp.arrays(np.dtype(name), shapes)),
    st.sampled_from(["plain", "t", "step", ">"]),
)
def test_arrays(array, layout):
    if layout == "t":
        array = array.T
    elif layout == "step" and array.ndim:
        array = array[::2]
    elif layout == ">":
        array = array.astype(array.dtype.newbyteorder(">"))
    back = roundtrip(array)
    assert type(back) is np.ndarray
    assert back.dtype == array.dtype.newbyteorder("<")
    assert back.shape == array.shape
    assert back.flags.writeable
    np.testing.assert_array_equal(back, array)


@pytest.mark.parametrize("kind", SCALARS, ids=lambda kind: kind.__name__)
def test_every_scalar_type(kind):
    value = kind(1)
    back = roundtrip([value])[0]
    assert type(back) is np.dtype(np.dtype(kind).str).type  # long long is int64, under another name
    assert back == value


def test_long_double_keeps_its_value_and_sends_no_stray_bytes():
    value = np.array([1, 3], dtype=np.longdouble) / 3
    np.testing.assert_array_equal(roundtrip(value), value)
    if np.finfo(np.longdouble).nmant == 63:
        dirty = np.full(32, 255, np.uint8)
        dirty[:10] = value[:1].view(np.uint8)[:10]
        dirty[16:26] = value[1:].view(np.uint8)[:10]
        assert b"\xff" * 6 not in serialize(dirty.view(np.longdouble))


@pytest.mark.parametrize(
    "value",
    [
        np.array([object()]),
        np.array(["a"]),
        np.array([b"a"]),
        np.array(["2020-01-01"], dtype="datetime64[D]"),
        np.zeros(2, dtype=[("a", "i4")]),
        np.str_("a"),
        np.datetime64("2020-01-01"),
        np.ma.masked_array([1, 2]),
        np.zeros(2).view(np.recarray),
    ],
    ids=lambda value: str(type(value).__name__),
)
def test_arrays_that_are_not_numeric_are_refused(value):
    with pytest.raises(SerdeError):
        serialize(value)


def test_two_readings_are_independent():
    message = serialize(np.arange(5))
    first, second = deserialize(message), deserialize(message)
    first[:] = 9
    assert second.tolist() == [0, 1, 2, 3, 4]
