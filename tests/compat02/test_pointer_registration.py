"""Pointers that their owner stores, and tags of constructors."""

from __future__ import annotations

import pytest
import torch

import syft as sy
from syft.core.string import String
from syft.pointers.callable_pointer import create_callable_pointer
from syft.pointers.object_pointer import ObjectPointer
from syft.pointers.object_wrapper import ObjectWrapper


@pytest.fixture
def callable_pointer(workers):
    """A pointer that its owner, alice, stores; the object is at bob."""
    bob, alice = workers
    bob.register_obj(ObjectWrapper(torch.jit.script(torch.nn.Linear(2, 1)), id="t-model"))

    def make(register=True):
        return create_callable_pointer(
            location=bob, id="t-pointer", id_at_location="t-model", owner=alice, tags="#model", description="a model",
            garbage_collect_data=False, register_pointer=register,
        )  # fmt: skip

    yield alice, make
    bob.rm_obj("t-model")
    alice.rm_obj("t-pointer")


def test_x5_get_takes_the_pointer_out_of_its_owners_store(callable_pointer):
    alice, make = callable_pointer
    pointer = make()
    assert alice._objects["t-pointer"] is pointer
    assert isinstance(pointer.get(), ObjectWrapper)
    assert "t-pointer" not in alice._objects


def test_x5_pointer_stays_if_it_is_not_deregistered(callable_pointer):
    alice, make = callable_pointer
    pointer = make()
    pointer.get(deregister_ptr=False)
    assert alice._objects["t-pointer"] is pointer


def test_x5_other_objects_of_the_same_id_stay(callable_pointer):
    alice, make = callable_pointer
    pointer = make(register=False)
    other = torch.ones(1)
    other.id = "t-pointer"
    alice.register_obj(other)
    pointer.get()
    assert alice._objects["t-pointer"] is other


def test_x5_tensor_pointers_and_their_wrappers(hook, bob):
    me = hook.local_worker
    with me.registration_enabled():
        for held in (lambda pointer: pointer.child, lambda pointer: pointer):
            pointer = torch.tensor([1.0, 2.0]).send(bob)
            me.register_obj(held(pointer))
            assert pointer.id in me._objects
            assert pointer.get(deregister_ptr=True).tolist() == [1, 2] and pointer.id not in me._objects


def test_x6_one_text_is_one_tag(bob):
    made = [
        ObjectPointer(location=bob, id_at_location=1, garbage_collect_data=False, tags="one text"),
        sy.PointerTensor(location=bob, id_at_location=1, garbage_collect_data=False, tags="one text"),
        sy.MultiPointerTensor(children=[torch.ones(1).send(bob)], tags="one text"),
        ObjectWrapper(print, tags="one text"),
        String("hello", tags="one text"),
        sy.LoggingTensor(tags="one text"),
        sy.PrivateTensor(tags="one text"),
        sy.FixedPrecisionTensor(tags="one text"),
        sy.AdditiveSharingTensor(tags="one text"),
        sy.PlaceHolder(tags="one text"),
        sy.Plan(name="p", tags="one text"),
        sy.Protocol([], tags="one text"),
    ]
    assert [obj.tags for obj in made] == [{"one text"}] * len(made)
    x = torch.ones(1)
    x.tags = "one text"
    assert x.tags == {"one text"} and sy.LoggingTensor(tags=["#a", "#b"]).tags == {"#a", "#b"}


def test_a_pointer_to_nothing_can_be_made_and_shown(hook, bob):
    pointer = sy.PointerTensor(id=1000, location=bob, owner=hook.local_worker)
    assert str(pointer).startswith(f"[PointerTensor | me:1000 -> {bob.id}:") and not pointer.gc
    with pytest.raises(sy.exceptions.ObjectNotFoundError):
        pointer.get()
    with pytest.raises(sy.exceptions.ObjectNotFoundError):
        pointer.item()
    later = sy.PointerTensor(location=bob, id_at_location="t-later")
    bob.register_obj(torch.tensor([3.0]), "t-later")
    assert later.get().item() == 3
