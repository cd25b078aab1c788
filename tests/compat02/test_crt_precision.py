"""CRTPrecisionTensor: fixed-point numbers as residues (item L3)."""

from __future__ import annotations

import copy
import math
from fractions import Fraction

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

import syft as sy
from syft.exceptions import SyftError, UnsupportedOperationError
from syft.frameworks.torch.tensors.interpreters.crt_precision import CRTPrecisionTensor
from syft.tensors import big_integers as big
from syft.tensors.crt_precision import FIELD_TYPES, MAX_TERMS

pytestmark = pytest.mark.usefixtures("hook")
WHOLE = st.integers(-(10**13), 10**13)
PAIRS = st.lists(st.tuples(WHOLE, WHOLE), min_size=1, max_size=4)


def crt(values, **options):
    """Encode as residues."""
    return torch.as_tensor(values).fix_precision(storage="crt", **options)


def of_integers(values, **options):
    """Make a tensor of given integers in units of 1/1000."""
    return crt([0.0], **options).child.like(big.integers(values)).wrap()


def numbers(x):
    """Return the encoded integers as a flat list."""
    return x.child.reconstruct().reshape(-1).tolist()


def centred(number, modulus):
    """Return a number modulo another one, nearest to zero."""
    return (number + modulus // 2) % modulus - modulus // 2


# --- encoding ---------------------------------------------------------------------------------------------------------


def test_l3_the_documented_example():
    c = torch.tensor([3, -4]).fix_prec(storage="crt", field_type="int100", precision_fractional=2)
    assert (c * c + 1).float_precision().tolist() == [10.0, 17.0]


@pytest.mark.parametrize(
    ("field_type", "count", "product"),
    [("int64", 8, 31.8e18), ("int100", 10, 6.6e30), ("int128", 13, 4.0e38), (21, 2, 21)],
)
def test_l3_field_types(field_type, count, product):
    moduli = FIELD_TYPES[field_type]
    assert len(set(moduli)) == count and math.prod(moduli) == pytest.approx(product, rel=0.01)
    assert all(all(modulus % divisor for divisor in range(2, modulus)) for modulus in moduli)  # primes
    assert crt([3.0], field_type=field_type, precision_fractional=0).child.moduli == moduli
    largest = math.prod(moduli) // 2
    x = of_integers([largest, -largest], field_type=field_type)
    assert numbers(x) == [largest, -largest]


def test_l3_the_chain():
    c = crt([[1.5, -2.0]], field_type="int64")
    assert isinstance(c, torch.Tensor) and type(c.child) is sy.CRTPrecisionTensor is CRTPrecisionTensor
    assert type(c.child.child) is dict and tuple(c.child.child) == FIELD_TYPES["int64"]
    for modulus, residue in c.child.child.items():
        assert isinstance(residue, torch.Tensor) and type(residue.child) is sy.FixedPrecisionTensor
        assert residue.child.field == modulus
        assert residue.child.child.tolist() == [[1500 % modulus, -2000 % modulus]]
    assert c.shape == c.child.shape == (1, 2) and c.grad is None and c.child.grad is None
    assert c.child.get_class_attributes() == {"base": 10, "precision_fractional": 3}
    assert crt([1.0]).child.moduli == FIELD_TYPES["int100"]


@pytest.mark.parametrize("spelling", ["fix_prec", "fix_precision", "fix_prec_", "fix_precision_"])
def test_l3_all_spellings(spelling):
    x = torch.tensor([1.5])
    made = getattr(x, spelling)(storage="crt", field_type="int128", base=2, precision_fractional=20)
    assert (made is x) is spelling.endswith("_")
    assert type(made.child) is CRTPrecisionTensor and made.float_precision().tolist() == [1.5]


@given(values=st.lists(st.floats(-(2.0**50), 2.0**50, width=32), max_size=5), digits=st.integers(0, 9))
def test_l3_values_are_rounded_to_the_nearest_unit(values, digits):
    x = torch.tensor(values, dtype=torch.float32)
    encoded = crt(x, precision_fractional=digits)
    assert numbers(encoded) == [round(Fraction(value) * 10**digits) for value in x.tolist()]
    assert encoded.float_precision().dtype is torch.float32 and encoded.shape == x.shape


def test_l3_other_dtypes_and_shapes():
    for dtype in (torch.int8, torch.int64, torch.bool, torch.float16, torch.float64):
        x = torch.tensor([[0, 1], [1, 0]]).to(dtype)
        decoded = crt(x).float_precision()
        assert decoded.dtype is (torch.float64 if dtype is torch.float64 else torch.float32)
        assert torch.equal(decoded, x.to(decoded.dtype))
    for shape in ((), (0,), (2, 0), (1, 2, 3)):
        x = torch.randn(shape)
        assert torch.allclose((crt(x) + crt(x)).float_precision(), 2 * x, atol=2e-3)


def test_l3_values_that_do_not_fit_are_refused():
    assert numbers(crt([10, -10], field_type=21, precision_fractional=0)) == [10, -10]
    for outside in (11, -11):
        with pytest.raises(SyftError, match=r"does not fit: .*field_type=21 lie between -10 and 10\. "):
            crt([outside], field_type=21, precision_fractional=0)
    with pytest.raises(SyftError, match="does not fit"):
        crt([1e30])
    with pytest.raises(SyftError, match="This number does not fit"):
        crt([1], field_type=21, precision_fractional=0) + 30
    with pytest.raises(SyftError, match="NaN and infinity"):
        crt([math.nan])


def test_l3_wrong_options_are_refused():
    with pytest.raises(SyftError, match="takes a field_type instead of a field"):
        crt([1.0], field=2**62)
    for wrong in ("int32", 22, 21.5, True, [1]):
        with pytest.raises(SyftError, match="field_type must be one of 21, 'int64', 'int100', 'int128'"):
            crt([1.0], field_type=wrong)
    with pytest.raises(SyftError, match="precision_fractional"):
        crt([1.0], precision_fractional=-1)
    with pytest.raises(SyftError, match="encoded or shared already"):
        crt([1.0]).fix_precision()


# --- the constructor ----------------------------------------------------------------------------------------------------


def residue(values, field, **options):
    """Encode residues by hand."""
    return torch.tensor(values).fix_precision(field=field, **{"precision_fractional": 0, **options})


def test_l3_a_tensor_can_be_made_of_residues():
    for wrap in (lambda t: t, lambda t: t.child):
        link = CRTPrecisionTensor(
            {3: wrap(residue([1, 1], 3)), 7: wrap(residue([3, -2], 7))}, base=10, precision_fractional=0
        )
        assert link.wrap().float_precision().tolist() == [10.0, -2.0]
        assert (link.base, link.precision_fractional) == (10, 0)
    default = torch.tensor([5]).fix_precision(precision_fractional=0)
    assert CRTPrecisionTensor({3: default, 7: default}).float_precision().tolist() == [5.0]


@pytest.mark.parametrize(
    ("residues", "options", "text"),
    [
        (lambda: {3: residue([1], 3), 6: residue([1], 6)}, {}, "pairwise coprime, and 3 and 6"),
        (lambda: {3: residue([1], 3), 7: residue([1], 7, base=2)}, {}, "one base"),
        (lambda: {31: residue([1], 31), 7: residue([0], 7, precision_fractional=1)}, {}, "one precision_fractional"),
        (lambda: {3: residue([1], 3), 7: residue([1, 1], 7)}, {}, "one shape"),
        (lambda: {3: residue([1], 3), 7: residue([1], 5)}, {}, "modulo 7 have the field 5"),
        (lambda: {3: residue([1], 3)}, {"base": 2}, "digits of base 10"),
        (lambda: {3: residue([1], 3)}, {"precision_fractional": 2}, "0 digits of base 10, not 2"),
        (lambda: {3: torch.tensor([1])}, {}, "must be a fixed-precision tensor, got a Tensor"),
        (lambda: {3: sy.FixedPrecisionTensor().on(torch.ones(1))}, {}, "not encoded yet"),
        (lambda: {1: residue([1], 3)}, {}, "A modulus must be an integer from 2"),
        (lambda: {"3": residue([1], 3)}, {}, "A modulus must be an integer"),
        (lambda: {2**40: residue([1], 3)}, {}, "A modulus must be an integer"),
        (lambda: {}, {}, "residues must be a dict"),
        (lambda: [residue([1], 3)], {}, "residues must be a dict"),
    ],
)
def test_l3_residues_that_do_not_belong_together_are_refused(residues, options, text):
    with pytest.raises(SyftError, match=text):
        CRTPrecisionTensor(residues(), **options)


def test_l3_a_tensor_without_residues():
    link = sy.CRTPrecisionTensor(base=10, precision_fractional=2)
    assert repr(link) == "CRTPrecisionTensor"
    with pytest.raises(SyftError, match="no residues yet"):
        link.float_precision()


# --- arithmetic -----------------------------------------------------------------------------------------------------------


@given(pairs=PAIRS, whole=st.integers(-(10**9), 10**9))
@settings(max_examples=40)
def test_l3_arithmetic_is_that_of_integers(pairs, whole):
    left, right = ([pair[side] for pair in pairs] for side in (0, 1))
    x, y = of_integers(left), of_integers(right)
    assert numbers(x + y) == [a + b for a, b in pairs]
    assert numbers(x - y) == [a - b for a, b in pairs]
    assert numbers(x * y) == [round(Fraction(a * b, 1000)) for a, b in pairs]
    assert numbers(x + whole) == numbers(whole + x) == [a + 1000 * whole for a in left]
    assert numbers(x - whole) == [a - 1000 * whole for a in left]
    assert numbers(whole - x) == [1000 * whole - a for a in left]
    assert numbers(x * whole) == numbers(whole * x) == [a * whole for a in left]
    assert numbers(-x) == [-a for a in left]
    assert (x == y).float_precision().tolist() == [float(a == b) for a, b in pairs]
    assert (x != y).float_precision().tolist() == [float(a != b) for a, b in pairs]
    assert (x == x).float_precision().tolist() == [1.0] * len(pairs)


@given(left=st.integers(-10, 10), right=st.integers(-10, 10))
def test_l3_results_wrap_around_by_definition(left, right):
    x, y = (crt([value], field_type=21, precision_fractional=0) for value in (left, right))
    assert numbers(x + y) == [centred(left + right, 21)]
    assert numbers(x * y) == [centred(left * right, 21)]
    assert numbers(x * right) == [centred(left * right, 21)]


def test_l3_products_of_large_numbers_keep_their_precision():
    x = of_integers([123_456_789, -987_654_321])
    assert (x * x).child.precision_fractional == 3
    assert numbers(x * x) == [round(Fraction(n * n, 1000)) for n in (123_456_789, -987_654_321)]
    assert numbers(x * x * 1) == numbers(x * x)


@pytest.mark.parametrize("name", ["add", "sub", "mul", "eq"])
def test_l3_methods_functions_and_links_agree(name):
    a, b = torch.tensor([1.5, -2.0]), torch.tensor([0.25, -2.0])
    expected = getattr(torch, name)(a, b).float()
    x, y = crt(a), crt(b)
    for made in (getattr(x, name)(y), getattr(torch, name)(x, y)):
        assert torch.equal(made.float_precision(), expected)
    bare = getattr(x.child, name)(y.child)
    assert type(bare) is CRTPrecisionTensor and torch.equal(bare.float_precision(), expected)


def test_l3_operands_are_broadcast():
    x, y = torch.tensor([[1.0], [2.0]]), torch.tensor([3.0, 4.0, 5.0])
    for function in (torch.add, torch.sub, torch.mul, torch.eq):
        assert torch.equal(function(crt(x), crt(y)).float_precision(), function(x, y).float())
    with pytest.raises(SyftError, match=r"shapes \(2,\) and \(3,\) can't be broadcast"):
        crt([1.0, 2.0]) * crt([1.0, 2.0, 3.0])


def test_l3_values_can_be_moved(workers):
    a = torch.arange(6.0).reshape(2, 3)
    for move in (
        lambda t: t[0],
        lambda t: t[:, 1:],
        lambda t: t.t(),
        lambda t: t.view(3, 2),
        lambda t: t.unsqueeze(1),
        lambda t: t.transpose(0, 1),
    ):
        assert torch.equal(move(crt(a)).float_precision(), move(a))
        assert torch.equal(move(crt(a).share(*workers)).get().float_precision(), move(a))


def test_l3_in_place_forms():
    x = y = crt([1.5, 2.0])
    x += 1
    x *= x
    x.sub_(crt([0.25, 0.0]))
    assert x is y and x.float_precision().tolist() == [6.0, 9.0]
    with pytest.raises(SyftError, match=r"add_\(\) can't change the shape"):
        crt([1.0]).add_(crt([1.0, 2.0]))


def test_l3_other_operands_and_calls_are_refused():
    x = crt([1.0])
    for other in (crt([1.0], field_type="int64"), crt([1.0], precision_fractional=2), crt([1.0], base=2)):
        with pytest.raises(SyftError, match="different moduli or digits"):
            x + other
    with pytest.raises(UnsupportedOperationError, match="An operand of type Tensor"):
        x + torch.ones(1)
    for divide in (
        lambda: x / 2,
        lambda: x / x,
        lambda: 1 / x,
        lambda: x.div(2),
        lambda: torch.div(x, x),
        lambda: x.child.div(2),
    ):
        with pytest.raises(NotImplementedError, match=r"Residues can't be divided\. Decode it first"):
            divide()
    for call in (torch.exp, lambda t: t @ t, lambda t: t > 1):
        with pytest.raises(UnsupportedOperationError, match=r"on CRTPrecisionTensor\. .*x\.float_precision\(\)"):
            call(x)
    assert (x + 0.5).float_precision().tolist() == [1.5] and (x * 0.5).float_precision().tolist() == [0.5]


# --- text, copies, bytes, workers -----------------------------------------------------------------------------------------


def test_l3_text_and_html():
    x = crt([1.0], field_type=21, precision_fractional=0)
    assert str(x) == (
        "(Wrapper)>CRTPrecisionTensor(0 decimals, 2 moduli)"
        "\n\t3 -> FixedPrecisionTensor(0 decimals)>tensor([1])\n\t7 -> FixedPrecisionTensor(0 decimals)>tensor([1])"
    )
    assert f"{x}" == str(x)
    assert "moduli" in x._repr_html_() and "CRTPrecisionTensor" in x._repr_html_()


def test_l3_copies_are_independent():
    x = crt([1.0])
    for copied in (x.copy(), copy.deepcopy(x), x.detach()):
        copied.add_(1)
        assert copied.float_precision().tolist() == [2.0] and x.float_precision().tolist() == [1.0]


def test_l3_bytes():
    x = crt(torch.rand(2, 3, dtype=torch.float64), base=2, precision_fractional=20).tag("#crt").describe("d")
    back = sy.deserialize(sy.serialize(x))
    assert numbers(back) == numbers(x) and back.child.moduli == x.child.moduli
    assert (back.tags, back.description, back.dtype) == ({"#crt"}, "d", torch.float64)


def test_l3_send_get_and_pointers_to_pointers(workers, nothing_left):
    bob, alice = workers
    x = crt([3, -4], precision_fractional=2)
    pointer = x.send(bob)
    assert pointer.shape == (2,)
    assert (pointer * pointer + 1).get().float_precision().tolist() == [10.0, 17.0]
    assert pointer.float_precision().get().tolist() == [3.0, -4.0]
    assert numbers(pointer.send(alice).get().get()) == numbers(x)
    there = torch.tensor([1.5]).send(bob).fix_precision(storage="crt", field_type="int64")
    assert there.get().child.moduli == FIELD_TYPES["int64"]
    del pointer, there
    nothing_left(bob, alice)


def test_l3_modules_can_be_encoded():
    model = torch.nn.Linear(3, 2)
    before = [parameter.detach().clone() for parameter in model.parameters()]
    model.fix_precision(storage="crt", precision_fractional=10)
    assert all(type(parameter.child) is CRTPrecisionTensor for parameter in model.parameters())
    model.float_precision()
    for parameter, old in zip(model.parameters(), before, strict=True):
        assert isinstance(parameter, torch.nn.Parameter) and torch.allclose(parameter, old, atol=1e-9)


@pytest.mark.parametrize(
    "changes",
    [
        {"residues": {}},
        {"residues": []},
        {"residues": {3: torch.tensor([1])}},
        {"residues": "both"},
        {"terms": 0},
        {"terms": MAX_TERMS + 1},
        {"terms": 1.0},
        {"tags": "#not a set"},
    ],
)
def test_l3_forged_parts_are_refused(changes):
    link = crt([1.0, 2.0], field_type=21, precision_fractional=0).child
    names = ("id", "tags", "description", "residues", "terms")
    parts = dict(zip(names, CRTPrecisionTensor.simplify(None, link), strict=True))
    assert CRTPrecisionTensor.detail(None, tuple(parts.values())).float_precision().tolist() == [1.0, 2.0]
    with pytest.raises((SyftError, TypeError)):
        CRTPrecisionTensor.detail(None, tuple({**parts, **changes}.values()))


def test_l3_forged_moduli_are_refused():
    link = crt([1.0], field_type=21, precision_fractional=0).child
    parts = CRTPrecisionTensor.simplify(None, link)
    for moduli in ((3, 9), (3, 2**30), (3, -7), (3, "7")):
        residues = dict(zip(moduli, parts[3].values(), strict=True))
        with pytest.raises((SyftError, TypeError)):
            CRTPrecisionTensor.detail(None, (*parts[:3], residues, parts[4]))


# --- sharing ----------------------------------------------------------------------------------------------------------------


@given(pairs=PAIRS, whole=st.integers(-(10**9), 10**9))
@settings(max_examples=10)
def test_l3_sums_on_shares_are_those_of_integers(pairs, whole):
    hook = sy.TorchHook(torch)
    parties = [sy.VirtualWorker(hook, id=f"l3-{name}", auto_add=False) for name in "abc"]
    left, right = ([pair[side] for pair in pairs] for side in (0, 1))
    x, y = of_integers(left), of_integers(right)
    assert numbers((x.share(*parties) - y.share(*parties)).get()) == [a - b for a, b in pairs]
    assert numbers((x + y.share(*parties)).get()) == [a + b for a, b in pairs]
    assert numbers((whole - x.share(*parties) * whole).get()) == [1000 * whole - a * whole for a in left]


def test_l3_share_get_and_refusals(workers, make_worker, nothing_left):
    bob, alice = workers
    carol = make_worker("carol")
    x = crt([3, -4], precision_fractional=2).share(bob, alice, crypto_provider=carol)
    assert (
        type(x.child) is CRTPrecisionTensor
        and type(next(iter(x.child.residues.values())).child) is sy.AdditiveSharingTensor
    )
    assert "CRTPrecisionTensor" in str(x) and "bob" in str(x)
    assert next(iter(x.child.residues.values())).child.crypto_provider is carol
    assert (x + x - 1).get().float_precision().tolist() == [5.0, -9.0]
    assert (-x * 3).get().float_precision().tolist() == [-9.0, 12.0]
    for call in (lambda: x * x, lambda: x == x, lambda: x * 0.5):
        with pytest.raises(UnsupportedOperationError, match="shared CRTPrecisionTensor"):
            call()
    with pytest.raises(SyftError, match=r"Fetch the shares first: x\.get\(\)"):
        x.float_precision()
    with pytest.raises(SyftError, match="shared already"):
        x.share(bob, alice)
    assert x.get().float_precision().tolist() == [3.0, -4.0]
    nothing_left(bob, alice)


def test_l3_residues_that_grow_too_large_are_refused(workers):
    x, expected = crt([1.0], field_type="int64").share(*workers), 1000
    with pytest.raises(SyftError, match=r"room for \d+\. Fetch the tensor and share it again"):
        for _ in range(50):
            x, expected = x * 100 + x, expected * 101
    assert numbers(x.get()) == [centred(expected, math.prod(FIELD_TYPES["int64"]))]


def test_l3_sharing_at_the_holder_and_sending_shares(make_worker):
    bob, alice, carol = (make_worker(name) for name in ("bob", "alice", "carol"))
    there = crt([1.5]).send(carol).share(bob, alice)
    shared = there.get()
    assert (shared + shared).get().float_precision().tolist() == [3.0]
    assert crt([2.5]).share(bob, alice).send(carol).get().get().float_precision().tolist() == [2.5]
    with pytest.raises(SyftError, match="can't be sent to one of the workers"):
        crt([2.5]).share(bob, alice).send(bob)
