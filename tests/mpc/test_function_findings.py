"""Functions at places where they have an exact value, and calls that torch composes of infinities or negative bases."""

from __future__ import annotations

import pytest
import torch
import torch.nn.functional as F
from hypothesis import given, settings
from hypothesis import strategies as st

from syft.exceptions import UnsupportedOperation
from tests.mpc.running import cast_of

FORMATS = [
    {"base": 2, "precision_fractional": 16},
    {"base": 2, "precision_fractional": 24},
    {"precision_fractional": 3},
]
FORMATS += [{"precision_fractional": 6}]


@pytest.fixture(scope="module")
def cast():
    yield from cast_of("function-findings", 4)


@pytest.fixture(params=[2, 3, 4])
def share(request, cast):
    parties, provider = cast
    return lambda x, **form: x.fix_precision(**(form or FORMATS[0])).share(
        *parties[: request.param], crypto_provider=provider
    )


def opened(x):
    fetched = x.detach().get() if x.child.is_shared else x.detach()
    return fetched.child.child.double() / fetched.child.scale


@pytest.mark.parametrize("form", FORMATS, ids=str)
def test_softmax_of_one_element_is_one(form, share):
    x = torch.tensor([[3.5], [-700.0], [0.0]])
    for made in (
        F.softmax(share(x, **form), 1),
        torch.softmax(share(x.T, **form), 0),
        share(x[0, 0], **form).softmax(0),
    ):
        assert (opened(made) == 1).all()
    for made in (F.log_softmax(share(x, **form), -1), share(x[0, 0], **form).log_softmax(0)):
        assert (opened(made) == 0).all()
    assert torch.equal(opened(torch.logsumexp(share(x, **form), 1)), x[:, 0].double())
    assert torch.equal(opened(torch.logsumexp(share(x, **form), 1, keepdim=True)), x.double())


def test_gradients_of_softmax_of_one_element_are_zero(share):
    for call in (F.softmax, F.log_softmax):
        x = share(torch.tensor([[3.5], [-7.0]])).requires_grad_()
        (call(x, 1) * torch.tensor([[2.0], [3.0]])).sum().backward()
        assert (opened(x.grad) == 0).all()


EXACT = {
    "gelu": (F.gelu, 0.0),
    "gelu tanh": (lambda x: F.gelu(x, approximate="tanh"), 0.0),
    "silu": (F.silu, 0.0),
    "mish": (F.mish, 0.0),
    "tanh": (torch.tanh, 0.0),
    "erf": (torch.erf, 0.0),
    "erfc": (torch.erfc, 1.0),
    "sigmoid": (torch.sigmoid, 0.5),
    "sin": (torch.sin, 0.0),
    "cos": (torch.cos, 1.0),
}


@pytest.mark.parametrize("form", FORMATS, ids=str)
@pytest.mark.parametrize("name", EXACT)
def test_values_at_zero_are_exact(name, form, share):
    call, value = EXACT[name]
    assert set(opened(call(share(torch.zeros(50), **form))).tolist()) == {value}


def test_slopes_at_zero_are_exact(share):
    for call in (F.gelu, F.silu):
        x = share(torch.zeros(20)).requires_grad_()
        call(x).sum().backward()
        assert set(opened(x.grad).tolist()) == {0.5}


# --- powers ---------------------------------------------------------------------------------------------------------

NEGATIVE = {
    "a number": lambda y: (-2) ** y,
    "a float": lambda y: (-2.5) ** y,
    "zero": lambda y: 0**y,
    "a tensor": lambda y: torch.tensor([-2.0, 3.0]) ** y,
    "a tensor without dimensions": lambda y: torch.tensor(-2.0) ** y,
    "an encoded tensor": lambda y: torch.tensor([-2.0, 3.0]).fix_precision(**FORMATS[0]) ** y,
    "torch.pow": lambda y: torch.pow(-2, y),
    "float_power": lambda y: torch.float_power(torch.tensor([-2.0, 3.0]), y),
}


@pytest.mark.parametrize("name", NEGATIVE)
def test_private_powers_of_negative_public_numbers_are_refused(name, share):
    with pytest.raises(UnsupportedOperation, match=r"whole.*abs\(x\) \*\* y \* \(1 - 2 \* \(y % 2\)\)"):
        NEGATIVE[name](share(torch.tensor([2.0, 3.0])))


def test_what_the_refusal_proposes_is_right(share):
    y = torch.tensor([0.0, 1.0, 2.0, 3.0, -1.0, -2.0])
    shared = share(y)
    made = opened(abs(-2) ** shared * (1 - 2 * (shared % 2)))
    assert torch.allclose(made, (-2.0) ** y.double(), rtol=2e-4, atol=1e-3)


def test_many_whole_powers_of_negative_numbers(share):
    exponent = torch.arange(-6.0, 13.0)
    x = torch.tensor([-1.5, 1.5])[:, None].expand(2, len(exponent)).contiguous()
    for base, power in (
        (share(x), exponent),
        (share(x), exponent.fix_precision(**FORMATS[0])),
        (x.fix_precision(**FORMATS[0]), exponent),
    ):
        wanted = x.double() ** exponent.double()
        assert ((opened(base**power) - wanted).abs() <= 1e-3 * wanted.abs().clamp(min=1)).all()


def test_powers_of_public_numbers_to_encoded_ones_that_are_here():
    made = torch.tensor([-2.0, 2.0]) ** torch.tensor([3.0, 0.5]).fix_precision(**FORMATS[0])
    assert torch.allclose(opened(made), torch.tensor([-8.0, 2**0.5]).double(), atol=1e-4)


def test_whole_and_other_powers_in_one_tensor(share):
    exponent = torch.tensor([2.0, 0.5, 3.0, 1.7, 0.0, -1.0])
    x = torch.tensor([-2.0, 4.0, -2.0, 2.0, -5.0, -4.0])
    assert torch.allclose(opened(share(x) ** exponent), x.double() ** exponent.double(), atol=1e-3)


@settings(max_examples=20)
@given(st.lists(st.tuples(st.floats(-3, 3, width=32), st.integers(0, 12)), min_size=1, max_size=20))
def test_powers_of_encoded_numbers_against_float64(pairs):
    base = torch.tensor([pair[0] for pair in pairs])
    exponent = torch.tensor([pair[1] for pair in pairs]).double()
    encoded = base.fix_precision(base=2, precision_fractional=20)
    exact = encoded.child.child.double() / 2**20
    wanted = exact**exponent
    assert ((opened(encoded**exponent) - wanted).abs() <= 1e-3 * wanted.abs().clamp(min=1)).all()


# --- calls that torch makes of infinities -----------------------------------------------------------------------------


@pytest.mark.parametrize("form", FORMATS, ids=str)
def test_logaddexp_over_its_domain(form, share):
    x = torch.cat([torch.linspace(-40, 40, 161), torch.tensor([1e4, -1e4, 0.0, 5.0])])
    y = torch.cat([x.flip(0)[4:], torch.tensor([1e4, -1e4, 0.0, 5.0])])
    wanted = torch.logaddexp(x.double(), y.double())
    scale = form.get("base", 10) ** form["precision_fractional"]
    for made in (
        torch.logaddexp(share(x, **form), share(y, **form)),
        torch.logaddexp(share(x, **form), y),
        torch.logaddexp(x, share(y, **form)),
        share(x, **form).logaddexp(y),
        torch.logaddexp(x.fix_precision(**form), y),
    ):
        assert ((opened(made) - wanted).abs() <= 3 / scale + 1.5e-4).all()


def test_logaddexp_with_a_public_minus_infinity_is_the_other(share):
    x = torch.tensor([1.5, -2.25])
    assert torch.equal(opened(torch.logaddexp(share(x), torch.full((2,), -torch.inf))), x.double())


def test_gradients_of_logaddexp(share):
    x, y = torch.tensor([1.0, -3.0, 20.0]), torch.tensor([0.5, 4.0, -20.0])
    doubles = [x.double().requires_grad_(), y.double().requires_grad_()]
    torch.logaddexp(*doubles).sum().backward()
    shared = [share(x).requires_grad_(), share(y).requires_grad_()]
    torch.logaddexp(*shared).sum().backward()
    for mine, theirs in zip(shared, doubles, strict=True):
        assert torch.allclose(opened(mine.grad), theirs.grad, atol=2e-4)


def test_nan_to_num_changes_nothing(share, cast):
    x = torch.tensor([1.5, -2.25, 0.0])
    for options in ({}, {"nan": 7.0, "posinf": 8.0, "neginf": 9.0}):
        shared = share(x)
        made = torch.nan_to_num(shared, **options)
        assert torch.equal(opened(made), x.double())
        assert torch.equal(opened(shared), x.double())  # a copy, so that fetching one left the other
        assert torch.equal(opened(x.fix_precision(**FORMATS[0]).nan_to_num(**options)), x.double())
    kept = share(x)
    assert kept.nan_to_num_(nan=3.0) is kept
    followed = share(x).requires_grad_()
    (followed.nan_to_num() * 3).sum().backward()
    assert (opened(followed.grad) == 3).all()
    parties, provider = cast
    whole = torch.tensor([1, 2]).share(*parties, crypto_provider=provider)
    assert torch.nan_to_num(whole).get().tolist() == [1, 2]
    del whole, kept
