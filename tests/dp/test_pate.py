"""PATE: the paper's bounds, the reference case, and calls that must never understate epsilon."""

import math

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

import syft as sy
from syft.dp import pate

VOTES = st.lists(st.integers(0, 200), min_size=2, max_size=12)
EPS = st.floats(0.001, 2.0)
MOMENT = st.integers(1, 20)


def reference() -> np.ndarray:
    """100 teachers, 200 queries, 10 labels; the teachers agree on the first ten."""
    votes = np.random.RandomState(0).randint(0, 10, (100, 200))
    votes[:, :10] = np.arange(10)
    return votes


def winners(votes: np.ndarray) -> np.ndarray:
    return np.array([np.bincount(column, minlength=10).argmax() for column in votes.T])


def slowly(votes: np.ndarray, noise_eps: float, delta: float, moments: int, classes: int) -> float:
    """The analysis as the paper writes it: query by query, label by label, moment by moment."""
    totals = [0.0] * moments
    for column in votes.T:
        counts = [int((column == label).sum()) for label in range(classes)]
        first = max(counts)
        gaps = [noise_eps * (first - c) for i, c in enumerate(counts) if i != counts.index(first)]
        q = sum((2 + gap) / (4 * math.exp(gap)) for gap in gaps)
        q = min(q, 1 - 1 / classes)
        for moment in range(1, moments + 1):
            bounds = [2 * noise_eps**2 * moment * (moment + 1), 2 * noise_eps * moment]
            if q < (math.exp(2 * noise_eps) - 1) / (math.exp(4 * noise_eps) - 1):
                usual = (1 - q) * ((1 - q) / (1 - math.exp(2 * noise_eps) * q)) ** moment
                bounds.append(math.log(usual + q * math.exp(2 * noise_eps * moment)))
            totals[moment - 1] += min(bounds)
    return min((total + math.log(1 / delta)) / moment for moment, total in enumerate(totals, 1))


# The reference case --------------------------------------------------------------------------------------


def test_reference_case():
    """In 0.2 labels were used as row numbers, so only ten queries, on which all teachers agree, were analysed: 1.614."""
    votes = reference()
    expected = pytest.approx((17.162188898640544, 17.756462732485115), rel=1e-9)
    labels = winners(votes)
    assert pate.perform_analysis(votes, labels, 0.1, 1e-5) == expected
    assert pate.perform_analysis(teacher_preds=votes, indices=labels, noise_eps=0.1, delta=1e-5) == expected
    assert pate.perform_analysis(votes, noise_eps=0.1) == expected
    assert pate.perform_analysis(votes.tolist(), labels.tolist(), 0.1) == expected
    assert pate.perform_analysis(votes.astype(float), query_indices=range(200)) == expected
    torch_answer = pate.perform_analysis_torch(torch.tensor(votes), torch.tensor(labels), noise_eps=0.1, delta=1e-5)
    assert [float(epsilon) for epsilon in torch_answer] == pytest.approx([17.1621888986, 17.7564627325], rel=1e-6)
    # The former interpretation of labels as row numbers, requested by name.
    assert pate.perform_analysis(votes, query_indices=labels, noise_eps=0.1)[0] == pytest.approx(1.6139885826763, 1e-9)


@pytest.mark.parametrize("noise_eps", [0.02, 0.1, 0.5, 2.0])
def test_equals_the_formulas_of_the_paper(noise_eps):
    votes = np.random.RandomState(1).choice(4, (60, 40), p=[0.7, 0.2, 0.05, 0.05])
    votes[:, :15] = 2
    found = pate.perform_analysis(votes, noise_eps=noise_eps, delta=1e-6, moments=6)[0]
    assert found == pytest.approx(slowly(votes, noise_eps, 1e-6, 6, 4), rel=1e-9)


def test_epsilon_grows_as_noise_shrinks():
    votes = reference()
    epsilons = [pate.perform_analysis(votes, noise_eps=eps) for eps in (0.001, 0.01, 0.05, 0.1, 0.2, 0.5, 1.0, 4.0)]
    for column in zip(*epsilons, strict=True):
        assert list(column) == sorted(column) and len(set(column)) == len(column)


def test_known_closed_forms():
    # Nobody agrees: only the bound for any votes is left, which is 2 eps^2 l (l + 1) for a query at moment l.
    votes = np.arange(10).repeat(10)[:, None].repeat(50, axis=1)
    dependent, independent = pate.perform_analysis(votes, noise_eps=0.05, delta=1e-5, moments=12)
    closed = min(50 * 2 * 0.05**2 * (1 + l) + math.log(1e5) / l for l in range(1, 13))  # noqa: E741
    assert dependent == independent == pytest.approx(closed, rel=1e-12)
    # All agree: q is the chance that one of nine labels without votes beats a hundred.
    q = 9 * (2 + 0.1 * 100) / (4 * math.exp(0.1 * 100))
    assert pate.compute_q_noisy_max([0, 100] + [0] * 8, 0.1) == pytest.approx(q, rel=1e-12)
    moment = math.log((1 - q) * ((1 - q) / (1 - math.exp(0.2) * q)) ** 8 + q * math.exp(0.2 * 8))
    assert pate.logmgf_from_counts([0, 100] + [0] * 8, 0.1, 8) == pytest.approx(moment, rel=1e-9)
    # One label only: the answer is known beforehand, and costs nothing but the log of delta.
    votes = np.zeros((100, 30), dtype=int)
    assert pate.perform_analysis(votes, noise_eps=0.1)[0] == pytest.approx(math.log(1e5) / 8)
    assert pate.perform_analysis(votes, noise_eps=0.1, num_classes=10)[0] > math.log(1e5) / 8
    # Large noise_eps: an answer is 2 noise_eps private, and n of them 2 n noise_eps.
    assert pate.logmgf_exact(1.0, 6.0, 1) == 6.0


# Properties of the bounds --------------------------------------------------------------------------------


@given(VOTES, EPS, MOMENT)
def test_bounds_hold(counts, eps, moment):
    q = pate.compute_q_noisy_max(counts, eps)
    rough = pate.compute_q_noisy_max_approx(counts, eps)
    assert 0 <= q <= rough * (1 + 1e-12) <= 1
    bound = pate.logmgf_from_counts(counts, eps, moment)
    assert 0 <= bound <= min(2 * eps * moment, 2 * eps**2 * moment * (moment + 1)) * (1 + 1e-12)
    assert pate.logmgf_exact(q, 2 * eps, moment) == bound


@given(st.floats(0, 1), st.floats(0, 1), st.floats(0.01, 1.0), MOMENT)
def test_more_doubt_costs_no_less_where_the_accountant_needs_it(a, b, eps, moment):
    low, high = sorted((a, b))
    if 0.25 * eps * moment <= 1:
        assert pate.logmgf_exact(low, eps, moment) <= pate.logmgf_exact(high, eps, moment) + 1e-12


@settings(max_examples=30)
@given(st.lists(st.integers(0, 40), min_size=2, max_size=5), st.floats(0.01, 0.25), st.integers(1, 8))
def test_one_vote_moves_the_bound_by_no_more_than_the_sensitivity(counts, eps, moment):
    here = pate.logmgf_from_counts(counts, eps, moment)
    smooth = pate.smoothed_sens(counts, eps, moment, 0.05)
    assert smooth >= pate.sens_at_k(counts, eps, moment, 0) >= 0
    first = max(range(len(counts)), key=counts.__getitem__)
    if counts[first] == 0:
        return
    for other in range(len(counts)):
        moved = list(counts)
        moved[first] -= 1
        moved[other] += 1
        if moved[first] >= max(c for i, c in enumerate(moved) if i != first):
            allowed = pate.sens_at_k(counts, eps, moment, 0)
            assert pate.logmgf_from_counts(moved, eps, moment) - here <= allowed + 1e-12


def test_smooth_sensitivity():
    counts = [90, 5, 5]
    all_k = [math.exp(-0.09 * k) * pate.sens_at_k(counts, 0.1, 8, k) for k in range(90)]
    assert pate.smoothed_sens(counts, 0.1, 8, 0.09) == pytest.approx(max(all_k), rel=1e-12)
    assert max(all_k) > all_k[0] > 0
    assert pate.sens_at_k(counts, 0.1, 8, 43) == 0  # the second would be first
    assert pate.sens_at_k([5, 90, 5], 0.1, 8, 7) == pate.sens_at_k(counts, 0.1, 8, 7)
    assert pate.sens_at_k(counts, 1.0, 8, 0) == math.inf  # where nothing is known, nothing is promised
    assert pate.smoothed_sens([7], 0.1, 8, 0.1) == 0
    assert pate.smoothed_sens([0, 0], 0.1, 8, 0.1) >= 0


def test_proxies_for_tensors_agree():
    counts = torch.tensor([70, 20, 10])
    listed = [torch.tensor(70), torch.tensor(20), torch.tensor(10.0)]
    plain = [70, 20, 10]
    for given_counts in (counts, listed):
        assert pate.compute_q_noisy_max_torch(given_counts, 0.1) == pate.compute_q_noisy_max(plain, 0.1)
        assert pate.logmgf_from_counts_torch(given_counts, 0.1, 4) == pate.logmgf_from_counts(plain, 0.1, 4)
    assert pate.logmgf_exact_torch(torch.tensor(0.25), 0.2, 3) == pate.logmgf_exact(0.25, 0.2, 3)
    assert pate.sens_at_k_torch(counts, 0.1, 4, 2) == pate.sens_at_k(plain, 0.1, 4, 2)
    assert pate.smooth_sens_torch(counts, 0.1, 4, 0.09) == pate.smoothed_sens(plain, 0.1, 4, 0.09)
    assert pate.tensors_to_literals(listed) == [70, 20, 10.0]


# Which queries are meant ---------------------------------------------------------------------------------


def test_query_indices_select_queries():
    votes = reference()
    for chosen in ([3], list(range(50)), [5, 5, 150, 199]):
        expected = pate.perform_analysis(votes[:, chosen], num_classes=10)
        assert pate.perform_analysis(votes, query_indices=chosen) == pytest.approx(expected, rel=1e-12)
        labels = winners(votes)[chosen]
        assert pate.perform_analysis(votes, labels, query_indices=chosen) == pytest.approx(expected, rel=1e-12)
    twice = pate.perform_analysis(votes, query_indices=[*range(200), *range(200)])
    assert twice[0] > pate.perform_analysis(votes)[0]


def test_row_numbers_are_not_mistaken_for_labels():
    votes = reference()
    for rows in (range(100), [5], [], np.zeros((2, 200)), range(201)):
        with pytest.raises(ValueError, match="query_indices="):
            pate.perform_analysis(votes, list(rows) if isinstance(rows, range) else rows)
    with pytest.raises(ValueError, match="num_classes"):
        pate.perform_analysis(votes, [10] * 200, num_classes=10)


@pytest.mark.parametrize("agreed", [range(10), range(190, 200), range(0), range(200)])
def test_labels_that_could_be_numbers_of_queries_never_make_epsilon_smaller(agreed):
    """As labels they say that there are more labels; as numbers, which queries were meant. The larger counts."""
    votes = reference()
    votes[:, list(agreed)] = 0
    everything = pate.perform_analysis(votes)
    for indices in (
        [10] * 200,
        [199] * 200,
        range(200),
        [*range(100), *range(100)],
        np.random.RandomState(3).randint(0, 50, 200),
    ):
        found = pate.perform_analysis(votes, indices)
        as_numbers = pate.perform_analysis(votes, query_indices=indices)
        assert found[0] >= max(everything[0], as_numbers[0]) * (1 - 1e-12)
        assert found[1] == pytest.approx(everything[1])


def test_labels_of_the_course_where_all_teachers_agree():
    votes, labels = np.zeros((100, 50), dtype=int), np.random.RandomState(0).randint(0, 10, 50)
    found = pate.perform_analysis(teacher_preds=votes, indices=labels, noise_eps=0.1, delta=1e-5)
    assert found == pytest.approx(pate.perform_analysis(votes, num_classes=10))
    assert found[0] < found[1]


def test_bad_arguments_are_named():
    votes = reference()
    for bad in (votes[0], np.zeros((0, 5)), np.zeros((5, 0)), np.zeros((2, 2, 2)), [[]]):
        with pytest.raises(ValueError, match="teachers, queries"):
            pate.perform_analysis(bad)
    for bad in (votes - 1, votes + 0.5, votes * np.nan, [["a"]]):
        with pytest.raises(ValueError, match="teacher_preds"):
            pate.perform_analysis(bad)
    with pytest.raises(ValueError, match="different lengths"):
        pate.perform_analysis([[1, 2], [1]])
    with pytest.raises(ValueError, match="labels must be from"):
        pate.perform_analysis([[10**12]])
    for name, values in {
        "noise_eps": (0, -1, math.nan, math.inf, "x", None),
        "delta": (0, -1, 2, math.nan),
        "moments": (0, 1.5, -1, 10**9),
        "beta": (0, -1),
        "query_indices": ([200], [-1], [], [0.5], [[1]]),
        "num_classes": (9, -1, 1.5),
    }.items():
        for value in values:
            with pytest.raises(ValueError, match=name):
                pate.perform_analysis(votes, **{name: value})
    for counts in ([], [-1, 2], [math.nan], [[1, 2]], ["a"]):
        with pytest.raises(ValueError, match="counts"):
            pate.compute_q_noisy_max(counts, 0.1)
    with pytest.raises(ValueError, match="q must be"):
        pate.logmgf_exact(1.5, 0.1, 1)


def test_many_queries_are_analysed_in_pieces(monkeypatch):
    votes = reference()
    whole = pate.perform_analysis(votes, query_indices=[0, 3, 3, 150, 199])
    monkeypatch.setattr(pate, "_PIECE", 64)
    assert pate.perform_analysis(votes, query_indices=[0, 3, 3, 150, 199]) == pytest.approx(whole, rel=1e-12)


def test_documented_paths():
    from syft.frameworks.torch.differential_privacy import pate as older
    from syft.frameworks.torch.dp import pate as newer

    assert older is newer is pate is sy.dp.pate is sy.frameworks.torch.dp.pate
    assert "itself private" in pate.__doc__ and "itself private" in pate.perform_analysis.__doc__
