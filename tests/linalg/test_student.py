"""p-values of Student's t test, against scipy and against closed forms."""

from __future__ import annotations

import math

import pytest
import torch
from scipy import stats

from syft.linalg.student import p_values


@pytest.mark.parametrize("freedom", [1, 2, 3, 7, 30, 437, 19_999, 20_000, 10_000_000])
def test_agrees_with_scipy(freedom):
    t = torch.cat([torch.zeros(1), torch.logspace(-3, 2.5, 100)]).double()
    meant = torch.tensor(2 * stats.t.sf(t.numpy(), freedom))
    found = p_values(t, freedom)
    assert bool(((found - meant).abs() <= 1e-9).all())
    assert bool(((found - meant).abs() <= 1e-4 * meant + 1e-300).all())
    assert bool(((found - meant).abs() <= 1e-6 * meant)[meant > 1e-12].all())
    assert torch.equal(found, p_values(-t, freedom))
    assert float(found[0]) == 1


def test_closed_forms():
    t = torch.tensor([1e-8, 1e-3, 0.5, 3.0, 1e6], dtype=torch.float64)
    assert torch.allclose(p_values(t, 1), 1 - 2 / math.pi * torch.atan(t), atol=1e-14)
    assert torch.allclose(p_values(t, 2), 1 - t / (2 + t * t).sqrt(), atol=1e-14)


def test_nan_and_infinity():
    found = p_values(torch.tensor([math.nan, math.inf, -math.inf]), 5)
    assert math.isnan(float(found[0])) and found[1:].tolist() == [0, 0]
    assert p_values(torch.zeros(0), 5).shape == (0,)
