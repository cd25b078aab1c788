"""float_precision() of private encoded tensors decodes the tensor below; the result stays private."""

from __future__ import annotations

import pytest
import torch

from syft.exceptions import GetNotPermittedError, SyftError
from syft.tensors.private import PrivateTensor

pytestmark = pytest.mark.usefixtures("hook")
NAMES = ("float_precision", "float_prec")


def private(values=(1.5, -2.25), **options):
    return torch.tensor(values).fix_prec(**options).private_tensor(allowed_users=["ann"])


@pytest.mark.parametrize("name", NAMES)
def test_v1_wrapper_decodes_and_stays_private(name):
    decoded = getattr(private(precision_fractional=4), name)()
    assert isinstance(decoded.child, PrivateTensor) and decoded.child.allowed_users == ("ann",)
    assert decoded.dtype is torch.float32 and decoded.get(user="ann").tolist() == [1.5, -2.25]
    with pytest.raises(GetNotPermittedError):
        decoded.get(user="bob")


@pytest.mark.parametrize("name", NAMES)
def test_v1_in_place_forms(name):
    x = private()
    assert getattr(x, f"{name}_")() is x
    assert x.get(user="ann").tolist() == [1.5, -2.25]


@pytest.mark.parametrize("name", NAMES)
def test_v1_pointers_to_private_encoded_tensors(workers, name):
    bob, _ = workers
    pointer = private().send(bob, user="ann")
    decoded = getattr(pointer, name)()
    assert decoded.location is bob
    with pytest.raises(GetNotPermittedError):
        decoded.get()
    fetched = decoded.get(user="ann")
    assert isinstance(fetched.child, PrivateTensor) and fetched.get(user="ann").tolist() == [1.5, -2.25]
    assert getattr(pointer, f"{name}_")() is pointer
    assert pointer.get(user="ann").get(user="ann").tolist() == [1.5, -2.25]


def test_v1_results_of_private_encoded_tensors(workers):
    bob, _ = workers
    x = private()
    assert (x + x).float_precision().get(user="ann").tolist() == [3.0, -4.5]
    assert (x * 2).float_precision().get(user="ann").tolist() == [3.0, -4.5]
    held = x.get(user="ann").send(bob).private_tensor(allowed_users=["ann"])  # private here, encoded at bob
    decoded = held.float_precision()
    assert decoded.get(user="ann").get(user="ann").tolist() == [1.5, -2.25]


def test_v1_private_tensors_that_are_not_encoded_are_refused():
    x = torch.tensor([1.5]).private_tensor(allowed_users=["ann"])
    with pytest.raises(SyftError, match="nothing to decode"):
        x.float_precision()
    with pytest.raises(SyftError):
        x.fix_precision()
