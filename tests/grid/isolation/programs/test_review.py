"""Reviews of results: how many rows they depend on, and what follows from them with earlier releases."""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Callable
from typing import Any

import pytest
import torch
from sklearn.datasets import load_breast_cancer

from syft.federated.client.stored_dataset import StoredDataset
from syft.grid.isolation.programs.review.checks import Case, warnings_of
from syft.grid.isolation.programs.review.combinations import refine
from syft.grid.isolation.programs.review.influence import Influences
from syft.grid.isolation.programs.review.preview import preview_of


@dataclasses.dataclass(frozen=True)
class Formula:
    """A computation given by a function of samples and targets."""

    name: str
    function: Callable[..., Any]

    def run(self, data):
        made = self.function(data["x"], data["y"]) if "x" in data else self.function(*data["pair"].contents())
        return list(made) if isinstance(made, tuple) else [made]


@pytest.fixture(scope="module")
def biopsies():
    x, y = load_breast_cancer(return_X_y=True)
    return {"x": torch.tensor(x, dtype=torch.float32), "y": torch.tensor(y)}


def review(data, *functions, reason="", calls=(), least_rows=10, seconds=600.0):
    """The kinds of warnings of the first function, with the others as earlier releases."""
    computations = [Formula(f"r{number}", function) for number, function in enumerate(functions)]
    influences = Influences(computations, data, seconds)
    refine(influences, least_rows)
    case = Case(computations[0].run(data), data, influences, least_rows, reason, calls)
    return warnings_of(case), influences


def kinds(data, *functions, **options):
    return [warned.kind for warned in review(data, *functions, **options)[0]]


def fit(x, y):
    """Coefficients of a logistic regression."""
    z = torch.cat([(x - x.mean(0)) / x.std(0), torch.ones(len(x), 1)], 1)
    w = torch.zeros(z.shape[1])
    for _ in range(30):
        w = w - z.T @ (torch.sigmoid(z @ w) - y) / len(z)
    return w


GOOD = {
    "means": [lambda x, y: x.mean(0)],
    "one mean": [lambda x, y: x[:, 0].mean()],
    "standard deviations": [lambda x, y: x.std(0)],
    "a count": [lambda x, y: (x[:, 0] > 15).sum()],
    "a rate": [lambda x, y: y.float().mean()],
    "correlations": [lambda x, y: torch.corrcoef(x[:, :5].T)],
    "least squares": [lambda x, y: torch.linalg.lstsq((x - x.mean(0)) / x.std(0), y[:, None].float()).solution],
    "a model": [fit],
    "class means after all means": [lambda x, y: (x * y[:, None]).sum(0) / y.sum(), lambda x, y: x.mean(0)],
    "variances after means": [lambda x, y: x.var(0), lambda x, y: x.mean(0)],
    "the same means again": [lambda x, y: x.mean(0), lambda x, y: x.mean(0)],
    "two results": [lambda x, y: (x.mean(0), y.sum())],
    "a rounded mean": [lambda x, y: (x[:, 0].mean() * 100).round() / 100],
    "a sum of rounded numbers": [lambda x, y: x[:, 0].double().mul(10).round().div(10).sum()],
    "rates": [lambda x, y: torch.stack([(x[:, 0] > 15).float().mean(), y.double().mean().float()])],
    "a constant": [lambda x, y: torch.ones(3)],
    "no numbers": [lambda x, y: "text"],
}


@pytest.mark.parametrize("name", GOOD)
def test_statistics_of_many_rows_carry_no_warning(name, biopsies):
    assert review(biopsies, *GOOD[name])[0] == []


BAD = {
    "a record": ("few rows", "on 1 row of 569", [lambda x, y: x[17]]),
    "a number of a record": ("few rows", "on 1 row of 569", [lambda x, y: x[17, 3]]),
    "a mean of four": ("few rows", "on 4 rows of 569", [lambda x, y: x[3:7].mean(0)]),
    "a mask that selects three": (
        "few rows", "on 3 rows", [lambda x, y: (x * (x[:, [0]] > 27)).sum(0) / (x[:, 0] > 27).sum()],
    ),
    "a largest value": ("few rows", "on 1 row", [lambda x, y: x[:, 0].max()]),
    "a small count": ("few rows", "on 1 row", [lambda x, y: (x[:, 0] > 28).sum()]),
    "a histogram with small cells": ("few rows", "of 20 numbers", [lambda x, y: torch.histc(x[:, 0], 20, 0, 40)]),
    "a record with a little of all others": ("few rows", "to 90% on 1 row", [lambda x, y: x[3, 0] + 0.005 * x.mean()]),
    "a record that is amplified": ("few rows", "on 1 row", [lambda x, y: x.sum(0) + x[5] * 1e6]),
    "predictions": ("many numbers", "each of the 569 rows", [lambda x, y: x @ torch.ones(30)]),
    "all rows in another order": ("many numbers", "each of the 569", [lambda x, y: x.flip(0)]),
    "as many numbers as the data": ("many numbers", "17639 numbers", [lambda x, y: (x.sin(), y)]),
    "fifty rows": ("rows", "50 rows", [lambda x, y: x[:50]]),
    "nearly a row": ("rows", "1 row", [lambda x, y: x[17] * 1.000001]),
    "a column, scaled": ("rows", "a column", [lambda x, y: x[:, 4] * 3 - 1]),
    "a record in the last digits of a rounded mean": (
        "hidden digits", "1 row of 569", [lambda x, y: (x[:, 0].double().mean() * 100).round() / 100 + x[17, 3] * 1e-6],
    ),
    "a record below a count": ("hidden digits", "below 1 ", [lambda x, y: (x[:, 0] > 15).sum() + x[17, 0].double() / 100]),
    "a record below a binary fraction": (
        "hidden digits", "1 row", [lambda x, y: (x[:, 0].double().sum() * 8).round() / 8 + x[17, 0].double() / 2**14],
    ),
    "all but one after all": ("difference", "r1 by 1 row", [lambda x, y: x[1:].mean(0), lambda x, y: x.mean(0)]),
    "all but four after all": ("difference", "r1 by 4 rows", [lambda x, y: x[4:].sum(0), lambda x, y: x.sum(0)]),
    "all but one by a mask": (
        "difference",
        "r1 by 1 row",
        [lambda x, y: (x * (x[:, [0]] < 28)).sum(0), lambda x, y: x.sum(0)],
    ),
    "scaled, with a part of one": (
        "difference", "by 1 row", [lambda x, y: x.mean(0) * 2 + x[40] / 569, lambda x, y: x.mean(0)],
    ),
    "a sum of two earlier ones but for one": (
        "combination",
        "1 single row",
        [lambda x, y: x[100:300].sum(0), lambda x, y: x[:300].sum(0), lambda x, y: x[:99].sum(0)],
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", BAD)
def test_results_that_reveal_rows_carry_a_warning(name, biopsies):
    kind, text, functions = BAD[name]
    found = review(biopsies, *functions)[0]
    assert any(warned.kind == kind and text in warned.text for warned in found), found


@pytest.mark.parametrize("dtype", [torch.float64, torch.float16, torch.int64, torch.uint8, torch.bool, torch.complex64])
def test_all_kinds_of_numbers(dtype):
    generator = torch.Generator().manual_seed(1)
    x = (torch.rand(200, 4, generator=generator) * 100).to(dtype if dtype is not torch.bool else torch.uint8)
    x = x > 50 if dtype is torch.bool else x
    data = {"x": x, "y": torch.zeros(200)}
    assert kinds(data, lambda x, y: x[7]) == ["few rows"] or kinds(data, lambda x, y: x[7]) == ["few rows", "rows"]
    assert kinds(data, lambda x, y: x.sum(0) if dtype is not torch.float16 else x.float().sum(0)) == []


@pytest.mark.parametrize("shape", [(300,), (300, 2, 3)])
def test_rows_of_any_shape(shape):
    data = {"x": torch.randn(shape, generator=torch.Generator().manual_seed(2)), "y": torch.zeros(())}
    assert "few rows" in kinds(data, lambda x, y: x[5] + y)
    assert kinds(data, lambda x, y: x.sum(0) + y) == []


def test_a_data_set_of_two_tensors_has_one_set_of_rows(biopsies):
    data = {"pair": StoredDataset(biopsies["x"], biopsies["y"])}
    assert kinds(data, lambda x, y: x.mean(0)) == []
    assert kinds(data, lambda x, y: y[19] * x[19]) == ["few rows", "rows"]
    assert kinds(data, lambda x, y: x[1:].mean(0), lambda x, y: x.mean(0)) == ["difference"]


def test_small_data_sets_are_named():
    found, _ = review({"x": torch.randn(9, 2), "y": torch.zeros(50)}, lambda x, y: x.mean(0))
    assert [warned.text for warned in found] == ["A data set has only 9 rows."]


def test_one_row_among_a_million_is_found_in_few_runs():
    runs = itertools.count()

    def chosen(x, y):
        next(runs)
        return x[123_456]

    data = {"x": torch.arange(1_000_000, dtype=torch.float64) ** 2, "y": torch.zeros(())}
    assert kinds(data, chosen) == ["few rows"]
    assert next(runs) < 120
    assert kinds(data, lambda x, y: x.mean()) == []


def test_missing_numbers_are_no_change():
    x = torch.randn(100, 3, generator=torch.Generator().manual_seed(3))
    x[5, 1] = torch.nan
    data = {"x": x, "y": torch.zeros(())}
    assert kinds(data, lambda x, y: x.nan_to_num().mean(0)) == []
    assert kinds(data, lambda x, y: x[:, 1].sum()) == ["few rows"]  # row 5 alone decides that it is missing


def test_reviews_end_in_time(biopsies):
    _, influences = review(biopsies, fit, seconds=0.0)
    assert influences.is_partial and sum(len(group.rows) for group in influences.groups) == 569


def test_runs_that_fail_with_other_rows_are_counted(biopsies):
    def brittle(x, y):
        if x[3, 0] != 11.42:
            raise ValueError("another row")
        return x.mean(0)

    found, influences = review({**biopsies, "x": biopsies["x"].double().round(decimals=2)}, brittle)
    assert influences.failed >= 1 and found


def test_a_reason_that_the_code_does_not_fit(biopsies):
    mean = GOOD["means"][0]
    calls = ("torch.Tensor.mean",)
    assert kinds(biopsies, mean, reason="the average of the ward", calls=calls) == []
    assert kinds(biopsies, mean, reason="weights of a trained model", calls=calls) == ["reason"]
    assert kinds(biopsies, mean, reason="Counts of patients", calls=calls) == ["reason"]
    assert kinds(biopsies, mean, reason="Counts of patients", calls=("syft.run_plan",)) == []


def test_previews_show_small_results_and_describe_large_ones():
    small, large, infinite, text = preview_of(
        [torch.tensor([1.5, torch.nan]), torch.arange(1000.0), torch.full((200,), torch.inf), "text"]
    )
    assert small["values"] == [1.5, "nan"] and small["shape"] == [2]
    assert (large["min"], large["max"], sum(large["histogram"]), large["distinct"]) == (0.0, 999.0, 1000, 1000)
    assert infinite["not_finite"] == 200 and "mean" not in infinite
    assert text["numbers"] == 0
