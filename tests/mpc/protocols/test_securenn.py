"""SecureNN: every algorithm against plaintext for two, three and four parties, and the view of each party."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

import syft as sy
from syft.core.generator import Generator
from syft.exceptions import ProtocolError, UnsupportedOperationError
from syft.mpc.compat import securenn
from syft.mpc.protocols import securenn as snn
from syft.mpc.protocols import securenn_steps as steps
from syft.mpc.protocols import three_party as rings
from syft.mpc.protocols.three_party import ThreeParty
from syft.mpc.runtime import cost_meter, lockstep
from syft.mpc.values import sharing
from syft.workers.process.worker import ProcessWorker

LOWEST, HIGHEST = -(2**63), 2**63 - 1
RANGE = [0, 1, -1, 2, -2, 3, 2**31, -(2**31), 2**61, -(2**61), 2**62 - 1, -(2**62), -(2**62) + 1]
WORDS = [0, 1, 2, -1, -2, LOWEST, LOWEST + 1, HIGHEST, HIGHEST - 1, 2**32, -(2**32), 5, -6]
words = st.integers(LOWEST, HIGHEST) | st.sampled_from(WORDS)
generator = Generator(bytes(range(16)))


@pytest.fixture(autouse=True)
def same_start():
    """Let each test begin with the same words, whichever ran before it."""
    generator.__init__(bytes(range(16)))


# How many deviations noise may be off: beyond it once in 10^12 times.
LIMIT = 10


def shared(value, count):
    shares = [generator.words(*value.shape).clone() for _ in range(count - 1)]
    return [*shares, value - sum(shares)]


def drive(make, count):
    """Run what `make` returns for each party (and for a helper of two), and return the results."""
    members = lockstep.parties(count, helper=count == 2)
    return lockstep.drive([make(party) for party in members], count)


def run(protocol, count, *values, known=(), **options):
    """Run a protocol on shares of values, and on values that both parties know; returns what comes out in clear."""
    shares = [shared(value, count) for value in values]

    def make(party):
        if party.is_helper:
            return protocol(party, *[tuple(value.shape) for value in (*values, *known)], **options)
        return protocol(party, *[share[party.index] for share in shares], *known, **options)

    results = drive(make, count)
    assert count != 2 or results.pop() is None
    if isinstance(results[0], tuple):
        return tuple(sum(parts) for parts in zip(*results, strict=True))
    return sum(results)


def steps_of(step, *vectors):
    """Run a step of two parties and the helper on given shares: one list of two for each vector."""
    size = len(vectors[0][0])

    async def one(party):
        mine = [None if party.is_helper else vector[party.index] for vector in vectors]
        return await step(await ThreeParty.meet(party), *mine, size)

    return drive(one, 2)


def unsigned(tensor):
    return [int(value) % 2**64 for value in tensor]


# --- the rings --------------------------------------------------------------------------------------------------


@given(st.lists(st.tuples(words, words), min_size=1, max_size=30))
def test_arithmetic_modulo_an_odd_number(pairs):
    modulus = 2**64 - 1
    x, y = (rings.odd(column) for column in torch.tensor(pairs).T)
    assert unsigned(rings.odd_add(x, y)) == [(a + b) % modulus for a, b in zip(unsigned(x), unsigned(y), strict=True)]
    assert unsigned(rings.odd_subtract(x, y)) == [
        (a - b) % modulus for a, b in zip(unsigned(x), unsigned(y), strict=True)
    ]
    assert rings.below(x, y).tolist() == [a < b for a, b in zip(unsigned(x), unsigned(y), strict=True)]


@pytest.mark.parametrize("nonzero", [False, True])
def test_digits_are_uniform(nonzero):
    drawn = rings.digits(generator, 4000, nonzero).numpy().reshape(-1)
    counts = np.bincount(drawn, minlength=67)[int(nonzero) :]
    assert len(counts) == 67 - nonzero
    expected = counts.sum() / len(counts)
    assert ((counts - expected) ** 2 / expected).sum() < 66 + LIMIT * np.sqrt(2 * 66)
    assert rings.digits(generator, 0).shape == (0, 64)


def test_bits_of_words():
    assert rings.spread(torch.tensor([5, -1, LOWEST]))[:, -4:].tolist() == [[0, 1, 0, 1], [1, 1, 1, 1], [0, 0, 0, 0]]
    assert rings.spread(torch.tensor([LOWEST]))[0, :2].tolist() == [1, 0]


# --- the steps --------------------------------------------------------------------------------------------------


def conversion(a, first):
    """Convert shares `first` and a - first; returns what they become modulo L - 1."""
    one, two, _ = steps_of(steps.share_convert, [first, a - first])
    return [(x + y) % (2**64 - 1) for x, y in zip(unsigned(one), unsigned(two), strict=True)]


def test_share_convert_at_the_edges():
    """Every value with every first share, those included for which the shares do and do not pass L."""
    grid = torch.cartesian_prod(torch.tensor([word for word in WORDS if word != -1]), torch.tensor(WORDS))
    a, first = grid.T.contiguous()
    assert conversion(a, first) == unsigned(a)


@settings(max_examples=50, deadline=None)
@given(st.lists(st.tuples(words, words), min_size=1, max_size=30))
def test_share_convert_of_anything(pairs):
    a, first = torch.tensor(pairs).T.contiguous()
    assert [value % (2**64 - 1) for value in unsigned(a)] == conversion(a, first)


class Rigged(Generator):
    """A generator that returns given words first."""

    __slots__ = ("told",)

    def words(self, *shape):
        return self.told.pop(0) if self.told else super().words(*shape)


@pytest.mark.parametrize("r", [0, 1, -1, LOWEST])
@pytest.mark.parametrize("flip", [0, 1])
def test_share_convert_with_unlikely_masks(r, flip):
    """A mask r of 0, for which x > r - 1 would be wrong, and others at the edges."""
    a = torch.tensor([word for word in WORDS if word != -1])
    first = generator.words(len(a)).clone()

    async def one(party):
        trio = await ThreeParty.meet(party)
        if not party.is_helper:
            rigged = Rigged(bytes(16))
            rigged.told = [torch.full_like(a, r), torch.arange(len(a)) * 2**60, torch.full_like(a, flip)]
            trio.common = rigged
        return await steps.share_convert(trio, [first, a - first, None][party.index], len(a))

    one, two, _ = drive(one, 2)
    assert [(x + y) % (2**64 - 1) for x, y in zip(unsigned(one), unsigned(two), strict=True)] == unsigned(a)


@settings(max_examples=50, deadline=None)
@given(st.lists(st.tuples(words, words), min_size=1, max_size=30))
def test_msb_of_anything(pairs):
    a, first = (rings.odd(column) for column in torch.tensor(pairs).T)
    one, two, _ = steps_of(steps.msb, [first, rings.odd_subtract(a, first)])
    assert (one + two).tolist() == [value >> 63 for value in unsigned(a)]


@pytest.mark.parametrize("count", [2, 3, 4])
@settings(max_examples=20, deadline=None)
@given(st.lists(st.tuples(words, words, st.integers(0, 1)), min_size=1, max_size=20))
def test_private_compare_of_anything(count, rows):
    rows = [*rows, *[(x, r, b) for x in (0, -1, 7) for r in (0, -1, 7, 6, 8) for b in (0, 1)]]
    x, r, beta = torch.tensor(rows).T.contiguous()
    bits = (x.unsqueeze(-1) >> torch.arange(64)) & 1
    expected = [int(a > b) ^ c for a, b, c in zip(unsigned(x), unsigned(r), beta.tolist(), strict=True)]
    assert run(snn.private_compare, count, bits, known=(r, beta)).tolist() == expected


# --- by name ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("count", [2, 3, 4])
class TestAgainstPlaintext:
    def test_signs(self, count):
        x = torch.cat([torch.tensor(RANGE), generator.words(3000) >> 2, generator.words(1000) % 3])
        assert torch.equal(run(snn.negative, count, x), (x < 0).long())
        assert torch.equal(run(snn.negative, count, x, invert=True, scale=8), 8 * (x >= 0).long())
        assert torch.equal(run(snn.zero, count, x), (x == 0).long())
        assert torch.equal(run(snn.zero, count, x, invert=True, scale=3), 3 * (x != 0).long())
        assert torch.equal(run(snn.relu, count, x), x.clamp(min=0))

    @pytest.mark.parametrize("shape", [(), (0,), (2, 0), (1,), (2, 3, 4)])
    def test_shapes(self, count, shape):
        x = generator.words(*shape) >> 2
        assert torch.equal(run(snn.relu, count, x), x.clamp(min=0))
        assert torch.equal(run(snn.zero, count, x), (x == 0).long())

    def test_select(self, count):
        x, y, alpha = generator.words(40), generator.words(40), torch.arange(40) % 2
        assert torch.equal(run(snn.select_share, count, alpha, x, y), torch.where(alpha == 1, y, x))
        one = torch.tensor([1])
        assert torch.equal(run(snn.select_share, count, one, x, y), y)

    def test_converted_and_compared(self, count):
        """What `share_convert` makes is what `msb` takes, whatever the number of parties."""
        a = torch.tensor([value for value in RANGE if value != -1])
        both = [*shared(a, count), None]

        async def one(party):
            mine = tuple(a.shape) if party.is_helper else both[party.index]
            converted = await snn.share_convert(party, mine)
            return await snn.msb(party, tuple(a.shape) if party.is_helper else converted)

        assert torch.equal(sum(drive(one, count)[:count]), (a < 0).long())

    def test_division(self, count):
        x = torch.tensor([0, 1, 5, 7, 100, 2**40, 2**61, 12345678, 6])
        y = torch.tensor([1, 1, 2, 7, 3, 2**20, 2**30 + 1, 1000, 7])
        assert torch.equal(run(snn.division, count, x, y), x // y)
        assert run(snn.division, count, x[4], y[:3], bits=8).tolist() == [100, 100, 50]

    @pytest.mark.parametrize("size", [1, 2, 3, 7, 8])
    def test_maxpool(self, count, size):
        x = generator.words(size) >> 3
        value, place = run(snn.maxpool, count, x)
        assert (value, place) == (x.max(), x.argmax())
        assert torch.equal(run(snn.maxpool_deriv, count, x), (x == x.max()).long())

    def test_of_equal_elements_the_first_is_found(self, count):
        x = torch.tensor([[1, 5, 5], [2, 5, 0]])
        assert run(snn.maxpool, count, x)[1] == 1
        assert run(snn.maxpool_deriv, count, x).tolist() == [[0, 1, 0], [0, 0, 0]]

    @pytest.mark.parametrize(("kernel", "stride", "padding"), [(1, 1, 0), (2, 2, 0), (3, 2, 1), (3, 1, 0), (2, 1, 1)])
    def test_maxpool2d(self, count, kernel, stride, padding):
        x = (generator.words(2, 3, 5, 6) >> 40) - 2**23
        expected = torch.nn.functional.max_pool2d(x.double(), kernel, stride, padding).long()
        assert torch.equal(run(snn.maxpool2d, count, x, kernel_size=kernel, stride=stride, padding=padding), expected)


def test_pieces(monkeypatch):
    monkeypatch.setattr(snn, "CHUNK", 100)
    monkeypatch.setattr(steps, "BLOCK", 30)
    x = generator.words(3, 111) >> 2
    assert torch.equal(run(snn.relu, 2, x), x.clamp(min=0))


@pytest.mark.parametrize(
    "options", [{"kernel_size": 0}, {"kernel_size": 2, "padding": 2}, {"kernel_size": 9}, {"stride": 0}]
)
def test_windows_that_make_no_sense(options):
    with pytest.raises(ProtocolError, match="window"):
        run(snn.maxpool2d, 2, torch.ones(4, 4, dtype=torch.int64), **options)


@pytest.mark.parametrize("function", [securenn.maxpool, securenn.maxpool_deriv])
def test_an_empty_tensor_has_no_largest(function, bob, alice, make_worker):
    with pytest.raises(ProtocolError, match="no largest"):
        run(snn.maxpool, 2, torch.ones(0, dtype=torch.int64))
    none = sharing.split(torch.ones(0, dtype=torch.int64), (bob, alice), make_worker("carol"))
    with pytest.raises(ProtocolError, match="no largest"):
        function(none)


@pytest.mark.parametrize("count", [2, 3])
def test_numbers_have_64_bits(count):
    bits, known = torch.ones(3, 62, dtype=torch.int64), torch.ones(3, dtype=torch.int64)
    with pytest.raises(ProtocolError, match="64 bits"):
        run(snn.private_compare, count, bits, known=(known, known))


def known(protocol):
    async def run_with(party, bits):
        r = None if party.is_helper else torch.zeros(bits.shape[0], dtype=torch.int64)
        return await protocol(party, bits, r, r)

    return run_with


@pytest.mark.parametrize(
    ("protocol", "shapes", "rounds", "each"),
    [
        (snn.negative, [(1000,)], 8, 160),
        (snn.relu, [(1000,)], 9, 160),
        (snn.zero, [(1000,)], 9, 320),
        (snn.select_share, [(1000,)] * 3, 2, 16),
        (snn.share_convert, [(1000,)], 5, 80),
        (snn.msb, [(1000,)], 5, 80),
        (known(snn.private_compare), [(1000, 64)], 5, 72),
        (snn.maxpool, [(1024,)], 81, 176),
        (snn.maxpool_deriv, [(1024,)], 83, 176),
        (snn.division, [(1000,)] * 2, 1 + 8 * 32, 160 * 32),
    ],
)
def test_costs(protocol, shapes, rounds, each):
    """Rounds and bytes are those that the table of protocols and the docstrings tell; 16 bytes are for keys."""
    with cost_meter.count() as tally:
        run(protocol, 2, *[torch.ones(shape, dtype=torch.int64) for shape in shapes])
    assert tally.rounds == rounds
    assert each * 0.99 * shapes[0][0] <= tally.bytes <= each * shapes[0][0] + 16


# --- what each of the three sees ----------------------------------------------------------------------------------


def views(protocol, *values, **options):
    """Return what each seat receives from each other one, in order: {(receiver, sender): [tensors]}."""
    seen = {}

    def observe(receiver, sender, tensors):
        seen.setdefault((receiver, sender), []).extend(tensor.clone() for tensor in tensors)

    lockstep.observers.append(observe)
    try:
        run(protocol, 2, *values, **options)
    finally:
        lockstep.observers.remove(observe)
    return seen


def chi_square(values, kinds):
    counts = np.bincount(values, minlength=kinds)
    expected = counts.sum() / kinds
    return (((counts - expected) ** 2 / expected).sum() - (kinds - 1)) / np.sqrt(2 * (kinds - 1))


def is_digits(tensor):
    return tensor.dim() == 2


@pytest.mark.parametrize("value", [0, 1, -1, 2**62 - 1, -(2**62)])
def test_messages_are_noise_whatever_the_secret(value):
    """All that is received is uniform: words byte by byte, digits in each place of each message."""
    seen = views(snn.relu, torch.full((4096,), value))
    assert set(seen) == {(1, 0), (0, 1), (0, 2), (2, 0), (2, 1), (1, 2), (0, None), (1, None)}
    for tensors in seen.values():
        for tensor in tensors:
            if tensor.numel() <= 2:  # the keys
                continue
            raw = tensor.contiguous().view(torch.uint8).numpy()
            if is_digits(tensor):
                assert raw.max() < 67
                for place in (0, 1, 31, 63):
                    assert abs(chi_square(raw[:, place], 67)) < LIMIT
            else:
                assert abs(chi_square(raw.reshape(-1), 256)) < LIMIT


@pytest.mark.parametrize("value", [0, -1, 3, -(2**62)])
def test_the_helper_learns_a_fair_coin(value):
    """The digits add up to a zero in half of the rows, at every place equally often, and are uniform elsewhere."""
    seen = views(snn.negative, torch.full((8192,), value))
    pairs = zip(filter(is_digits, seen[2, 0]), filter(is_digits, seen[2, 1]), strict=True)
    for ours, theirs in pairs:
        total = (ours.view(torch.uint8).int() + theirs.view(torch.uint8).int()) % 67
        zeros = (total == 0).sum(1)
        assert zeros.max() == 1
        assert abs(int(zeros.sum()) - 4096) < LIMIT * np.sqrt(8192) / 2
        places = (total == 0).nonzero()[:, 1].numpy()
        assert abs(chi_square(places, 64)) < LIMIT
        others = total[total != 0].numpy() - 1
        assert abs(chi_square(others, 66)) < LIMIT


@pytest.mark.parametrize("first", [True, False])
def test_digits_are_masked_though_the_helper_knows_the_bits(first):
    """The helper made the shares of the bits. Even if they are all zero, its messages from a party are uniform."""
    nothing, r = torch.zeros(4096, 64, dtype=torch.uint8), generator.words(4096)
    blinded = steps._blinded(first, nothing, r, False, r & 1, Generator())
    for place in (0, 1, 31, 63):
        assert abs(chi_square(blinded[:, place].numpy(), 67)) < LIMIT


def test_one_secret_twice_is_not_seen():
    """No word is sent twice: elements of the same value have masks of their own."""
    for (receiver, _), tensors in views(snn.relu, torch.full((2000,), 7)).items():
        for tensor in tensors:
            if receiver == 2 and not is_digits(tensor):
                assert len(tensor.unique()) == len(tensor)


# --- the documented functions, on workers ---------------------------------------------------------------------------


@pytest.fixture
def parties(sharers):
    return sharers


@pytest.fixture
def carol(provider):
    return provider


@pytest.fixture
def share(parties, carol):
    return lambda *numbers: sharing.split(torch.tensor(numbers), parties, carol)


def test_documented_paths():
    import syft.frameworks.torch.mpc.securenn as documented

    assert documented is securenn
    assert (securenn.Q_BITS, securenn.L, securenn.p) == (64, 2**64, 67)


def test_decompose_and_flip(bob, alice):
    bits = securenn.decompose(torch.tensor([[5, -1]]))
    assert bits.shape == (1, 2, 64)
    assert bits[0, 0, :4].tolist() == [1, 0, 1, 0]
    assert bits[0, 1].all()
    assert securenn.flip(torch.tensor([[1, 2], [3, 4]]), 1).tolist() == [[2, 1], [4, 3]]
    for place in securenn.flip(torch.tensor([1, 2]).send(bob, alice), 0).get():
        assert place.tolist() == [2, 1]
    link = sharing.split(torch.tensor([1, 2, 3]), (bob, alice))
    assert securenn.flip(link.wrap(), 0).get().tolist() == [3, 2, 1]
    assert securenn.flip(link, 0).get().tolist() == [3, 2, 1]


def test_documented_functions(share, parties, carol, nothing_left):
    assert securenn.relu_deriv(share(-5, 0, 3)).get().tolist() == [0, 1, 1]
    assert securenn.relu(share(-5, 0, 3)).get().tolist() == [0, 0, 3]
    assert securenn.division(share(7, 100), share(2, 9), bit_len_max=6).get().tolist() == [3, 11]
    assert securenn.select_share(share(0, 1), share(10, 20), share(30, 40)).get().tolist() == [10, 40]
    value, place = securenn.maxpool(share(3, 9, 4))
    assert (int(value.get()), int(place.get())) == (9, 1)
    assert securenn.maxpool_deriv(share(3, 9, 4)).get().tolist() == [0, 1, 0]
    pooled = securenn.maxpool2d(share([1, 2, 5], [4, 3, 0], [0, 0, 9]), kernel_size=2)
    assert pooled.get().tolist() == [[4, 5], [4, 9]]
    del value, place, pooled
    nothing_left(*parties, carol)


def test_conversion_and_sign(share):
    converted = securenn.share_convert(share(10, 20, -7))
    assert converted.field == (2**64 - 1 if len(converted.child) == 2 else 2**64)
    assert securenn.msb(converted).get().tolist() == [0, 0, 1]
    assert securenn.msb(converted.wrap()).get().tolist() == [0, 0, 1]
    assert securenn.msb(share(10, 20, -7)).get().tolist() == [0, 0, 1]
    assert securenn.msb(share(10, 20, -7).wrap()).get().tolist() == [0, 0, 1]
    back = securenn.share_convert(share(10, 20, 0))
    assert back.virtual_get().tolist() == [10, 20, 0]
    assert back.get().tolist() == [10, 20, 0]


def test_converted_shares_can_not_be_computed_on(bob, alice, make_worker):
    """The rules of shared tensors would be wrong modulo 2^64 - 1."""
    converted = securenn.share_convert(sharing.split(torch.tensor([1, 2]), (bob, alice), make_worker("carol")))
    for call in (
        lambda: converted + converted,
        lambda: converted.sum(),
        lambda: converted.wrap() * 2,
        lambda: securenn.relu(converted),
        lambda: securenn.relu(converted.wrap()),
    ):
        with pytest.raises(UnsupportedOperationError, match="modulo 2\\*\\*64 - 1"):
            call()


@pytest.mark.parametrize("beta", [0, 1])
def test_private_compare_on_workers(share, parties, carol, nothing_left, beta):
    x = torch.tensor([13, 12, 11, -1])
    bits = sharing.split(securenn.decompose(x), parties, carol)
    r = torch.tensor([12]).send(*parties)
    answer = securenn.private_compare(bits, r, torch.tensor([beta]))
    assert answer.get().tolist() == [1 ^ beta, beta, beta, 1 ^ beta]
    answer = securenn.private_compare(bits.wrap(), r.child, beta)
    assert answer.get().tolist() == [1 ^ beta, beta, beta, 1 ^ beta]
    del bits, r, answer
    nothing_left(*parties, carol)


def test_shells_give_shells(bob, alice, make_worker):
    x = torch.tensor([-1, 2]).share(bob, alice, crypto_provider=make_worker("carol"))
    assert isinstance(x, torch.Tensor)
    assert securenn.relu(x).get().tolist() == [0, 2]
    assert [item.get().tolist() for item in securenn.maxpool(x)] == [2, 1]
    with pytest.raises(ProtocolError, match="takes shared tensors"):
        securenn.relu(torch.tensor([1]))


def test_common_values_and_shares_of_zero(bob, alice, make_worker):
    ours, theirs = securenn._random_common_value(2**63 + 5, bob, alice).get()
    assert torch.equal(ours, theirs)
    ours, theirs = securenn._random_common_bit(bob, alice).get()
    assert torch.equal(ours, theirs)
    assert int(ours) in (0, 1)
    zeros = securenn._shares_of_zero((2, 3), securenn.L, make_worker("carol"), bob, alice)
    assert torch.equal(zeros.get(), torch.zeros(2, 3, dtype=torch.int64))
    assert securenn._shares_of_zero(3, securenn.L, None, bob, alice).get().tolist() == [0, 0, 0]


@pytest.fixture(scope="module")
def processes():
    hook = sy.TorchHook(torch)
    made = [ProcessWorker(hook, id=f"snn-{name}") for name in ("alice", "bob", "carol")]
    yield made
    for worker in made:
        worker.stop()


def test_in_processes_of_their_own(processes):
    """The same over real connections, with the provider's process as the helper."""
    *parties, carol = processes

    def share(*numbers):
        return sharing.split(torch.tensor(numbers), parties, carol)

    assert securenn.relu(share(-5, 0, 3)).get().tolist() == [0, 0, 3]
    assert securenn.msb(securenn.share_convert(share(10, -20))).get().tolist() == [0, 1]
    assert securenn.division(share(7, 100), share(2, 9), bit_len_max=6).get().tolist() == [3, 11]
    assert securenn.maxpool_deriv(share(3, 9, 4)).get().tolist() == [0, 1, 0]
    bits = sharing.split(securenn.decompose(torch.tensor([13, 12])), parties, carol)
    assert securenn.private_compare(bits, torch.tensor([12]), torch.tensor([0])).get().tolist() == [1, 0]
    x = generator.words(5000) >> 2
    assert torch.equal(securenn.relu_deriv(sharing.split(x, parties, carol)).get(), (x >= 0).long())
