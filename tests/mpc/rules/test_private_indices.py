"""Indices that are encrypted: elements they pick, gradients through them, and the forms that are refused."""

from __future__ import annotations

import pytest
import torch

from syft.exceptions import UnsupportedOperationError
from tests.helpers.mpc.protocols import decoded, gradients

pytestmark = pytest.mark.usefixtures("hook")

X = torch.arange(12.0).view(4, 3) - 5.5


ROWS, GRID, COLUMN = torch.tensor([2, 0, 2]), torch.tensor([[1, 0], [2, 2]]), torch.tensor([[2], [0], [1], [1]])


INDEXED = {
    "x[i]": lambda x, i: x[i(ROWS)],
    "x[:, i]": lambda x, i: x[:, i(ROWS)],
    "x[grid]": lambda x, i: x[i(GRID)],
    "x[:, grid]": lambda x, i: x[:, i(GRID)],
    "x[..., grid]": lambda x, i: x[..., i(GRID)],
    "x[1, i]": lambda x, i: x[1, i(ROWS)],
    "x[None, i]": lambda x, i: x[None, i(ROWS)],
    "x[1:, i]": lambda x, i: x[1:, i(ROWS)],
    "index_select": lambda x, i: x.index_select(-1, i(ROWS)),
    "gather": lambda x, i: x.gather(1, i(COLUMN)),
    "gather(0)": lambda x, i: x.gather(0, i(GRID)),
}


ANY_NUMBER = {
    "x[n]": lambda x, i: x[i(torch.tensor(2))],
    "x[0, n]": lambda x, i: x[0, i(torch.tensor(2))],
    "x[:, n]": lambda x, i: x[:, i(torch.tensor(2))],
}


@pytest.mark.parametrize("name", [*INDEXED, *ANY_NUMBER])
def test_a_fixed_precision_index_picks_the_same_elements(name, fix):
    call = (INDEXED | ANY_NUMBER)[name]
    meant = call(X, lambda i: i)
    for x in (X, fix(X)):
        assert torch.equal(decoded(call(x, lambda i: fix(i.float()))), meant)


@pytest.mark.parametrize("name", INDEXED)
def test_an_encrypted_index_picks_the_same_elements(name, fix, share):
    meant = INDEXED[name](X, lambda i: i)
    assert torch.equal(decoded(INDEXED[name](fix(X), share)), meant)
    whole = (X - 0.5).long()
    for x in (whole, share(whole)):
        assert torch.equal(INDEXED[name](x, share).get(), INDEXED[name](whole, lambda i: i))


@pytest.mark.parametrize("name", ANY_NUMBER)
def test_a_single_encrypted_index_picks_the_same_element(name, share):
    whole = (X - 0.5).long()
    for x in (whole, share(whole)):
        assert torch.equal(ANY_NUMBER[name](x, share).get(), ANY_NUMBER[name](whole, lambda i: i))


def test_indices_out_of_range_give_zeros(fix, share):
    assert decoded(fix(X)[share(torch.tensor([4, -1, 2]))]).tolist() == [[0.0] * 3, [0.0] * 3, [0.5, 1.5, 2.5]]


def test_argmax_picks_the_maximum(fix):
    x = fix(torch.tensor([0.5, 3.25, -1.0]))
    assert decoded(x[x.argmax()]).item() == 3.25
    assert decoded(torch.tensor([10.0, 20.0, 30.0])[x.argmax()]).item() == 20.0


def test_gradient_through_a_private_index(fix, share):
    at, scales = torch.tensor([2, 0, 2]), torch.tensor([1.0, 2.0, 3.0])
    for call in (lambda x, i: x[i] * scales[:, None], lambda x, i: x[:, i] * scales, lambda x, i: x.index_select(0, i)):
        (meant,) = gradients(lambda x, call=call: call(x, at).sum(), X.clone())
        (found,) = gradients(lambda x, call=call: call(x, share(at)).sum(), fix(X))
        assert torch.equal(decoded(found), meant)


def test_private_masks_and_several_indices_stay_refused(fix, share):
    x = fix(X)
    for call in (
        lambda: x[x > 0],
        lambda: X[fix(X) > 0],
        lambda: x[share(ROWS), share(ROWS)],
        lambda: x[share(ROWS), torch.tensor([0, 1, 2])],
        lambda: x.index_put((share(ROWS),), torch.tensor(1.0)),
    ):
        with pytest.raises(UnsupportedOperationError, match="encrypted index"):
            call()
