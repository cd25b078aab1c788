"""Mechanisms: exact probabilities, calibration against an oracle, and epsilon estimated from histograms."""

import math
from collections import Counter
from fractions import Fraction

import numpy as np
import pytest
import torch
from dp_accounting.pld.privacy_loss_mechanism import GaussianPrivacyLoss
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

import syft.dp as dp
from syft.core.generator import Generator
from syft.dp.mechanisms.gaussian import delta_of


def keyed(number: int) -> Generator:
    return Generator(number.to_bytes(16, "little"))


def loss(first: list[int], second: list[int]) -> float:
    """The largest log ratio of how often a result occurs, over results that are frequent enough to tell."""
    one, two = Counter(first), Counter(second)
    return max(abs(math.log(one[k] / two[k])) for k in one if one[k] > 400 and two[k] > 400)


# Laplace -------------------------------------------------------------------------------------------------


def test_laplace_on_whole_numbers_is_as_private_as_stated_and_no_more():
    mechanism = dp.Laplace(0.5, granularity=1)
    samples = [mechanism.release(torch.full((60_000,), x), generator=keyed(k)) for k, x in enumerate((3, 4))]
    # A tensor's L1 sensitivity covers all its coordinates: each has the noise of a single number.
    first, second = (sample.long().tolist() for sample in samples)
    assert loss(first, second) == pytest.approx(0.5, abs=0.15)
    assert all(torch.equal(sample, sample.round()) for sample in samples)


@pytest.mark.parametrize(("epsilon", "sensitivity"), [(0.1, 1.0), (1.0, 3.0), (7.3, 0.01), (1e-6, 1e6)])
def test_laplace_has_the_scale_it_states(epsilon, sensitivity):
    mechanism = dp.Laplace(epsilon, sensitivity)
    assert mechanism.scale == sensitivity / epsilon and mechanism.event == dp.Pure(epsilon)
    noise = mechanism.release(torch.zeros(50_000, dtype=torch.float64), generator=keyed(2)).numpy()
    assert stats.kstest(noise / mechanism.scale, "laplace").pvalue > 1e-3


@given(st.floats(1e-3, 50), st.floats(1e-3, 1e3), st.integers(1, 10**6), st.sampled_from([None, 1.0, 0.25]))
@settings(max_examples=30, deadline=None)
def test_laplace_noise_covers_rounding(epsilon, sensitivity, count, granularity):
    """The drawn scale is exact: in steps, at least the rounded distance over epsilon."""
    mechanism = dp.Laplace(epsilon, sensitivity, granularity)
    asked = []
    original = dp.noise.discrete_laplace
    dp.noise.discrete_laplace = lambda shape, scale, **_: asked.append(scale) or torch.zeros(shape, dtype=torch.int64)
    try:
        mechanism.release(torch.zeros(1, dtype=torch.float64).expand(count))
        mechanism.release(7)
    finally:
        dp.noise.discrete_laplace = original
    steps = Fraction(sensitivity) / Fraction(mechanism.granularity)
    assert asked[0] * Fraction(epsilon) >= steps + count
    assert asked[1] * Fraction(epsilon) >= max(1, math.floor(steps))
    assert asked[0] * Fraction(epsilon) <= (steps + count) * (1 + Fraction(1, 2**40))


# Gaussian ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("epsilon", "delta"), [(0.1, 1e-5), (1.0, 1e-6), (5.0, 1e-3), (20.0, 1e-9)])
def test_gaussian_has_the_least_noise_by_the_oracle(epsilon, delta):
    mechanism = dp.Gaussian(epsilon, delta, sensitivity=2.0)
    assert mechanism.sigma == 2 * mechanism.noise_multiplier
    oracle = GaussianPrivacyLoss(mechanism.noise_multiplier)
    assert oracle.get_delta_for_epsilon(epsilon) == pytest.approx(delta, rel=1e-6)


def test_gaussian_is_exactly_calibrated():
    for epsilon in (1e-6, 0.01, 0.5, 3.0, 100.0):
        for delta in (1e-15, 1e-8, 1e-3, 0.3):
            mu = 1 / dp.Gaussian(epsilon, delta).noise_multiplier
            assert delta * (1 - 1e-6) <= delta_of(mu, epsilon) <= delta * (1 + 2e-6)
    # Known from Balle and Wang's formula, in closed form where epsilon vanishes: delta = 2 Phi(mu / 2) - 1.
    assert delta_of(0.5, 0.0) == pytest.approx(2 * stats.norm.cdf(0.25) - 1, rel=1e-9)
    textbook = math.sqrt(2 * math.log(1.25 / 1e-5)) / 0.5
    assert dp.Gaussian(0.5, 1e-5).sigma < textbook


def test_gaussian_release_has_its_noise():
    mechanism = dp.Gaussian(0.5, 1e-5, sensitivity=0.1)
    noise = mechanism.release(torch.zeros(50_000, dtype=torch.float64), generator=keyed(4)).numpy()
    assert stats.kstest(noise / mechanism.sigma, "norm").pvalue > 1e-3
    given_noise = dp.Gaussian.with_noise(1.5, sensitivity=4.0)
    assert given_noise.sigma == 6.0 and given_noise.event == dp.GaussianNoise(1.5)
    assert given_noise.epsilon is None and given_noise.delta is None
    assert isinstance(given_noise.release(3), float)


# Choosing ------------------------------------------------------------------------------------------------

SCORES = [0.0, 2.5, 4.0, 3.9, -7.0]


@pytest.mark.parametrize("monotonic", [False, True])
def test_exponential_has_its_probabilities(monotonic):
    mechanism = dp.Exponential(1.3, sensitivity=2.0, monotonic=monotonic)
    weights = np.exp(1.3 * np.array(SCORES) / (2.0 if monotonic else 4.0))
    probabilities = mechanism.probabilities(SCORES)
    assert np.allclose(probabilities.numpy(), weights / weights.sum(), rtol=1e-12, atol=0)
    source = keyed(5)
    found = np.bincount([mechanism.release(SCORES, generator=source) for _ in range(1000)], minlength=5)
    assert stats.chisquare(found, 1000 * probabilities.numpy()).pvalue > 1e-3


def permute_and_flip(scores: list[float], rate: float) -> np.ndarray:
    """The exact probabilities, by going through all subsets that may come before a candidate."""
    heads = np.exp(rate * (np.array(scores) - max(scores)))
    found = np.zeros(len(scores))
    for winner, others in ((i, [j for j in range(len(scores)) if j != i]) for i in range(len(scores))):
        for subset in range(2 ** len(others)):
            before = [j for k, j in enumerate(others) if subset >> k & 1]
            orders = math.factorial(len(before)) * math.factorial(len(others) - len(before))
            found[winner] += orders / math.factorial(len(scores)) * heads[winner] * np.prod(1 - heads[before])
    return found


def laplace_largest(scores: list[float], scale: float) -> np.ndarray:
    """The probability of each candidate to be the largest with Laplace noise, by integrating."""
    x = np.linspace(-60 * scale, 60 * scale, 6_001)
    found = []
    for i, score in enumerate(scores):
        rest = np.prod([stats.laplace.cdf(x, s, scale) for j, s in enumerate(scores) if j != i], axis=0)
        found.append(np.trapezoid(stats.laplace.pdf(x, score, scale) * rest, x))
    return np.array(found)


@pytest.mark.parametrize("monotonic", [False, True])
def test_noisy_max_has_its_probabilities(monotonic):
    rate = 1.3 / (2.0 if monotonic else 4.0)
    expected = {"exponential": permute_and_flip(SCORES, rate), "laplace": laplace_largest(SCORES, 1 / rate)}
    for noise, probabilities in expected.items():
        assert probabilities.sum() == pytest.approx(1, abs=1e-4)
        mechanism = dp.ReportNoisyMax(1.3, sensitivity=2.0, monotonic=monotonic, noise=noise)
        source = keyed(6)
        found = np.bincount([mechanism.release(SCORES, generator=source) for _ in range(600)], minlength=5)
        assert stats.chisquare(found, 600 * probabilities / probabilities.sum()).pvalue > 1e-3
        assert mechanism.event == dp.Pure(1.3)


@settings(max_examples=40, deadline=None)
@given(st.lists(st.floats(-20, 20), min_size=2, max_size=5), st.data())
def test_choices_are_private_for_all_neighbours(scores, data):
    """Exact probabilities on neighbouring scores: no ratio above e^epsilon, for both exact choosers."""
    moves = data.draw(st.lists(st.floats(-1, 1), min_size=len(scores), max_size=len(scores)))
    near = [score + move for score, move in zip(scores, moves, strict=True)]
    exponential = dp.Exponential(0.8)
    logs = exponential.probabilities(scores).log() - exponential.probabilities(near).log()
    assert float(logs.abs().max()) <= 0.8 + 1e-9
    one, two = permute_and_flip(scores, 0.4), permute_and_flip(near, 0.4)
    assert np.abs(np.log(one / two)).max() <= 0.8 + 1e-6


@pytest.mark.parametrize("make", [dp.Exponential, dp.ReportNoisyMax, lambda e: dp.ReportNoisyMax(e, noise="laplace")])
def test_choices_at_the_ends(make):
    assert make(1.0).release([5]) == 0
    assert make(1.0).release(torch.tensor([0, 10**6, 3])) == 1
    assert make(1.0).release(np.array([1e300, -1e300, 0.0])) == 0
    assert make(1.0).release([2**62, -(2**61)]) == 0
    many = torch.zeros(20_000)
    many[123] = 1e4
    assert make(1.0).release(many) == 123
    ties = Counter(make(1.0).release([1, 1, 1, 1], generator=keyed(k)) for k in range(200))
    assert set(ties) == {0, 1, 2, 3}
    with pytest.raises(ValueError, match="too far apart"):
        make(1.0).release([2**62, -(2**62) - 5])
    with pytest.raises(ValueError, match="too far apart"):
        make(1.0).release([1.7e308, -1.7e308])
    for bad in ([], [[1.0, 2.0]], [math.nan, 1], [math.inf, 1], "abc", None, torch.tensor(3.0), torch.tensor([1j])):
        with pytest.raises(ValueError, match="scores"):
            make(1.0).release(bad)


# All -----------------------------------------------------------------------------------------------------

RELEASES = [dp.Laplace(1.0), dp.Laplace(1.0, granularity=1), dp.Gaussian(1.0, 1e-5)]


@pytest.mark.parametrize("mechanism", RELEASES, ids=repr)
def test_the_input_type_decides_the_output_type(mechanism):
    for number in (3, 2.5, True, 10**30, -(10**18)):
        assert isinstance(mechanism.release(number), float)
    assert mechanism.release(10**30) == 1e30
    for dtype in (torch.float32, torch.float64):
        result = mechanism.release(torch.ones(2, 3, dtype=dtype))
        assert result.dtype == dtype and result.shape == (2, 3)
    for other in (torch.ones(3, dtype=torch.int32), np.ones(3), [1, 2, 3], torch.ones(3, dtype=torch.bool)):
        assert mechanism.release(other).dtype == torch.float64
    assert mechanism.release(torch.ones(0)).shape == (0,)
    assert torch.equal(*(mechanism.release(torch.ones(9), generator=keyed(1)) for _ in range(2)))
    # Many at once: two whole numbers are the same every few times.
    assert not torch.equal(*(mechanism.release(torch.ones(99)) for _ in range(2)))
    for bad in (math.nan, math.inf, torch.tensor([math.nan])):
        with pytest.raises(ValueError, match="finite"):
            mechanism.release(bad)
    for bad in ("3", None, object(), {1: 2}):
        with pytest.raises(ValueError, match="numbers or tensors"):
            mechanism.release(bad)


def test_constructors_check():
    for make in (dp.Laplace, lambda e, s=1.0: dp.Gaussian(e, 1e-5, s), dp.Exponential, dp.ReportNoisyMax):
        for bad in (0, -1, math.nan, math.inf, "1", None, True, 10**400):
            with pytest.raises(ValueError, match="epsilon"):
                make(bad)
            with pytest.raises(ValueError, match="sensitivity"):
                make(1.0, bad)
    for bad in (0, 1, -1, 2, math.nan, "x"):
        with pytest.raises(ValueError, match="delta"):
            dp.Gaussian(1.0, bad)
    for bad in (3, 0, -1, 0.3, math.inf):
        with pytest.raises(ValueError, match="power of two"):
            dp.Laplace(1.0, granularity=bad)
    with pytest.raises(ValueError, match="exponential"):
        dp.ReportNoisyMax(1.0, noise="uniform")
    with pytest.raises(ValueError, match="noise_multiplier"):
        dp.Gaussian.with_noise(0)
    assert repr(dp.Gaussian(1.0, 1e-5)) == "Gaussian(epsilon=1, delta=1e-05, sensitivity=1)"
