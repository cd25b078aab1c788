"""Products and quotients of encoded and encrypted numbers with public ones of any size."""

from __future__ import annotations

import pytest
import torch
import torch.nn.functional as F

import syft as sy
from syft.exceptions import SyftError
from tests.helpers.mpc.protocols import decoded

pytestmark = pytest.mark.usefixtures("hook")

WIDE = {
    "divisors": (lambda x: x / torch.tensor([1.0, 3e6]), [1.0, 3e9], [1.0, 1000.0]),
    "small and large divisors": (lambda x: x / torch.tensor([0.001, 3e6]), [1.0, 3e6], [1000.0, 1.0]),
    "factors": (lambda x: x * torch.tensor([1.0, 1 / 3e6]), [1.0, 3e6], [1.0, 1.0]),
    "a factor that is almost nothing": (lambda x: x * torch.tensor([1e-30, 1 / 3]), [5.0, 3.0], [0.0, 1.0]),
    "few digits": (lambda x: x * 0.5, [2.0**43], [2.0**42]),
    "a divisor of few digits": (lambda x: x / torch.tensor([2.5]), [1e10], [4e9]),
    "one divisor": (lambda x: x / 2.5, [1e10], [4e9]),
    "a factor of many digits": (lambda x: x * (1 / 3), [1e10, 1000.0], [1e10 / 3, 333.333]),
    "a divisor of many digits": (lambda x: x / 0.3333, [1e9, 1000.0], [1e9 / 0.3333, 3000.3]),
    "whole divisors": (lambda x: x / torch.tensor([3.0, -7.0, 4.0]), [1000.0] * 3, [333.333, -142.857, 250.0]),
    "a tiny factor": (lambda x: x * 3.14159265e-9, [1e12], [3141.59]),
    "a tiny divisor": (lambda x: x / 1e-3, [2.5], [2500.0]),
    "a matrix": (lambda x: x @ torch.tensor([[1 / 3], [1e-5]]), [[1e10, 1.0]], [[1e10 / 3]]),
}


@pytest.mark.parametrize("name", WIDE)
def test_public_factors_of_any_size(name, fix):
    call, given, meant = WIDE[name]
    found, meant = decoded(call(fix(torch.tensor(given)))), torch.tensor(meant)
    assert torch.allclose(found, meant, rtol=2e-3 if name == "a matrix" else 3e-5, atol=2e-3)


def test_public_factors_in_fine_formats(fix):
    x = fix(torch.tensor([100.125]), base=2, precision_fractional=30)
    assert decoded(x * 0.3).item() == pytest.approx(30.0375, abs=1e-5)
    assert decoded(x / 0.3).item() == pytest.approx(333.75, abs=1e-4)
    assert decoded(fix(torch.tensor([3.0]), base=10, precision_fractional=0) * 2.5).item() in (7.0, 8.0)
    assert decoded(fix(torch.tensor([[1.5, 2.0]]), precision_fractional=9) @ torch.tensor([[1 / 3], [0.1]])).item() == (
        pytest.approx(0.7, abs=1e-7)
    )


def test_exact_factors_cost_a_round_at_most(share):
    x = share(torch.tensor([1.5, 2.5]).fix_precision())
    for call, rounds in ((lambda: x * 3.0, 0), (lambda: x * 0.5, 1), (lambda: x / torch.tensor([3.0, 4.0]), 1)):
        with sy.mpc.count() as tally:
            call()
        assert tally.rounds == rounds


@pytest.mark.parametrize(
    "call",
    [
        lambda x: x * x,
        lambda x: x * 1e6,
        lambda x: x @ x,
        lambda x: F.conv1d(x[None, None], x[None, None]),
        lambda x: x / 1e-9,
    ],
)
def test_plain_products_never_wrap(call):
    with pytest.raises(SyftError, match="no room in 6[24] bits"):
        call(torch.full((4,), 1e13).fix_precision())
    large = torch.full((4,), 1e6).fix_precision()
    assert torch.equal(decoded(large * large), torch.full((4,), 1e12))
    assert decoded(large @ large).item() == pytest.approx(4e12)
