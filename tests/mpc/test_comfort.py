"""What users do around encrypted tensors: models, notebooks, tags, files."""

from __future__ import annotations

import copy
import pickle
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn

from syft.exceptions import SyftError, UnsupportedOperation

PRECISION = {"base": 2, "precision_fractional": 16}


@pytest.fixture
def trio(make_worker: Any) -> list[Any]:
    return [make_worker(name) for name in ("alice", "bob", "dealer")]


def test_a_model_comes_back_while_a_result_is_alive(trio: list[Any]) -> None:
    alice, bob, dealer = trio
    model = nn.Sequential(nn.Linear(3, 4), nn.ReLU(), nn.Linear(4, 1))
    x = torch.randn(5, 3)
    expected = model(x).detach()
    before = list(model.parameters())
    model.fix_precision(**PRECISION).share(alice, bob, crypto_provider=dealer)
    out = model(x.fix_precision(**PRECISION).share(alice, bob, crypto_provider=dealer))
    model.get()
    assert all(old is new for old, new in zip(before, model.parameters(), strict=True))
    assert torch.allclose(out.get().float_precision(), expected, atol=1e-3)
    del out
    model.float_precision()
    assert torch.allclose(model(x).detach(), expected, atol=1e-3)


def test_gradients_come_along(trio: list[Any]) -> None:
    alice, bob, dealer = trio
    model = nn.Linear(3, 1)
    x = torch.randn(5, 3)
    model(x).sum().backward()
    grad = model.weight.grad.clone()
    model.fix_precision(**PRECISION).share(alice, bob, crypto_provider=dealer, requires_grad=True)
    assert torch.allclose(model.weight.grad.copy().get().float_precision(), grad, atol=1e-3)
    model.get().float_precision()
    assert torch.allclose(model.weight.grad, grad, atol=1e-3)
    assert model.weight.requires_grad


def test_a_model_that_can_not_change_keeps_what_it_has(trio: list[Any]) -> None:
    model = nn.Linear(2, 1)
    view = model.weight.view(-1)
    with pytest.raises(SyftError, match=r"Nothing was changed.*no_grad"):
        model.fix_precision()
    assert type(model.weight) is nn.Parameter
    del view
    model.fix_precision()


def test_tags_are_found_where_a_shared_tensor_is_sent(trio: list[Any], make_worker: Any) -> None:
    alice, bob, dealer = trio
    bill = make_worker("bill")
    shared = torch.tensor([1.0, 2.0]).tag("#votes").fix_precision().share(alice, bob, crypto_provider=dealer)
    assert shared.tags == {"#votes"}
    shared.describe("how they voted").send(bill)
    (found,) = bill.search("#votes")
    assert found.description == "how they voted"


def test_values_are_not_formatted_saved_or_given_to_numpy(trio: list[Any]) -> None:
    alice, bob, dealer = trio
    x = torch.tensor([1.5, 2.5]).fix_precision().share(alice, bob, crypto_provider=dealer)
    assert "AdditiveSharingTensor" in f"{x}"
    with pytest.raises(TypeError, match=r"\.get\(\)"):
        f"{x[0]:.2f}"
    with pytest.raises(SyftError, match="serialize"):
        pickle.dumps(x)
    with pytest.raises(UnsupportedOperation, match="from_numpy"):
        x + np.ones(2)
    assert torch.equal(
        (x + torch.from_numpy(np.ones(2, dtype=np.float32))).get().float_precision(), torch.tensor([2.5, 3.5])
    )
    assert torch.equal(copy.deepcopy(x).get().float_precision(), torch.tensor([1.5, 2.5]))


def test_a_notebook_shows_who_holds_shares(trio: list[Any]) -> None:
    alice, bob, dealer = trio
    shown = torch.tensor([1.5]).fix_precision().share(alice, bob, crypto_provider=dealer)._repr_html_()
    assert all(worker.id in shown for worker in trio)
    assert "FixedPrecisionTensor &gt; AdditiveSharingTensor" in shown
    assert "1.5" not in shown


def test_the_field_can_not_be_chosen(trio: list[Any]) -> None:
    alice, bob, _ = trio
    with pytest.raises(UnsupportedOperation, match="2\\*\\*64"):
        torch.tensor([1]).share(alice, bob, field=67)
    assert torch.tensor([1]).share(alice, bob, field=2**64).get().tolist() == [1]
