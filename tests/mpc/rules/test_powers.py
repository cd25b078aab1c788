"""Powers of encoded and encrypted numbers: negative bases, and whole and other exponents."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from syft.exceptions import UnsupportedOperationError
from tests.helpers.mpc.protocols import cast_of

FORMATS = [
    {"base": 2, "precision_fractional": 16},
    {"base": 2, "precision_fractional": 24},
    {"precision_fractional": 3},
]


FORMATS += [{"precision_fractional": 6}]


@pytest.fixture(scope="module")
def cast():
    yield from cast_of("powers", 4)


@pytest.fixture(params=[2, 3, 4])
def share(request, cast):
    parties, provider = cast
    return lambda x, **form: x.fix_precision(**(form or FORMATS[0])).share(
        *parties[: request.param], crypto_provider=provider
    )


def opened(x):
    fetched = x.detach().get() if x.child.is_shared else x.detach()
    return fetched.child.child.double() / fetched.child.scale


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
    with pytest.raises(UnsupportedOperationError, match=r"integers.*abs\(x\) \*\* y \* \(1 - 2 \* \(y % 2\)\)"):
        NEGATIVE[name](share(torch.tensor([2.0, 3.0])))


def test_the_formula_that_the_refusal_proposes_is_right(share):
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
