"""Conveniences around encrypted tensors: models, notebooks, tags, files."""

from __future__ import annotations

import copy
import pickle
import weakref
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn

import syft as sy
from syft.exceptions import GetNotPermittedError, SyftError, UnsupportedOperationError
from syft.workers.access.policy import ALLOW_ALL, DenyAll

PRECISION = {"base": 2, "precision_fractional": 16}


@pytest.fixture
def trio(make_worker: Any) -> list[Any]:
    return [make_worker(name) for name in ("alice", "bob", "dealer")]


def test_a_model_can_be_fetched_while_a_result_is_alive(trio: list[Any]) -> None:
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


def test_a_failed_conversion_leaves_the_model_unchanged(trio: list[Any]) -> None:
    model = nn.Linear(2, 1)
    held = weakref.ref(model.weight)
    with pytest.raises(SyftError, match="a weak reference to it exists"):
        model.fix_precision()
    assert type(model.weight) is nn.Parameter
    del held
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
    with pytest.raises(UnsupportedOperationError, match="from_numpy"):
        x + np.ones(2)
    assert torch.equal(
        (x + torch.from_numpy(np.ones(2, dtype=np.float32))).get().float_precision(), torch.tensor([2.5, 3.5])
    )
    assert torch.equal(copy.deepcopy(x).get().float_precision(), torch.tensor([1.5, 2.5]))


def test_a_notebook_shows_the_holders_of_shares(trio: list[Any]) -> None:
    alice, bob, dealer = trio
    shown = torch.tensor([1.5]).fix_precision().share(alice, bob, crypto_provider=dealer)._repr_html_()
    assert all(worker.id in shown for worker in trio)
    assert "FixedPrecisionTensor &gt; AdditiveSharingTensor" in shown
    assert "1.5" not in shown


def test_the_field_can_not_be_chosen(trio: list[Any]) -> None:
    alice, bob, _ = trio
    with pytest.raises(UnsupportedOperationError, match="2\\*\\*64"):
        torch.tensor([1]).share(alice, bob, field=67)
    assert torch.tensor([1]).share(alice, bob, field=2**64).get().tolist() == [1]


def test_documented_methods_are_attributes_of_the_classes(trio: list[Any]) -> None:
    alice, bob, dealer = trio
    link = torch.tensor([3, -7, 5]).share(alice, bob, crypto_provider=dealer).child
    for name in "add sub mul pow matmul mm chunk relu gt ge lt le eq max argmax div mod".split():
        assert name in dir(sy.AdditiveSharingTensor)
    assert sy.AdditiveSharingTensor.add(link, link).get().tolist() == [6, -14, 10]
    assert [part.get().tolist() for part in link.max(return_idx=True)] == [5, 2]
    assert link.max().get().tolist() == 5
    assert link.max(dim=0)[1].get().tolist() == 2
    assert link.mod(4).get().tolist() == [3, 1, 1]
    other = torch.tensor([-2, 2, 5]).share(alice, bob, crypto_provider=dealer).child
    assert link.div(other).get().tolist() == [-2, -4, 1]
    assert link.div(2).get().tolist() == [1, -4, 2]
    assert (torch.tensor([9, 9, 9]) // other.wrap()).get().tolist() == [-5, 4, 1]
    assert link.relu().get().tolist() == [3, 0, 5]
    number = torch.tensor([1.5, -2.0]).fix_precision().child
    assert sy.FixedPrecisionTensor.mul(number, 2).float_precision().tolist() == [3.0, -4.0]
    assert number.mul_and_div(4, "div").float_precision().tolist() == [0.375, -0.5]
    with pytest.raises(SyftError, match="mul_and_div"):
        number.mul_and_div(4, "add")


def test_shares_stay_if_one_of_them_can_not_be_fetched(trio: list[Any], make_worker: Any, kind: str) -> None:
    alice, bob, dealer = (make_worker(name, kind) for name in ("alice", "bob", "dealer"))
    x = torch.tensor([1, 2]).share(alice, bob, crypto_provider=dealer)
    bob.policy = DenyAll()
    with pytest.raises(GetNotPermittedError):
        x.get()
    bob.policy = ALLOW_ALL
    assert x.get().tolist() == [1, 2]
    assert not alice._objects
    assert not bob._objects


def test_gradients_add_up(trio: list[Any]) -> None:
    alice, bob, dealer = trio
    x = torch.ones(2, 3).fix_precision().share(alice, bob, crypto_provider=dealer, requires_grad=True)
    plain = torch.ones(2, 3, requires_grad=True)
    for tensor in (x, plain):
        tensor.sum().backward()
        tensor.t().sum().backward()
        (tensor * tensor).sum().backward()
        tensor[0].mean().backward()
    assert torch.allclose(x.grad.get().float_precision(), plain.grad, atol=2e-3)
    x.grad.zero_()
    assert not x.grad.get().float_precision().any()


def test_numbers_without_a_sign_that_are_too_large(trio: list[Any]) -> None:
    with pytest.raises(SyftError, match="2\\*\\*62"):
        torch.tensor([2**64 - 5], dtype=torch.uint64).share(*trio[:2])
