"""Arithmetic modulo 2^64 is exact in every implementation."""

from __future__ import annotations

import pytest
import torch
import torch.nn.functional as F
from hypothesis import given, settings
from hypothesis import strategies as st

from syft.core.generator import local
from syft.mpc.protocols.local import LOCAL
from syft.mpc.ring import arithmetic
from syft.mpc.runtime import result_shapes


@pytest.mark.parametrize(
    ("x", "y"),
    [
        ((3, 4), (4, 5)), ((1, 1), (1, 1)), ((64, 512), (512, 64)), ((64, 513), (513, 64)), ((40, 1700), (1700, 33)),
        ((7,), (7,)), ((200, 300), (300,)), ((300,), (300, 200)), ((2, 1, 40, 50), (3, 50, 60)), ((0, 4), (4, 5)),
        ((4, 0), (0, 5)), ((5, 30, 40), (40, 50)), ((30, 40), (5, 40, 50)),
    ],
)  # fmt: skip
def test_products_of_matrices_are_exact(x: tuple[int, ...], y: tuple[int, ...]) -> None:
    a, b = local().words(*x), local().words(*y)
    assert torch.equal(arithmetic.matmul(a, b), torch.matmul(a, b))


@pytest.mark.parametrize("value", [-(2**63), 2**63 - 1, -1, 2**21, 2**21 - 1, -(2**21), 2**43 + 2**21, -(2**43) - 1])
def test_the_largest_sums_of_products_are_exact(value: int) -> None:
    a = torch.full((24, arithmetic.DEPTH), value)
    for b in (a.t(), torch.full_like(a, -(2**21)).t(), torch.full_like(a, 2**42 + 2**21).t()):
        assert torch.equal(arithmetic.by_limbs(torch.matmul, a, b.contiguous(), arithmetic.DEPTH), a @ b)
        assert torch.equal(arithmetic._narrow(torch.matmul, a, b.contiguous()), a @ b)


# Both lower limbs of this word are -2^21, the limb of largest magnitude, so their sum is -2^22.
LARGEST_LIMBS = -(2**43) - 2**21


def at_the_bound(*shape: int, dim: int) -> torch.Tensor:
    """Return words with limbs of largest magnitude, and a 1 at the last index of a dimension.

    The middle product of 512 such words with themselves is 2^53, the end of what float64 counts by ones; with the 1 the
    sum is 2^53 + 1, which float64 rounds.
    """
    words = torch.full(shape, LARGEST_LIMBS)
    words.select(dim, -1).fill_(1)
    return words


@pytest.mark.parametrize("depth", [arithmetic.DEPTH, arithmetic.DEPTH + 1, 2 * arithmetic.DEPTH + 1])
def test_products_with_the_largest_limbs_are_exact_at_the_depth_limit(
    depth: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(arithmetic, "limbs_are_quicker", lambda: True)
    a, b = at_the_bound(80, depth, dim=1), at_the_bound(depth, 80, dim=0)
    assert arithmetic.cut(a, arithmetic.LIMB)[0][0, 0] == arithmetic.cut(a, arithmetic.LIMB)[1][0, 0] == -(2**21)
    assert torch.equal(arithmetic.matmul(a, b), a @ b)
    assert torch.equal(arithmetic.by_limbs(torch.matmul, a, b, depth), a @ b)


@pytest.mark.parametrize(("channels", "window"), [(513, 1), (171, 3), (57, 9), (1, 513)])
@pytest.mark.parametrize("outputs", [4, 24])
def test_convolutions_with_the_largest_limbs_are_exact_beyond_the_depth_limit(
    channels: int, window: int, outputs: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(arithmetic, "limbs_are_quicker", lambda: True)
    x, weight = torch.full((2, channels, window), LARGEST_LIMBS), torch.full((outputs, channels, window), LARGEST_LIMBS)
    x[:, -1, -1] = weight[:, -1, -1] = 1
    assert torch.equal(arithmetic.conv(x, weight), F.conv1d(x, weight))
    spread = at_the_bound(2, arithmetic.DEPTH + 1, 1, dim=1), at_the_bound(arithmetic.DEPTH + 1, outputs, 1, dim=0)
    assert torch.equal(arithmetic.conv(*spread, transposed=True), F.conv_transpose1d(*spread))
    grouped = torch.cat([x, x], 1), torch.cat([weight, weight])
    assert torch.equal(arithmetic.conv(*grouped, groups=2), F.conv1d(*grouped, groups=2))


@settings(max_examples=40, deadline=None)
@given(st.integers(1, 20), st.integers(1, 700), st.integers(1, 20))
def test_both_ways_agree(rows: int, depth: int, columns: int) -> None:
    a, b = local().words(rows, depth), local().words(depth, columns)
    assert torch.equal(arithmetic.by_limbs(torch.matmul, a, b, depth), a @ b)


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"stride": 2, "padding": 1},
        {"padding": 2, "dilation": 2},
        {"groups": 2},
        {"stride": (2, 1), "padding": (0, 1)},
    ],
    ids=str,
)
def test_convolutions_are_exact(options: dict) -> None:
    x = local().words(2, 4, 11, 9)
    weight = local().words(6, 4 // options.get("groups", 1), 3, 2)
    assert torch.equal(arithmetic.conv(x, weight, **options), F.conv2d(x, weight, **options))
    assert result_shapes.conv(x.shape, weight.shape, **options) == F.conv2d(x, weight, **options).shape


@pytest.mark.parametrize("channels", [3, 70, 300])
def test_convolutions_of_any_depth_are_exact(channels: int) -> None:
    x, weight = local().words(1, channels, 6, 6), local().words(2, channels, 3, 3)
    assert torch.equal(arithmetic.conv(x, weight), F.conv2d(x, weight))
    line = local().words(2, channels, 9)
    assert torch.equal(arithmetic.conv(line, weight[..., 0]), F.conv1d(line, weight[..., 0]))
    spread = local().words(1, 2, 5, 5)
    assert torch.equal(
        arithmetic.conv(spread, weight, transposed=True, stride=2, output_padding=1),
        F.conv_transpose2d(spread, weight, stride=2, output_padding=1),
    )


@pytest.mark.parametrize(
    ("x", "weight", "options"),
    [
        ((2, 70, 6, 6), (24, 70, 3, 3), {"padding": 1}),  # some channels at a time
        ((1, 2, 40, 30), (24, 2, 24, 23), {}),  # windows that are too large for that
        ((5, 3, 9, 8), (4, 3, 3, 2), {"stride": (2, 1), "padding": (1, 0), "dilation": (1, 2)}),  # few outputs
        ((5, 3, 9), (4, 3, 3), {"stride": (2,), "padding": (1,)}),
        ((2, 2, 5, 6, 4), (3, 2, 2, 3, 1), {"dilation": 2, "padding": 1}),
        ((2, 70, 4, 4), (70, 24, 3, 3), {"transposed": True, "stride": 2, "padding": 1}),
        ((1, 2, 3, 3), (2, 3, 24, 23), {"transposed": True}),
    ],
)
def test_convolutions_are_exact_in_every_way(
    x: tuple[int, ...], weight: tuple[int, ...], options: dict, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(arithmetic, "limbs_are_quicker", lambda: True)
    monkeypatch.setattr(arithmetic, "COLUMNS", 500)  # so that images are taken in turns
    kinds = {True: "conv_transpose", False: "conv"}
    plain = {name: value for name, value in options.items() if name != "transposed"}
    function = getattr(F, f"{kinds[options.get('transposed', False)]}{len(x) - 2}d")
    a, b = local().words(*x), local().words(*weight)
    assert torch.equal(arithmetic.conv(a, b, **options), function(a, b, **plain))


@pytest.mark.parametrize("quicker", [False, True])
def test_matrices_are_multiplied_in_every_way(quicker: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(arithmetic, "limbs_are_quicker", lambda: quicker)
    for x, y in (
        ((2, 8), (8, 3)),
        ((1, 784), (784, 128)),
        ((90, 700), (700, 80)),
        ((300,), (300, 200)),
        ((9, 500), (500,)),
    ):
        a, b = local().words(*x), local().words(*y)
        for left, right in (
            (a, b),
            (a.mT.contiguous().mT if a.dim() > 1 else a, b.mT.contiguous().mT if b.dim() > 1 else b),
        ):
            assert torch.equal(arithmetic.matmul(left, right), torch.matmul(a, b))


@pytest.mark.parametrize("shape", [(), (5,), (3000,), (50, 70)])
def test_sums_and_products_wrap_around(shape: tuple[int, ...]) -> None:
    x, y = local().words(*shape), local().words(*shape)
    assert torch.equal(arithmetic.add(x, y), x + y)
    assert torch.equal(arithmetic.sub(x, y), x - y)
    assert torch.equal(arithmetic.mul(x, y), x * y)
    assert torch.equal(arithmetic.add(x, 7), x + 7)


@pytest.mark.parametrize("divisor", [1, 2, 65536, 3, 1000, 10**9, 2**63 - 1])
def test_division_reads_words_without_a_sign(divisor: int) -> None:
    x = torch.cat([local().words(500), torch.tensor([0, -1, -(2**63), 2**63 - 1])])
    expected = [(value % 2**64) // divisor for value in x.tolist()]
    assert [value % 2**64 for value in arithmetic.floor_divide(x, divisor).tolist()] == expected


def test_shapes_broadcast_as_in_torch() -> None:
    for x, y in [((3, 1), (1, 4)), ((), (2,)), ((5,), (5,)), ((0, 1), (1, 3))]:
        assert arithmetic.broadcast(x, y) == torch.broadcast_shapes(x, y)
    with pytest.raises(RuntimeError, match="broadcast"):
        arithmetic.broadcast((2,), (3,))


@pytest.mark.parametrize(
    ("x", "y"),
    [((2, 3), (3, 4)), ((3,), (3,)), ((2, 3), (3,)), ((3,), (3, 2)), ((5, 1, 2, 3), (4, 3, 2)), ((0, 3), (3, 0))],
)
def test_shapes_of_products(x: tuple[int, ...], y: tuple[int, ...]) -> None:
    assert result_shapes.matmul(x, y) == torch.matmul(torch.zeros(x), torch.zeros(y)).shape


@pytest.mark.parametrize(("x", "y"), [((2, 3), (2, 3)), ((), (3,)), ((3,), ()), ((4, 2, 3), (3, 3, 2))])
def test_shapes_that_do_not_fit_are_refused(x: tuple[int, ...], y: tuple[int, ...]) -> None:
    with pytest.raises(RuntimeError, match="multiplied|broadcast"):
        result_shapes.matmul(x, y)
    with pytest.raises(RuntimeError, match="can.t be applied"):
        result_shapes.conv((1, 2, 5, 5), (3, 3, 3, 3))
    with pytest.raises(RuntimeError, match="too large"):
        result_shapes.conv((1, 2, 2, 2), (3, 2, 3, 3))


def test_shapes_of_spread_images() -> None:
    x, weight = torch.zeros(1, 2, 5, 6), torch.zeros(2, 3, 3, 2)
    made = F.conv_transpose2d(x, weight, stride=(2, 3), padding=1, output_padding=1, dilation=(1, 2))
    found = result_shapes.conv(x.shape, weight.shape, (2, 3), 1, (1, 2), 1, True, 1)
    assert found == made.shape


LOCAL_SAMPLES = {
    "sum.dim_IntList": [(torch.zeros(2, 3), [1]), (torch.zeros(2, 3), [-1], True), (torch.zeros(2, 3), []), (torch.zeros(()), [])],
    "cat.default": [([torch.zeros(2, 3), torch.zeros(1, 3)],), ([torch.zeros(2, 3), torch.zeros(2, 1)], -1), ([torch.zeros(0), torch.zeros(2, 3)],)],
    "stack.default": [([torch.zeros(2, 3)] * 2,), ([torch.zeros(2, 3)] * 2, -1), ([torch.zeros(())],)],
    "where.self": [(torch.zeros(2, 1).bool(), torch.zeros(3), torch.zeros(()))],
    "index.Tensor": [(torch.zeros(4, 5, 6), [torch.tensor([1, 2]), None, torch.tensor([[0], [1]])]), (torch.zeros(4), [torch.zeros(4).bool()])],
    "index_select.default": [(torch.zeros(4, 5), -1, torch.tensor([1, 1, 2])), (torch.zeros(()), 0, torch.tensor([0]))],
    "flip.default": [(torch.zeros(2, 3), [0])],
    "sum.default": [(torch.zeros(2, 3),)],
    "split.Tensor": [(torch.zeros(5, 3), 2)],
    "repeat.default": [(torch.zeros(2, 3), [2, 1, 2])],
}  # fmt: skip


@pytest.mark.parametrize("name", LOCAL_SAMPLES)
def test_shapes_of_calls(name: str) -> None:
    for args in LOCAL_SAMPLES[name]:
        made = LOCAL[name](*args)
        expected = [item.shape for item in made] if isinstance(made, list | tuple) else made.shape
        assert result_shapes.of_call(name, LOCAL[name], args, {}) == expected
