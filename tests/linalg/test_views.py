"""The view of a party in an inversion, a decomposition or a regression does not depend on the secrets."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from syft.mpc.protocols import gwas, householder, matrices, regression
from tests.mpc.protocols import test_transcripts
from tests.mpc.protocols.test_transcripts import LIMIT, look, worst

ZEROS = torch.zeros(4, 4, dtype=torch.int64)
LARGE = torch.tensor([[1 << 30, 3, 1 << 20, 0], [3, 1 << 29, 7, 9], [1 << 20, 7, 5, 1], [0, 9, 1, 1 << 28]])

CASES: dict[str, tuple[Any, list[tuple[int, ...]]]] = {
    "inverse": (matrices.inverse, [(4, 4)]),
    "qr": (householder.qr, [(4, 2)]),
    "regression": (regression.regression, [(4, 4)]),
    "association": (gwas.association, [(4, 3), (1,), (1,), (1,)]),
}


@pytest.mark.parametrize("name", CASES)
def test_views_do_not_depend_on_the_secrets(name, monkeypatch):
    monkeypatch.setattr(test_transcripts, "RUNS", 8)
    protocol, shapes = CASES[name]
    found = []
    for secret in (ZEROS, LARGE):
        found.append(look(protocol, [secret.flatten()[: torch.Size(s).numel()].reshape(s) for s in shapes], 2))
    for one, other in zip(*found, strict=True):
        assert worst(one, other) < LIMIT
