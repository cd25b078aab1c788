"""DASH: each column of a scan is an ordinary regression with the permanent columns."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch

import syft as sy
from syft.exceptions import SyftError
from syft.linalg.lr import DASH
from tests.helpers.mpc.protocols import cast_of
from tests.helpers.regression_data import least_squares, spread


@pytest.fixture(scope="module")
def cast():
    """Four owners, a helper and a crypto provider."""
    for workers, provider in cast_of("scan", 5):
        yield workers[:4], workers[4], provider


def study(rows=120, columns=20, permanent=3, seed=0):
    """Return genotypes, covariates with a column of ones, and a trait."""
    generator = torch.Generator().manual_seed(seed)
    x = torch.randint(0, 3, (rows, columns), generator=generator).double()
    c = torch.cat([torch.ones(rows, 1), torch.randn(rows, permanent - 1, generator=generator)], 1).double()
    y = 0.5 * x[:, 0] + c.sum(1) + torch.randn(rows, generator=generator).double()
    return x, c, y


def scan(cast, x, c, y, sizes, **options):
    owners, helper, provider = cast
    made = DASH(provider, helper, **options)
    assert made.fit(*(spread(part, sizes, owners[: len(sizes)]) for part in (x, c, y))) is made
    return made


def check(made, x, c, y, tolerance=1e-5):
    for column in range(x.shape[1]):
        meant = least_squares(torch.cat([x[:, column : column + 1], c], 1), y, intercept=False)
        coef, error, p = (float(found[column]) for found in (made.coef, made.se, made.pvalue))
        assert abs(coef - meant["coef"][0]) <= tolerance * meant["se"][0]
        assert np.isclose(error, meant["se"][0], rtol=tolerance)
        assert np.isclose(p, meant["p"][0], rtol=1e-2, atol=1e-5)


@pytest.mark.parametrize("sizes", [[60, 60], [10, 100, 10], [2, 1, 100, 17]])
@pytest.mark.parametrize("permanent", [1, 3])
def test_agrees_with_float64(cast, sizes, permanent):
    x, c, y = study(permanent=permanent)
    made = scan(cast, x, c, y, sizes)
    check(made, x, c, y)
    assert made.get_coeff() is made.coef and made.get_standard_errors() is made.se
    assert made.get_p_values() is made.pvalue and float(made.pvalue[0]) < 1e-4


def test_any_units(cast):
    x, c, y = study(columns=6)
    x, c, y = x * 1e5, c * torch.tensor([1.0, 1e-4, 1e7]), y * 1e-3
    check(scan(cast, x, c, y, [50, 70]), x, c, y)


def test_large_means_of_the_permanent_columns(cast):
    x, c, y = study(columns=4)
    c[:, 1] = 1990 + 6 * c[:, 1]
    check(scan(cast, x, c, y, [50, 70]), x, c, y)
    check(scan(cast, x, c, y + 300, [50, 70]), x, c, y + 300, tolerance=1e-3)


def test_rare_variants_and_many_rows(cast):
    x, c, y = study(rows=20_000, columns=30)
    x = (torch.rand(x.shape, generator=torch.Generator().manual_seed(1)) < 0.002).double()
    check(scan(cast, x, c, y, [5_000, 15_000]), x, c, y)


def test_float32_and_one_column(cast):
    x, c, y = (part.float() for part in study(columns=1))
    made = scan(cast, x, c, y, [50, 70])
    assert made.coef.dtype == made.se.dtype == torch.float32 and made.pvalue.dtype == torch.float64
    check(made, x, c, y)


def test_columns_that_are_explained_get_nan(cast):
    x, c, y = study(columns=4)
    x[:, 1], x[:, 2] = 2.0, c[:, 1] - 3 * c[:, 2]
    made = scan(cast, x, c, y, [50, 70])
    assert [math.isnan(float(number)) for number in made.coef] == [False, True, True, False]
    assert torch.equal(made.coef.isnan(), made.se.isnan()) and torch.equal(made.coef.isnan(), made.pvalue.isnan())
    keep = [0, 3]
    made.coef, made.se, made.pvalue = made.coef[keep], made.se[keep], made.pvalue[keep]
    check(made, x[:, keep], c, y)


def test_collinear_covariates_are_refused(cast):
    x, c, y = study()
    for more in (c[:, 1:2] + c[:, 2:3], torch.zeros(120, 1), 2 * c[:, :1]):
        with pytest.raises(SyftError, match="columns of C are collinear"):
            scan(cast, x, torch.cat([c, more.double()], 1), y, [60, 60])


def test_rounds_do_not_grow_with_the_columns_of_the_scan(cast):
    for columns in (1, 40):
        x, c, y = study(columns=columns, permanent=2)
        with sy.mpc.count() as tally:
            scan(cast, x, c, y, [60, 60])
        assert tally.rounds == 7 + 25 + 2 * 32


def test_before_a_fit_and_bad_arguments(cast):
    owners, helper, provider = cast
    made = DASH(provider, helper)
    assert repr(made).endswith("not fitted>")
    for call in (made.get_coeff, made.get_standard_errors, made.get_p_values):
        with pytest.raises(SyftError, match=r"Call .fit\(X_ptrs, C_ptrs, y_ptrs\) first"):
            call()
    with pytest.raises(SyftError, match="precision_fractional must be an integer"):
        DASH(provider, helper, precision_fractional=40)
    x, c, y = (spread(part, [60, 60], owners[:2]) for part in study())
    for bad, text in (
        ((x, c[:1], y), "C_ptrs has 1"),
        ((x, c[::-1], y), "must be at the same owner"),
        ((x, [part[:, :0] for part in c], y), "C_ptrs have no columns"),
        ((x, y, y), r"C_ptrs\[0\] has 1 dimensions"),
        ((x, [part[:9] for part in c], y), "different numbers of rows: C_ptrs has 9"),
        (tuple([part[:2] for part in parts] for parts in (x, c, y)), "4 rows are too few for 3 columns of C"),
    ):
        with sy.mpc.count() as tally, pytest.raises(SyftError, match=text):
            made.fit(*bad)
        assert tally.runs == 0
    with pytest.raises(SyftError, match="can't be the hbc_worker"):
        DASH(provider, owners[0]).fit(x, c, y)
    assert repr(made.fit(x, c, y)).endswith("20 columns, 120 rows>")
