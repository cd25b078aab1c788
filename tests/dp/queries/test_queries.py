"""Queries on private data: correct within the noise, clamped, charged, and free of other information about values."""

from __future__ import annotations

import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

import syft as sy
from syft.dp.queries import QUERY, estimators
from syft.dp.queries.estimators import QUESTIONS, Noise
from syft.dp.queries.table_view import TableFormat
from syft.exceptions import NotPermittedError, PrivacyError, SerdeError
from tests.helpers.attacks.hostile_peer import error_name
from tests.helpers.dp.noise import keyed
from tests.helpers.dp.queries import AGES, MANY, near, settled
from tests.helpers.rights.users import Peer

# --- right answers --------------------------------------------------------------------------------------------


def test_results_are_correct_within_their_noise(ages):
    assert sy.dp.count(ages, epsilon=MANY) == 100
    assert sy.dp.count(ages, where=(">=", 65), epsilon=MANY) == 35
    assert sy.dp.count(ages, where=[(">", 10), ("!=", 20), ("<=", 30)], epsilon=MANY) == 19
    assert sy.dp.sum(ages, 0, 99, epsilon=MANY) == near(4950, 99)
    assert sy.dp.sum(ages, 10, 20, epsilon=MANY) == near(float(AGES.clamp(10, 20).sum()), 10)
    assert sy.dp.sum(ages, 10, 99, where=("<", 50), epsilon=MANY) == near(1280, 99)
    assert sy.dp.mean(ages, 0, 99, epsilon=MANY) == near(49.5, 99 / 100)
    assert sy.dp.mean(ages, -1000, 99, epsilon=MANY, mechanism="gaussian", delta=1e-3) == pytest.approx(49.5, abs=2)
    assert sy.dp.histogram(ages, 4, 0, 100, epsilon=MANY).tolist() == [25, 25, 25, 25]
    assert sy.dp.histogram(ages, edges=[10, 20, 90], epsilon=MANY).tolist() == [20, 80]
    assert sy.dp.quantile(ages, 0.25, 0, 100, epsilon=MANY) == pytest.approx(25, abs=1.2)
    assert sy.dp.median(ages, 0, 128, epsilon=MANY, candidates=129) in (49.0, 50.0)
    assert sy.dp.most_common(ages, [3, 150], epsilon=MANY) == 3


def test_results_for_several_columns(table):
    found = sy.dp.sum(table, [0, 0], [99, 990], epsilon=MANY)
    assert found.dtype is torch.float64 and found.tolist() == [near(4950, 99, parts=2), near(49500, 990, parts=2)]
    found = sy.dp.sum(table, [0, 0], [99, 990], epsilon=MANY, mechanism="gaussian", delta=1e-3)
    room = 10 * math.sqrt(2) * sy.dp.Gaussian(MANY, 1e-3).sigma  # ten standard deviations, for a row that moves by one
    assert found.dtype is torch.float64
    assert found.tolist() == [pytest.approx(4950, abs=99 * room), pytest.approx(49500, abs=990 * room)]
    assert sy.dp.mean(table, 0, 1000, column=1, epsilon=MANY) == near(495, 1000 / 100)
    assert sy.dp.mean(table, 0, 990, epsilon=MANY).tolist() == [near(49.5, 9.9, parts=2), near(495, 9.9, parts=2)]
    assert sy.dp.count(table, where=[(0, ">=", 50), (1, "<", 600)], epsilon=MANY) == 10
    assert sy.dp.histogram(table, 2, 0, 1000, epsilon=MANY).tolist() == [[100, 0], [50, 50]]
    assert sy.dp.histogram(table, 2, 0, 1000, column=1, epsilon=MANY).tolist() == [50, 50]
    assert torch.allclose(
        sy.dp.median(table, 0, [99, 990], epsilon=MANY), torch.tensor([50.0, 500.0]).double(), atol=10
    )
    assert sy.dp.most_common(table, [20, 2000], column=1, epsilon=MANY) == 20


@pytest.mark.parametrize("dtype", [torch.bool, torch.uint8, torch.int64, torch.float16, torch.bfloat16, torch.float64])
def test_every_kind_of_number(dtype):
    data = torch.tensor([1, 0, 1, 1]).to(dtype)
    assert sy.dp.sum(data, 0, 1, epsilon=MANY) == near(3, 1)
    assert sy.dp.count(data, where=("==", 1), epsilon=MANY) == 3
    assert sy.dp.most_common(data, [0, 1], epsilon=MANY) == 1


def test_nothing_and_very_much():
    none = torch.zeros(0)
    assert sy.dp.count(none, epsilon=MANY) == 0 and sy.dp.sum(none, 0, 1, epsilon=MANY) == near(0, 1)
    assert sy.dp.histogram(none, 2, 0, 1, epsilon=MANY).tolist() == [0, 0]
    assert 0 <= sy.dp.median(none, 0, 1, epsilon=1.0) <= 1
    assert sy.dp.most_common(none, [5], epsilon=1.0) == 5
    with pytest.raises(PrivacyError, match="at least one row"):
        sy.dp.mean(none, 0, 1, epsilon=1.0)
    many = torch.ones(3_000_000, dtype=torch.int8)  # several blocks, and a sum that is exact
    assert sy.dp.sum(many, 0, 1, epsilon=MANY) == near(3e6, 1)
    assert sy.dp.histogram(many, edges=[0, 1, 2], epsilon=MANY).tolist() == [0, 3_000_000]


def test_missing_and_infinite_numbers_are_clamped():
    data = torch.tensor([math.nan, math.inf, -math.inf, 5.0])
    assert sy.dp.sum(data, 2, 10, epsilon=MANY) == near(2 + 10 + 2 + 5, 8)
    assert sy.dp.histogram(data, edges=[0, 4, 8, 12], epsilon=MANY).tolist() == [2, 1, 1]
    assert sy.dp.count(data, epsilon=MANY) == 3
    assert sy.dp.count(data, where=("<", 100), epsilon=MANY) == 2
    assert sy.dp.most_common(data, [5, 6], epsilon=MANY) == 5
    assert 2 <= sy.dp.median(data, 2, 10, epsilon=MANY) <= 10


def test_noise_has_the_size_that_is_promised():
    data = torch.zeros(10)
    for kind, scale in (({}, math.sqrt(2) / 0.5), ({"mechanism": "gaussian", "delta": 1e-6}, None)):
        with keyed():
            drawn = torch.tensor([float(sy.dp.count(data, epsilon=0.5, **kind)) for _ in range(150)]) - 10
            sums = torch.tensor([sy.dp.sum(data, -3, 5, epsilon=0.5, **kind) for _ in range(150)])
        expected = scale or sy.dp.Gaussian(0.5, 1e-6).sigma
        assert abs(float(drawn.mean())) < expected / 3 and 0.7 * expected < float(drawn.std()) < 1.4 * expected
        assert 0.7 * 8 * expected < float(sums.std()) < 1.4 * 8 * expected


# --- sensitivity: what a row can do -----------------------------------------------------------------------------

values = st.floats(width=32) | st.sampled_from([math.nan, math.inf, -math.inf, 0.0, 1e30])
columns = st.integers(1, 3)
FORMS = {
    "sum": {"lower": -2, "upper": 7},
    "mean": {"lower": 1.5, "upper": 7},
    "histogram": {"edges": [0, 1, 3, 9]},
}


class Silent(Noise):
    """No noise; remembers how much a row can move the whole numbers to which noise is added."""

    def draw(self, shape, unit, parts):
        self.unit, self.parts = unit, parts
        return torch.zeros(shape, dtype=torch.int64)


@settings(max_examples=60, deadline=None)
@given(st.data())
def test_one_row_changes_a_result_by_at_most_the_sensitivity(data):
    kind = data.draw(st.sampled_from([*FORMS, "where", "count"]))
    wide = data.draw(columns)
    rows = data.draw(st.lists(st.lists(values, min_size=wide, max_size=wide), min_size=1, max_size=6))
    other = [list(row) for row in rows]
    other[data.draw(st.integers(0, len(rows) - 1))] = data.draw(st.lists(values, min_size=wide, max_size=wide))
    given_, name = dict(FORMS.get(kind, FORMS["sum"])), {"where": "sum"}.get(kind, kind)
    if kind in ("where", "count"):
        given_["where"] = (0, data.draw(st.sampled_from(["<", ">=", "!="])), 1.0)
    moved = []
    for mechanism, delta in (("laplace", None), ("gaussian", 1e-6)):
        answers = []
        for table in (rows, other):
            with pytest.MonkeyPatch.context() as patch:
                patch.setattr(estimators, "Noise", Silent)
                tensor = torch.tensor(table)
                fit = settled(name, epsilon=1.0, mechanism=mechanism, delta=delta, **given_)
                question = QUESTIONS[name](TableFormat.of(tensor), **fit)
                answers.append(torch.as_tensor(question.answer(tensor), dtype=torch.float64).reshape(-1))
        span = {"sum": 9.0, "where": 9.0, "mean": 5.5 / len(rows)}.get(kind, 1.0)
        distance = (answers[0] - answers[1]).abs() / span
        order = 1 if mechanism == "laplace" else 2
        bound = question._noise.parts if order == 1 else math.sqrt(question._noise.parts)
        moved.append(float(torch.linalg.vector_norm(distance, order)) <= bound * (1 + 1e-9))
    assert all(moved)


class Watching:
    """A mechanism that chooses the first, and shows the scores it was given."""

    def __init__(self, epsilon, sensitivity):
        assert sensitivity == 1.0 and epsilon == 0.5

    def release(self, found):
        type(self).seen(found)
        return 0


@settings(max_examples=60, deadline=None)
@given(st.lists(values, min_size=1, max_size=8), values, st.floats(0, 1), st.data())
def test_one_row_moves_the_scores_of_a_choice_by_one(rows, new, q, data):
    other = list(rows)
    other[data.draw(st.integers(0, len(rows) - 1))] = new
    for kind, given_ in (("quantile", {"q": q, "lower": -1, "upper": 5}), ("most_common", {"choices": [0, 1, 7]})):
        scores = []
        Watching.seen = scores.append
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(estimators, "Exponential", Watching)
            patch.setattr(estimators, "ReportNoisyMax", Watching)
            for table in (rows, other):
                tensor = torch.tensor(table)
                QUESTIONS[kind](TableFormat.of(tensor), **settled(kind, epsilon=0.5, **given_)).answer(tensor)
        assert float((scores[0] - scores[1]).abs().max()) <= 1.0


# --- what is refused ------------------------------------------------------------------------------------------

BAD = [
    *({"epsilon": bad} for bad in (0, -1.0, math.nan, math.inf, True, "1", None, 1e-9, 1e9, 10**400, [1.0])),
    *({"mechanism": bad} for bad in ("none", "exponential", None, 1)),
    {"mechanism": "gaussian"},
    *({"mechanism": "gaussian", "delta": bad} for bad in (0, -1e-6, 0.9, math.nan, True, "x")),
    {"delta": 1e-6},
    *({"lower": bad} for bad in (5, 6, math.nan, -math.inf, "0", True, None, [0, 0], [])),
    *({"upper": bad} for bad in (math.inf, 10**400, [1, 2], {})),
    *({"column": bad} for bad in (0, -1, 1.0, True, "a")),
    *({"where": bad} for bad in ("x", (">",), (">", math.nan), ("~", 1), (5, ">", 1), (0, ">", "1"), [(">", 1)] * 99, {})),
]  # fmt: skip


@pytest.mark.parametrize("bad", BAD, ids=lambda bad: str(bad)[:40])
def test_bad_arguments_are_refused_before_anything_is_charged(ages, entries, bad):
    with pytest.raises((PrivacyError, NotPermittedError, SerdeError)):
        node_settings = {**settled("sum", lower=0, upper=5, epsilon=1.0), **bad}
        ages.child.lease.stream.run(QUERY, ("sum", ("object", "ages")), node_settings, None)
    assert entries() == []


@pytest.mark.parametrize("ask", [
    lambda p: sy.dp.histogram(p, edges=[1], epsilon=1.0), lambda p: sy.dp.histogram(p, edges=[2, 1], epsilon=1.0),
    lambda p: sy.dp.histogram(p, edges=[1, math.nan], epsilon=1.0), lambda p: sy.dp.histogram(p, epsilon=1.0),
    lambda p: sy.dp.histogram(p, edges=range(2**17), epsilon=1.0), lambda p: sy.dp.quantile(p, 1.5, 0, 1, epsilon=1.0),
    lambda p: sy.dp.quantile(p, math.nan, 0, 1, epsilon=1.0), lambda p: sy.dp.median(p, 0, 1, epsilon=1.0, candidates=1),
    lambda p: sy.dp.median(p, 0, 1, epsilon=1.0, candidates=2**20), lambda p: sy.dp.most_common(p, [], epsilon=1.0),
    lambda p: sy.dp.most_common(p, [1, 1], epsilon=1.0), lambda p: sy.dp.most_common(p, [1, math.nan], epsilon=1.0),
    lambda p: sy.dp.sum("ages", 0, 1, epsilon=1.0),
])  # fmt: skip
def test_more_bad_arguments(ages, entries, ask):
    with pytest.raises((PrivacyError, NotPermittedError)):
        ask(ages)
    assert entries() == []


@pytest.mark.parametrize("data", [torch.tensor(1.0), torch.zeros(2, 2, 2), torch.zeros(2, dtype=torch.complex64),
                                  torch.zeros(2, 0), torch.eye(2).to_sparse()])  # fmt: skip
def test_data_that_is_not_a_table_is_refused(data):
    with pytest.raises(PrivacyError):
        sy.dp.count(data, epsilon=1.0)


def test_a_client_can_not_influence_the_charge(clinic, ages, entries):
    alice = Peer(clinic, "alice")
    good = settled("sum", lower=0, upper=5, epsilon=1.0)
    for kind, data, more in (
        ("sum", ("object", "ages"), {"event": {"mechanism": "laplace", "epsilon": 1e-9}}),
        ("sum", ("object", "ages"), {"sensitivity": 0.0}), ("sum", ("object", "ages", "x"), {}), ("sum", None, {}),
        ("answer", ("object", "ages"), {}), (None, ("object", "ages"), {}), (["sum"], ("object", "ages"), {}),
        ("sum", ("dataset", "no", "data"), {}), ("sum", ("dataset", "no", "rows"), {}), ("sum", "ages", {}),
    ):  # fmt: skip
        assert error_name(alice.call(QUERY, kind, data, **good, **more)) in ("PrivacyError", "TrainingError")
    assert error_name(alice.call(QUERY, "sum", ("object", "secret"), **good)) == "ObjectNotFoundError"
    assert entries() == []
    assert isinstance(alice.call(QUERY, "sum", ("object", "ages"), **good), float)
    (entry,) = entries()
    alice.close()
    assert entry["event"] == {"mechanism": "laplace", "epsilon": 1.0} and entry["what"] == "dp.sum"


def test_errors_do_not_depend_on_values(hook):
    """The same questions, to tables that differ in values alone: each refused or each answered."""
    asked = [("sum", {"lower": 0, "upper": 1}), ("mean", {"lower": -1e300, "upper": 1e300}), ("count", {}),
             ("quantile", {"q": 0.5, "lower": 0, "upper": 1}), ("histogram", {"edges": [0, 1]}),
             ("most_common", {"choices": [1]})]  # fmt: skip
    for values in ([math.nan] * 3, [math.inf] * 3, [-1e38, 1e38, 0.0], [0.5, 1.0, math.nan]):
        for dtype in (torch.float32, torch.float64):
            tensor = torch.tensor(values, dtype=dtype)
            for kind, given_ in asked:
                fit = settled(kind, epsilon=1.0, **given_)
                answer = QUESTIONS[kind](TableFormat.of(tensor), **fit).answer(tensor)
                assert bool(torch.as_tensor(answer, dtype=torch.float64).isfinite().all())
