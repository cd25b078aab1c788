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
