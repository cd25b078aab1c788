from __future__ import annotations

import gc
import warnings

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from syft.exceptions import SerdeError
from syft.serde import deserialize, serialize
from syft.serde.msgpack import torch_serde
from syft.serde.torch.dtypes import DATA_DTYPES
from syft.serde.torch.serde import (
    numpy_tensor_deserializer,
    numpy_tensor_serializer,
    torch_tensor_deserializer,
    torch_tensor_serializer,
)
from tests.helpers.serde.round_trips import (
    EXAMPLES,
    FORMATS,
    SHAPES,
    assert_same,
    dtypes,
    filled,
    roundtrip,
    shapes,
    views,
    worker,
)

pytestmark = pytest.mark.filterwarnings("ignore:ComplexHalf")
ALL_DTYPES = [pytest.param(dtype, id=name) for name, dtype in DATA_DTYPES.items()]


@pytest.mark.parametrize("name", FORMATS)
@pytest.mark.parametrize("dtype", ALL_DTYPES)
def test_every_dtype_shape_and_format(dtype, name):
    for shape in SHAPES:
        tensor = filled(dtype, shape)
        assert_same(roundtrip(tensor, worker(serializer=name)), tensor)


@pytest.mark.parametrize("name", FORMATS)
@pytest.mark.parametrize("dtype", ALL_DTYPES)
def test_every_dtype_layout_and_format(dtype, name):
    for tensor in views(filled(dtype, (4, 6))).values():
        back = roundtrip(tensor, worker(serializer=name))
        assert_same(back, tensor)
        assert back.untyped_storage().nbytes() == tensor.numel() * tensor.itemsize


@EXAMPLES
@given(
    dtypes,
    shapes,
    st.sampled_from(FORMATS),
    st.integers(0, 99),
    st.sampled_from([None, "none", "lz4", "zstd"]),
)
def test_tensors(dtype, shape, name, seed, scheme):
    tensor = filled(dtype, shape, seed)
    assert_same(roundtrip(tensor, worker(serializer=name, compression=scheme)), tensor)


@pytest.mark.parametrize("name", FORMATS)
@pytest.mark.parametrize("dtype", [d for d in DATA_DTYPES.values() if d.is_floating_point and d.itemsize > 1])
def test_special_floats(dtype, name):
    tensor = torch.tensor([float("inf"), -float("inf"), float("nan"), -0.0, 1e-5, 3.14], dtype=dtype)
    back = roundtrip(tensor, worker(serializer=name))
    torch.testing.assert_close(back, tensor, rtol=0, atol=0, equal_nan=True)
    assert torch.signbit(back[3])


@pytest.mark.parametrize("name", FORMATS)
def test_neg_bit_channels_last_and_extremes(name):
    w = worker(serializer=name)
    negated = torch.complex(torch.ones(3), torch.arange(3.0)).conj().imag
    assert negated.is_neg()
    assert_same(roundtrip(negated, w), negated)
    lazy = torch._neg_view(torch.arange(3.0))
    assert roundtrip(lazy, w).tolist() == [0, -1, -2]
    last = torch.arange(120.0).reshape(2, 3, 4, 5).to(memory_format=torch.channels_last)
    assert_same(roundtrip(last, w), last)
    for dtype in (torch.uint64, torch.int64, torch.uint8, torch.int8):
        info = torch.iinfo(dtype)
        assert_same(
            roundtrip(torch.tensor([info.min, info.max], dtype=dtype), w),
            torch.tensor([info.min, info.max], dtype=dtype),
        )


def test_raw_bytes_of_every_float8_and_nan_pattern():
    for dtype in (torch.float8_e4m3fn, torch.float8_e5m2, torch.bfloat16, torch.float16):
        pattern = torch.arange(256, dtype=torch.uint8).view(dtype)
        for name in ("raw", "torch", "numpy"):
            assert_same(roundtrip(pattern, worker(serializer=name)), pattern)


def test_two_readings_own_their_memory():
    tensor = torch.arange(6.0)
    message = serialize(tensor)
    copy = bytes(bytearray(message))
    first, second = deserialize(message), deserialize(message)
    first.add_(1)
    assert torch.equal(second, tensor)
    assert message == copy
    first.resize_(100)  # memory of its own can also grow,
    tensor.resize_(100)  # and sending leaves the sender's alone


def test_a_bytearray_is_copied_unless_the_reader_owns_it():
    values = torch.randn(1000)
    message = bytearray(serialize(values))
    safe = deserialize(message)
    aliased = deserialize(message, owns_buffer=True)
    message[-4000:] = bytes(4000)
    assert torch.equal(safe, values)
    assert aliased.tolist() == [0] * 1000
    assert deserialize(bytes(message), owns_buffer=True).add_(1).sum() == 1000
    assert bytes(message[-4000:]) == bytes(4000)


def test_a_small_tensor_does_not_keep_a_large_message():
    message = bytearray(serialize((torch.randn(10), torch.randn(1000), torch.randn(1000))))
    found = deserialize(message, owns_buffer=True)
    before = [tensor.clone() for tensor in found]
    message[:] = bytes(len(message))
    assert all(map(torch.equal, found, before))


def test_frames_are_aligned():
    message = serialize([torch.full((3,), 7, dtype=torch.uint8), torch.full((5,), 9, dtype=torch.uint8)])
    assert message.index(b"\x07" * 3) % 64 == 0
    assert message.index(b"\x09" * 5) % 64 == 0


def test_requires_grad_and_gradients_travel():
    tensor = torch.arange(3.0, requires_grad=True)
    assert_same(roundtrip(tensor), tensor)
    tensor.grad = torch.ones(3, requires_grad=True)
    tensor.grad.grad = torch.full((3,), 2.0)
    back = roundtrip([tensor])[0]
    assert back.is_leaf
    assert_same(back.grad, tensor.grad)
    assert_same(back.grad.grad, tensor.grad.grad)
    frozen = tensor.detach().clone()
    frozen.grad = torch.ones(3)
    assert_same(roundtrip(frozen).grad, frozen.grad)


def test_inner_nodes_travel_as_leaves_without_a_warning():
    inner = torch.ones(3, requires_grad=True) * 2
    kept = torch.ones(3, requires_grad=True) * 2
    kept.retain_grad()
    kept.sum().backward()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        back = roundtrip(inner)
        assert_same(roundtrip(kept).grad, torch.ones(3))
    assert back.is_leaf and not back.requires_grad and back.tolist() == [2, 2, 2]


@pytest.mark.parametrize("kind", [torch.Tensor, torch.nn.Parameter])
def test_ids_tags_and_descriptions(kind):
    tensor = torch.ones(2) if kind is torch.Tensor else torch.nn.Parameter(torch.ones(2))
    assert roundtrip(tensor).__dict__ == {"_syft_id": tensor.__dict__["_syft_id"]}
    tensor.__dict__.update(_syft_id=2**127, _syft_tags={"#a", "#b"}, _syft_description="two ones")
    back = roundtrip(tensor)
    assert back.__dict__ == {"_syft_id": 2**127, "_syft_tags": {"#a", "#b"}, "_syft_description": "two ones"}


@pytest.mark.parametrize("name", FORMATS)
@pytest.mark.parametrize("requires_grad", [True, False])
def test_parameters(name, requires_grad):
    param = torch.nn.Parameter(torch.arange(4.0), requires_grad=requires_grad)
    param.grad = torch.ones(4)
    back = roundtrip(param, worker(serializer=name))
    assert_same(back, param)
    assert_same(back.grad, param.grad)
    state = torch.nn.Linear(3, 2).state_dict()
    for key, value in roundtrip(dict(state)).items():
        assert_same(value, state[key])


class Odd(torch.Tensor):
    pass


def test_tensor_subclasses_are_not_caught_by_the_tensor_row():
    for odd in (torch.ones(2).as_subclass(Odd), torch.nn.UninitializedParameter()):
        with pytest.raises(SerdeError, match=type(odd).__name__):
            serialize(odd)
    buffer = torch.nn.Buffer(torch.ones(2))
    assert torch.equal(roundtrip(buffer), buffer)


def quantized() -> torch.Tensor:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return torch.quantize_per_channel(torch.ones(1, 2), torch.ones(1), torch.zeros(1), 0, torch.qint8)


@pytest.mark.parametrize("name", FORMATS)
@pytest.mark.parametrize(
    ("make", "advice"),
    [
        (lambda: torch.eye(3).to_sparse(), "to_dense"),
        (lambda: torch.eye(3).to_sparse_csr(), "to_dense"),
        (lambda: torch.empty(3, device="meta"), "meta"),
        (lambda: torch.nested.nested_tensor([torch.ones(2), torch.ones(3)], layout=torch.jagged), "nested"),
        (quantized, "dequantize"),
        (lambda: torch.zeros(4, dtype=torch.uint8).view(torch.uint4), "uint4"),
    ],
    ids=["coo", "csr", "meta", "nested", "quantized", "shell"],
)
@pytest.mark.filterwarnings("ignore")
def test_tensors_without_dense_values_are_refused_with_advice(make, advice, name):
    with pytest.raises(SerdeError, match=advice):
        serialize(make(), worker(serializer=name))


def test_unknown_formats_are_refused_both_ways():
    for name in ("tf", "pickle", 3):
        with pytest.raises(SerdeError, match="tensor format"):
            serialize(torch.ones(1), worker(serializer=name))
    parts = torch_serde._simplify_torch_tensor(None, torch.ones(1))
    with pytest.raises(SerdeError, match="tensor format"):
        torch_serde._detail_torch_tensor(None, (*parts[:6], "tf"))


def test_documented_functions():
    tensor = torch.arange(6.0).reshape(2, 3)
    assert torch_serde.simplified_tensor_serializer(None, tensor) == (
        (2, 3),
        "float32",
        [0.0, 1.0, 2.0, 3.0, 4.0, 5.0],
    )
    back = torch_serde.simplified_tensor_deserializer(None, ((2, 3), "float32", [0.0, 1.0, 2.0, 3.0, 4.0, 5.0]))
    assert_same(back, tensor)
    assert_same(torch_tensor_deserializer(None, torch_tensor_serializer(None, tensor)), tensor)
    assert_same(numpy_tensor_deserializer(None, numpy_tensor_serializer(None, tensor)), tensor)
    for name in ("torch", "numpy", "all"):
        values = torch_serde._serialize_tensor(worker(serializer=name), tensor)
        assert_same(torch_serde._deserialize_tensor(None, name, values), tensor)
    assert len(torch_serde._simplify_torch_tensor(None, tensor)) == 7
    assert set(torch_serde.MAP_TORCH_SIMPLIFIERS_AND_DETAILERS) >= {
        torch.Tensor,
        torch.nn.Parameter,
        torch.Size,
    }


def test_torch_and_numpy_formats_are_the_real_ones():
    import io

    import numpy as np

    tensor = torch.arange(6.0).reshape(2, 3)
    assert torch.equal(torch.load(io.BytesIO(torch_tensor_serializer(None, tensor)), weights_only=True), tensor)
    assert np.load(io.BytesIO(numpy_tensor_serializer(None, tensor))).tolist() == tensor.tolist()
    half = torch.arange(3, dtype=torch.bfloat16)
    assert np.load(io.BytesIO(numpy_tensor_serializer(None, half))).dtype.names == ("bfloat16",)
    for array in (np.arange(6.0).reshape(2, 3), np.asfortranarray(np.arange(6).reshape(2, 3)), np.float32(3)):
        out = io.BytesIO()
        np.save(out, array)
        assert numpy_tensor_deserializer(None, out.getvalue()).tolist() == array.tolist()


def test_a_view_does_not_carry_the_values_it_hides():
    secret = torch.arange(1000.0)
    secret[500] = 123456.0
    for name in FORMATS:
        assert len(serialize(secret[:2], worker(serializer=name, compression="none"))) < 2000


SMALL_VALUES = [
    torch.Size([]),
    torch.Size([2, 0, 3]),
    torch.device("cpu"),
    torch.device("cuda", 3),
    torch.device("meta"),
    torch.strided,
    torch.sparse_coo,
    torch.sparse_csr,
    torch.jagged,
    torch.contiguous_format,
    torch.preserve_format,
    torch.channels_last,
    torch.channels_last_3d,
    *sorted({value for value in vars(torch).values() if isinstance(value, torch.dtype)}, key=str),
]


@pytest.mark.parametrize("value", SMALL_VALUES, ids=str)
def test_small_values(value):
    back = roundtrip([value])[0]
    assert back == value
    assert type(back) is type(value)


@pytest.mark.parametrize("cls", torch.return_types.all_return_types, ids=lambda cls: cls.__name__)
def test_every_return_type(cls):
    value = cls([torch.full((2,), i) for i in range(cls.n_sequence_fields)])
    back = roundtrip({"a": value})["a"]
    assert type(back) is cls
    assert all(torch.equal(a, b) for a, b in zip(back, value, strict=True))


def test_results_of_calls():
    x = torch.tensor([[3.0, 1.0], [2.0, 5.0]])
    for value in (x.max(1), x.min(0), x.sort(), x.topk(1), torch.linalg.svd(x), torch.linalg.eigh(x @ x.T)):
        back = roundtrip(value)
        assert type(back) is type(value)
        assert all(torch.equal(a, b) for a, b in zip(back, value, strict=True))


class Doubler(torch.nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x * 2


def scripted() -> list:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return [
            torch.jit.script(Doubler()),
            torch.jit.trace(Doubler(), torch.ones(1)),
            torch.jit.script(double),
        ]


def double(x: torch.Tensor) -> torch.Tensor:
    return x * 2


def test_script_modules_travel_only_to_workers_that_trust_them():
    for module in scripted():
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            message = serialize(module)
            trusted = deserialize(message, worker(trusts_script_modules=True))
        assert trusted(torch.ones(1)).item() == 2
        for careful in (
            None,
            worker(),
            worker(trusts_script_modules=False),
            worker(trusts_script_modules="yes"),
        ):
            with pytest.raises(SerdeError, match="trusts_script_modules"):
                deserialize(message, careful)


def test_modules_and_generators_are_refused_with_advice():
    for module in (torch.nn.Linear(2, 2), Doubler()):
        with pytest.raises(SerdeError, match=r"\.send\(worker\)"):
            serialize(module)
    with pytest.raises(SerdeError, match="seed"):
        serialize(torch.Generator())


def test_nothing_keeps_a_sent_tensor_alive():
    import weakref

    tensor = torch.ones(1000)
    ref = weakref.ref(tensor)
    message = serialize(tensor)
    del tensor
    gc.collect()
    assert ref() is None
    assert deserialize(message).sum() == 1000
