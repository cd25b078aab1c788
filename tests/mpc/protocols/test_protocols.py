"""Every protocol against plain arithmetic, for 2, 3 and 4 parties."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from syft.core.generator import local
from syft.exceptions import SyftError
from syft.mpc.protocols import arithmetic, comparison, division, maximum, truncation
from syft.mpc.ring import bitslice
from syft.mpc.runtime import cost_meter
from tests.helpers.mpc.protocols import EDGES, numbers, run, run_on_shares, split, total

parties = pytest.mark.parametrize("count", [2, 3, 4])
words = st.integers(-(2**62) + 2**24, 2**62 - 1)


@pytest.fixture
def values() -> torch.Tensor:
    return torch.cat([EDGES, numbers(3000), torch.arange(-40, 40)])


@pytest.mark.parametrize("size", [1, 63, 64, 65, 1000, 40_000])
def test_planes_hold_the_bits(size: int) -> None:
    x = local().words(size)
    spread = bitslice.to_planes(x)
    assert spread.shape == (64, -(-size // 64))
    for bit in (0, 1, 17, 31, 32, 62, 63):
        assert torch.equal(bitslice.unpack(spread[bit], size), (x >> bit) & 1)
        assert torch.equal(bitslice.pack((x >> bit) & 1), spread[bit])


@parties
@pytest.mark.parametrize("divisor", [2, 2**16, 10, 1000, 7, 2**40, 3**20])
def test_truncation_never_fails(count: int, divisor: int, values: torch.Tensor) -> None:
    values = values.clamp(min=-(2**62) + divisor)
    off = run(truncation.truncate, count, values, divisor) - torch.div(values, divisor, rounding_mode="floor")
    assert int(off.min()) >= 0
    assert int(off.max()) <= 1
    multiples = torch.div(values, divisor, rounding_mode="floor") * divisor
    assert torch.equal(run(truncation.truncate, count, multiples, divisor), multiples // divisor)


@parties
@pytest.mark.parametrize("divisor", [65536, 1000])
def test_truncation_rounds_in_proportion(count: int, divisor: int) -> None:
    values = torch.full((40_000,), 13 * divisor // 4)  # 3.25
    mean = run(truncation.truncate, count, values, divisor).double().mean()
    assert abs(float(mean) - 3.25) < 0.02


@parties
def test_products(count: int, values: torch.Tensor) -> None:
    other = local().words(len(values))
    assert torch.equal(run(arithmetic.multiply, count, values, other), values * other)
    assert torch.equal(run(arithmetic.square, count, values), values * values)
    a, b = local().words(7, 1, 5), local().words(4, 5)
    assert torch.equal(run(arithmetic.multiply, count, a, b), a * b)
    left, right = local().words(2, 6, 30), local().words(30, 9)
    assert torch.equal(run(arithmetic.multiply, count, left, right, operation="matmul"), left @ right)
    assert torch.equal(
        run(arithmetic.multiply, count, right[:, 0], right[:, 1], operation="matmul"), right[:, 0] @ right[:, 1]
    )
    image, kernel = local().words(2, 4, 8, 8), local().words(6, 4, 3, 3)
    made = run(arithmetic.multiply, count, image, kernel, operation="conv", padding=1, stride=2)
    assert torch.equal(made, torch.nn.functional.conv2d(image, kernel, padding=1, stride=2))
    grouped = run(arithmetic.multiply, count, image, kernel[:, :2], operation="conv", groups=2)
    assert torch.equal(grouped, torch.nn.functional.conv2d(image, kernel[:, :2], groups=2))
    assert torch.equal(
        run(arithmetic.multiply_public, count, right, left, public=(1,), operation="matmul", swapped=True), left @ right
    )
    assert torch.equal(run(arithmetic.multiply_public, count, values, -3), values * -3)


@parties
def test_sums(count: int, values: torch.Tensor) -> None:
    other = local().words(len(values))
    assert torch.equal(run(arithmetic.add, count, values, other), values + other)
    assert torch.equal(run(arithmetic.add, count, values, other, alpha=-2), values - 2 * other)
    assert torch.equal(run(arithmetic.add_public, count, values, other, public=(1,)), values + other)
    assert torch.equal(run(arithmetic.add_public, count, values, 5, alpha=-1), 5 - values)
    assert torch.equal(run(arithmetic.add_public, count, values[:1], other, public=(1,)), values[:1] + other)


@parties
@pytest.mark.parametrize("invert", [False, True])
@pytest.mark.parametrize("scale", [1, 1000])
def test_comparison_with_zero(count: int, invert: bool, scale: int, values: torch.Tensor) -> None:
    negative, zero = values < 0, values == 0
    expected = (~negative if invert else negative).long() * scale
    assert torch.equal(run(comparison.negative, count, values, invert=invert, scale=scale), expected)
    expected = (~zero if invert else zero).long() * scale
    assert torch.equal(run(comparison.zero, count, values, invert=invert, scale=scale), expected)


@parties
@settings(max_examples=25, deadline=None)
@given(data=st.lists(words, min_size=0, max_size=130))
def test_comparison_of_any_numbers(count: int, data: list[int]) -> None:
    x = torch.tensor(data, dtype=torch.int64)
    assert torch.equal(run(comparison.negative, count, x), (x < 0).long())
    assert torch.equal(run(comparison.zero, count, x), (x == 0).long())
    assert torch.equal(run(comparison.relu, count, x), x.relu())


@parties
@pytest.mark.parametrize("dim", [None, 0, 1, 2])
@pytest.mark.parametrize("largest", [True, False])
def test_the_largest_and_where_it_is(count: int, dim: int | None, largest: bool) -> None:
    x = numbers(5, 3, 7, bits=60)
    values = run(maximum.extreme, count, x, dim=dim, largest=largest)
    value, place = run(maximum.extreme_at, count, x, dim=dim, largest=largest)
    expected = (x.amax if largest else x.amin)(() if dim is None else dim)
    assert torch.equal(values, expected)
    assert torch.equal(value, expected)
    assert torch.equal(place, (x.argmax if largest else x.argmin)(dim))


@parties
def test_of_equal_ones_the_first_wins(count: int) -> None:
    x = torch.tensor([[1, 3, 3, 0, 3], [2, 2, 2, 2, 2], [-1, -5, -1, -9, -1]])
    _, place = run(maximum.extreme_at, count, x, dim=1)
    assert place.tolist() == [1, 0, 0]


@parties
@pytest.mark.parametrize("scale", [1, 2**16, 1000, 10**6, 3**10, 2**30])
def test_division_within_its_bound(count: int, scale: int) -> None:
    x, y = numbers(1500, bits=58), numbers(1500, bits=60)
    x[:500] = x[:500] >> 30
    y[y == 0] = 3
    exact = x.double() * scale / y.double()
    inside = exact.abs() < 2**61
    off = (run(division.divide, count, x, y, scale=scale).double() - exact).abs()
    bound = exact.abs() * 2**-26 + 8 + 2 * scale / y.double().abs()  # what the table of protocols says
    assert bool((off <= bound)[inside].all())


@parties
def test_division_by_zero_gives_zero(count: int) -> None:
    assert run(
        division.divide, count, torch.tensor([5, -5, 0]), torch.zeros(3, dtype=torch.int64), scale=65536
    ).tolist() == [0, 0, 0]


@parties
def test_whole_division_is_exact(count: int) -> None:
    x, y = numbers(1500, bits=58), numbers(1500, bits=58)
    y[:500] = y[:500] >> 30
    y[y == 0] = 7
    x[:50] = y[:50] = torch.arange(1, 51)
    assert torch.equal(run(division.floor_divide, count, x, y), torch.div(x, y, rounding_mode="floor"))


@pytest.mark.parametrize(
    ("protocol", "args", "rounds", "limit"),
    [
        (comparison.negative, (1000,), 7, 20),
        (comparison.relu, (1000,), 7, 20),
        (comparison.zero, (1000,), 7, 16),
        (arithmetic.square, (1000,), 1, 8),
    ],
    ids=lambda value: getattr(value, "__name__", None),
)
def test_rounds_and_bytes(protocol: object, args: tuple[int, ...], rounds: int, limit: int) -> None:
    with cost_meter.count() as tally:
        run(protocol, 2, numbers(*args))
    assert tally.rounds == rounds
    assert tally.bytes <= limit * args[0] + 200
    assert "rounds" in repr(tally)


def test_products_side_by_side_share_a_round() -> None:
    async def two(party, x, y):  # type: ignore[no-untyped-def]
        return tuple(await party.together(arithmetic.multiply(party, x, y), comparison.negative(party, x)))

    x, y = numbers(50), numbers(50)
    with cost_meter.count() as tally:
        product, sign = run(two, 3, x, y)
    assert torch.equal(product, x * y)
    assert torch.equal(sign, (x < 0).long())
    assert tally.rounds == 7


def test_shares_that_do_not_fit_are_refused() -> None:
    good, bad = split(numbers(4), 2), split(numbers(5), 2)
    with pytest.raises(SyftError, match="different"):
        run_on_shares(comparison.negative, 2, [[good[0]], [bad[1]]])
    with pytest.raises(SyftError, match="different shapes"):
        run_on_shares(arithmetic.reveal, 2, [[good[0]], [bad[1]]])


def test_refreshed_shares_are_new_and_worth_the_same() -> None:
    secret = numbers(40)
    before = split(secret, 3)
    after = run_on_shares(arithmetic.refresh, 3, [[share] for share in before])
    assert torch.equal(total(after), secret)
    assert all(not torch.equal(old, new) for old, new in zip(before, after, strict=True))


def test_empty_tensors() -> None:
    none = torch.zeros(0, 3, dtype=torch.int64)
    for protocol in (comparison.negative, comparison.zero, comparison.relu, arithmetic.square):
        assert run(protocol, 2, none).shape == (0, 3)
    assert run(division.divide, 2, none, none, scale=1000).shape == (0, 3)
