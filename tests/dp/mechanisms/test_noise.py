"""Noise: exact distributions, and low bits that do not depend on the value."""

import math
from decimal import Decimal
from fractions import Fraction

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

import syft.dp as dp
from syft.core.generator import Generator
from syft.dp.mechanisms import exact_bernoulli, noise


def keyed(number: int) -> Generator:
    """A generator that repeats itself, so that statistical tests pass or fail for good."""
    return Generator(number.to_bytes(16, "little"))


def chi_square(samples: torch.Tensor, weights: np.ndarray, low: int) -> float:
    """The p-value of whole-number samples against weights of low, low + 1, ...; rare values are one class."""
    expected = weights / weights.sum() * len(samples)
    found = np.bincount(np.clip(samples.numpy() - low, 0, len(weights) - 1), minlength=len(weights))
    usual = expected >= 10
    expected = np.append(expected[usual], expected[~usual].sum())
    found = np.append(found[usual], found[~usual].sum())
    if expected[-1] < 5:
        expected, found = expected[:-1] * found[:-1].sum() / expected[:-1].sum(), found[:-1]
    return float(stats.chisquare(found, expected).pvalue)


# The discrete distributions ------------------------------------------------------------------------------


@pytest.mark.parametrize("scale", [Fraction(1, 3), 0.1, 0.5, 1, Fraction(7, 5), 3.7, 25])
def test_discrete_laplace_has_its_probabilities(scale):
    samples = noise.discrete_laplace(60_000, scale, generator=keyed(1))
    values = np.arange(-800, 801)
    assert chi_square(samples, np.exp(-np.abs(values) / float(scale)), -800) > 1e-3


@pytest.mark.parametrize("sigma", [Fraction(1, 3), 0.25, 0.7, 1, Fraction(9, 4), 3.7, 40])
def test_discrete_gaussian_has_its_probabilities(sigma):
    samples = noise.discrete_gaussian(60_000, sigma, generator=keyed(2))
    values = np.arange(-800, 801)
    assert chi_square(samples, np.exp(-(values**2) / (2 * float(sigma) ** 2)), -800) > 1e-3


@pytest.mark.parametrize("scale", [1e-5, 1.0, 3.7, 1e12])
def test_real_noise_has_its_distribution_and_moments(scale):
    for draw, law, fourth in ((noise.laplace, stats.laplace, 24), (noise.gaussian, stats.norm, 3)):
        samples = draw(100_000, scale, generator=keyed(3)).numpy() / scale
        assert stats.kstest(samples, law.cdf).pvalue > 1e-3
        assert abs(samples.mean()) < 0.02
        assert samples.var() == pytest.approx(law.var(), rel=0.02)
        assert (samples**4).mean() == pytest.approx(fourth, rel=0.1)
        assert abs(np.corrcoef(samples[:-1], samples[1:])[0, 1]) < 0.01


def test_quick_noise_has_its_distribution_and_moments():
    samples = noise.gaussian_like(torch.empty(200, 1000), 2.5, generator=keyed(4)).view(-1).double().numpy() / 2.5
    assert stats.kstest(samples, stats.norm.cdf).pvalue > 1e-3
    assert samples.var() == pytest.approx(1, rel=0.01)
    assert (samples**4).mean() == pytest.approx(3, rel=0.02)
    assert abs(np.corrcoef(samples[:-1], samples[1:])[0, 1]) < 0.01
    assert abs(np.corrcoef(samples[:-1] ** 2, samples[1:] ** 2)[0, 1]) < 0.01


# Coins ---------------------------------------------------------------------------------------------------


def test_floating_point_decides_as_exact_numbers_do(monkeypatch):
    """With a margin of one every comparison goes through exact numbers, from the same bits: nothing may change."""
    quick = [noise.discrete_gaussian(300, s, generator=keyed(5)) for s in (0.8, 12, 2**40)]
    calls = []
    exact = exact_bernoulli._Bits.is_below_exp
    monkeypatch.setattr(exact_bernoulli._Bits, "is_below_exp", lambda self, x: calls.append(x) or exact(self, x))
    monkeypatch.setattr(exact_bernoulli, "_CLOSE", 1.0)
    slow = [noise.discrete_gaussian(300, s, generator=keyed(5)) for s in (0.8, 12, 2**40)]
    assert len(calls) > 900
    assert all(torch.equal(a, b) for a, b in zip(quick, slow, strict=True))


def test_close_bits_are_decided_by_more_bits():
    # The first 64 bits are those of exp(-1) itself: only the following ones can tell.
    word = int(Decimal(-1).exp() * 2**64)
    answers = {exact_bernoulli._Bits(word, keyed(number)).is_below_exp(Fraction(1)) for number in range(40)}
    assert answers == {True, False}
    assert exact_bernoulli._Bits(word - 1, keyed(0)).is_below_exp(Fraction(1))
    assert not exact_bernoulli._Bits(word + 1, keyed(0)).is_below_exp(Fraction(1))


def test_extreme_coins_end():
    assert exact_bernoulli._Bits(2**64 - 1, keyed(0)).is_below_exp(Fraction(0))
    assert not exact_bernoulli._Bits(1, keyed(0)).is_below_exp(Fraction(10) ** 30)
    assert not exact_bernoulli._Bits(0, keyed(0)).is_below_exp(Fraction(10) ** 30)
    assert exact_bernoulli._Bits(0, keyed(0)).is_below_exp(Fraction(44))
    heads = exact_bernoulli.bernoulli_exp(
        np.array([0.0, 1e300, math.inf]), lambda index: Fraction(10**9 * index), keyed(0)
    )
    assert heads.tolist() == [True, False, False]


def test_whole_exponentials_and_uniform_numbers():
    whole = torch.from_numpy(exact_bernoulli.whole_exponentials(50_000, keyed(6)))
    assert chi_square(whole, np.exp(-np.arange(60.0)), 0) > 1e-3
    values, signs = exact_bernoulli.uniform_below(1000, 100_000, keyed(7))
    assert stats.chisquare(np.bincount(values, minlength=1000)).pvalue > 1e-3
    assert abs(signs.mean() - 0.5) < 0.01
    assert abs(np.corrcoef(values, signs)[0, 1]) < 0.01
    assert set(exact_bernoulli.uniform_below(1, 100, keyed(8))[0]) == {0}


# The grid ------------------------------------------------------------------------------------------------


@given(st.floats(1e-250, 1e250))
def test_granularity_is_a_power_of_two_far_below_the_scale(scale):
    step = noise.granularity(scale)
    assert math.frexp(step)[0] == 0.5
    assert 2.0**-41 < step / scale <= 2.0**-40


@settings(max_examples=40, deadline=None)
@given(st.floats(-1e6, 1e6), st.floats(1e-3, 1e3), st.integers(0, 2**64))
def test_releases_lie_on_the_grid_for_any_value(value, scale, key):
    """The attack on floating-point noise asks which results are possible for a value. Here all are, for all."""
    step = noise.granularity(scale)
    for add in (noise.add_laplace, noise.add_gaussian):
        result = add(torch.tensor([value, 0.0], dtype=torch.float64), scale, generator=keyed(key))
        assert torch.equal(result / step, (result / step).round())
        drawn = add(torch.zeros(2, dtype=torch.float64), scale, generator=keyed(key))
        assert result[1] == drawn[1]
        assert abs(float(result[0] - drawn[0]) - value) <= step / 2 + abs(value) * 2**-52


def test_all_residues_of_the_grid_occur():
    samples = noise.discrete_gaussian(100_000, 2**40, generator=keyed(9))
    assert stats.chisquare(np.bincount(samples.numpy() % 64, minlength=64)).pvalue > 1e-3


def test_rounding_is_stated():
    assert noise.rounding_l1(1.0, 10**6) == 10**6 * 2.0**-39
    assert noise.rounding_l2(1.0, 10**6) == 1000 * 2.0**-39
    for scale in (1.0, 1.9999999999999998, 3.7):
        grown = scale * (1 + noise.rounding_l2(scale, 10**6))
        assert noise.granularity(grown) * 1000 <= noise.rounding_l2(scale, 10**6)
    values = torch.rand(10_000, dtype=torch.float64)
    rounded = noise.add_steps(values, torch.zeros(10_000, dtype=torch.int64), 2.0**-10)
    assert float((rounded - values).abs().max()) <= 2.0**-11


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float32, torch.float64])
def test_results_have_the_dtype_and_shape_of_the_values(dtype):
    values = torch.ones(2, 0, 3, dtype=dtype), torch.ones(4, 5, dtype=dtype), torch.tensor(1.0, dtype=dtype)
    for value in values:
        for result in (noise.add_laplace(value, 1.0), noise.add_gaussian(value, 1.0), noise.gaussian_like(value, 1.0)):
            assert result.dtype == dtype and result.shape == value.shape
    assert noise.add_laplace(torch.ones(3, dtype=torch.int32), 1.0).dtype == torch.float64
    assert noise.laplace((2, 3), 1.0).shape == noise.gaussian(torch.Size([2, 3]), 1.0).shape == (2, 3)
    assert noise.discrete_laplace((2, 3), 1.0).shape == noise.discrete_gaussian(torch.Size([2, 3]), 1.0).shape == (2, 3)
    assert noise.discrete_laplace((), 3).shape == () and noise.discrete_gaussian(0, 3).shape == (0,)


def test_values_of_any_size_and_no_noise():
    huge = torch.tensor([1e30, -1e30, 0.0], dtype=torch.float64)
    assert torch.equal(noise.add_gaussian(huge, 1.0)[:2], huge[:2])
    assert torch.equal(noise.add_gaussian(huge, 0.0), huge)
    assert noise.laplace(5, 0).tolist() == noise.discrete_gaussian(5, 0).tolist() == [0] * 5
    assert noise.gaussian(5, 0).tolist() == noise.gaussian_like(torch.ones(5), 0.0).tolist() == [0.0] * 5
    with pytest.raises(ValueError, match="too large"):
        noise.add_gaussian(torch.tensor([1e300], dtype=torch.float64), 1e-280)
    grad = torch.ones(3, requires_grad=True)
    assert not noise.add_gaussian(grad, 1.0).requires_grad and not noise.gaussian_like(grad, 1.0).requires_grad


def test_bad_arguments_are_named():
    for bad in (-1, math.nan, math.inf, "1", None, True, [1.0]):
        with pytest.raises((ValueError, TypeError), match=r"scale|number|float"):
            noise.discrete_gaussian(3, bad)
    for bad in (2.0**46, 1e-200, Fraction(2**60, 2**60 - 1)):
        with pytest.raises(ValueError, match=r"scale|numerator"):
            noise.discrete_laplace(3, bad)
    with pytest.raises(ValueError, match="negative lengths"):
        noise.gaussian((2, -1), 1.0)
    for value in (math.nan, math.inf):
        with pytest.raises(ValueError, match="finite"):
            noise.add_laplace(torch.tensor([1.0, value]), 1.0)
    with pytest.raises(ValueError, match="finite"):
        noise.add_laplace(torch.tensor([1j]), 1.0)
    with pytest.raises(ValueError, match="int64"):
        noise.gaussian_like(torch.ones(3, dtype=torch.int64), 1.0)
    with pytest.raises(ValueError, match="deviation"):
        noise.gaussian_like(torch.ones(3), -1.0)


# The generator -------------------------------------------------------------------------------------------


def test_noise_repeats_with_a_key_only():
    draws = (
        lambda g: noise.laplace(50, 2.0, generator=g),
        lambda g: noise.gaussian(50, 2.0, generator=g),
        lambda g: noise.discrete_laplace(50, 2.0**40, generator=g),
        lambda g: noise.discrete_gaussian(50, 2.0**40, generator=g),
        lambda g: noise.gaussian_like(torch.ones(50), 2.0, generator=g),
        lambda g: noise.add_gaussian(torch.ones(50), 2.0, generator=g),
    )
    for draw in draws:
        assert torch.equal(draw(keyed(1)), draw(keyed(1)))
        assert not torch.equal(draw(keyed(1)), draw(keyed(2)))
        torch.manual_seed(0)
        first = draw(None)
        torch.manual_seed(0)
        assert not torch.equal(first, draw(None))


def test_large_draws_are_made_in_pieces():
    samples = noise.discrete_gaussian(300_000, 5, generator=keyed(10))
    assert len(samples) == 300_000
    pieces = samples.view(3, -1).double()
    assert all(abs(float(piece.std()) - 5) < 0.05 for piece in pieces)
    assert dp.noise is noise
