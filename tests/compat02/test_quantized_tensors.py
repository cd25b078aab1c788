"""Quantized tensors travel: per tensor, in every format, to every kind of worker but nodes."""

import hypothesis.strategies as st
import pytest
import torch
from hypothesis import given

import syft as sy
from syft.core.references import Ref
from syft.exceptions import CommandNotAllowedError, MalformedPlanError, SerdeError
from syft.grid.isolation.records.replay import ConfinedWorker
from syft.hook.syft_tensor import make_shell
from syft.messaging.message import ObjectMessage
from syft.messaging.plan.state import State
from syft.serde.protobuf.torch_serde import protobuf_tensor_deserializer, protobuf_tensor_serializer
from syft.tensors.private import PrivateTensor

pytestmark = pytest.mark.filterwarnings("ignore:torch.quantize_per_tensor:UserWarning")
RANGES = {torch.qint8: (-128, 127), torch.quint8: (0, 255), torch.qint32: (-(2**31), 2**31 - 1)}
s = sy.serde.msgpack.serde
TENSOR, TUPLE = 40, 1


@st.composite
def quantized(draw):
    """Draw a quantized tensor."""
    dtype = draw(st.sampled_from(list(RANGES)))
    low, high = RANGES[dtype]
    shape = draw(st.lists(st.integers(0, 3), max_size=3))
    zero_point = draw(st.integers(low, high))
    return torch.quantize_per_tensor(torch.randn(shape) * 10, draw(st.floats(1e-6, 1e6)), zero_point, dtype)


def same(x, y):
    """Return whether two quantized tensors are equal in all parts."""
    return (
        x.dtype is y.dtype
        and x.shape == y.shape
        and (x.q_scale(), x.q_zero_point()) == (y.q_scale(), y.q_zero_point())
        and torch.equal(x.int_repr(), y.int_repr())
    )


def example(dtype=torch.qint8):
    return torch.quantize_per_tensor(torch.tensor([[0.0, 1.5], [-3.0, 100.0]]), 0.1, 10, dtype)


@given(quantized())
def test_s4_quantized_tensors_come_back_the_same(q):
    assert same(sy.serde.deserialize(sy.serde.serialize(q)), q)
    assert same(s._detail(None, s._simplify(None, q)), q)
    written = sy.serialize(q, strategy=sy.serde.protobuf.serialize)
    assert same(sy.deserialize(written, strategy=sy.serde.protobuf.deserialize), q)
    assert same(protobuf_tensor_deserializer(None, protobuf_tensor_serializer(None, q)), q)


@pytest.mark.parametrize("serializer", ["raw", "torch", "numpy", "all"])
def test_s4_the_format_of_the_worker_does_not_matter(bob, serializer):
    bob.serializer = serializer
    for q in (example(), example().t(), example()[:, 1], torch.nn.Parameter(example(), requires_grad=False)):
        back = sy.serde.deserialize(sy.serde.serialize([q], bob), bob)[0]
        assert same(back, q) and type(back) is type(q)
    q = example().tag("#q").describe("quantized")
    back = sy.serde.deserialize(sy.serde.serialize(q, bob), bob)
    assert back.tags == {"#q"} and back.description == "quantized" and back.id == q.id


@pytest.mark.parametrize("dtype", RANGES)
def test_s4_quantized_tensors_are_sent_and_fetched(make_worker, kind, dtype):
    bob, alice = make_worker("bob", kind), make_worker("alice", kind)
    q = example(dtype)
    pointer = q.send(bob)
    assert pointer.shape == (2, 2) and pointer.dtype is dtype
    assert same(pointer.copy().get(), q)
    assert same(pointer.move(alice).get(), q)


def test_s4_calls_on_quantized_tensors_are_refused(make_worker, kind):
    bob = make_worker("bob", kind)
    q, x = example().send(bob), torch.ones(2, 2).send(bob)
    for call in (lambda: q + x, lambda: torch.cat([x, q]), lambda: torch.add(x, other=q), lambda: q.reshape(4)):
        with pytest.raises(CommandNotAllowedError, match=r"quantized tensor. Send x.dequantize"):
            call().get()
    assert same(q.get(), example())


def test_s4_plans_and_links_lead_to_no_calls_on_quantized_tensors(hook, bob):
    plan = sy.Plan(forward_func=lambda x: x.reshape(4)).build(torch.ones(2, 2)).send(bob)
    with pytest.raises(CommandNotAllowedError, match=r"quantized tensor. Send x.dequantize"):
        plan(example().send(bob)).get()
    stream = hook.local_worker.stream_to(bob)
    for obj_id, link in enumerate(
        (sy.AutogradTensor(example()), PrivateTensor(allowed_users="me", child=example())), 81
    ):
        stream.store(make_shell(link, False), obj_id, True, None)
        with pytest.raises(CommandNotAllowedError, match=r"quantized tensor. Send x.dequantize"):
            stream.run("torch.Tensor.reshape", (Ref(obj_id), 4), {}, 90 + obj_id)
            stream.synchronize()


def test_s4_the_state_of_a_plan_is_not_quantized():
    with pytest.raises(MalformedPlanError, match="quantized"):
        State.detail(None, ((None, (), example()),))


def test_s4_other_ways_to_quantize_are_refused():
    q = torch.quantize_per_channel(torch.rand(2, 2), torch.tensor([0.1, 0.2]), torch.tensor([0, 0]), 0, torch.qint8)
    with pytest.raises(SerdeError, match=r"dequantize\(\) first"):
        sy.serde.serialize(q)


WRONG = {
    "no rule": lambda name, shape, data, rule: (name, shape, data),
    "empty rule": lambda name, shape, data, rule: (name, shape, data, (TUPLE,)),
    "rule None": lambda name, shape, data, rule: (name, shape, data, None),
    "scale 0": lambda name, shape, data, rule: (name, shape, data, (TUPLE, 0.0, 10)),
    "negative scale": lambda name, shape, data, rule: (name, shape, data, (TUPLE, -0.1, 10)),
    "scale nan": lambda name, shape, data, rule: (name, shape, data, (TUPLE, float("nan"), 10)),
    "scale inf": lambda name, shape, data, rule: (name, shape, data, (TUPLE, float("inf"), 10)),
    "scale is an int": lambda name, shape, data, rule: (name, shape, data, (TUPLE, 1, 10)),
    "zero point too large": lambda name, shape, data, rule: (name, shape, data, (TUPLE, 0.1, 128)),
    "zero point too small": lambda name, shape, data, rule: (name, shape, data, (TUPLE, 0.1, -129)),
    "zero point is a float": lambda name, shape, data, rule: (name, shape, data, (TUPLE, 0.1, 1.0)),
    "zero point is a bool": lambda name, shape, data, rule: (name, shape, data, (TUPLE, 0.1, True)),
    "more parts": lambda name, shape, data, rule: (name, shape, data, (TUPLE, 0.1, 10, 1)),
    "another shape": lambda name, shape, data, rule: (name, (TUPLE, 2, 3), data, rule),
    "negative size": lambda name, shape, data, rule: (name, (TUPLE, -2, -2), data, rule),
    "a wider dtype": lambda name, shape, data, rule: ("qint32", shape, data, rule),
    "an unknown dtype": lambda name, shape, data, rule: ("quint4x2", shape, data, rule),
    "a plain dtype": lambda name, shape, data, rule: ("int8", shape, data, rule),
    "a text": lambda name, shape, data, rule: (name, shape, "text", rule),
    "five parts": lambda name, shape, data, rule: (name, shape, data, rule, None),
}


@pytest.mark.parametrize("case", WRONG)
def test_s4_wrong_fields_are_refused(case):
    code, obj_id, values, *rest = s._simplify(None, example())
    assert code == TENSOR and same(s._detail(None, (code, obj_id, values, *rest)), example())
    with pytest.raises(SerdeError):
        s._detail(None, (code, obj_id, (TUPLE, *WRONG[case](*values[1:])), *rest))


def test_s4_quantized_tensors_that_require_gradients_are_refused():
    with pytest.raises(SerdeError):
        s._detail(None, (*s._simplify(None, example()), True))


def test_s4_nodes_take_no_quantized_tensors():
    written = sy.serde.serialize(ObjectMessage(example()))
    for worker in (ConfinedWorker("confined"), object()):
        with pytest.raises(SerdeError, match="takes no quantized tensors"):
            sy.serde.deserialize(written, worker)
