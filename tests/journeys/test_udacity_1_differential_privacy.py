"""The course "Secure and Private AI", section 1: what differential privacy is, by hand, and then with the library."""

import math

import numpy as np
import pytest
import torch as th

import syft as sy
from syft.frameworks.torch.differential_privacy import pate


def create_db_and_parallels(num_entries):
    """A database of bits, and what it is without each of its people."""
    db = th.rand(num_entries) > 0.5
    return db, [th.cat((db[:i], db[i + 1 :])) for i in range(num_entries)]


def query_sum(db):
    return db.float().sum()


def query_mean(db):
    return db.float().mean()


def query_threshold(db, threshold=5):
    return (db.float().sum() > threshold).float()


def sensitivity(query, num_entries):
    db, pdbs = create_db_and_parallels(num_entries)
    full = query(db)
    return max(float((query(pdb) - full).abs()) for pdb in pdbs)


def test_parallel_databases():
    db, pdbs = create_db_and_parallels(50)
    assert len(pdbs) == 50 and {len(pdb) for pdb in pdbs} == {49}
    assert all(th.equal(pdb, db[th.arange(50) != i]) for i, pdb in enumerate(pdbs))


def test_sensitivity_of_queries():
    assert sensitivity(query_sum, 1000) == 1
    # leaving out a 1 (or a 0) of n moves a mean of about a half by about 1 / (2 n)
    assert sensitivity(query_mean, 1000) == pytest.approx(0.5 / 1000, rel=0.2)
    db = th.tensor([True] * 6 + [False] * 4)
    around = [float((query_threshold(th.cat((db[:i], db[i + 1 :]))) - query_threshold(db)).abs()) for i in range(10)]
    assert around == [1.0] * 6 + [0.0] * 4
    assert sensitivity(lambda db: query_threshold(db, threshold=900), 1000) == 0


def test_a_differencing_attack():
    db, _ = create_db_and_parallels(100)
    without = th.cat((db[:10], db[11:]))
    secret = float(db[10])
    assert float(query_sum(db) - query_sum(without)) == secret
    assert float(query_mean(db) * 100 - query_mean(without) * 99) == pytest.approx(secret, abs=1e-3)
    at = int(query_sum(db)) - 1
    assert float(query_threshold(db, at) - query_threshold(without, at)) == secret


def randomised(db, noise=0.5):
    """Each tells the truth if the first coin says so, and otherwise what the second coin says."""
    truthful = th.rand(len(db)) > noise
    second = th.rand(len(db)) > 0.5
    return th.where(truthful, db, second)


@pytest.mark.parametrize("noise", [0.2, 0.5, 0.8])
def test_local_differential_privacy(noise):
    errors = {}
    for count in (100, 100_000):
        db = th.rand(count) > 0.3
        told = randomised(db, noise).float().mean()
        estimate = (told - noise * 0.5) / (1 - noise)
        errors[count] = abs(float(estimate - db.float().mean()))
    bound = 5 * 0.5 / math.sqrt(100_000) / (1 - noise)
    assert errors[100_000] < bound < 0.05
    # what one person says is at most so much more likely with one truth than with the other
    truths = [float(randomised(th.full((40_000,), bit), noise).float().mean()) for bit in (True, False)]
    assert truths[0] / truths[1] == pytest.approx((1 - noise / 2) / (noise / 2), rel=0.1)


def laplacian_mechanism(db, query, sensitivity, epsilon):
    beta = sensitivity / epsilon
    return query(db) + th.from_numpy(np.random.RandomState(0).laplace(0, beta, 2000))


def test_laplacian_mechanism_by_hand_and_from_the_library():
    db, pdbs = create_db_and_parallels(100)
    for query, sensitive in ((query_sum, 1), (query_mean, 1 / 100)):
        noisy = laplacian_mechanism(db, query, sensitive, epsilon=0.5)
        ours = sy.dp.Laplace(epsilon=0.5, sensitivity=sensitive).release(query(db).expand(2000).double())
        for released in (noisy, ours):
            error = released - query(db)
            scale = sensitive / 0.5
            assert abs(float(error.mean())) < 0.2 * scale
            assert float(error.abs().mean()) == pytest.approx(scale, rel=0.15)
    # how much likelier an answer is with one database than with its neighbour
    first, second = (sy.dp.Laplace(epsilon=1.0).release(query_sum(d).expand(20_000).double()) for d in (db, pdbs[0]))
    cut = query_sum(db)
    ratio = float((first > cut).double().mean() / (second > cut).double().mean())
    assert 1 / math.e / 1.1 < ratio < math.e * 1.1


def test_private_labels_by_a_noisy_vote():
    num_teachers, num_examples, num_labels = 10, 500, 10
    generator = np.random.RandomState(0)
    truth = generator.randint(0, num_labels, num_examples)
    right = generator.rand(num_teachers, num_examples) < 0.9
    preds = np.where(right, truth, generator.randint(0, num_labels, (num_teachers, num_examples)))
    counts = np.stack([np.bincount(votes, minlength=num_labels) for votes in preds.T])
    noisy = sy.dp.Laplace(epsilon=2.0, sensitivity=2.0).release(th.tensor(counts).double())
    assert (noisy.argmax(1).numpy() == truth).mean() > 0.9
    vote = sy.dp.ReportNoisyMax(epsilon=2.0)
    assert np.mean([vote.release(th.tensor(row).double()) for row in counts[:100]] == truth[:100]) > 0.9


def test_pate_analysis():
    num_teachers, num_examples, num_labels = 100, 100, 10
    generator = np.random.RandomState(0)
    preds = (generator.rand(num_teachers, num_examples) * num_labels).astype(int)
    indices = (generator.rand(num_examples) * num_labels).astype(int)  # the labels that were released
    told = {}
    for unanimous in (0, 10, 50, 90):
        preds[:, :unanimous] = 0
        data_dep_eps, data_ind_eps = pate.perform_analysis(
            teacher_preds=preds, indices=indices, noise_eps=0.1, delta=1e-5
        )
        assert data_dep_eps <= data_ind_eps
        # 100 answers at 2 x 0.1 each, by the second moment: (100 x 2 x 0.1^2 x 2 x 3 + ln 1e5) / 2
        assert data_ind_eps == pytest.approx((12 + math.log(1e5)) / 2)
        told[unanimous] = data_dep_eps
    assert told[0] > told[10] > told[50] > told[90] and told[90] < 8  # agreement costs less
    as_tensors = pate.perform_analysis_torch(th.tensor(preds), th.tensor(indices), noise_eps=0.1, delta=1e-5)
    assert [float(epsilon) for epsilon in as_tensors] == pytest.approx([told[90], data_ind_eps])
    _, louder = pate.perform_analysis(teacher_preds=preds, indices=indices, noise_eps=0.05, delta=1e-5)
    assert louder < data_ind_eps  # more noise costs less
