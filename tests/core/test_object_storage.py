"""The store of a worker: documented methods, counts of owners, and where things went."""

import threading

import pytest
import torch

import syft as sy
from syft import config
from syft.core.object_storage import ObjectStorage, ObjectStore
from syft.exceptions import ObjectNotFoundError
from syft.generic import object_storage as documented

ROWS = ("register_obj de_register_obj get_obj set_obj rm_obj force_rm_obj clear_objects current_objects").split()


@pytest.mark.parametrize("row", ROWS)
def test_documented_names_are_there(row):
    """Rows: every name of syft.generic.object_storage.ObjectStorage."""
    assert documented.ObjectStorage is ObjectStorage
    assert callable(getattr(ObjectStorage, row))
    assert getattr(ObjectStorage, row).__doc__


@pytest.fixture(params=["bare", "worker"])
def storage(request, hook, make_worker):
    """The class by itself, and as every worker inherits it."""
    return ObjectStorage() if request.param == "bare" else make_worker()


def test_it_begins_empty(storage):
    assert storage._objects == {}
    assert storage.current_objects() == {}


@pytest.mark.parametrize("make", [lambda: torch.ones(2), lambda: sy.String("x")], ids=["tensor", "string"])
def test_register_get_remove(storage, make):
    """Rows: register_obj, get_obj, rm_obj."""
    obj = make()
    storage.register_obj(obj)
    assert storage.get_obj(obj.id) is obj
    assert storage._objects == {obj.id: obj}
    storage.rm_obj(obj.id)
    assert storage._objects == {}
    storage.rm_obj(obj.id)  # silent if it is not there


@pytest.mark.parametrize("obj_id", ["name", 12])
def test_register_under_another_id(storage, obj_id):
    """Row: register_obj(obj, obj_id)."""
    tensor = torch.ones(2)
    storage.register_obj(tensor, obj_id)
    assert tensor.id == obj_id
    assert storage.get_obj(obj_id) is tensor


def test_set_obj_stores_under_the_objects_own_id(storage):
    """Row: set_obj."""
    first, second = torch.ones(2), torch.zeros(2)
    first.id = second.id = "same"
    storage.set_obj(first)
    storage.set_obj(second)
    assert storage.get_obj("same") is second
    assert len(storage._objects) == 1


def test_de_register(storage):
    """Row: de_register_obj."""
    tensor, other = torch.ones(2), torch.zeros(2)
    storage.register_obj(tensor)
    storage.register_obj(other)
    tensor.owner = other.owner = storage
    storage.de_register_obj(tensor)
    assert storage._objects == {other.id: other}
    assert tensor.owner is not storage
    assert other.owner is storage
    storage.de_register_obj(tensor)
    assert storage._objects == {other.id: other}


def test_a_pointer_keeps_its_owner(storage, alice):
    """Row: de_register_obj."""
    pointer = torch.ones(2).send(alice)
    storage.register_obj(pointer)
    storage.de_register_obj(pointer)
    assert storage._objects == {}
    assert torch.equal(pointer.get(), torch.ones(2))


@pytest.mark.parametrize("recurse", [True, False])
def test_de_register_removes_the_wrapped_object(hook, recurse):
    """Row: de_register_obj(_recurse_torch_objs)."""
    storage = ObjectStorage()
    inner = torch.ones(2)
    chain = sy.LoggingTensor().on(inner, wrap=False)
    storage.register_obj(inner)
    storage.register_obj(chain)
    storage.de_register_obj(chain, _recurse_torch_objs=recurse)
    assert storage._objects == ({} if recurse else {inner.id: inner})


def test_an_unknown_id_is_named(storage):
    """Row: get_obj -> ObjectNotFoundError."""
    with pytest.raises(ObjectNotFoundError, match="'nowhere'") as caught:
        storage.get_obj("nowhere")
    assert caught.value.obj_id == "nowhere"
    assert caught.value.__suppress_context__, "the KeyError behind it tells nobody anything"


def test_clear(storage):
    """Row: clear_objects(return_self)."""
    storage.register_obj(torch.ones(1))
    assert storage.clear_objects() is storage
    assert storage._objects == {}
    storage.register_obj(torch.ones(1))
    assert storage.clear_objects(return_self=False) is None
    assert storage._objects == {}


def test_current_objects_is_a_copy(storage):
    """Row: current_objects."""
    tensor = torch.ones(1)
    storage.register_obj(tensor)
    seen = storage.current_objects()
    assert seen == {tensor.id: tensor}
    seen.clear()
    assert storage.get_obj(tensor.id) is tensor


@pytest.mark.parametrize("wrapped", [True, False], ids=["wrapped", "bare"])
def test_forced_removal_lets_the_remote_object_go(hook, bob, nothing_left, wrapped):
    """Row: force_rm_obj: the object, and what it points at."""
    storage = ObjectStorage()
    pointer = torch.ones(2).send(bob, garbage_collect_data=False)
    held = pointer if wrapped else pointer.child
    storage.register_obj(held, "held")
    del pointer, held
    storage.rm_obj("held")
    assert len(bob._objects) == 1, "a plain removal keeps what must be kept"

    (kept,) = bob._objects
    pointer = sy.PointerTensor(location=bob, id_at_location=kept, garbage_collect_data=False)
    storage.register_obj(pointer.wrap() if wrapped else pointer, "held")
    del pointer
    storage.force_rm_obj("held")
    assert storage._objects == {}
    nothing_left(bob)
    storage.force_rm_obj("held")  # silent if it is not there


@pytest.mark.parametrize("wrapped", [True, False], ids=["wrapped", "bare"])
def test_forced_removal_of_an_owning_or_spent_pointer(hook, bob, nothing_left, wrapped):
    """Row: force_rm_obj."""
    storage = ObjectStorage()
    for spent in (False, True):
        pointer = torch.ones(2).send(bob)
        storage.register_obj(pointer if wrapped else pointer.child, "held")
        if spent:
            pointer.get()
        del pointer
        storage.force_rm_obj("held")
        assert storage._objects == {}
        nothing_left(bob)


@pytest.mark.parametrize("at_once", [True, False])
def test_collecting_again_after_keeping(hook, bob, at_once):
    pointer = torch.ones(2).send(bob, garbage_collect_data=not at_once)
    pointer.garbage_collection = False
    pointer.garbage_collection = True
    assert pointer.garbage_collection
    del pointer
    assert bob._objects == {}


# The claims behind pointers -----------------------------------------------------------------------------


class Who:
    """A session, as claims see it."""

    def __init__(self, client_id):
        self.client_id = client_id


def test_the_last_claim_takes_the_object_along():
    claims = ObjectStore("w").claims
    me, you, stranger = map(Who, ("me", "you", "a stranger"))
    claims.hold(1, me)
    claims.offer(1, me)
    claims.claim(1, you)
    assert claims.belongs_to(1, you)
    assert claims.held_by(you) == claims.held_by(me) == [1]
    assert not claims.release(1, me)
    assert not claims.release(1, stranger)
    assert claims.release(1, you)
    assert not claims.release(1, you)  # never raises
    assert claims.held_by(you) == []


def test_a_claim_is_taken_only_where_one_is_offered():
    claims = ObjectStore("w").claims
    claims.hold(1, "me")
    claims.claim(1, "you")
    assert claims.held_by("you") == []
    assert claims.release(1, "me")


def test_removal_does_not_ask_for_claims():
    store = ObjectStore("w")
    store.objects[1] = "thing"
    store.claims.hold(1, "me")
    store.claims.offer(1, "me")
    store.remove(1)
    assert store.objects == {}
    assert not store.claims.release(1, "me")
    store.claims.hold(1, "another")
    assert store.claims.release(1, "another"), "claims on the first object of this id are gone"


def test_errors_name_where_an_object_went():
    store = ObjectStore("w")
    store.objects[1] = "thing"
    assert store.pop(1, "somebody took it") == "thing"
    with pytest.raises(ObjectNotFoundError, match="somebody took it"):
        store.get(1)
    store.clear()
    with pytest.raises(ObjectNotFoundError, match="it was never there"):
        store.get(1)


def test_removed_ids_are_remembered_for_a_limited_time():
    store = ObjectStore("w")
    limit = config.current().max_departed
    for number in range(limit + 10):
        store.note_departure(number, "gone")
    assert len(store._departed) == limit
    assert 9 not in store._departed
    assert limit + 9 in store._departed


def test_claims_are_counted_across_threads():
    claims = ObjectStore("w").claims
    me, you = Who("me"), Who("you")
    claims.hold(1, me)
    for _ in range(4000):
        claims.offer(1, me)
        claims.claim(1, you)
    last = []

    def give_up():
        for _ in range(1000):
            last.append(claims.release(1, you))

    threads = [threading.Thread(target=give_up) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not any(last)
    assert claims.held_by(you) == []
    assert claims.release(1, me)
