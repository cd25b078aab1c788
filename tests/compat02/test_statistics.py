"""Results of the regression scan and of PATE in the documented types."""

import numpy as np
import pytest
import torch

from syft.dp import pate
from syft.linalg.lr import DASH


def test_d1_sigma2_is_the_squared_standard_error_of_each_column(make_worker):
    owners = [make_worker(name) for name in ("ann", "ben")]
    helper, provider = make_worker("helper"), make_worker("provider")
    scan = DASH(provider, helper)
    assert scan.sigma2 is None
    x, y = torch.randn(40, 3), torch.randn(40)
    parts = [[part.send(owner) for part, owner in zip(data.split(20), owners, strict=True)] for data in (x, torch.ones(40, 1), y)]  # fmt: skip
    scan.fit(*parts)
    assert scan.sigma2.shape == (3,) and scan.sigma2.dtype is scan.se.dtype
    assert torch.equal(scan.sigma2, scan.se**2) and bool((scan.sigma2 > 0).all())


@pytest.mark.parametrize("queries", [1, 50])
def test_x4_epsilons_are_scalar_float32_tensors(queries):
    votes = np.random.default_rng(0).integers(0, 10, size=(20, queries))
    labels = votes[0]
    exact = pate.perform_analysis(votes, labels, noise_eps=0.1, delta=1e-5)
    assert all(type(epsilon) is float for epsilon in exact)
    found = pate.perform_analysis_torch(torch.tensor(votes), torch.tensor(labels), noise_eps=0.1, delta=1e-5)
    for epsilon, meant in zip(found, exact, strict=True):
        assert type(epsilon) is torch.Tensor and epsilon.shape == () and epsilon.dtype is torch.float32
        assert meant <= float(epsilon) <= meant * (1 + 2e-7)  # never understated
    assert bool(found[0] <= found[1])
