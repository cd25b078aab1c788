"""Every message, reference and pointer survives the wire; documented fields and their checks."""

import dataclasses

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

import syft as sy
from syft.core.references import ObjectMeta, Ref, SameAs, TensorMeta
from syft.exceptions import SerdeError, SpentPointerError
from syft.messaging import message as m
from tests.helpers.serde.round_trips import MESSAGE_TYPES

ids = st.one_of(st.integers(0, 2**128 - 1), st.text(min_size=1, max_size=20))
refs = st.builds(Ref, ids, st.sampled_from([None, "grad", "data", "grad.grad"]))
atoms = st.one_of(st.none(), st.booleans(), st.integers(-(2**200), 2**200), st.floats(allow_nan=False), st.text())
values = st.recursive(
    st.one_of(atoms, refs, st.just(...), st.just(torch.float32), st.builds(slice, st.integers(), st.none())),
    lambda inner: st.one_of(
        st.lists(inner, max_size=4),
        st.lists(inner, max_size=4).map(tuple),
        st.dictionaries(st.text(max_size=5), inner, max_size=3),
    ),
    max_leaves=12,
)
MESSAGES = st.one_of(
    st.builds(m.Message, values),
    st.builds(
        m.Operation,
        cmd_name=st.sampled_from(["torch.add", "torch.Tensor.__getitem__", "str.upper", "x"]),
        cmd_args=st.lists(values, max_size=4).map(tuple),
        cmd_kwargs=st.dictionaries(st.text(max_size=5), values, max_size=3),
        return_ids=st.lists(ids, max_size=3).map(tuple),
        grad_enabled=st.booleans(),
    ),
    st.builds(
        m.Operation,
        cmd_name=st.just("torch.add"),
        cmd_args=st.lists(st.one_of(refs, atoms), max_size=5).map(tuple),
        return_ids=st.tuples(st.integers(0, 2**128 - 1)),
        grad_enabled=st.booleans(),
    ),
    st.builds(m.ObjectRequestMessage, st.tuples(ids, st.none(), st.text())),
    st.builds(m.IsNoneMessage, refs),
    st.builds(m.GetShapeMessage, refs),
    st.builds(m.ForceObjectDeleteMessage, ids),
    st.builds(m.RetainMessage, ids),
    st.builds(m.ClaimMessage, ids),
    st.builds(m.PublishMessage, ids),
    st.builds(m.ReleaseMessage, st.lists(ids, max_size=5).map(tuple)),
    st.builds(m.HandOverMessage, ids, ids, ids, st.booleans()),
    st.builds(m.FetchThereMessage, ids),
    st.builds(m.SearchMessage, st.lists(st.text(), max_size=4)),
    st.builds(m.PlanCommandMessage, st.tuples(ids, st.booleans()), st.text(max_size=10)),
    st.builds(m.ErrorMessage, st.tuples(st.text(), st.text(), st.text())),
    st.builds(SameAs, st.integers(0, 9), st.none()),
    st.builds(ObjectMeta, st.text(max_size=10)),
    st.builds(
        TensorMeta,
        st.lists(st.integers(0, 9), max_size=4).map(torch.Size),
        st.sampled_from([torch.float32, torch.bool, torch.bfloat16]),
        st.booleans(),
        st.sampled_from([torch.device("cpu"), torch.device("cuda", 1)]),
    ),
)


@settings(max_examples=400, deadline=None)
@given(MESSAGES)
def test_round_trip(message):
    back = sy.deserialize(sy.serialize(message))
    assert type(back) is type(message) and back == message
    batch = m.BatchMessage((message,) * 2) if isinstance(message, m.Message) else None
    if batch is not None:
        assert sy.deserialize(sy.serialize(batch)) == batch


def test_an_object_message_carries_its_tensor():
    back = sy.deserialize(sy.serialize(m.ObjectMessage(torch.arange(3), "x", True, "me")))
    assert torch.equal(back.contents, torch.arange(3))
    assert (back.obj_id, back.published, back.claimant) == ("x", True, "me")


def test_messages_are_frozen_values_with_codes_of_their_own():
    for kind in MESSAGE_TYPES:
        assert dataclasses.is_dataclass(kind) and kind.__dataclass_params__.frozen
    assert {kind for kind in vars(m).values() if isinstance(kind, type) and issubclass(kind, m.Message)} == set(
        MESSAGE_TYPES
    )
    with pytest.raises(dataclasses.FrozenInstanceError):
        m.Message(1).contents = 2


@pytest.mark.parametrize(
    "message",
    [
        m.IsNoneMessage("no ref"),
        m.ObjectMessage(torch.ones(1), obj_id=1.5),
        m.ForceObjectDeleteMessage((1,)),
        m.HandOverMessage(1, 2, 3, "yes"),
        m.Operation(cmd_name=5),
        m.Operation("torch.add", None, [1], {}, ()),
        m.Operation("torch.add", None, (), {}, (1.5,)),
        m.ReleaseMessage([1]),
        m.SearchMessage("word"),
    ],
)
def test_fields_of_the_wrong_type_are_refused(message):
    with pytest.raises(SerdeError):
        sy.deserialize(sy.serialize(message))


def test_pointers_travel(bob, alice):
    me = sy.local_worker
    x = torch.ones(2, 3, requires_grad=True).tag("#t").describe("d").send(bob)
    back = sy.deserialize(sy.serialize(x, me), alice)
    assert back.location is bob and back.owner is alice and back.shape == (2, 3) and back.requires_grad
    assert back.tags == {"#t"} and back.description == "d" and not back.child.garbage_collect_data
    assert sy.deserialize(sy.serialize(x, me), bob) is bob._objects[x.id_at_location], "at home it is the object"
    text = sy.String("abc").send(bob)
    assert isinstance(sy.deserialize(sy.serialize(text, me), alice), sy.StringPointer)
    multi = torch.ones(2).send(bob, alice)
    assert sy.deserialize(sy.serialize(multi, me), me).shape == (2,)
    x.get()
    with pytest.raises(SpentPointerError):
        sy.serialize(x, me)


def test_other_objects_travel():
    wrapped = sy.deserialize(sy.serialize(sy.ObjectWrapper({"a": (1, 2)}, id="w", tags=["#w"])))
    assert wrapped.obj == {"a": (1, 2)} and wrapped.id == "w" and wrapped.tags == {"#w"}
    text = sy.deserialize(sy.serialize(sy.String("héllo", id=5, tags=["#s"], description="said")))
    assert text == "héllo" and text.id == 5 and text.tags == {"#s"} and text.description == "said"
    for link in (sy.LoggingTensor, sy.PlusIsMinusTensor):
        chain = link(id="l", tags=["#l"]).on(torch.arange(3.0))
        back = sy.deserialize(sy.serialize(chain))
        assert type(back.child) is link and torch.equal(back.child.child, torch.arange(3.0)) and back.child.id == "l"
