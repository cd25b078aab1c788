"""Things the serde tests share."""

from __future__ import annotations

import warnings
from types import SimpleNamespace
from typing import Any

import torch
from hypothesis import settings
from hypothesis import strategies as st

from syft.messaging import message
from syft.serde import deserialize, serialize
from syft.serde.torch.dtypes import DATA_DTYPES
from syft.serde.wire_codes import CODES

EXAMPLES = settings(deadline=None, derandomize=True, max_examples=80, database=None)
FORMATS = ("raw", "torch", "numpy", "all")
SHAPES = ((), (0,), (1,), (7,), (3, 4), (0, 5), (2, 0, 3), (2, 3, 4), (1, 2, 3, 4))

# The messages that every worker knows.
MESSAGE_TYPES = [cls for cls in CODES.values() if not isinstance(cls, str) and cls.__module__ == message.__name__]


def worker(**attributes: Any) -> Any:
    return SimpleNamespace(**attributes)


def roundtrip(obj: Any, w: Any = None) -> Any:
    return deserialize(serialize(obj, w), w)


def filled(dtype: torch.dtype, shape: tuple[int, ...], seed: int = 0) -> torch.Tensor:
    """Build a tensor of any dtype from random bits; booleans and floats that compare equal to themselves."""
    generator = torch.Generator().manual_seed(seed)
    count = 1
    for size in shape:
        count *= size
    high = 2 if dtype is torch.bool else 256
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        bits = torch.randint(0, high, (count * dtype.itemsize,), dtype=torch.uint8, generator=generator)
        if dtype.is_floating_point or dtype.is_complex:
            bits &= 0x37  # clears bits of the exponent, so that no value is a nan
        return bits.view(dtype).reshape(shape)


def bits(tensor: torch.Tensor) -> bytes:
    """Return the exact values in row-major order."""
    flat = tensor.detach().resolve_conj().resolve_neg().contiguous().reshape(-1)
    return flat.view(torch.uint8).numpy().tobytes() if flat.numel() else b""


def assert_same(got: Any, wanted: torch.Tensor) -> None:
    assert type(got) is type(wanted)
    assert got.dtype is wanted.dtype
    assert got.shape == wanted.shape
    assert bits(got) == bits(wanted)
    assert got.requires_grad == wanted.requires_grad


def views(base: torch.Tensor) -> dict[str, torch.Tensor]:
    """Return differently laid out tensors over one base of shape (4, 6)."""
    out = {
        "plain": base,
        "transposed": base.t(),
        "strided": base[::2, ::3],
        "slice": base[1:3, 2:5],
        "element": base[2, 3],
        "expanded": base[:1].expand(3, 6),
        "empty": base[:0],
    }
    if base.is_complex():
        out["conj"] = base.conj()
        out["conj strided"] = base.t().conj()[::2]
    return out


dtypes = st.sampled_from(sorted(DATA_DTYPES)).map(DATA_DTYPES.__getitem__)
shapes = st.lists(st.integers(0, 4), max_size=4).map(tuple)
atoms = (
    st.none()
    | st.booleans()
    | st.integers(-(2**300), 2**300)
    | st.floats(allow_nan=False)
    | st.text(max_size=20)
    | st.binary(max_size=20)
    | st.complex_numbers(allow_nan=False)
    | st.just(...)
    | st.builds(range, st.integers(), st.integers(), st.integers(1, 9))
)
hashables = st.recursive(
    atoms.filter(lambda value: value is not ...),
    lambda inner: st.tuples(inner, inner) | st.frozensets(inner, max_size=3),
    max_leaves=6,
)
objects = st.recursive(
    atoms | st.builds(slice, st.integers() | st.none()) | st.builds(bytearray, st.binary(max_size=9)),
    lambda inner: (
        st.lists(inner, max_size=4)
        | st.lists(inner, max_size=4).map(tuple)
        | st.dictionaries(hashables, inner, max_size=4)
        | st.sets(hashables, max_size=4)
        | st.frozensets(hashables, max_size=4)
    ),
    max_leaves=20,
)
