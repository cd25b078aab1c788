"""Writes to encoded and encrypted tensors: at repeated positions, by rows, and in place."""

from __future__ import annotations

import pytest
import torch
import torch.nn.functional as F

from syft.exceptions import UnsupportedOperationError
from tests.helpers.mpc.protocols import decoded

pytestmark = pytest.mark.usefixtures("hook")

COUNT = 20000


def _indices():
    return torch.arange(COUNT) % 3


REPEATED = {
    "setitem": lambda x, new: x.index_put((_indices(),), new),
    "index_put": lambda x, new: torch.index_put(x, [_indices()], new),
    "index_copy": lambda x, new: x.index_copy(0, _indices(), new),
    "scatter": lambda x, new: x.scatter(0, _indices(), new),
    "put": lambda x, new: x.put(_indices(), new),
    "put_": lambda x, new: x.clone().put_(_indices(), new),
}


@pytest.mark.parametrize("name", REPEATED)
def test_at_repeated_positions_the_last_value_counts(name, fix, share):
    new = torch.arange(COUNT)
    meant = [COUNT - 2.0, COUNT - 1.0, COUNT - 3.0, 0.0]
    assert decoded(REPEATED[name](fix(torch.zeros(4)), new.float())).tolist() == meant
    assert decoded(REPEATED[name](fix(torch.zeros(4)), fix(new.float()))).tolist() == meant
    assert REPEATED[name](share(torch.zeros(4, dtype=torch.int64)), share(new)).get().tolist() == meant


def test_repeated_positions_in_several_dimensions(fix):
    x, new = torch.zeros(2, 3), torch.tensor([[1.0, 2.0], [3.0, 4.0]])
    at = torch.tensor([[1, 1], [0, 0]])
    assert decoded(fix(x).scatter(1, at, fix(new))).tolist() == [[0, 2, 0], [4, 0, 0]]
    assert decoded(fix(x).scatter(1, at, 7.5)).tolist() == [[0, 7.5, 0], [7.5, 0, 0]]
    assert decoded(fix(x).index_copy(1, torch.tensor([2, 2]), fix(new))).tolist() == [[0, 0, 2], [0, 0, 4]]
    y = fix(x)
    y[torch.tensor([0, 0]), torch.tensor([1, 1])] = fix(torch.tensor([5.0, 6.0]))
    assert decoded(y).tolist() == [[0, 6, 0], [0, 0, 0]]


def test_scatter_with_fewer_rows(fix, share):
    x = torch.arange(6.0).view(2, 3)
    at = torch.tensor([[2], [0]])
    assert torch.equal(decoded(fix(x).scatter(1, at[:1], 9.0)), x.scatter(1, at[:1], 9.0))
    assert torch.equal(decoded(fix(x).scatter(1, at[:1], fix(x) * 2)), x.scatter(1, at[:1], x * 2))
    assert torch.equal(decoded(fix(x).scatter(1, share(at), 9.0)), x.scatter(1, at, 9.0))
    with pytest.raises(UnsupportedOperationError, match="encrypted index"):
        fix(x).scatter(1, share(at[:1]), 9.0)


def _floor(x):
    x //= 2
    return x


def _power(x):
    x **= 2
    return x


IN_PLACE = {
    "//=": _floor,
    "**=": _power,
    "floor_divide_": lambda x: x.floor_divide_(2),
    "pow_": lambda x: x.pow_(3),
    "hardtanh_": lambda x: F.hardtanh_(x),
    "Hardtanh": lambda x: torch.nn.Hardtanh(inplace=True)(x),
    "hardtanh": lambda x: torch.ops.aten.hardtanh.default(x),
    "hardtanh bounds": lambda x: F.hardtanh(x, -2.0, 0.5),
}


@pytest.mark.parametrize("name", IN_PLACE)
def test_in_place_forms_give_the_results_of_torch(name, fix):
    x = torch.tensor([-1.375, 0.25, 3.5])
    assert torch.allclose(decoded(IN_PLACE[name](fix(x))), IN_PLACE[name](x.clone()), atol=4e-2)


@pytest.mark.parametrize(
    "call", [lambda x: x.swapaxes_(0, 1), lambda x: x.t_(), lambda x: x.unsqueeze_(0), lambda x: x.normal_()]
)
def test_in_place_forms_that_are_refused(call, fix):
    with pytest.raises(UnsupportedOperationError, match="in.place"):
        call(fix(torch.ones(2, 2)))
