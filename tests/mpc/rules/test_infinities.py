"""Calls that torch composes of infinities, on encrypted numbers, which have none."""

from __future__ import annotations

import pytest
import torch

from tests.helpers.mpc.protocols import cast_of

FORMATS = [
    {"base": 2, "precision_fractional": 16},
    {"base": 2, "precision_fractional": 24},
    {"precision_fractional": 3},
]


FORMATS += [{"precision_fractional": 6}]


@pytest.fixture(scope="module")
def cast():
    yield from cast_of("infinities", 4)


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
