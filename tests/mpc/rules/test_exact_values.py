"""Functions of encrypted numbers at points where the result is exact: zero, and softmax of one element."""

from __future__ import annotations

import pytest
import torch
import torch.nn.functional as F

from tests.helpers.mpc.protocols import cast_of

FORMATS = [
    {"base": 2, "precision_fractional": 16},
    {"base": 2, "precision_fractional": 24},
    {"precision_fractional": 3},
]


FORMATS += [{"precision_fractional": 6}]


@pytest.fixture(scope="module")
def cast():
    yield from cast_of("exact", 4)


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
