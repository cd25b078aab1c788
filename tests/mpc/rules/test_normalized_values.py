"""Norms, deviations and exponentials of encrypted numbers near the ends of their range."""

import pytest
import torch
from torch import nn

from syft.mpc.protocols.exponential import exp
from tests.helpers.mpc.protocols import cast_of, run

FORMAT = {"base": 2, "precision_fractional": 16}


@pytest.fixture(scope="module")
def cast():
    yield from cast_of("normalized_values", 2)


@pytest.fixture(autouse=True)
def hooked(hook):
    return hook


def shared(tensor, cast, **options):
    parties, provider = cast
    return tensor.fix_prec(**(options or FORMAT)).share(*parties, crypto_provider=provider)


@pytest.mark.parametrize("eps", [1e-8, 0.1, 1.0])
def test_vectors_shorter_than_eps_are_divided_by_eps(eps, cast):
    x, y = torch.tensor([[0.3, 0.1], [0.02, 0.01]]), torch.tensor([[0.2, 0.1], [0.5, 0.1]])
    functional = nn.functional
    found = functional.cosine_similarity(shared(x, cast), shared(y, cast), eps=eps).get().float_prec()
    assert torch.allclose(found, functional.cosine_similarity(x, y, eps=eps), atol=2e-3)
    found = functional.normalize(shared(x, cast), eps=eps).get().float_prec()
    assert torch.allclose(found, functional.normalize(x, eps=eps), atol=2e-3)


@pytest.mark.parametrize("correction", [0, 1, 1.5])
def test_deviations_with_any_correction(correction, cast):
    x = torch.tensor([1.0, 3.0])
    found = torch.std(shared(x, cast), correction=correction).get().float_prec()
    assert torch.allclose(found, torch.std(x, correction=correction), atol=1e-3)


@pytest.mark.parametrize("out", [1 << 16, 1 << 26, 1 << 29, 1 << 40])
def test_exponentials_of_negative_numbers_have_room_in_every_format(out):
    x = torch.tensor([0, -(1 << 15), -(1 << 16), -(1 << 20)])
    found = run(exp, 2, x, scale=1 << 16, out=out, negative=True).double() / out
    assert torch.allclose(found, (x.double() / 65536).exp(), atol=2e-5 + 2 / out)
