"""Function secret sharing: keys, their privacy, and the protocols that use them."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from syft.core.generator import Generator
from syft.mpc.compat import fss as documented
from syft.mpc.dealer import deals
from syft.mpc.protocols import fss
from syft.mpc.ring import fss_keys
from syft.mpc.runtime import cost_meter, lockstep
from syft.mpc.values import sharing
from syft.workers.process.worker import ProcessWorker
from tests.helpers.depth import deep

LOWEST, HIGHEST = -(2**63), 2**63 - 1
EDGES = [0, 1, -1, 2, -2, 7, 8, -8, -9, 2**31, 2**32 - 1, 2**62, -(2**62), LOWEST, LOWEST + 1, HIGHEST, HIGHEST - 1]
int64s = st.integers(LOWEST, HIGHEST) | st.sampled_from(EDGES)
generator = Generator(bytes(range(16)))


@pytest.fixture(autouse=True)
def same_start():
    """Let each test begin with the same words, whichever ran before it."""
    generator.__init__(bytes(range(16)))


def pairs():
    """Return all pairs of edges, and points around each."""
    near = sorted({(((a + d) - LOWEST) % 2**64) + LOWEST for a in EDGES for d in (-1, 0, 1)})
    grid = torch.cartesian_prod(torch.tensor(near), torch.tensor(near))
    return grid[:, 0].contiguous(), grid[:, 1].contiguous()


def unsigned_less(x, y):
    return ((x ^ LOWEST) < (y ^ LOWEST)).long()


def total(keys, x, bits=64):
    return fss_keys.evaluate(0, keys[0], x, bits) + fss_keys.evaluate(1, keys[1], x, bits)


def sign_of(x, mask):
    owns = generator.words(2, x.numel()), generator.words(2, x.numel())
    common = fss_keys.sign_words(mask, owns)
    tops = generator.words(x.numel()).view(x.shape)
    tops = tops, fss_keys.top_bit(mask) - tops
    return sum(fss_keys.negative(b, fss_keys.Key(owns[b], common), tops[b], x + mask) for b in (0, 1))


def test_equality_at_the_edges():
    alpha, x = pairs()
    assert torch.equal(total(fss_keys.equal_keys(alpha, generator), x), (alpha == x).long())


def test_comparison_at_the_edges():
    alpha, x = pairs()
    assert torch.equal(total(fss_keys.compare_keys(alpha, generator), x), unsigned_less(x, alpha))


def test_signs_at_the_edges():
    """Every secret with every mask, those included for which the sum wraps around."""
    x, mask = pairs()
    assert torch.equal(sign_of(x, mask), (x < 0).long())


@settings(max_examples=deep(60, 200), deadline=None)
@given(st.lists(st.tuples(int64s, int64s, int64s), min_size=1, max_size=20))
def test_any_numbers(rows):
    alpha, x, payload = torch.tensor(rows).T.contiguous()
    assert torch.equal(total(fss_keys.equal_keys(alpha, generator), x), (alpha == x).long())
    assert torch.equal(total(fss_keys.compare_keys(alpha, generator, payload), x), payload * unsigned_less(x, alpha))
    assert torch.equal(sign_of(x, alpha), (x < 0).long())


def test_many_random_numbers():
    count = fss_keys.BLOCK + 5
    alpha, x = generator.words(count), generator.words(count)
    small = generator.words(count) % 16
    for point in (x, alpha + small, alpha ^ small, alpha):
        assert torch.equal(total(fss_keys.equal_keys(alpha, generator), point), (alpha == point).long())
        assert torch.equal(total(fss_keys.compare_keys(alpha, generator), point), unsigned_less(point, alpha))
    for secret in (x, small, x >> 2, x >> 40):
        assert torch.equal(sign_of(secret, alpha), (secret < 0).long())


@pytest.mark.parametrize("shape", [(), (0,), (3, 0), (1,), (2, 3, 4)])
def test_shapes(shape):
    alpha = generator.words(*shape)
    assert torch.equal(total(fss_keys.equal_keys(alpha, generator), alpha), torch.ones(shape, dtype=torch.int64))


def test_every_point_of_a_small_domain():
    """All alphas against all points of six bits, so that each level and each place of a leaf is used."""
    grid = torch.cartesian_prod(torch.arange(64), torch.arange(64))
    alpha, x = grid[:, 0].contiguous(), grid[:, 1].contiguous()
    assert torch.equal(total(fss_keys.compare_keys(alpha, generator, bits=6), x, 6), (x < alpha).long())


def test_a_key_that_does_not_fit_is_refused():
    key, _ = fss_keys.equal_keys(torch.arange(4), generator)
    with pytest.raises(ValueError, match="is not for 5 numbers of 64 bits"):
        fss_keys.evaluate(0, key, torch.arange(5))
    with pytest.raises(ValueError, match="is not for"):
        fss_keys.evaluate(0, key, torch.arange(4), bits=63)


def test_one_key_reveals_nothing():
    assert "tensor" not in repr(fss_keys.equal_keys(torch.arange(4), generator)[0])


# Noise is beyond it once in 10^11 times.
LIMIT = 8


def chi_square(data):
    """Return how many deviations the byte counts of an array are from those of uniform bytes."""
    counts = np.bincount(np.frombuffer(data, np.uint8), minlength=256)
    expected = counts.sum() / 256
    statistic = ((counts - expected) ** 2 / expected).sum()
    return (statistic - 255) / np.sqrt(2 * 255)


@pytest.mark.parametrize("alpha", [0, -1, 12345, LOWEST])
@pytest.mark.parametrize("make", [fss_keys.equal_keys, fss_keys.compare_keys])
def test_a_key_alone_looks_uniform(make, alpha):
    """Each row of a key, whatever the point: the bytes of a thousand elements are as uniform as noise."""
    for key in make(torch.full((1024,), alpha), generator):
        for row in (*key.own, *key.common):
            assert abs(chi_square(row.numpy().tobytes())) < LIMIT
        whole = torch.cat([key.own, key.common])
        assert abs(chi_square(whole.numpy().tobytes())) < LIMIT


@pytest.mark.parametrize("party", [0, 1])
def test_a_share_alone_looks_uniform(party):
    alpha = torch.arange(1 << 14)
    key = fss_keys.compare_keys(alpha, generator)[party]
    assert abs(chi_square(fss_keys.evaluate(party, key, alpha + 1).numpy().tobytes())) < LIMIT


def test_words_of_two_elements_do_not_depend_on_each_other():
    """A row has no two equal words, and rows of one party's key are not those of the other's shifted."""
    key, other = fss_keys.compare_keys(torch.zeros(2048, dtype=torch.int64), generator)
    for row in key.common:
        assert len(row.unique()) == len(row)
    assert not (key.own == other.own).any()


def shared(value, count):
    shares = [generator.words(*value.shape) for _ in range(count - 1)]
    return [*shares, value - sum(shares)]


def run(protocol, count, *values, **options):
    """Run a protocol on shares of values, and return what it opens to and what it cost."""
    given = zip(*[shared(value, count) for value in values], strict=True)
    with cost_meter.count() as tally:
        members = lockstep.parties(count)
        made = [protocol(party, *shares, **options) for party, shares in zip(members, given, strict=True)]
        return sum(lockstep.drive(made, count)), tally


@pytest.mark.parametrize("count", [2, 3, 4])
def test_protocols_against_plaintext(count):
    x = torch.tensor([value for value in EDGES if -(2**62) <= value < 2**62])
    x = torch.cat([x, generator.words(500) >> 2, generator.words(500) % 5])
    y = x.roll(3)
    for protocol, expected in [
        (fss.lt, x < y),
        (fss.le, x <= y),
        (fss.eq, x == y),
        (fss.eq, x == x + 0 * y),
    ]:
        other = x if expected.all() else y
        assert torch.equal(run(protocol, count, x, other)[0], expected.long())
    assert torch.equal(run(fss.ge0, count, x)[0], (x >= 0).long())
    assert torch.equal(run(fss.negative, count, x, invert=True)[0], (x >= 0).long())
    assert torch.equal(run(fss.relu, count, x)[0], x.clamp(min=0))
    assert torch.equal(run(fss.negative, count, x, scale=8)[0], 8 * (x < 0).long())
    assert torch.equal(run(fss.zero, count, x.view(2, -1)[:, :3], invert=True)[0], (x.view(2, -1)[:, :3] != 0).long())


def test_two_parties_compare_all_of_the_ring():
    x = torch.cat([torch.tensor(EDGES), generator.words(5000)])
    assert torch.equal(run(fss.negative, 2, x)[0], (x < 0).long())


def test_pieces(monkeypatch):
    monkeypatch.setattr(fss, "CHUNK", 100)
    x = generator.words(3, 111)
    result, tally = run(fss.negative, 2, x)
    assert torch.equal(result, (x < 0).long())
    assert tally.rounds == 4


def test_one_round():
    assert run(fss.negative, 2, torch.arange(-50, 50))[1].rounds == 1
    assert run(fss.eq, 2, torch.arange(-50, 50), torch.arange(100))[1].rounds == 1
    assert run(fss.relu, 2, torch.arange(-50, 50))[1].rounds == 2


def views(protocol, value):
    """Return the bytes that each party receives in runs on one value, from dealer and peers."""
    seen = {0: b"", 1: b""}

    def observe(receiver, sender, tensors):
        seen[receiver] += b"".join(tensor.numpy().tobytes() for tensor in tensors)

    lockstep.observers.append(observe)
    try:
        run(protocol, 2, torch.full((256,), value))
    finally:
        lockstep.observers.remove(observe)
    return seen


@pytest.mark.parametrize("protocol", [fss.negative, fss.zero])
@pytest.mark.parametrize("value", [0, -1, 2**40, LOWEST])
def test_the_view_of_a_party_is_noise(protocol, value):
    for seen in views(protocol, value).values():
        assert abs(chi_square(seen)) < LIMIT


# --- the documented functions ---------------------------------------------------------------------------------------


def test_documented_paths():
    import syft.frameworks.torch.mpc.fss as at_documented_path

    assert at_documented_path is documented


def test_functions_as_keys():
    alpha, x = pairs()
    for function, expected in ((documented.DPF, x == alpha), (documented.DIF, x <= alpha)):
        ours, theirs = function.gen(alpha)
        total = function.evaluate(0, ours, x) + function.evaluate(1, theirs, x)
        assert torch.equal(total, expected.long())


@pytest.mark.parametrize("count", [2, 3, 4])
def test_on_workers(make_worker, kind, nothing_left, count):
    workers = [make_worker(f"party{index}", kind) for index in range(count)]
    carol = make_worker("carol", kind)
    x = sharing.split(torch.tensor([1, 2, 2_000_000, -(2**61)]), workers, carol)
    y = sharing.split(torch.tensor([1, 3, 5, 2**61]), workers, carol)
    assert documented.eq(x, y).get().tolist() == [1, 0, 0, 0]
    assert documented.le(x, y).get().tolist() == [1, 1, 0, 1]
    assert documented.le(y.wrap(), x.wrap()).get().tolist() == [1, 0, 1, 0]
    del x, y
    nothing_left(*workers, carol)


@pytest.mark.parametrize("kind", ["fss_compare", "fss_equal"])
def test_dealt_at_a_distance(kind):
    """Parties that expand their part from a seed, and receive the rest, hold what the dealer dealt."""
    row = deals.row_of(kind)
    keys = bytes(16), bytes(range(16))
    deck = deals.DealerContext([Generator(key) for key in keys])
    dealt = row(deck, 7)
    commons, corrections = iter(deck.commons), iter(deck.corrections)
    hands = (
        deals.PartyContext(Generator(keys[0]), lambda shape: next(commons).view(shape), last=False),
        deals.PartyContext(Generator(keys[1]), lambda shape: next(corrections).view(shape), last=True),
    )
    for party, hand in enumerate(hands):
        for item, share in zip(dealt, row(hand, 7), strict=True):
            assert torch.equal(item.shares[party], share)


def test_in_processes_of_their_own(hook):
    """The same over real connections, with a dealer in a process of its own."""
    made = [ProcessWorker(hook, id=f"fss-{name}") for name in ("alice", "bob", "carol")]
    *parties, carol = made
    try:
        value = generator.words(5000) >> 2
        x, y = sharing.split(value, parties, carol), sharing.split(value.roll(1), parties, carol)
        assert torch.equal(documented.le(x, y).get(), (value <= value.roll(1)).long())
        assert documented.eq(x, x).get().all()
        assert not documented.eq(x, y).get().any()
    finally:
        for worker in made:
            worker.stop()
