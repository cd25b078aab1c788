"""The view of a party has the same distribution for all secrets.

A party's view is all it gets from the dealer and from the other parties. From many runs on two different secrets the
bytes of everything in it are compared, and also of what a curious party could make of it: opened values, differences
of neighbours (one mask for two elements would show there), and sums and differences of any two tensors of the same
shape. A protocol that leaks on purpose shows that the test sees it.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable
from itertools import combinations
from typing import Any

import numpy as np
import pytest
import torch

import syft as sy
from syft.mpc.protocols import (
    arithmetic,
    comparison,
    division,
    exponential,
    lookup,
    maximum,
    normalized_functions,
    softmax,
    thresholds,
    truncation,
)
from syft.mpc.runtime import lockstep
from syft.mpc.values.function_tables import table_of
from tests.helpers.depth import deep
from tests.helpers.mpc.protocols import run_on_shares, split

RUNS = 40
SIZE = 64
LEFT = torch.zeros(SIZE, dtype=torch.int64)
RIGHT = torch.cat(
    [torch.arange(-8, 8), torch.full((16,), 2**61), torch.full((16,), -(2**60) - 3), torch.arange(16) * 7**18]
)


class View:
    """Byte counts of what one party sees, by what it is."""

    def __init__(self) -> None:
        self.counts: dict[Any, np.ndarray] = defaultdict(lambda: np.zeros(256))

    def add(self, name: Any, tensor: torch.Tensor) -> None:
        data = tensor.contiguous().numpy().view(np.uint8).reshape(-1)
        self.counts[name] += np.bincount(data, minlength=256)


def look(protocol: Callable[..., Any], secrets: list[torch.Tensor], count: int, **options: Any) -> list[View]:
    """Run a protocol many times, and return what each party saw, and of three or more what all but the last saw."""
    views = [View() for _ in range(count + (count > 2))]
    for _ in range(RUNS):
        seen: list[list[torch.Tensor]] = [[] for _ in range(count)]

        def watch(receiver: int, sender: int | None, tensors: tuple[torch.Tensor, ...], seen: Any = seen) -> None:
            seen[receiver].extend(tensors)

        columns = [split(secret, count) for secret in secrets]
        shares = [[column[party] for column in columns] for party in range(count)]
        lockstep.observers.append(watch)
        try:
            run_on_shares(protocol, count, shares, **options)
        finally:
            lockstep.observers.remove(watch)
        for party in range(count):
            _note(views[party], shares[party] + seen[party])
        if count > 2:
            known = [shares[party] + seen[party] for party in range(count - 1)]
            _note(views[-1], [sum(parts[1:], parts[0]) for parts in zip(*known, strict=True)] + known[0])
    return views


def _note(view: View, tensors: list[torch.Tensor]) -> None:
    flat = [tensor.reshape(-1) for tensor in tensors]
    for i, tensor in enumerate(flat):
        view.add(i, tensor)
        view.add((i, "neighbours"), tensor[1:] - tensor[:-1])
        view.add((i, "neighbouring bits"), tensor[1:] ^ tensor[:-1])
    for i, j in combinations(range(min(len(flat), 18)), 2):
        if flat[i].shape == flat[j].shape:
            view.add((i, j, "-"), flat[i] - flat[j])
            view.add((i, j, "+"), flat[i] + flat[j])
            view.add((i, j, "^"), flat[i] ^ flat[j])


def worst(left: View, right: View) -> float:
    """Return the largest two-sample chi-square of all that was seen, as deviations from its mean."""
    assert left.counts.keys() == right.counts.keys()
    largest = 0.0
    for name, a in left.counts.items():
        b = right.counts[name]
        total = a + b
        if not total.sum():
            continue  # a single word has no neighbours
        used = total > 0
        share = a.sum() / total.sum()
        expected = total[used] * share
        other = total[used] - expected
        chi = float((((a[used] - expected) ** 2) * (1 / expected + 1 / np.maximum(other, 1e-9))).sum())
        freedom = max(int(used.sum()) - 1, 1)
        largest = max(largest, (chi - freedom) / (2 * freedom) ** 0.5)
    return largest


# With the 220 to 255 degrees of freedom that there are noise is beyond it once in 10^13 times, and up to a thousand
# things are looked at in each of the tests.
LIMIT = 9.0

SIGMOID = table_of("sigmoid", 65536)
SINE = table_of("sin", 1000)


async def levels(party: Any, x: torch.Tensor) -> torch.Tensor:
    """Compare with three public numbers at once."""
    return await thresholds.reached(party, x, (-5, 0, 2**40))


def piecewise(table: Any) -> Callable[..., Any]:
    """Return the protocol with a public table."""
    return lambda party, x: lookup.piecewise(party, x, table.coefficients, **table.options)


def in_rows(protocol: Callable[..., Any]) -> Callable[..., Any]:
    """Return a protocol on rows of eight."""
    return lambda party, x, **options: protocol(party, x.view(-1, 8), **options)


CASES: dict[str, tuple[Callable[..., Any], int, dict[str, Any]]] = {
    "multiply": (arithmetic.multiply, 2, {}),
    "multiply and rescale": (arithmetic.multiply, 2, {"divisor": 2**16}),
    "square": (arithmetic.square, 1, {"divisor": 1000}),
    "refresh": (arithmetic.refresh, 1, {}),
    "truncate": (truncation.divide_by_public, 1, {"divisor": 1000}),
    "negative": (comparison.negative, 1, {}),
    "zero": (comparison.zero, 1, {}),
    "relu": (comparison.relu, 1, {}),
    "extreme": (maximum.extreme, 1, {}),
    "extreme_at": (maximum.extreme_at, 1, {}),
    "divide": (division.divide, 2, {"scale": 65536}),
    "reached": (levels, 1, {}),
    "piecewise": (piecewise(SIGMOID), 1, {}),
    "piecewise without edges": (piecewise(SINE), 1, {}),
    "exp": (exponential.exp, 1, {"scale": 65536}),
    "log": (normalized_functions.root, 1, {"kind": "log", "scale": 65536}),
    "reciprocal": (normalized_functions.root, 1, {"kind": "reciprocal", "scale": 65536}),
    "softmax": (in_rows(softmax.softmax), 1, {"dim": 1, "scale": 65536, "log": True}),
}
# These are made of others, which are looked at with three parties too.
FOR_TWO = {
    "piecewise without edges",
    "log",
    "reciprocal",
    "softmax",
    *deep(("extreme", "extreme_at", "exp", "piecewise"), ()),
}


@pytest.mark.parametrize(("name", "count"), [(n, c) for n in CASES for c in (2, 3) if c == 2 or n not in FOR_TWO])
def test_views_do_not_depend_on_the_secrets(name: str, count: int) -> None:
    protocol, inputs, options = CASES[name]
    left = look(protocol, [LEFT] * inputs, count, **options)
    right = look(protocol, [RIGHT, RIGHT.flip(0)][:inputs], count, **options)
    for one, other in zip(left, right, strict=True):
        assert worst(one, other) < LIMIT


async def one_mask_for_all(party: Any, x: torch.Tensor) -> torch.Tensor:
    """Open x under a single mask: everybody learns all differences."""
    (mask,) = await party.deal("random", (1,))
    (opened,) = await party.open(x + mask)
    return opened


async def a_mask_twice(party: Any, x: torch.Tensor) -> torch.Tensor:
    """Open x and 2x under the same mask: their difference is x."""
    (mask,) = await party.deal("random", tuple(x.shape))
    await party.open(x + mask)
    (opened,) = await party.open(2 * x + mask)
    return opened


@pytest.mark.parametrize("count", [2, 3])
@pytest.mark.parametrize("leak", [one_mask_for_all, a_mask_twice])
def test_a_protocol_that_leaks_is_seen(leak: Callable[..., Any], count: int) -> None:
    found = [worst(a, b) for a, b in zip(look(leak, [LEFT], count), look(leak, [RIGHT], count), strict=True)]
    assert max(found) > LIMIT


def test_opened_values_are_uniform() -> None:
    counts = np.zeros(256)

    def watch(receiver: int, sender: int | None, tensors: tuple[torch.Tensor, ...]) -> None:
        if sender == receiver == 0:
            for tensor in tensors:
                counts.__iadd__(np.bincount(tensor.numpy().view(np.uint8), minlength=256))

    lockstep.observers.append(watch)
    try:
        for _ in range(RUNS):
            columns = [split(RIGHT, 2), split(RIGHT, 2)]
            run_on_shares(arithmetic.multiply, 2, [list(pair) for pair in zip(*columns, strict=True)])
    finally:
        lockstep.observers.remove(watch)
    expected = counts.sum() / 256
    # 255 degrees of freedom: beyond 460 once in 10^13 times.
    assert float(((counts - expected) ** 2 / expected).sum()) < 460


@pytest.mark.parametrize(
    "call",
    [
        lambda x, y: x + y,
        lambda x, y: x * y,
        lambda x, y: x @ y.t(),
        lambda x, y: x > y,
        lambda x, y: torch.relu(x),
        lambda x, y: x / y,
        lambda x, y: x.max(dim=1).indices,
        lambda x, y: x.t(),
    ],
)
def test_the_client_learns_nothing_before_it_asks(make_worker: Any, kind: str, call: Any) -> None:
    alice, bob, dealer = (make_worker(name, kind) for name in ("alice", "bob", "dealer"))
    x, y = (torch.randn(2, 3).fix_precision().share(alice, bob, crypto_provider=dealer) for _ in range(2))
    with sy.count_messages() as n:
        result = call(x, y)
    assert n.rounds == 0  # nobody answered anything
    assert {receiver for _, receiver in n.by_worker} == {alice.id, bob.id}
    with sy.count_messages() as n:
        result.get()
    assert (n.messages, n.rounds) == (2, 2)


def test_shares_do_not_follow_the_seed_of_torch(make_worker: Any) -> None:
    alice, bob = make_worker("alice"), make_worker("bob")
    found = []
    for _ in range(2):
        torch.manual_seed(7)
        x = torch.tensor([1.0, 2.0]).fix_precision().share(alice, bob)
        found.append(
            [pointer.location._objects[pointer.id_at_location].clone() for pointer in x.child.child.pointers()]
        )
    assert all(not torch.equal(one, other) for one, other in zip(*found, strict=True))
