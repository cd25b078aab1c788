"""A bare pointer, `ptr.child`, has the documented methods of its wrapper; links return links."""

from __future__ import annotations

import pytest
import torch

from syft.hook import base
from syft.pointers.multi_pointer import MultiPointerTensor
from syft.pointers.pointer_tensor import PointerTensor
from syft.tensors.additive_shared import AdditiveSharingTensor
from syft.tensors.precision import FixedPrecisionTensor
from syft.tensors.private import PrivateTensor


@pytest.fixture
def four(make_worker):
    return [make_worker(name) for name in ("alice", "bob", "carol", "dave")]


def link(worker, *values):
    return torch.tensor(values or (1.5, -2.0)).send(worker).child


def test_t10_bare_pointers_have_every_method_of_tensors(workers):
    bob, alice = workers
    pointer, multi = link(bob), torch.ones(2).send(bob, alice).child
    only_one = {"id_at_location"}  # of one object at one worker
    names = {name for cls in base.tensor_methods for name in vars(cls) if not name.startswith("_")}
    assert [name for name in sorted(names) if not hasattr(pointer, name)] == []
    assert {name for name in names if not hasattr(multi, name)} == only_one
    assert all(callable(getattr(pointer, name)) for name in ("fix_precision", "share", "float_precision", "encrypt"))


@pytest.mark.parametrize("name", ["fix_precision", "fix_prec"])
def test_t10_fixed_precision(workers, name):
    bob, _ = workers
    encoded = getattr(link(bob), name)(precision_fractional=2)
    assert type(encoded) is PointerTensor and encoded.location is bob
    decoded = encoded.float_precision()
    assert type(decoded) is PointerTensor and decoded.get().tolist() == [1.5, -2]
    fetched = encoded.get()
    assert isinstance(fetched.child, FixedPrecisionTensor) and fetched.child.precision_fractional == 2


def test_t10_share_and_encrypt(four):
    alice, bob, carol, dave = four
    shared = link(alice).fix_precision().share(bob, carol, crypto_provider=dave)
    assert type(shared) is PointerTensor and shared.location is alice
    assert shared.get().get().float_precision().tolist() == [1.5, -2]
    encrypted = link(alice).encrypt(workers=[bob, carol], crypto_provider=dave)
    assert type(encrypted) is PointerTensor
    assert encrypted.get().decrypt().tolist() == [1.5, -2]
    whole = torch.tensor([7, -8]).send(alice).child.share(bob, carol)
    assert isinstance(whole.get().child, AdditiveSharingTensor)


def test_t10_in_place_forms_change_the_pointer(workers):
    bob, alice = workers
    pointer = link(bob)
    assert pointer.fix_precision_() is pointer and pointer.float_precision_() is pointer
    assert pointer.get().tolist() == [1.5, -2]
    pointer = link(bob)
    assert pointer.move_(alice) is pointer and pointer.location is alice
    wrapper = torch.ones(2).send(bob)
    wrapper.child.fix_precision_()
    assert wrapper.float_precision().get().tolist() == [1, 1]


def test_t10_children_of_a_multi_pointer(workers):
    bob, alice = workers
    multi = torch.tensor([1.5, -2.0]).send(bob, alice).child
    for child in multi.child.values():
        assert child.fix_precision().float_precision().get().tolist() == [1.5, -2]
    encoded = multi.fix_precision()
    assert type(encoded) is MultiPointerTensor
    assert [part.tolist() for part in encoded.float_precision().get()] == [[1.5, -2]] * 2


def test_t10_send_combine_private_and_others(workers):
    bob, alice = workers
    pointer = link(bob)
    twice = pointer.send(alice)
    assert type(twice) is PointerTensor and twice.location is alice and twice.get().get().tolist() == [1.5, -2]
    both = link(bob).combine(link(alice))
    assert type(both) is MultiPointerTensor and len(both.get()) == 2
    private = link(bob).private_tensor(allowed_users=["ann"])
    assert type(private) is PrivateTensor and private.allow("ann") and not private.allow("bob")
    pointer = link(bob)
    assert pointer.allow("anybody") and pointer.torch_type() == "torch.FloatTensor"
    assert pointer.is_wrapper is False and pointer.ptr is None
    assert pointer.disable_gc is pointer and pointer.gc is pointer.garbage_collection is False
    pointer.garbage_collection = True
    assert pointer.garbage_collect_data
    moved = pointer.move(alice, requires_grad=True)
    assert type(moved) is PointerTensor
    moved.sum().backward()
    assert pointer.grad.copy().get().tolist() == [1, 1]


def test_t10_unknown_names_stay_unknown(bob):
    pointer = link(bob)
    for name in ("no_such_method", "_hidden", "obj"):
        with pytest.raises(AttributeError):
            getattr(pointer, name)
