"""Release: under a policy that denies, no value leaves by any call, repr or error text."""

from __future__ import annotations

import copy
import gc
import re
import traceback
import types

import numpy as np
import pytest
import torch

import syft as sy
from syft.core.references import Ref
from syft.exceptions import GetNotPermittedError, SyftError
from syft.messaging import message as m
from syft.workers.access.policy import DenyAll, Release
from tests.helpers.attacks.hostile_peer import (
    BATCH,
    DEVICE,
    DICT,
    DTYPE,
    ERROR,
    GET_SHAPE,
    HAND_OVER,
    LIST,
    LOGGING,
    OBJECT,
    OPERATION,
    POINTER,
    RELEASE,
    REQUEST,
    SEARCH,
    SET,
    SHELL,
    SIZE,
    STRING,
    TENSOR,
    TENSOR_POINTER,
    TUPLE,
    WRAPPER,
    Mallory,
    error_name,
    still_answers,
)  # fmt: skip

VECTOR = [41.4375, -7341.625]
NUMBER = 73416
NEEDLES = ("41.43", "41.44", "7341", "7.341")


def hidden(*texts):
    """Check that no private value is in any text, nor in the bytes of any double."""
    for text in texts:
        # Ids are random digits, and the names of workers end with a number.
        text = re.sub(r"\d{20,}|(?<=[a-z])-\d+\b(?!\.)", "<id>", str(text))
        for needle in NEEDLES:
            assert needle not in str(text), f"{needle} is in {str(text)[:500]}"


def everything_of(error):
    """All that a user sees of an error: text, notes, the whole traceback with its causes."""
    return "".join(traceback.format_exception(error)), str(error), repr(error), getattr(error, "__notes__", "")


@pytest.fixture
def private(make_worker, kind):
    """A worker that denies, a colluding one that does not, and pointers to a private vector, number and text."""
    bob, eve = make_worker("bob", kind), make_worker("eve", kind)
    vector = torch.tensor(VECTOR, dtype=torch.float64).send(bob)
    number = torch.tensor(NUMBER).send(bob)
    text = sy.String("it is 7341").send(bob)
    bob.synchronize()
    bob.policy = DenyAll()
    yield types.SimpleNamespace(bob=bob, eve=eve, vector=vector, number=number, text=text)
    bob.policy = sy.workers.policy.ALLOW_ALL


WAYS = {
    "get": lambda p: p.vector.get(),
    "get of a copy": lambda p: p.vector.copy().get(),
    "get of a result": lambda p: (p.vector + 0).get(),
    "get of data": lambda p: p.vector.data.get(),
    "get of a view": lambda p: p.vector[:1].get(),
    "get of the text": lambda p: p.text.get(),
    "item": lambda p: p.number.item(),
    "float": lambda p: float(p.number),
    "int": lambda p: int(p.number),
    "bool": lambda p: bool(p.number),
    "if": lambda p: 1 if p.number > 0 else 2,
    "complex": lambda p: complex(p.number),
    "tolist": lambda p: p.vector.tolist(),
    "numpy": lambda p: p.vector.numpy(),
    "np.asarray": lambda p: np.asarray(p.vector),
    "__array__ with dtype": lambda p: p.vector.__array__(float),
    "format with a spec": lambda p: f"{p.number:.3f}",
    "in": lambda p: NUMBER in p.number,
    "index": lambda p: [0, 1][p.number],
    "range": lambda p: range(p.number),
    "torch.equal": lambda p: torch.equal(p.vector, p.vector),
    "torch.allclose": lambda p: torch.allclose(p.vector, p.vector),
    "equal method": lambda p: p.vector.equal(p.vector + 0),
    "is_nonzero": lambda p: p.number.is_nonzero(),
    "move to a colluding worker": lambda p: p.vector.move(p.eve),
    "move home": lambda p: p.vector.move(p.vector.owner),
    "move of a result": lambda p: (p.vector * 1).move(p.eve),
    "remote_send": lambda p: p.vector.remote_send(p.eve),
    "pointer to pointer, fetched there": lambda p: p.vector.send(p.eve).remote_get(),
    "len of the text": lambda p: len(p.text) if hasattr(type(p.text), "__len__") else p.text.get(),
    "comparing the text": lambda p: p.text.startswith("it is"),
    "counting in the text": lambda p: p.text.count("7"),
    "encoding the text": lambda p: p.text.encode(),
    "torch.tensor of it": lambda p: torch.tensor(p.number) + 1,
    "get_many": lambda p: p.vector.owner.get_many([p.vector.child]),
    "request_obj": lambda p: p.vector.owner.request_obj(p.vector.id_at_location, p.bob),
    "get as somebody else": lambda p: p.vector.child.get(user="the owner", reason="trust me"),
}


@pytest.mark.parametrize("way", list(WAYS))
@pytest.mark.filterwarnings("ignore:To copy construct")
def test_no_value_leaves_by_any_path(private, way):
    with pytest.raises((SyftError, TypeError)) as caught:
        result = WAYS[way](private)
        private.bob.synchronize()
        hidden(result)
    hidden(*everything_of(caught.value))
    assert caught.type is not TypeError or way in ("torch.tensor of it",)
    with pytest.raises(GetNotPermittedError):
        private.vector.get()
    private.bob.policy = sy.workers.policy.ALLOW_ALL
    assert private.vector.get().tolist() == VECTOR  # it is still there, and it was the policy that said no


SHOWN = {
    "repr": lambda p: [repr(p.vector), repr(p.number), repr(p.text), repr(p.vector.child)],
    "str": lambda p: [str(p.vector), str(p.text)],
    "format": lambda p: [f"{p.vector}", f"{p.number!r:>200}", f"{p.text}"],
    "html": lambda p: [p.vector._repr_html_(), p.bob._repr_html_()],
    "iteration": lambda p: [repr(part) for part in p.vector],
    "worker": lambda p: [repr(p.bob), str(p.bob)],
    "search": lambda p: [repr(p.bob.search([])), repr(p.bob.search(str(NUMBER))), repr(p.bob.search("41.4375"))],
    "describe": lambda p: [
        repr(p.vector.owner.stream_to(p.bob).describe(p.vector.child.ref())),
        p.vector.shape,
        p.vector.dtype,
    ],
    "copy": lambda p: [repr(copy.deepcopy(p.vector)), repr(p.vector.clone())],
    "pointer to pointer": lambda p: [repr(p.vector.send(p.eve)), repr(p.vector.send(p.eve).get())],
    "grad": lambda p: [repr(p.vector.grad)],
    "dict": lambda p: [p.vector.__dict__, p.vector.child.__dict__],
    "sum": lambda p: [repr(p.vector.sum()), repr(p.vector.max()), repr(p.vector.sort())],
}


@pytest.mark.parametrize("what", list(SHOWN))
def test_reprs_contain_no_values(private, what):
    hidden(*SHOWN[what](private))


FAILURES = {
    "out of range": lambda p: torch.zeros(3).send(p.bob)[p.number],
    "out of range list": lambda p: torch.zeros(3).send(p.bob).index_select(0, p.number),
    "shape mismatch": lambda p: torch.zeros(3, 4).send(p.bob) @ p.vector,
    "bad view": lambda p: torch.zeros(3).send(p.bob).view(p.number),
    "bad size": lambda p: torch.zeros(3).send(p.bob).expand(p.number, p.number),
    "bad dimension": lambda p: torch.zeros(3).send(p.bob).sum(p.number),
    "bad class": lambda p: torch.nn.functional.one_hot(p.number.reshape(1), 3),
    "bad target": lambda p: torch.nn.functional.nll_loss(torch.zeros(1, 3).send(p.bob), p.number.reshape(1)),
    "bad probability": lambda p: torch.bernoulli(p.vector),
    "bad embedding": lambda p: torch.nn.functional.embedding(p.number, torch.zeros(3, 2).send(p.bob)),
    "bad repeat": lambda p: torch.zeros(3).send(p.bob).repeat_interleave(p.number.reshape(1).repeat(2)),
    "bad power": lambda p: torch.linalg.matrix_power(torch.zeros(2, 3).send(p.bob), p.number),
    "not positive definite": lambda p: torch.linalg.cholesky(p.vector.outer(p.vector) * -1),
    "bad clamp": lambda p: p.vector.clamp(p.number, "x"),
    "bad chunk": lambda p: p.vector.chunk(p.number - p.number),
    "assignment": lambda p: torch.zeros(3).send(p.bob).__setitem__(p.number, 1.0),
}


@pytest.mark.parametrize("name", list(FAILURES))
@pytest.mark.filterwarnings("ignore::UserWarning")
def test_errors_do_not_reveal_values(private, name):
    try:
        result = FAILURES[name](private)
        private.bob.synchronize()
    except Exception as error:
        hidden(*everything_of(error))
    else:
        hidden(repr(result))
    private.bob.object_store.objects.clear()  # what failed half-way


def test_errors_show_values_where_the_policy_allows_everything(make_worker):
    """Or the test above would not see a leak."""
    bob = make_worker()
    with pytest.raises(IndexError) as caught:
        torch.zeros(3).send(bob)[torch.tensor(NUMBER).send(bob)]
    assert str(NUMBER) in "".join(everything_of(caught.value)[:2])


@pytest.fixture
def vault(bob):
    """A private worker as a hostile peer sees it: private values are objects 1 (vector), 2 (number) and 3 (text)."""
    bob.compression = "none"
    bob.object_store.objects.update(
        {1: torch.tensor(VECTOR, dtype=torch.float64), 2: torch.tensor(NUMBER), 3: sy.String("it is 7341")}
    )
    bob.policy = DenyAll()
    mallory = Mallory(bob)
    yield mallory
    for written in mallory.seen:
        hidden(written)
        for value in VECTOR:
            assert np.float64(value).tobytes() not in written and np.float64(value).tobytes()[::-1] not in written
    bob.policy = sy.workers.policy.ALLOW_ALL
    assert bob.object_store.objects[1].tolist() == VECTOR
    assert bob.object_store.objects[2].item() == NUMBER
    still_answers(bob)


def _own(worker, obj_id, attribute=None):
    return (POINTER, 1, obj_id, worker.id, attribute, (SET,), None, False)


def test_labels_are_never_made_of_private_values(vault):
    mine = vault.keep("torch.ones", 2)
    for obj_id in (1, 2, 3):
        assert error_name(vault.call("syft.describe", mine, Ref(obj_id))) == "CommandNotAllowedError"
        assert error_name(vault.call("syft.tag", mine, "ok", Ref(obj_id))) == "CommandNotAllowedError"
        assert error_name(vault.call("syft.tag", mine, [Ref(obj_id)])) == "CommandNotAllowedError"
    assert vault.ask(m.SearchMessage([mine.id]))[0][2:] == (set(), None)


def test_formatted_values_stay(vault):
    for pattern, value in (("%s", Ref(1)), ("%s", (Ref(1),)), ("%(a)s", {"a": Ref(2)}), ("%d", Ref(2)), ("%s", Ref(3))):
        response = vault.call("str.__mod__", pattern, value)
        if not isinstance(response, m.ErrorMessage):
            assert error_name(vault.ask(m.ObjectRequestMessage((vault.next_id, None, "")))) == "GetNotPermittedError"
            for name in ("str.count", "str.startswith", "str.__contains__", "str.__eq__", "str.encode", "str.__len__"):
                vault.call(name, Ref(vault.next_id), "7341")
                vault.call(name, "7341", Ref(vault.next_id))
                vault.call(name, "7341", (Ref(vault.next_id),))
    assert vault.call("str.startswith", "7341", ("7",)) is True  # no private text took part


@pytest.mark.parametrize("obj_id", [1, 2, 3])
def test_pointers_to_the_worker_itself_do_not_put_values_into_texts(vault, obj_id):
    """A pointer that comes home becomes the object: it must not do so where ids, names and labels are expected."""
    own = _own(vault.worker, obj_id)
    tensor = (TENSOR, 1, (TUPLE, "float32", (TUPLE, 1), b"1234"), None, None, None, None, "raw")
    messages = [
        (REQUEST, (TUPLE, own, None, "")), (REQUEST, (TUPLE, 1, own, own)), (RELEASE, (TUPLE, own)), (SEARCH, (LIST, own)),
        (BATCH, (TUPLE, own)), (HAND_OVER, own, "eve", 5, False), (HAND_OVER, 1, own, 5, False), (ERROR, (TUPLE, own)),
        (OBJECT, own, 20, False), (OBJECT, (WRAPPER, 1, own, (SET,), None), 21, False),
        (OBJECT, (STRING, "x", 1, (SET,), own), 22, False), (OBJECT, (STRING, "x", 1, (SET, own), None), 23, False),
        (OBJECT, (STRING, "x", own, (SET,), None), 24, False), (OBJECT, (STRING, own, 1, (SET,), None), 24, False),
        (OBJECT, (SHELL, (LOGGING, 1, (SET,), None, (DICT,), tensor), False, False, 1, None, own), 25, False),
        (OBJECT, (SHELL, (LOGGING, 1, (SET,), None, (DICT,), tensor), False, False, 1, (SET, own), None), 26, False),
        (OBJECT, (LOGGING, 1, (SET,), own, (DICT,), tensor), 27, False), (OBJECT, (LOGGING, 1, (SET,), None, (DICT,), own), 28, False),
        (OBJECT, (WRAPPER, 1, 5, (SET,), own), 29, False), (OBJECT, (*tensor[:5], own, *tensor[6:]), 30, False),
        (OBJECT, (*tensor[:3], own, *tensor[4:]), 31, False), (OBJECT, (*tensor[:7], own), 32, False),
        (OBJECT, (TENSOR, 1, (TUPLE, own, (TUPLE, 1), b"1234"), None, None, None, None, "raw"), 33, False),
        (OPERATION, "torch.ones", (TUPLE, (DTYPE, own)), (DICT,), (TUPLE, 40), True), (OPERATION, own, (TUPLE,), (DICT,), (TUPLE, 40), True),
        (OPERATION, "torch.ones", (TUPLE, (DEVICE, own, None)), (DICT,), (TUPLE, 40), True),
        (OPERATION, "torch.ones", (TUPLE, (SIZE, own)), (DICT,), (TUPLE, 40), True),
        (OPERATION, "torch.ones", (TUPLE, 2), (DICT, own, 2), (TUPLE, 40), True),
        (OPERATION, "torch.ones", (TUPLE, 2), (DICT,), (TUPLE, own), True), (GET_SHAPE, (86, own, None)), (GET_SHAPE, (86, 1, own)),
        (OBJECT, (POINTER, 1, own, "eve", None, (SET,), None, False), 34, False), (OBJECT, (POINTER, 1, 2, own, None, (SET,), None, False), 35, False),
        (OBJECT, (TENSOR_POINTER, 1, 2, "eve", None, (SET,), None, False, own), 36, False), own, (own,), (TUPLE, own), (SET, own), (DICT, own, own),
    ]  # fmt: skip
    for message in messages:
        vault.raw(message)
        vault.ask(m.SearchMessage([]))


def test_every_message_type_asks_the_policy(vault):
    names = (
        "item tolist __float__ __int__ __bool__ __complex__ __index__ __long__ __nonzero__ is_nonzero numpy __array__ __repr__ "
        "__format__ __reduce_ex__ __contains__ equal allclose type __len__ storage_offset data_ptr size stride"
    )
    for name in names.split():
        for ref in (Ref(1), Ref(2), Ref(2, "data"), Ref(1, "real")):
            vault.call(f"torch.Tensor.{name}", ref)
            vault.call(f"torch.Tensor.{name}", ref, ref)
            vault.call(f"torch.Tensor.{name}", vault.keep("torch.clone", ref))
    for name in ("torch.equal", "torch.allclose", "torch.is_nonzero"):
        assert error_name(vault.call(name, *([Ref(1)] * (1 + (name != "torch.is_nonzero"))))) in (
            "GetNotPermittedError",
            "RuntimeError",
        )
    for obj_id in (1, 2, 3):
        assert error_name(vault.ask(m.ObjectRequestMessage((obj_id, "owner", "please")))) == "GetNotPermittedError"
        assert error_name(vault.ask(m.HandOverMessage(obj_id, vault.worker.id, 900, True))) == "GetNotPermittedError"
    assert (
        error_name(vault.ask(m.BatchMessage((m.IsNoneMessage(Ref(1)), m.ObjectRequestMessage((1, None, ""))))))
        == "GetNotPermittedError"
    )


def test_private_numbers_do_not_come_back_as_search_hits(vault):
    """An object whose id is the private number must not be found by the private number."""
    vault.call("torch.ones", 1, return_id=NUMBER + 1)
    assert error_name(vault.raw((SEARCH, (LIST, _own(vault.worker, 2))))) == "GetNotPermittedError"
    vault.seen.clear()


def test_a_policy_that_fails_does_not_open_anything(bob):
    class Broken:
        def allows(self, release: Release) -> bool:
            return release.obj.nosuch

    bob.object_store.objects[1] = torch.tensor(VECTOR)
    bob.policy = Broken()
    mallory = Mallory(bob)
    for response in (
        mallory.ask(m.ObjectRequestMessage((1, None, ""))), mallory.call("torch.Tensor.tolist", Ref(1)),
        mallory.call("torch.nope"), mallory.call("torch.Tensor.view", Ref(1), 5), mallory.send(b"nonsense"),
    ):  # fmt: skip
        error_name(response)
        hidden(response)
    assert 1 in bob._objects
    bob.policy = sy.workers.policy.ALLOW_ALL


def test_the_policy_gets_the_identity_of_the_connection(bob):
    heard = []

    class Listening:
        def allows(self, release: Release) -> bool:
            heard.append((release.client, release.how))
            return release.client == "owner"

    bob.object_store.objects[1] = torch.ones(2)
    bob.policy = Listening()
    mallory, owner = Mallory(bob), Mallory(bob, "owner")
    assert error_name(mallory.ask(m.ObjectRequestMessage((1, "owner", "I am owner")))) == "GetNotPermittedError"
    assert owner.ask(m.ObjectRequestMessage((1, "mallory", ""))).tolist() == [1, 1]
    assert {client for client, _ in heard} == {"mallory", "owner"}
    bob.policy = sy.workers.policy.ALLOW_ALL


def test_a_denied_get_changes_nothing(private):
    before = dict(private.bob.object_store.objects)
    for _ in range(3):
        with pytest.raises(GetNotPermittedError):
            private.vector.get()
    gc.collect()
    assert private.bob.object_store.objects == before
