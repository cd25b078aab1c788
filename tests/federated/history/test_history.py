"""The history of a run: its numbers, charts and serialization."""

from __future__ import annotations

import itertools
import math
import re
import xml.etree.ElementTree as ElementTree

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from syft.exceptions import FederatedError, TrainingError
from syft.federated import History
from syft.federated.history.chart import draw, ticks
from syft.federated.history.records import MAX_REASON, MAX_REASONS, RoundRecord
from syft.serde import deserialize, serialize

SVG = "{http://www.w3.org/2000/svg}"


def history(rounds: int = 5) -> History:
    return History(
        RoundRecord(
            number, 2.0 / number, {"accuracy": 1 - 1 / number, "loss": 3.0 / number}, 10, 9, 1,
            [("bob", "it was too late")], 4000, 3600, 0.5, 0.1 * number,
        )
        for number in range(1, rounds + 1)
    )  # fmt: skip


def drawing(chart) -> ElementTree.Element:
    return ElementTree.fromstring(chart.svg)  # noqa: S314  (our own)


def texts(chart) -> list[str]:
    return [element.text for element in drawing(chart).iter(f"{SVG}text")]


# --- numbers ----------------------------------------------------------------------------------------------------


def test_a_history_is_like_a_list():
    found = history()
    assert len(found) == 5 and found[-1].number == 5
    assert [record.number for record in found] == [1, 2, 3, 4, 5]
    assert isinstance(found[1:3], History) and found[1:3].losses == [1.0, 2 / 3]
    assert found == history() and found != history(4) and found != [1]
    assert found[0] in found
    with pytest.raises(IndexError):
        found[5]


def test_losses_and_metrics():
    found = History([RoundRecord(1, 0.9, {"accuracy": 0.5}), RoundRecord(2), RoundRecord(4, 0.4, {"f1": 0.7})])
    assert found.losses[::2] == [0.9, 0.4] and math.isnan(found.losses[1])
    assert found.metrics == ["accuracy", "f1"]
    np.testing.assert_equal(found.metric("accuracy"), [0.5, math.nan, math.nan])
    with pytest.raises(TrainingError, match="'precision'. Available: accuracy, f1"):
        found.metric("precision")


def test_rows_have_the_same_columns():
    found = History([RoundRecord(1, 0.9, {"loss": 0.5}), RoundRecord(2, None, {"f1": 0.7})]).rows()
    assert list(found[0]) == list(found[1])
    assert found[0] == {
        "round": 1, "loss": 0.9, "eval_loss": 0.5, "f1": None, "asked": 0, "answered": 0, "failed": 0, "bytes_out": 0,
        "bytes_in": 0, "seconds": 0.0, "epsilon": None, "reasons": "",
    }  # fmt: skip
    assert found[1]["f1"] == 0.7 and found[1]["loss"] is None
    assert History().rows() == []


def test_numbers_of_any_kind_become_plain():
    record = RoundRecord(1, torch.tensor(0.5), {"a": np.float32(0.25), "b": 1, "c": torch.tensor([2]), "d": True})
    assert record.loss == 0.5
    assert dict(record.metrics) == {"a": 0.25, "b": 1.0, "c": 2.0, "d": 1.0}
    assert {type(value) for value in record.metrics.values()} == {float}


@pytest.mark.parametrize(
    "values",
    [
        {"number": 0}, {"number": True}, {"number": 1.0}, {"asked": -1}, {"loss": "0.5"}, {"loss": torch.ones(2)},
        {"metrics": [1]}, {"metrics": {1: 2.0}}, {"metrics": {"a": None}}, {"metrics": {"a": 1j}}, {"seconds": None},
        {"epsilon": "1"}, {"bytes_in": 1.5},
    ],
)  # fmt: skip
def test_invalid_round_records_are_refused(values):
    with pytest.raises(TrainingError):
        RoundRecord(**{"number": 1, **values})


def test_rounds_go_up():
    found = history()
    with pytest.raises(TrainingError, match="Round 5 can't follow round 5"):
        found.append(RoundRecord(5))
    with pytest.raises(TrainingError, match="RoundRecords"):
        found.append({"number": 6})
    assert len(found) == 5


def test_a_round_of_many_failures_stays_small():
    reasons = [(f"client-{number}", f"{'it budget_errors ' * 100} {number}\nin two lines") for number in range(10_000)]
    record = RoundRecord(1, failed=10_000, reasons=reasons)
    assert len(record.reasons) == MAX_REASONS
    assert all(len(reason) <= MAX_REASON and "\n" not in reason for reason in record.reasons)
    # The same reason is kept once.
    record = RoundRecord(1, reasons=[("a", "it was too late"), ("b", "it was too late"), ("c", "no data"), "alone"])
    assert record.reasons == ("a: it was too late", "c: no data", "alone")


# --- checkpoints ------------------------------------------------------------------------------------------------


def test_to_dict_and_from_dict_round_trip():
    found = history()
    assert History.from_dict(found.to_dict()) == found
    assert History.from_dict(deserialize(serialize(found.to_dict(), None), None)) == found
    assert History.from_dict(History().to_dict()) == History()


@pytest.mark.parametrize(
    "change",
    [
        lambda saved: None, lambda saved: [], lambda saved: {}, lambda saved: {"rounds": None}, lambda saved: {"rounds": [1]},
        lambda saved: {**saved, "more": 1}, lambda saved: {"rounds": [{"number": 1}]},
        lambda saved: {"rounds": saved["rounds"] * 2}, lambda saved: {"rounds": [{**saved["rounds"][0], "loss": "x"}]},
        lambda saved: {"rounds": [{**saved["rounds"][0], "extra": 1}]},
        lambda saved: {"rounds": [{**saved["rounds"][0], "reasons": 3}]},
    ],
)  # fmt: skip
def test_from_dict_refuses_other_values(change):
    with pytest.raises(FederatedError, match="history"):
        History.from_dict(change(history().to_dict()))


# --- charts -----------------------------------------------------------------------------------------------------


def test_a_chart_has_axes_labels_and_a_line():
    chart = history().plot("accuracy")
    words = texts(chart)
    assert "accuracy" in words and "round" in words
    assert {"1", "5", "0", "0.2", "0.8"} <= set(words)
    (line,) = drawing(chart).iter(f"{SVG}polyline")
    points = [tuple(map(float, point.split(","))) for point in line.get("points").split()]
    assert len(points) == 5
    # The first round is at the left on the floor, and later ones lie higher and further to the right.
    xs, ys = zip(*points, strict=True)
    assert list(xs) == sorted(xs) and list(ys) == sorted(ys, reverse=True)
    assert chart._repr_svg_() == chart.svg


def test_by_default_everything_that_was_measured_is_drawn():
    words = texts(history().plot())
    assert {"loss", "accuracy", "eval_loss", "epsilon"} <= set(words)
    assert len(list(drawing(history().plot()).iter(f"{SVG}polyline"))) == 4


def test_gaps_and_single_points_are_drawn():
    found = History(RoundRecord(n, None if n in (3, 5) else 1.0 / n) for n in range(1, 8))
    root = drawing(found.plot("loss"))
    assert [len(line.get("points").split()) for line in root.iter(f"{SVG}polyline")] == [2, 2]
    assert len(list(root.iter(f"{SVG}circle"))) == 5
    alone = drawing(History([RoundRecord(1, 0.5)]).plot())
    assert len(list(alone.iter(f"{SVG}circle"))) == 1
    for nothing in (History(), History([RoundRecord(1)])):
        assert "nothing to show yet" in texts(nothing.plot("loss")) or "nothing to show yet" in texts(nothing.plot())


def test_names_can_not_write_into_the_drawing():
    found = History([RoundRecord(1, 0.5, {"<script>&": 1.0}, reasons=["<b>"])])
    assert "<script>" not in found._repr_html_() and "<b>" not in found._repr_html_()
    assert "<script>&" in texts(found.plot())


def test_a_chart_is_written_as_svg(tmp_path):
    chart = history().plot(path=tmp_path / "run.svg")
    assert (tmp_path / "run.svg").read_text() == chart.svg
    with pytest.raises(TrainingError, match=r"run\.svg"):
        chart.save(tmp_path / "run.png")


def test_it_draws_on_axes_of_matplotlib():
    class Axes:
        """The matplotlib axes interface that `plot` uses."""

        def __init__(self) -> None:
            self.calls: list = []

        def plot(self, x, y, label):
            self.calls.append((label, x, y))

        def set_xlabel(self, text):
            self.calls.append(text)

        def legend(self):
            self.calls.append("legend")

    axes = Axes()
    assert history(2).plot("loss", ax=axes) is axes
    assert axes.calls == [("loss", [1, 2], [2.0, 1.0]), "round", "legend"]


def test_plot_refuses_unknown_columns():
    with pytest.raises(TrainingError, match="no column 'f1' to plot. Available: loss, accuracy"):
        history().plot("f1")
    with pytest.raises(TrainingError, match="reasons"):
        history().plot("reasons")


@settings(max_examples=100)
@given(
    st.lists(st.floats(allow_nan=False, allow_infinity=False, min_value=-1e150, max_value=1e150), min_size=1),
    st.booleans(),
)
def test_ticks_are_round_and_go_all_the_way(values, is_whole):
    found = ticks(values, is_whole=is_whole)
    steps = [second - first for first, second in itertools.pairwise(found)]
    assert 2 <= len(found) <= 12
    room = 1e-6 * (found[-1] - found[0])
    assert found[0] <= min(values) + room and found[-1] >= max(values) - room
    assert max(steps) == pytest.approx(min(steps), rel=1e-3)


@settings(max_examples=40)
@given(st.lists(st.one_of(st.none(), st.floats(width=64)), max_size=30))
def test_any_numbers_make_a_drawing(values):
    found = History(RoundRecord(number, value) for number, value in enumerate(values, 1))
    root = drawing(found.plot("loss"))
    for line in root.iter(f"{SVG}polyline"):
        for point in line.get("points").split():
            x, y = map(float, point.split(","))
            assert -1 <= x <= 421 and -1 <= y <= 261
    assert "nan" not in found.plot("loss").svg.lower().replace("sans", "")


def test_long_runs_make_small_drawings():
    chart = draw({"loss": [(number, math.sin(number / 500)) for number in range(100_000)]}, "round")
    assert len(chart.svg) < 40_000


def test_how_it_looks():
    found = history()
    assert repr(found) == (
        "<History of 5 rounds: loss 2 to 0.4, accuracy 0 to 0.8, eval_loss 3 to 0.6, epsilon 0.1 to 0.5; "
        "5 of 50 calls failed: bob: it was too late>"
    )
    assert repr(found[:1]).startswith("<History of 1 round: loss 2, ") and repr(History()) == "<History of no rounds>"
    page = history(50)._repr_html_()
    assert "<svg" in page and "4 kB" in page and "bob: it was too late" in page
    assert len(re.findall("<tr>", page)) == 22 and "the last 20 rounds" in page
    assert "<table" in History()._repr_html_()
