"""Exact hockey-stick divergences of mixtures of Gaussians in one dimension, by numerical integration."""

import numpy as np


def densities(mixtures, sigma, points=100_001):
    """Return a grid, and the density of each mixture on it; a mixture is a list of (probability, mean)."""
    means = [mean for mixture in mixtures for _, mean in mixture]
    grid = np.linspace(min(means) - 14 * sigma, max(means) + 14 * sigma, points)
    found = [
        sum(p * np.exp(-((grid - m) ** 2) / (2 * sigma**2)) for p, m in mixture) / (sigma * np.sqrt(2 * np.pi))
        for mixture in mixtures
    ]
    return grid, found


def divergence(first, second, sigma, epsilon):
    """Return the least delta with which two mixtures are (epsilon, delta)-close, in both directions."""
    grid, pair = densities([first, second], sigma)
    return _divergence(grid, pair, epsilon)


def _divergence(grid, pair, epsilon):
    step = grid[1] - grid[0]
    return max(float(np.maximum(a - np.exp(epsilon) * b, 0).sum() * step) for a, b in (pair, pair[::-1]))


def least_epsilon(first, second, sigma, delta):
    """Return the least epsilon with which two mixtures are (epsilon, delta)-close."""
    grid, pair = densities([first, second], sigma)
    low, high = 0.0, 60.0
    for _ in range(40):
        middle = (low + high) / 2
        low, high = (low, middle) if _divergence(grid, pair, middle) <= delta else (middle, high)
    return low


def replaced(rate, first=1.0, second=-1.0):
    """Return the outputs of a sampled sum when the row that gives `first` is replaced by one that gives `second`."""
    return [(1 - rate, 0.0), (rate, first)], [(1 - rate, 0.0), (rate, second)]
