"""The operation matrix with every party and the dealer in a child process: 2, 3 and 4 parties, both bases."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from typing import Any

import pytest
import torch

import syft as sy
from syft.linalg.lr import DASH, EncryptedLinearRegression
from tests.helpers.depth import deep
from tests.helpers.mpc.rows import MATRIX, REFUSED, A, check_row, encrypted
from tests.helpers.regression_data import least_squares, spread

pytestmark = [pytest.mark.timeout(400), pytest.mark.xdist_group("matrix in processes")]


@pytest.fixture(scope="module")
def processes() -> Iterator[tuple[list[Any], Any]]:
    """Four parties and a crypto provider."""
    hook = sy.TorchHook(torch)
    workers = [sy.ProcessWorker(hook, id=f"whole-matrix-{number}") for number in range(5)]
    yield workers[:4], workers[4]
    for worker in workers:
        worker.stop()
        for other in (*workers, hook.local_worker):
            other._known_workers.pop(worker.id, None)


# In one process every row runs in every format with 2, 3 and 4 parties (test_matrix.py). Here all do with two parties,
# half of them with three or four parties too; with RESYFT_DEEP=1 all run in all ways.
WAYS = {(2, "10^-3"): (0, 2), (2, "2^-16"): (1, 2), (3, "10^-3"): (0, 4), (4, "2^-16"): (3, 4)}


@pytest.mark.parametrize(("count", "form"), WAYS)
def test_all_rows(count: int, form: str, processes: tuple[list[Any], Any]) -> None:
    parties, provider = processes
    first, step = deep(WAYS[count, form], (0, 1))
    wrong = []
    for name in list(MATRIX)[first::step]:
        try:
            check_row(name, parties[:count], provider, form)
        except AssertionError as error:
            wrong.append((name, str(error)[:80]))
    assert not wrong
    gc.collect()
    for party in parties:
        party.synchronize()
        assert not party._objects


def test_refused_calls_are_refused_in_processes_too(processes: tuple[list[Any], Any]) -> None:
    parties, provider = processes
    for call in REFUSED.values():
        with pytest.raises(sy.exceptions.UnsupportedOperationError):
            call(encrypted(torch.tensor(A), parties[:2], provider))


def test_a_regression_and_a_scan_over_owners_in_processes(processes: tuple[list[Any], Any]) -> None:
    (*owners, helper, _), provider = processes
    x, y = torch.randn(80, 2), torch.randn(80)
    xs, ys, ones = (spread(part, [30, 50], owners) for part in (x, y, torch.ones(80, 1)))
    model = EncryptedLinearRegression(provider, helper).fit(xs, ys)
    meant = least_squares(x, y)
    assert torch.allclose(model.coef.double(), torch.from_numpy(meant["coef"][1:]), atol=1e-5)
    assert torch.allclose(model.se_coef.double(), torch.from_numpy(meant["se"][1:]), rtol=1e-4)
    scan = DASH(provider, helper).fit(xs, ones, ys)
    for column in range(2):
        meant = least_squares(x[:, column : column + 1], y)
        assert abs(float(scan.get_coeff()[column]) - meant["coef"][1]) < 1e-5
        assert abs(float(scan.get_standard_errors()[column]) - meant["se"][1]) < 1e-5
    near = sy.VirtualWorker(sy.TorchHook(torch), id="near-the-matrix")
    with pytest.raises(sy.exceptions.SyftError, match="All must be of one kind"):
        EncryptedLinearRegression(provider, near).fit(xs, ys)
