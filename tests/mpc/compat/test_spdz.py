"""Beaver's triples and products by hand, on workers."""

from __future__ import annotations

import operator

import pytest
import torch

from syft.exceptions import ProtocolError, SyftError, UnsupportedOperationError
from syft.mpc.compat import beaver, spdz
from syft.mpc.values.sharing import split

FIELD = 2**64
PRODUCTS = {
    "mul": ("mul", torch.mul, torch.Tensor.mul, operator.mul, "__mul__"),
    "matmul": ("matmul", torch.matmul, operator.matmul, torch.mm),
}
COMMANDS = [(name, command) for name, commands in PRODUCTS.items() for command in commands]


@pytest.fixture
def parties(sharers):
    return sharers


@pytest.fixture
def carol(provider):
    return provider


def numbers(*shape):
    return torch.randint(-(2**62), 2**62, shape)


def test_spdz_mul(parties, carol, nothing_left):
    x, y = numbers(3, 3), numbers(3, 3)
    for cmd, expected in (("mul", x * y), ("matmul", x @ y), (torch.mul, x * y), (torch.matmul, x @ y)):
        x_sh, y_sh = split(x, parties, carol), split(y, parties, carol)
        assert torch.equal(spdz.spdz_mul(cmd, x_sh, y_sh, carol, FIELD).get(), expected)
    del x_sh, y_sh
    nothing_left(*parties, carol)


def test_the_provider_may_be_named_late(bob, alice, make_worker):
    x = split(torch.tensor([2, 3]), (bob, alice))
    with pytest.raises(ProtocolError, match="crypto provider"):
        spdz.spdz_mul("mul", x, x)
    assert spdz.spdz_mul("mul", x, x, make_worker("carol"), FIELD).get().tolist() == [4, 9]


def test_shells_give_shells(bob, alice, make_worker):
    x = split(torch.tensor([2, 3]), (bob, alice), make_worker("carol")).wrap()
    made = spdz.spdz_mul("mul", x, x)
    assert isinstance(made, torch.Tensor)
    assert made.child.get().tolist() == [4, 9]


@pytest.mark.parametrize(("name", "command"), COMMANDS)
def test_names_of_products(name, command):
    assert beaver.operation_of(command) == name


@pytest.mark.parametrize("command", ["conv2d", torch.add, "x" * 1000, 3])
def test_other_products_are_refused(command):
    with pytest.raises(UnsupportedOperationError, match="triples for mul and matmul"):
        beaver.operation_of(command)


@pytest.mark.parametrize(
    ("cmd", "a_size", "b_size"), [("mul", (2, 3), (2, 3)), ("mul", (3,), (2, 3)), ("matmul", (2, 3), (3, 4))]
)
def test_request_triple(parties, carol, nothing_left, cmd, a_size, b_size):
    a, b, c = beaver.request_triple(carol, cmd, FIELD, a_size, b_size, parties)
    assert (a.shape, b.shape) == (a_size, b_size)
    assert list(a.child) == [party.id for party in parties]
    values = a.get(), b.get()
    assert torch.equal(c.get(), getattr(torch, cmd)(*values))
    nothing_left(*parties, carol)


def test_triples_differ(bob, alice, make_worker):
    carol = make_worker("carol")
    torch.manual_seed(1)
    first = beaver.request_triple(carol, "mul", FIELD, (4,), (4,), [bob, alice])
    torch.manual_seed(1)
    second = beaver.request_triple(carol, "mul", FIELD, (4,), (4,), [bob, alice])
    assert not torch.equal(first[0].get(), second[0].get())


def test_request_triple_refuses_invalid_arguments(bob, alice, make_worker):
    carol = make_worker("carol")
    with pytest.raises(RuntimeError):
        beaver.request_triple(carol, "matmul", FIELD, (2, 3), (2, 3), [bob, alice])
    with pytest.raises(UnsupportedOperationError):
        beaver.request_triple(carol, "add", FIELD, (2,), (2,), [bob, alice])
    with pytest.raises(SyftError, match="holds a share"):
        beaver.request_triple(bob, "mul", FIELD, (2,), (2,), [bob, alice])


@pytest.mark.parametrize(("op", "shape"), [("mul", ((2, 3), (2, 3))), ("matmul", ((2, 3), (3, 4)))])
@pytest.mark.parametrize("count", [2, 3])
def test_build_triple(op, shape, count):
    made = beaver.build_triple(op, shape, n_workers=count, n_instances=5)
    assert len(made) == count
    a, b, c = (sum(shares) for shares in zip(*made, strict=True))
    assert a.shape == (5, *shape[0])
    assert torch.equal(c, getattr(torch, op)(a, b))


@pytest.mark.parametrize("op", ["mul", "matmul"])
@pytest.mark.parametrize("count", [2, 3])
def test_mask_open_compute(op, count):
    """A product by hand, party by party."""
    x, y = numbers(3, 3), numbers(3, 3)
    xs, ys = ([numbers(3, 3) for _ in range(count - 1)] for _ in range(2))
    xs.append(x - sum(xs))
    ys.append(y - sum(ys))
    triple = [[part[0] for part in parts] for parts in beaver.build_triple(op, ((3, 3), (3, 3)), count)]
    masked = [spdz.spdz_mask(xs[j], ys[j], op, triple[j][0], triple[j][1]) for j in range(count)]
    delta, epsilon = (sum(parts) for parts in zip(*masked, strict=True))
    product = sum(spdz.spdz_compute(j, delta, epsilon, op, *triple[j]) for j in range(count))
    assert torch.equal(product, getattr(torch, op)(x, y))


def test_mask_of_shared_tensors(parties, carol):
    x, y = numbers(4), numbers(4)
    a, b, _ = beaver.request_triple(carol, "mul", FIELD, (4,), (4,), parties)
    delta, epsilon = spdz.spdz_mask(split(x, parties, carol), split(y, parties, carol), "mul", a, b)
    assert torch.equal(delta.get() + a.get(), x)
    assert torch.equal(epsilon.get() + b.get(), y)
