"""LargePrecisionTensor and the storages of fix_precision (items L1, L2 and X7)."""

from __future__ import annotations

import copy
import math
import operator
import warnings
from fractions import Fraction

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

import syft as sy
from syft.exceptions import GetNotPermittedError, SyftError, UnsupportedOperationError
from syft.frameworks.torch.tensors.interpreters.large_precision import LargePrecisionTensor
from syft.tensors import big_integers as big
from syft.tensors.large_precision import MAX_TERMS
from syft.workers.access.policy import DenyAll

pytestmark = pytest.mark.usefixtures("hook")
TYPES = (torch.int8, torch.int16, torch.int32, torch.int64)
FLOATS = st.floats(width=32, allow_nan=False, allow_infinity=False)
SPELLINGS = ("fix_prec", "fix_precision", "fix_prec_", "fix_precision_")


def large(values, **options):
    """Encode as large numbers, exactly for floats of moderate size."""
    options = {"storage": "large", "base": 2, "precision_fractional": 160, **options}
    return torch.as_tensor(values).fix_precision(**options)


def numbers(x):
    """Return the encoded integers as a flat list."""
    return x.child.reconstruct().reshape(-1).tolist()


# --- encoding -------------------------------------------------------------------------------------------------------


def test_l1_the_documented_example():
    x = torch.tensor([1.5, -9e16]).fix_prec(precision_fractional=128, internal_type=torch.int16)
    assert isinstance(x, torch.Tensor) and type(x.child) is sy.LargePrecisionTensor is LargePrecisionTensor
    assert type(x.child.child) is torch.Tensor and x.child.child.dtype is torch.int16
    assert torch.equal((x + x).float_precision(), torch.tensor([3.0, -1.8e17]))


def test_l1_constructor_and_on():
    link = sy.LargePrecisionTensor(tags={"#t"}, description="d")
    assert (link.field, link.base, link.precision_fractional) == (2**512, 10, 0)
    assert (link.internal_type, link.internal_precision, link.verbose) == (torch.int32, 31, False)
    x = link.on(torch.tensor([1.0, 2.0]))
    assert isinstance(x, torch.Tensor) and x.child is link and x.child.child.tolist() == [1.0, 2.0]
    with pytest.raises(SyftError, match=r"not encoded yet; call x\.child\.fix_large_precision\(\)"):
        x.float_precision()
    assert link.fix_large_precision() is link
    assert x.float_precision().tolist() == [1.0, 2.0]
    with pytest.raises(SyftError, match="not encoded yet"):
        link.fix_large_precision()


@pytest.mark.parametrize("spelling", SPELLINGS)
def test_l1_all_spellings_take_the_options(spelling):
    x = torch.tensor([1.5, 2.0])
    made = getattr(x, spelling)(precision_fractional=128, internal_type=torch.int64, verbose=True)
    assert type(made.child) is LargePrecisionTensor and made.child.internal_type is torch.int64
    assert (made is x) is spelling.endswith("_")
    assert made.float_precision().tolist() == [1.5, 2.0]
    assert made.float_prec_() is made and made.tolist() == [1.5, 2.0]


@pytest.mark.parametrize("internal_type", TYPES)
@given(values=st.lists(FLOATS, max_size=6))
@settings(max_examples=25)
def test_l1_floats_come_back(internal_type, values):
    x = torch.tensor(values, dtype=torch.float32)
    encoded = large(x, internal_type=internal_type)
    assert encoded.shape == x.shape and encoded.dtype is torch.float32
    bits = {torch.int8: 7, torch.int16: 15, torch.int32: 31, torch.int64: 63}[internal_type]
    assert encoded.child.internal_precision == bits
    exact = [math.floor(Fraction(value) * 2**160) for value in x.tolist()]
    assert numbers(encoded) == exact
    assert torch.equal(encoded.float_precision(), torch.tensor([float(Fraction(n, 2**160)) for n in exact]))


@given(values=st.lists(FLOATS.filter(lambda v: abs(v) < 1e30), min_size=1, max_size=4), digits=st.integers(0, 12))
def test_l1_encoding_takes_the_floor(values, digits):
    x = torch.tensor(values, dtype=torch.float32)
    encoded = x.fix_precision(storage="large", precision_fractional=digits)
    assert numbers(encoded) == [math.floor(Fraction(value) * 10**digits) for value in x.tolist()]


@given(number=st.integers(-(2**200), 2**200), bits=st.sampled_from([7, 15, 31, 63]))
def test_l1_limbs_are_the_digits_most_significant_first(number, bits):
    limbs = big.split(big.integers([number]), bits)[0].tolist()
    assert sum(limb * 2 ** (bits * power) for power, limb in enumerate(reversed(limbs))) == number
    assert all(abs(limb) < 2**bits and limb * number >= 0 for limb in limbs)
    assert len(limbs) == 1 or limbs[0] != 0


def test_l1_limbs_are_in_a_last_dimension():
    x = torch.tensor([[2.0**31, 5.0, -(2.0**62)]]).fix_precision(storage="large", precision_fractional=0)
    assert x.child.child.tolist() == [[[0, 1, 0], [0, 0, 5], [-1, 0, 0]]]
    assert x.shape == (1, 3)
    limbs = LargePrecisionTensor.create_tensor_from_numpy(np.array([2**31, 5], dtype=object), base=10)
    assert limbs.tolist() == [[1, 0], [0, 5]] and limbs.dtype is torch.int32


@given(numerator=st.integers(-(10**38), 10**38), scale=st.sampled_from([1, 3, 10**20, 2**70]))
def test_l1_decoding_gives_the_nearest_float32(numerator, scale):
    decoded = Fraction(big.to_floats(big.integers([numerator]), scale, torch.float32).item())
    exact = Fraction(numerator, scale)
    for neighbour in (math.inf, -math.inf):
        other = torch.nextafter(torch.tensor(float(decoded)), torch.tensor(neighbour)).item()
        assert math.isinf(other) or abs(decoded - exact) <= abs(Fraction(other) - exact)


def test_l1_double_rounding_is_avoided():
    exact = 2**60 + 2**36 + 1  # above the middle of two float32, by less than float64 shows
    assert big.to_floats(big.integers([exact]), 1, torch.float32).item() == 2**60 + 2**37


def test_l1_large_values_mixed_magnitudes_and_dimensions():
    for shape in ((6,), (2, 3), (1, 3, 2), ()):
        x = torch.tensor([9e16, -9e16, 1e-9, 0.0, 3e38, -0.1])[: math.prod(shape)].reshape(shape)
        assert torch.equal(large(x).float_precision(), x)
    assert large(torch.zeros(0, 3)).float_precision().shape == (0, 3)


@pytest.mark.parametrize("dtype", [torch.int8, torch.int64, torch.bool, torch.float16, torch.bfloat16, torch.float64])
def test_l1_other_dtypes(dtype):
    x = torch.tensor([0, 1, 1]).to(dtype)
    decoded = large(x).float_precision()
    assert decoded.dtype is (torch.float64 if dtype is torch.float64 else torch.float32)
    assert decoded.tolist() == [0.0, 1.0, 1.0]
    whole = torch.tensor([2**62 + 1, -(2**63)])
    assert numbers(whole.fix_precision(precision_fractional=0)) == [2**62 + 1, -(2**63)]


# --- the choice of storage --------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("values", "options", "is_large"),
    [
        ([1.5], {}, False),
        ([1.5], {"precision_fractional": 128}, True),
        ([1.5, 9e16], {}, True),
        ([-9e16], {}, True),
        ([2.0**61], {"precision_fractional": 0}, True),
        ([2.0**60], {"precision_fractional": 0}, False),
        ([1.0], {"precision_fractional": 12}, False),
        ([1.0], {"precision_fractional": 13}, True),
        ([], {}, False),
        ([1.0], {"storage": "large"}, True),
        ([1.0], {"field": 2**128}, True),
    ],
)
def test_l1_auto_chooses_by_the_number_of_bits(values, options, is_large):
    x = torch.tensor(values)
    encoded = x.fix_precision(**options)
    assert type(encoded.child) is (sy.LargePrecisionTensor if is_large else sy.FixedPrecisionTensor)
    assert torch.allclose(encoded.float_precision(), x)


def test_l1_a_type_that_is_not_needed_is_ignored_with_a_warning():
    with pytest.warns(UserWarning, match="internal_type is ignored") as caught:
        x = torch.tensor([1.5]).fix_prec(internal_type=torch.int16)
    assert caught[0].filename == __file__
    assert type(x.child) is sy.FixedPrecisionTensor
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        torch.tensor([1.5]).fix_prec(storage="large", internal_type=torch.int16)


def test_l1_many_digits_get_a_field_with_room():
    x = torch.tensor([1.5, -2e9]).fix_precision(precision_fractional=256)
    assert x.child.field == 2**1024
    assert (x * x).float_precision().tolist() == [2.25, torch.tensor(4e18).item()]
    assert torch.tensor([1.5]).fix_precision(precision_fractional=128).child.field == 2**512


def test_l1_uint8_takes_no_negative_numbers():
    x = large([1.5, 2.0], internal_type=torch.uint8)
    assert x.child.child.dtype is torch.uint8 and int(x.child.child.max()) < 128
    assert (x * x + 1).float_precision().tolist() == [3.25, 5.0]
    for make_negative in (lambda: large([-1.0], internal_type=torch.uint8), lambda: x - 5, lambda: -x):
        with pytest.raises(SyftError, match="uint8 takes no negative numbers"):
            make_negative()


@pytest.mark.parametrize(
    ("options", "text"),
    [
        ({"base": 1}, "base of a large-precision tensor"),
        ({"base": 2.0}, "base of a large-precision tensor"),
        ({"precision_fractional": -1}, "precision_fractional of a large-precision tensor"),
        ({"precision_fractional": 10**9}, "precision_fractional of a large-precision tensor"),
        ({"field": 2**5000}, "field of a large-precision tensor"),
        ({"field": "wide"}, "field of a large-precision tensor"),
        ({"field": 2**64, "precision_fractional": 100}, "leave no room for 1"),
        ({"internal_type": torch.float32}, "internal_type must be one of"),
        ({"internal_type": int}, "internal_type must be one of"),
    ],
)
def test_l1_wrong_options_are_refused(options, text):
    with pytest.raises(SyftError, match=text):
        large([1.0], **options)


def test_l1_any_number_of_digits_is_refused_or_encoded():
    for digits in (2**600, 10**9, 4097):
        with pytest.raises(SyftError, match="precision_fractional of a large-precision tensor"):
            torch.tensor([1.0]).fix_precision(precision_fractional=digits)
    assert torch.tensor([0.5]).fix_precision(base=2, precision_fractional=3900).float_precision().item() == 0.5


@pytest.mark.parametrize("values", [[math.nan], [1.0, math.inf]])
def test_l1_only_finite_numbers_are_encoded(values):
    with pytest.raises(SyftError, match="NaN and infinity"):
        large(values)
    with pytest.raises(SyftError, match="complex"):
        large([1j])


def test_l1_values_that_do_not_fit_are_refused_at_encoding():
    assert numbers(large([127.0, -128.0], field=2**8, precision_fractional=0)) == [127, -128]
    for outside in (128.0, -129.0):
        with pytest.raises(SyftError, match=r"does not fit: .*Pass a larger one, field=2\*\*16"):
            large([outside], field=2**8, precision_fractional=0)
    with pytest.raises(SyftError, match="operand does not fit"):
        large([1.0], field=2**8, precision_fractional=0) + 200


def test_l1_results_wrap_around_by_definition():
    x = large([127.0], field=2**8, precision_fractional=0)
    assert numbers(x + 1) == [-128] and numbers(x * 2) == [-2]


def test_l1_a_value_beyond_float32_is_refused_at_decoding():
    x = large([3e38], precision_fractional=0)
    with pytest.raises(SyftError, match=r"too large for torch.float32.*x\.child\.reconstruct"):
        (x * 10).float_precision()
    assert numbers(x * 10) == [10 * int(torch.tensor(3e38).item())]


# --- arithmetic -----------------------------------------------------------------------------------------------------

VALUES = st.lists(st.fractions(-(10**9), 10**9, max_denominator=1).map(float), min_size=3, max_size=3)
WHOLE = st.integers(-(2**80), 2**80)


def of_integers(values, like=None, **options):
    """Make a tensor of given integers in units of 10 ** -30."""
    if like is not None:
        return like.child.like(big.integers(values)).wrap()
    model = large([0.0], base=10, precision_fractional=30, **options)
    return model.child.like(big.integers(values)).wrap()


@given(left=st.lists(WHOLE, min_size=3, max_size=3), right=st.lists(WHOLE, min_size=3, max_size=3), whole=WHOLE)
@settings(max_examples=40)
def test_l1_arithmetic_is_that_of_integers(left, right, whole):
    x, y, scale = of_integers(left), of_integers(right), 10**30
    pairs = list(zip(left, right, strict=True))
    assert numbers(x + y) == [a + b for a, b in pairs]
    assert numbers(x - y) == [a - b for a, b in pairs]
    assert numbers(x * y) == [a * b // scale for a, b in pairs]
    assert numbers(x + whole) == numbers(whole + x) == [a + whole * scale for a in left]
    assert numbers(x - whole) == [a - whole * scale for a in left]
    assert numbers(whole - x) == [whole * scale - a for a in left]
    assert numbers(x * whole) == numbers(whole * x) == [a * whole for a in left]
    assert numbers(-x) == [-a for a in left] and numbers(abs(x)) == [abs(a) for a in left]
    assert numbers(x.sum()) == [sum(left)]
    if all(right) and whole:
        assert numbers(x % y) == [a % b for a, b in pairs]
        assert numbers(x % whole) == [a % (whole * scale) for a in left]
    for function in (operator.gt, operator.lt, operator.ge, operator.le, operator.eq, operator.ne):
        assert function(x, y).float_precision().tolist() == [float(function(a, b)) for a, b in pairs]
        assert function(x, whole).float_precision().tolist() == [float(function(a, whole * scale)) for a in left]


@given(left=st.lists(WHOLE, min_size=2, max_size=2), right=st.lists(WHOLE, min_size=2, max_size=2))
@settings(max_examples=20)
def test_l1_in_place_forms_change_the_tensor(left, right):
    for name, function in (("add_", operator.add), ("sub_", operator.sub), ("mul_", operator.mul)):
        x, y = of_integers(left), of_integers(right)
        expected = numbers(function(x, y))
        assert getattr(x, name)(y) is x and numbers(x) == expected
        z = of_integers(left)
        assert getattr(z, name)(3) is z and numbers(z) == numbers(function(of_integers(left), 3))
    x = y = of_integers(left)
    x += of_integers(right)
    x -= 1
    x *= 2
    assert x is y and numbers(x) == [(a + b - 10**30) * 2 for a, b in zip(left, right, strict=True)]


@pytest.mark.parametrize("name", ["add", "sub", "mul", "remainder", "gt", "lt", "eq"])
def test_l1_methods_functions_and_links_agree(name):
    x, y = large([1.5, -7.25]), large([2.5, 2.0])
    expected = getattr(torch, name)(torch.tensor([1.5, -7.25]), torch.tensor([2.5, 2.0])).float()
    for made in (getattr(x, name)(y), getattr(torch, name)(x, y)):
        assert torch.equal(made.float_precision(), expected)
    bare = getattr(x.child, name)(y.child)
    assert type(bare) is LargePrecisionTensor and torch.equal(bare.float_precision(), expected)
    assert x.child.mod(y.child).float_precision().tolist() == [1.5, 0.75]


@pytest.mark.parametrize(
    ("left", "right"), [((2, 3), (3,)), ((2, 1), (1, 3)), ((), (2,)), ((2, 2, 2), (2, 1)), ((0,), (1,))]
)
def test_l1_operands_are_broadcast(left, right):
    a, b = torch.randn(left), torch.randn(right)
    assert torch.equal((large(a) + large(b)).float_precision(), (a.double() + b.double()).float())
    product = large(a, precision_fractional=300, field=2**1024) * large(b, precision_fractional=300, field=2**1024)
    assert torch.equal(product.float_precision(), (a.double() * b.double()).float())


def test_l1_shapes_that_do_not_fit_are_refused():
    with pytest.raises(SyftError, match=r"can't broadcast the shapes \(2,\) and \(3,\)"):
        large([1.0, 2.0]) + large([1.0, 2.0, 3.0])
    with pytest.raises(SyftError, match=r"add_\(\) can't change the shape \(1,\) to \(2,\)"):
        large([1.0]).add_(large([1.0, 2.0]))
    with pytest.raises(SyftError, match="divisor is zero"):
        large([1.0, 2.0]) % large([1.0, 0.0])


def test_l1_plain_and_fixed_operands_are_encoded():
    x = large([1.5, 2.5], base=10, precision_fractional=3)
    fixed = torch.tensor([0.25, 1.0]).fix_precision()
    assert (x + fixed).float_precision().tolist() == (fixed + x).float_precision().tolist() == [1.75, 3.5]
    assert (x + 0.5).float_precision().tolist() == [2.0, 3.0] and (x * 0.5).float_precision().tolist() == [0.75, 1.25]
    plain = torch.tensor([1.0, 2.0])
    assert (x - plain).float_precision().tolist() == [0.5, 0.5] and (plain - x).float_precision().tolist() == [
        -0.5,
        -0.5,
    ]
    assert torch.add(x, x, alpha=2).float_precision().tolist() == [4.5, 7.5]


@pytest.mark.parametrize(
    "other", [{"precision_fractional": 100}, {"field": 2**600}, {"base": 10, "precision_fractional": 40}]
)
def test_l1_operands_of_other_formats_are_refused(other):
    with pytest.raises(SyftError, match="encoded differently"):
        large([1.0]) + large([1.0], **other)
    with pytest.raises(SyftError, match="another number of digits"):
        large([1.0]) + torch.tensor([1.0]).fix_precision()
    mixed = large([1.0], internal_type=torch.int8) + large([1.0], internal_type=torch.int64)
    assert mixed.child.internal_type is torch.int8


def test_l1_comparisons_can_be_read():
    x, y = large([1.0, 2.0]), large([0.5, 1.5])
    assert torch.all(x > y) and not (x < y).any() and bool((x > y).all())
    assert torch.all(torch.eq(torch.tensor([True, True]), x > y))
    assert (x > y).tolist() == [1.0, 1.0] and bool(large([2.0]) > large([1.0]))
    assert torch.equal(x, large([1.0, 2.0])) and not torch.equal(x, y)


def test_l1_values_can_be_moved():
    a = torch.arange(6.0).reshape(2, 3) * 1e20
    x = large(a)
    for move in (
        lambda t: t[0], lambda t: t[:, 1:], lambda t: t.t(), lambda t: t.view(3, 2), lambda t: t.reshape(-1),
        lambda t: t.unsqueeze(1), lambda t: t.transpose(0, 1), lambda t: t.permute(1, 0), lambda t: t.flip(0),
        lambda t: t.sum(0), lambda t: t.sum(dim=1, keepdim=True), lambda t: t.expand(2, 2, 3), lambda t: t.clone(),
    ):  # fmt: skip
        assert torch.equal(move(x).float_precision(), move(a))
    assert [part.float_precision().tolist() for part in x.unbind(0)] == a.tolist()
    for join in (torch.cat, torch.stack):
        assert torch.equal(join([x, x], dim=1).float_precision(), join([a, a], dim=1))
        with pytest.raises(SyftError, match="can't be joined"):
            join([x, x[:, :2], x[0]])


def test_l1_other_calls_are_refused():
    for call in (torch.exp, torch.linalg.norm, lambda t: t / 2, lambda t: t @ t):
        with pytest.raises(UnsupportedOperationError, match=r"on LargePrecisionTensor\. .*x\.float_precision\(\)"):
            call(large([1.0]))
    with pytest.raises(SyftError, match="encoded or shared already"):
        large([1.0]).fix_precision()


# --- text, copies, bytes, workers -------------------------------------------------------------------------------------


def test_l1_text_and_html():
    x = torch.tensor([1.0]).fix_precision(storage="large")
    assert repr(x) == "(Wrapper)>LargePrecisionTensor(3 decimals, 2**512)>tensor([[1000]], dtype=torch.int32)"
    assert "LargePrecisionTensor &gt; Tensor" in x._repr_html_()
    assert f"{x}" == repr(x) and f"{x[0]:.2f}" == "1.00"
    assert repr(sy.LargePrecisionTensor()) == "LargePrecisionTensor(0 decimals, 2**512)"


def test_l1_copies_are_independent():
    x = large([1.0])
    for copied in (x.copy(), copy.deepcopy(x), x.detach()):
        copied.add_(1)
        assert copied.tolist() == [2.0] and x.tolist() == [1.0]


@pytest.mark.parametrize("internal_type", [*TYPES, torch.uint8])
def test_l1_bytes(internal_type):
    x = large(torch.rand(2, 3, dtype=torch.float64), internal_type=internal_type).tag("#big")
    back = sy.deserialize(sy.serialize(x))
    assert numbers(back) == numbers(x) and back.child.get_class_attributes() == x.child.get_class_attributes()
    assert back.tags == {"#big"} and back.dtype is torch.float64


def test_l1_send_and_get(workers, nothing_left):
    bob, alice = workers
    x = large([1.5, -9e16])
    pointer = x.send(bob)
    assert pointer.shape == (2,)
    assert (pointer + pointer * 2).get().float_precision().tolist() == [4.5, torch.tensor(-2.7e17).item()]
    assert pointer.float_precision().get().tolist() == x.tolist()
    assert numbers(pointer.send(alice).get().get()) == numbers(x)
    del pointer
    nothing_left(bob, alice)


def test_l1_encoding_at_the_holder(workers):
    bob, _ = workers
    options = {"storage": "large", "precision_fractional": 200, "field": 2**1000, "internal_type": torch.int8}
    there = torch.tensor([1.5, -2.0]).send(bob).fix_precision(**options)
    made = there.get()
    assert (made.child.field, made.child.internal_type) == (2**1000, torch.int8)
    assert made.tolist() == [1.5, -2.0]
    assert type(torch.tensor([9e16]).send(bob).fix_precision().get().child) is LargePrecisionTensor


def test_l1_modules_can_be_encoded():
    model = torch.nn.Linear(3, 2)
    before = [parameter.detach().clone() for parameter in model.parameters()]
    assert model.fix_precision(storage="large", precision_fractional=60) is model
    assert all(type(parameter.child) is LargePrecisionTensor for parameter in model.parameters())
    with pytest.raises(UnsupportedOperationError, match="linear is not supported on LargePrecisionTensor"):
        model(torch.ones(1, 3))
    model.float_precision()
    for parameter, old in zip(model.parameters(), before, strict=True):
        assert isinstance(parameter, torch.nn.Parameter) and parameter.requires_grad and torch.equal(parameter, old)


def forged(**changes):
    """Return the parts of a tensor on the wire, some replaced."""
    link = large([1.0, 2.0], field=2**512).child
    names = ("id", "tags", "description", "attributes", "child", "is_encoded", "terms")
    parts = dict(zip(names, LargePrecisionTensor.simplify(None, link), strict=True))
    attributes = {**parts["attributes"], **changes.pop("attributes", {})}
    return tuple({**parts, "attributes": attributes, **changes}.values())


@pytest.mark.parametrize(
    "changes",
    [
        {"attributes": {"field": 2**512}},
        {"attributes": {"field": b""}},
        {"attributes": {"field": b"\xff" * 1000}},
        {"attributes": {"base": 1}},
        {"attributes": {"precision_fractional": 10**9}},
        {"attributes": {"internal_type": torch.float32}},
        {"attributes": {"internal_type": torch.int8}},
        {"attributes": {"dtype": torch.int64}},
        {"attributes": {"more": 1}},
        {"child": None},
        {"child": [1]},
        {"child": torch.ones(2, 3)},
        {"child": torch.tensor(1, dtype=torch.int32)},
        {"child": torch.ones(2, 0, dtype=torch.int32)},
        {"child": torch.ones(2, 18, dtype=torch.int32)},
        {"child": torch.ones(2, 3, dtype=torch.int32).to_sparse()},
        {"is_encoded": 1},
        {"terms": 0},
        {"terms": MAX_TERMS + 1},
        {"terms": True},
    ],
)
def test_l1_forged_parts_are_refused(changes):
    assert LargePrecisionTensor.detail(None, forged()).float_precision().tolist() == [1.0, 2.0]
    with pytest.raises((SyftError, TypeError)):
        LargePrecisionTensor.detail(None, forged(**changes))


# --- sharing ----------------------------------------------------------------------------------------------------------


@given(
    left=st.lists(WHOLE, min_size=2, max_size=2), right=st.lists(WHOLE, min_size=2, max_size=2),
    internal_type=st.sampled_from(TYPES),
)  # fmt: skip
@settings(max_examples=20)
def test_l2_sums_on_shares_are_those_of_integers(left, right, internal_type):
    hook = sy.TorchHook(torch)
    parties = [sy.VirtualWorker(hook, id=f"l2-{name}", auto_add=False) for name in "abc"]
    x = of_integers(left, internal_type=internal_type)
    y = of_integers(right, like=x)
    a, b = (value.share(*parties) for value in (x, y))
    assert numbers((a + b).get()) == [p + q for p, q in zip(left, right, strict=True)]
    a, b = (value.share(*parties) for value in (x, y))
    assert numbers((a - b + 1).get()) == [p - q + 10**30 for p, q in zip(left, right, strict=True)]
    a = x.share(*parties)
    assert numbers((y - a).get()) == numbers(y - x)


def test_l2_share_get_and_refusals(workers, make_worker, nothing_left):
    bob, alice = workers
    carol = make_worker("carol")
    x = torch.tensor([1.5, -9e16]).fix_precision(precision_fractional=64).share(bob, alice, crypto_provider=carol)
    assert type(x.child) is LargePrecisionTensor and type(x.child.child) is sy.AdditiveSharingTensor
    assert (x + x).get().float_precision().tolist() == [3.0, torch.tensor(-1.8e17).item()]
    assert (2 - x).get().float_precision().tolist() == [0.5, torch.tensor(9e16).item()]
    total = x.copy()
    total += 1
    assert total.get().float_precision().tolist() == [2.5, torch.tensor(-9e16).item()]
    for call in (
        lambda: x * x,
        lambda: x * 2,
        lambda: x > 0,
        lambda: x % 3,
        lambda: x[0],
        lambda: x.tolist(),
        lambda: x.sum(),
    ):
        with pytest.raises(UnsupportedOperationError, match="shared LargePrecisionTensor"):
            call()
    with pytest.raises(SyftError, match=r"Fetch the shares first: x\.get\(\)"):
        x.float_precision()
    with pytest.raises(SyftError, match="shared already"):
        x.share(bob, alice)
    with pytest.raises(SyftError, match="Only encoded tensors have gradients"):
        large([1.0]).share(bob, alice, requires_grad=True)
    x.get()
    del total
    nothing_left(bob, alice)


def test_l2_the_number_of_limbs_hides_the_magnitude(workers):
    small, wide = (large([value]).share(*workers) for value in (0.0, 1e30))
    assert small.child.child.shape == wide.child.child.shape == (1, 32)


def test_l2_sums_of_too_many_terms_are_refused(workers):
    x = large([1.0]).share(*workers)
    for _ in range(31):
        x = x + x
    with pytest.raises(SyftError, match="room for 2147483648"):
        x + x
    assert x.get().tolist() == [2.0**31]


def test_l2_sharing_at_the_holder_and_sending_shares(make_worker):
    bob, alice, carol = (make_worker(name) for name in ("bob", "alice", "carol"))
    there = large([1.5]).send(carol).share(bob, alice)
    shared = there.get()
    assert (shared + shared).get().tolist() == [3.0]
    again = large([2.5]).share(bob, alice)
    assert again.send(carol).get().get().tolist() == [2.5]
    with pytest.raises(SyftError, match="can't be sent to one of the workers"):
        large([2.5]).share(bob, alice).send(bob)


def test_l2_shares_travel(workers):
    x = large([1.5]).share(*workers)
    me = sy.local_worker
    parts = LargePrecisionTensor.simplify(me, x.child)
    assert LargePrecisionTensor.detail(me, parts).is_shared
    narrow = torch.tensor([1, 2]).share(*workers).child
    with pytest.raises(TypeError, match="one limb for each part"):
        LargePrecisionTensor.detail(me, (*parts[:4], narrow, *parts[5:]))


# --- field (X7) -----------------------------------------------------------------------------------------------------


@given(left=st.integers(-50, 50), right=st.integers(-50, 50), field=st.integers(101, 300))
def test_x7_small_fields_wrap_around(left, right, field):
    x, y = (torch.tensor([v]).fix_precision(field=field, precision_fractional=0) for v in (left, right))
    for function in (operator.add, operator.sub, operator.mul):
        made = function(x, y)
        value = made.float_precision().item()
        assert made.child.child.item() == value
        assert value % field == function(left, right) % field and -field / 2 <= value < field / 2
    x += y
    assert x.float_precision().item() % field == (left + right) % field


def test_x7_encoding_refuses_values_beyond_half_the_field():
    for field, inside, outside in ((3, (-1, 1), (-2, 2)), (7, (-3, 3), (-4, 4)), (8, (-4, 3), (-5, 4))):
        x = torch.tensor(inside).fix_precision(field=field, precision_fractional=0)
        assert x.child.field == field and x.float_precision().tolist() == list(inside)
        for value in outside:
            with pytest.raises(SyftError, match="can't be encoded"):
                torch.tensor([value]).fix_precision(field=field, precision_fractional=0)
    with pytest.raises(SyftError, match="can't be encoded"):
        torch.tensor([3.6]).fix_precision(field=7, precision_fractional=0)


def test_x7_the_default_fields_change_nothing(workers):
    for field in (None, 2**62, 2**63, 2**64):
        x = torch.tensor([1.5]).fix_precision(field=field)
        assert (x + x).float_precision().tolist() == [3.0]
        assert x.share(*workers).get().float_precision().tolist() == [1.5]


def test_x7_a_small_field_is_not_shared(workers):
    with pytest.raises(SyftError, match=r"field of 65536, and shares are modulo 2\*\*64"):
        torch.tensor([1.5]).fix_precision(field=2**16).share(*workers)


# --- policies ---------------------------------------------------------------------------------------------------------

KINDS = {
    "large": lambda: large([1.5]),
    "residues": lambda: torch.tensor([1.5]).fix_precision(storage="crt"),
    "array": lambda: sy.NumpyTensor([1.5]),
}


@pytest.mark.parametrize("kind", KINDS)
def test_l1_values_stay_at_a_worker_that_releases_nothing(make_worker, kind):
    bob, alice, carol = (make_worker(name) for name in ("bob", "alice", "carol"))
    bob.policy = DenyAll()
    pointer = KINDS[kind]().send(bob)
    plain = torch.tensor([1.5]).send(bob)
    for read in (
        lambda: pointer.get(),
        lambda: (pointer + pointer).get(),
        lambda: pointer.tolist(),
        lambda: pointer.item(),
        lambda: bool(pointer == pointer),
        lambda: float(pointer),
        lambda: torch.equal(pointer, pointer),
        lambda: pointer.share(alice, carol),
        lambda: plain.fix_precision(storage="large").get(),
        lambda: plain.fix_precision(storage="crt").get(),
    ):
        with pytest.raises((GetNotPermittedError, UnsupportedOperationError, TypeError)):
            read()
