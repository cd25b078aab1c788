"""EncryptedLinearRegression: results against float64, and clear errors where there is none."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import Phase, given, settings
from hypothesis import strategies as st

import syft as sy
from syft.exceptions import SyftError
from syft.linalg.lr import EncryptedLinearRegression
from tests.helpers.mpc.protocols import cast_of
from tests.helpers.regression_data import least_squares, spread


@pytest.fixture(scope="module")
def cast():
    """Six owners, a helper and a crypto provider."""
    for workers, provider in cast_of("regression", 7):
        yield workers[:6], workers[6], provider


def rows(count, columns, seed=0, noise=1.0, dtype=torch.float32):
    generator = torch.Generator().manual_seed(seed)
    x = torch.randn(count, columns, generator=generator, dtype=torch.float64)
    y = x @ torch.linspace(1, -2, columns, dtype=torch.float64) + 0.5
    return x.to(dtype), (y + noise * torch.randn(count, generator=generator, dtype=torch.float64)).to(dtype)


def fit(cast, x, y, sizes, **options):
    owners, helper, provider = cast
    model = EncryptedLinearRegression(provider, helper, **options)
    made = model.fit(spread(x, sizes, owners[: len(sizes)]), spread(y, sizes, owners[: len(sizes)]))
    assert made is model
    return model


def check(model, x, y, coef=1e-6, errors=1e-5, exact=1e-6):
    """Compare with float64: coefficients in units of (sd of y / sd of x), errors in parts of themselves."""
    meant = least_squares(x, y, model.fit_intercept)
    first = int(model.fit_intercept)
    unit = y.double().std() / x.double().std(0).clamp(min=1e-300) if first else 1.0
    right = torch.from_numpy(meant["coef"][first:])
    assert bool(((model.coef.double() - right).abs() <= coef * unit + exact * right.abs()).all())
    assert np.allclose(model.se_coef.numpy(), meant["se"][first:], rtol=errors, atol=0)
    assert np.allclose(model.pvalue_coef.numpy(), meant["p"][first:], rtol=1e-2, atol=1e-5)
    assert np.isclose(float(model.sigma2), meant["sigma2"], rtol=1e-5)
    assert np.isclose(float(model.sigma) ** 2, float(model.sigma2), rtol=1e-5)
    if first:
        size = float(y.abs().max()) + float((x.double().mean(0) * model.coef.double()).abs().sum())
        assert abs(float(model.intercept) - meant["coef"][0]) <= 3 * coef * size + exact * abs(meant["coef"][0])
        assert np.isclose(float(model.se_intercept), meant["se"][0], rtol=errors)
        assert np.isclose(float(model.pvalue_intercept), meant["p"][0], rtol=1e-2, atol=1e-5)


@pytest.mark.parametrize("intercept", [True, False])
@pytest.mark.parametrize("sizes", [[50, 70], [10, 100, 10], [5, 20, 1, 64, 20, 10]])
def test_agrees_with_float64(cast, sizes, intercept):
    x, y = rows(120, 4)
    check(fit(cast, x, y, sizes, fit_intercept=intercept), x, y)


@settings(max_examples=12, deadline=None, derandomize=True, phases=[Phase.generate])
@given(
    columns=st.integers(1, 5),
    sizes=st.lists(st.integers(1, 40), min_size=2, max_size=4),
    units=st.lists(st.floats(-6, 6), min_size=5, max_size=5),
    means=st.lists(st.floats(-100, 100), min_size=5, max_size=5),
    target=st.floats(-6, 6),
    intercept=st.booleans(),
    seed=st.integers(0, 10**6),
)
def test_any_units_and_any_owners(cast, columns, sizes, units, means, target, intercept, seed):
    sizes[0] += 10  # more rows than columns
    x, y = rows(sum(sizes), columns, seed, dtype=torch.float64)
    if intercept:
        x = x + torch.tensor(means[:columns])
    x, y = x * 10 ** torch.tensor(units[:columns], dtype=torch.float64), y * 10**target
    # Errors are of the size of means in units of deviations, here up to 100.
    check(fit(cast, x, y, sizes, fit_intercept=intercept), x, y, coef=1e-5, errors=1e-4)


def test_many_rows_with_outliers(cast):
    x, y = rows(100_000, 3)
    check(fit(cast, x, y, [60_000, 40_000]), x, y)
    x[:2], y[:2] = 1e4, -3e4
    check(fit(cast, x, y, [60_000, 40_000]), x, y)


def test_large_means(cast):
    x, y = rows(200, 2, dtype=torch.float64)
    x = x * torch.tensor([5.0, 1.0]) + torch.tensor([2000.0, -1000.0])
    check(fit(cast, x, y + 700, [100, 100]), x, y + 700, coef=2e-6)


def test_a_column_that_differs_between_owners_only(cast):
    x, y = rows(90, 3)
    x[:, 1] = torch.cat([torch.zeros(30), torch.ones(60)])
    check(fit(cast, x, y, [30, 60]), x, y)


def test_correlated_columns(cast):
    x, y = rows(500, 3, dtype=torch.float64)
    x[:, 2] = x[:, 0] + 0.02 * x[:, 2]  # a variance inflation factor of 2500
    check(fit(cast, x, y, [250, 250]), x, y, exact=0)


def test_one_column_and_a_fit_without_error(cast):
    x, y = rows(40, 1)
    check(fit(cast, x, y.view(-1, 1), [20, 20]), x, y)
    x, y = rows(40, 2, noise=0.0, dtype=torch.float64)
    model = fit(cast, x, y, [20, 20])
    assert torch.allclose(model.coef, torch.tensor([1.0, -2.0], dtype=torch.float64), atol=1e-6)
    assert float(model.sigma) < 1e-6 and bool((model.pvalue_coef < 1e-20).all())


def test_results_have_the_type_of_the_data(cast):
    for dtype, kind in ((torch.float32,) * 2, (torch.float64,) * 2, (torch.int64, torch.float32), (torch.float16,) * 2):
        x, y = rows(60, 2)
        model = fit(cast, (x * 10).to(dtype), (y * 10).to(dtype), [30, 30])
        kind = torch.promote_types(kind, torch.float32)
        assert {model.coef.dtype, model.intercept.dtype, model.se_coef.dtype, model.sigma.dtype} == {kind}
        assert model.pvalue_coef.dtype == torch.float64
        check(model, (x * 10).to(dtype), (y * 10).to(dtype), exact=1e-5)


@pytest.mark.parametrize(
    "spoil",
    [
        lambda x: x.index_copy(1, torch.tensor([2]), x[:, :1] + x[:, 1:2]),
        lambda x: x.index_copy(1, torch.tensor([2]), x[:, :1] * 3),
        lambda x: x.index_fill(1, torch.tensor([0]), 1.0),
        lambda x: x.index_fill(1, torch.tensor([0]), 0.0),
        lambda x: x * 0,
    ],
)
def test_collinear_columns_are_refused(cast, spoil):
    x, y = rows(100, 3)
    with pytest.raises(SyftError, match="columns of X are collinear, or nearly so"):
        fit(cast, spoil(x), y, [50, 50])


def test_a_constant_column_is_no_problem_without_an_intercept(cast):
    x, y = rows(100, 3)
    x[:, 1] = 1
    check(fit(cast, x, y, [50, 50], fit_intercept=False), x, y)


@pytest.mark.parametrize("bad", [float("nan"), float("inf"), -float("inf")])
@pytest.mark.parametrize("where", ["x", "y"])
def test_values_that_are_not_finite(cast, bad, where):
    x, y = rows(40, 2)
    (x if where == "x" else y)[3] = bad
    with pytest.raises(SyftError, match="cannot represent NaN and infinity"):
        fit(cast, x, y, [20, 20])


def test_predict(cast):
    x, y = rows(60, 3)
    model = fit(cast, x, y, [30, 30])
    owners, helper, provider = cast
    meant = x @ model.coef + model.intercept
    assert torch.allclose(model.predict(x), meant, atol=1e-5)
    assert torch.allclose(model.predict(x[0]), meant[0], atol=1e-5)
    remote = model.predict(x.send(owners[3]))
    assert remote.location is owners[3] and torch.allclose(remote.get(), meant, atol=1e-5)
    assert torch.allclose(model.predict(x.double().send(owners[0])).get(), meant.double(), atol=1e-5)
    shared = x.fix_precision(base=2, precision_fractional=16).share(owners[0], helper, crypto_provider=provider)
    assert torch.allclose(model.predict(shared).get().float_precision(), meant, atol=1e-3)
    assert model.predict(torch.ones(1, 3, dtype=torch.int64)).shape == (1,)
    for wrong in (torch.ones(2, 4), torch.ones(()), torch.ones(2, 3, 3), [1.0, 2.0, 3.0]):
        with pytest.raises(SyftError, match="predict takes a matrix of 3 columns"):
            model.predict(wrong)
    without = fit(cast, x, y, [30, 30], fit_intercept=False)
    assert torch.allclose(without.predict(x), x @ without.coef, atol=1e-5)


def test_summary(cast, capsys):
    x, y = rows(60, 2)
    model = fit(cast, x, y, [30, 30], precision_fractional=3)
    capsys.readouterr()
    assert model.summarize() is None
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].split() == ["coef", "std", "err", "p-value"]
    assert [line.split()[0] for line in (lines[2], lines[3], lines[4])] == ["intercept", "X1", "X2"]
    assert f"{float(model.coef[1]):.3f}" in lines[4] and f"{float(model.se_coef[1]):.3f}" in lines[4]
    assert "60 rows, 57 degrees of freedom" in lines[-1]
    fit(cast, x * 1e9, y, [30, 30], fit_intercept=False).summarize()
    shown = capsys.readouterr().out
    assert "e-09" in shown and "intercept" not in shown


def test_before_and_after_a_fit(cast):
    owners, helper, provider = cast
    model = EncryptedLinearRegression(provider, helper)
    assert repr(model).endswith("not fitted>") and helper.id in repr(model) and model.coef is None
    for call in (model.summarize, lambda: model.predict(torch.ones(1, 2))):
        with pytest.raises(SyftError, match=r"Call .fit\(X_ptrs, y_ptrs\) first"):
            call()
    x, y = rows(30, 2)
    model.fit(spread(x, [15, 15], owners[:2]), spread(y, [15, 15], owners[:2]))
    assert repr(model).endswith("fitted to 30 rows>")
    before = model.coef
    x, y = rows(40, 3, seed=4)
    model.fit(spread(x, [15, 25], owners[2:4]), spread(y, [15, 25], owners[2:4]))  # again, to other data
    check(model, x, y)
    assert before.shape == (2,)


def test_workers_may_be_named(cast):
    owners, helper, provider = cast
    x, y = rows(30, 2)
    model = EncryptedLinearRegression(provider.id, helper.id)
    model.fit(spread(x, [15, 15], owners[:2]), tuple(spread(y, [15, 15], owners[:2])))
    check(model, x, y)


def test_precision_must_make_sense(cast):
    _, helper, provider = cast
    for wrong in (0, 13, 2.5, None):
        with pytest.raises(SyftError, match="precision_fractional must be an integer from 1 to 12"):
            EncryptedLinearRegression(provider, helper, precision_fractional=wrong)


BAD = {
    "not a list": (lambda x, y, o: (x[0], y), "X_ptrs must be a list of pointers"),
    "empty": (lambda x, y, o: ([], []), "X_ptrs must be a list of pointers"),
    "plain tensors": (lambda x, y, o: ([torch.ones(3, 2)] * 2, y), r"X_ptrs\[0\] must be a pointer .* got Tensor"),
    "shared": (
        lambda x, y, o: (x, [y[0], torch.ones(9).long().share(o[0], o[1])]),
        r"y_ptrs\[1\] must be a pointer .* got AdditiveSharingTensor",
    ),
    "numbers": (lambda x, y, o: (x, [1.0, 2.0]), r"y_ptrs\[0\] must be a pointer .* got float"),
    "one list longer": (lambda x, y, o: (x, y[:1]), "X_ptrs has 2, y_ptrs has 1"),
    "one owner": (lambda x, y, o: (x[:1], y[:1]), "at least two owners, got 1"),
    "crossed": (lambda x, y, o: (x, y[::-1]), "must be at the same owner"),
    "one owner twice": (lambda x, y, o: ([x[0], x[0]], [y[0], y[0]]), "has several of the pointers"),
    "a vector for a matrix": (lambda x, y, o: (y, y), r"X_ptrs\[0\] has 1 dimensions; a matrix is needed"),
    "a matrix for a vector": (lambda x, y, o: (x, x), r"y_ptrs\[0\] has 2 columns; it must have one"),
    "other columns": (lambda x, y, o: ([x[0], x[1][:, :1]], y), "different numbers of columns: 2, 1"),
    "no columns": (lambda x, y, o: ([p[:, :0] for p in x], y), "have no columns"),
    "other rows": (lambda x, y, o: (x, [y[0], y[1][:3]]), "different numbers of rows: X_ptrs has 9, y_ptrs has 3"),
    "no rows": (lambda x, y, o: ([x[0], x[1][:0]], [y[0], y[1][:0]]), "has no rows. Leave it out"),
    "too few rows": (lambda x, y, o: ([p[:1] for p in x], [p[:1] for p in y]), "2 rows are too few for 2 columns"),
    "complex": (lambda x, y, o: ([p * 1j for p in x], y), "has complex numbers"),
    "too many columns": (
        lambda x, y, o: ([torch.ones(200, 257).send(w) for w in o], [torch.ones(200).send(w) for w in o]),
        "takes at most 256 columns, got 257",
    ),
}


@pytest.mark.parametrize("name", BAD)
def test_bad_arguments_are_refused_before_anything_is_shared(cast, name):
    owners, helper, provider = cast
    spoil, text = BAD[name]
    x, y = rows(18, 2)
    x, y = spread(x, [9, 9], owners[:2]), spread(y, [9, 9], owners[:2])
    bad = spoil(x, y, owners[:2])
    with sy.mpc.count() as tally, sy.count_messages() as messages:
        with pytest.raises(SyftError, match=text):
            EncryptedLinearRegression(provider, helper).fit(*bad)
    assert tally.runs == 0
    assert not [pair for pair in messages.by_worker if helper.id in pair]


def test_too_many_owners_are_refused(cast, make_worker):
    _, helper, provider = cast
    owners = [make_worker(f"owner{number}") for number in range(64)]
    x, y = rows(128, 1)
    with pytest.raises(SyftError, match="At most 63 owners can compute together, got 64"):
        EncryptedLinearRegression(provider, helper).fit(spread(x, [2] * 64, owners), spread(y, [2] * 64, owners))


def test_bad_roles_are_refused_before_anything_is_shared(cast):
    owners, helper, provider = cast
    x, y = rows(18, 2)
    x, y = spread(x, [9, 9], owners[:2]), spread(y, [9, 9], owners[:2])
    for roles, text in (
        ((provider, owners[0]), "owns rows, so it can't be the hbc_worker too"),
        ((owners[1], helper), "owns rows, so it can't be the crypto_provider too"),
        ((helper, helper), "are the same worker"),
        ((None, helper), "crypto_provider is missing"),
        ((provider, None), "hbc_worker is missing"),
        ((provider, "nobody"), "No worker 'nobody' is known here"),
    ):
        with pytest.raises(SyftError, match=text):
            EncryptedLinearRegression(*roles).fit(x, y)
