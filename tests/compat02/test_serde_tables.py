"""The documented tables of serializable types, and single steps of serialization without bytes."""

import numpy as np
import pytest
import torch

import syft as sy
from syft.exceptions import GetNotPermittedError, ResponseSignatureError, SerdeError
from syft.messaging.message import ObjectMessage, Operation
from syft.serde import msgpack, protobuf, register, unregister
from syft.serde.registry import BY_NAME
from syft.workers.base import BaseWorker
from tests.helpers.serde.protobuf_samples import VALUES, chains, exact, scripts

s = msgpack.serde
RAISED = {173: GetNotPermittedError("refused"), 174: ResponseSignatureError((1, "two"))}
SAMPLES = [obj for samples in VALUES.values() for obj in samples]


def everything(me, bob, alice):
    """Return the objects of every registered type, by wire code."""
    return {**VALUES, **chains(me, bob, alice), **scripts(), **{code: [error] for code, error in RAISED.items()}}


@pytest.fixture
def receiver(make_worker):
    return make_worker("receiver")


def test_s1_each_registered_class_has_a_code_a_simplifier_and_a_detailer(hook, bob, alice):
    me = hook.local_worker
    samples = everything(me, bob, alice)
    codes = {code for code, _ in s.simplifiers.values()}
    assert codes >= set(samples)
    assert set(s.detailers) == codes | {code for code, _ in s.forced_full_simplifiers.values()}
    for cls in (dict, list, range, set, slice, str, tuple, type(...), np.ndarray, np.float32, np.int64, torch.Tensor):
        assert s.simplifiers[cls][0] == msgpack.proto_type_info(cls).code
    for cls in (sy.PointerTensor, sy.Plan, sy.State, ObjectMessage, BaseWorker, sy.TrainConfig, GetNotPermittedError):
        assert cls in s.simplifiers and cls in protobuf.serde.bufferizers


def test_s1_walking_the_tables_gives_every_object_back(hook, bob, alice, receiver):
    me = hook.local_worker
    for cls, (code, simplifier) in s.simplifiers.items():
        if cls in (VALUES_BY_CLASS := {type(obj): obj for obj in SAMPLES}):
            obj = VALUES_BY_CLASS[cls]
            simplified = s._simplify(me, obj)
            content = simplifier(me, obj)
            if type(simplified) is tuple:
                assert exact(s.detailers[code](receiver, content)) == exact(obj)
                assert simplified[0] == code and len(simplified) == 1 + len(content)
            assert type(s.detailers[code](receiver, content)) is cls
    for samples in chains(me, bob, alice).values():
        for obj in samples:
            foreign = f"{type(obj).__module__}.{type(obj).__qualname__}"  # a class of an optional package, by name
            known = [base for base in type(obj).__mro__ if base in s.simplifiers]
            cls = known[0] if known else BY_NAME[foreign].cls
            code, simplifier = s.simplifiers[cls]
            assert exact(s.detailers[code](receiver, simplifier(me, obj))) == exact(obj)


def test_s1_the_complete_form_of_a_worker_has_an_entry_of_its_own(hook, bob):
    bob.load_data([torch.tensor([1, 1], id="held")])
    code, simplifier = s.forced_full_simplifiers[BaseWorker]
    assert code == msgpack.proto_type_info(BaseWorker).forced_code
    rebuilt = s.detailers[code](hook.local_worker, simplifier(hook.local_worker, bob))
    assert rebuilt is not bob and rebuilt._objects["held"].tolist() == [1, 1]
    assert s._detail(hook.local_worker, s._force_full_simplify(hook.local_worker, bob)).id == bob.id


def test_s1_the_tables_follow_later_registrations():
    class Late:
        pass

    assert Late not in s.simplifiers
    register(Late, code=4001, simplify=lambda worker, obj: (), detail=lambda worker, parts: Late())
    try:
        assert s.simplifiers[Late][0] == 4001 and 4001 in s.detailers and Late in protobuf.serde.bufferizers
        assert type(s._detail(None, s._simplify(None, Late()))) is Late
        assert type(protobuf.serde._unbufferize(None, protobuf.serde._bufferize(None, Late()))) is Late
    finally:
        unregister(Late)
    assert Late not in s.simplifiers and 4001 not in s.detailers
    with pytest.raises(KeyError):
        s.simplifiers[Late]
    with pytest.raises(TypeError):
        s.simplifiers[Late] = (1, None)
    assert len(s.simplifiers) == len(list(s.simplifiers)) == len(dict(s.simplifiers))
    assert len(protobuf.serde.bufferizers) == len(set(protobuf.serde.bufferizers))


@pytest.mark.parametrize("index", range(len(SAMPLES)))
def test_s2_simplified_values_are_rebuilt_without_bytes(index):
    obj = SAMPLES[index]
    back = s._detail(None, s._simplify(None, obj))
    assert type(back) is type(obj) and exact(back) == exact(obj)


def test_s2_chains_plans_and_pointers_are_rebuilt_without_bytes(hook, bob, alice, receiver):
    me = hook.local_worker
    for samples in chains(me, bob, alice).values():
        for obj in samples:
            assert exact(s._detail(receiver, s._simplify(me, obj))) == exact(obj)
    for (script,) in scripts().values():
        assert s._detail(receiver, s._simplify(me, script))(torch.ones(2)).tolist() == [2, 2]
        receiver.trusts_script_modules = False
        with pytest.raises(SerdeError, match="trusts_script_modules"):
            s._detail(receiver, s._simplify(me, script))
        receiver.trusts_script_modules = True


def test_s2_the_copy_has_its_own_memory():
    for obj in (torch.zeros(5000), np.zeros(5000), bytearray(5000), torch.nn.Parameter(torch.zeros(3))):
        back = s._detail(None, s._simplify(None, obj))
        (back.data if isinstance(back, torch.nn.Parameter) else back)[0] = 1
        assert obj[0] == 0


def test_s2_tensors_keep_their_id_though_nobody_asked_for_it(hook):
    for x in (torch.ones(2), torch.nn.Parameter(torch.ones(2)), torch.ones(2).fix_prec()):
        assert s._detail(hook.local_worker, s._simplify(hook.local_worker, x)).id == x.id
    for x in (torch.ones(2), torch.nn.Parameter(torch.ones(2)), torch.ones(2).fix_prec()):
        assert sy.serde.deserialize(sy.serde.serialize(x)).id == x.id


@pytest.mark.parametrize("error", RAISED.values(), ids=lambda error: type(error).__name__)
def test_s2_an_error_that_is_an_answer_is_raised_when_it_is_read(error):
    with pytest.raises(type(error)) as raised:
        s._detail(None, s._simplify(None, error))
    assert str(raised.value) == str(error) and vars(raised.value) == vars(error)


@pytest.mark.parametrize(
    ("code", "parts"), [(173, ()), (173, (5,)), (173, ("x" * 30_000,)), (174, (1.5,)), (174, ((1, 2.5, None),))]
)
def test_s2_errors_with_wrong_fields_are_refused(code, parts):
    with pytest.raises(SerdeError):
        s._detail(None, (code, *parts))


def test_s2_buffers_are_refused_where_no_bytes_belong():
    with pytest.raises(SerdeError, match="bare Buffer"):
        s._detail(None, (2, sy.serde.Buffer(b"abc")))


@pytest.mark.parametrize("index", range(len(SAMPLES)))
def test_s3_messages_made_by_hand_find_their_class(index):
    obj = SAMPLES[index]
    message = protobuf.serde._bufferize(None, obj)
    back = protobuf.serde._unbufferize(None, message)
    assert type(back) is type(obj) and exact(back) == exact(obj)


@pytest.mark.parametrize("atom", [None, True, 0, -(2**70), 1.5, "é", b"x", b"x" * 5000])
def test_s3_plain_values_have_messages_too(atom):
    assert protobuf.serde._unbufferize(None, protobuf.serde._bufferize(None, atom)) == atom
    assert protobuf.serde._unbufferize(None, protobuf.serde.bufferizers[type(atom)](None, atom)) == atom


def test_s3_chains_have_messages(hook, bob, alice, receiver):
    for samples in chains(hook.local_worker, bob, alice).values():
        for obj in samples:
            message = protobuf.serde._bufferize(hook.local_worker, obj)
            assert exact(protobuf.serde._unbufferize(receiver, message)) == exact(obj)
    for message in (ObjectMessage(torch.ones(2)), Operation("torch.add", None, (1, 2), {}, (3,))):
        assert type(protobuf.serde._bufferize(None, message)).DESCRIPTOR.name == type(message).__name__


def test_s3_messages_that_do_not_tell_their_class_are_refused():
    from syft.serde.protobuf.schema import syft_pb2 as pb

    for message in (pb.Items(), pb.Pointer(), pb.Id(), "no message", None):
        with pytest.raises(SerdeError):
            protobuf.serde._unbufferize(None, message)
    with pytest.raises(SerdeError):
        protobuf.serde._bufferize(None, object())


def test_s3_dtypes_by_name():
    from syft.serde.torch.serde import TORCH_DTYPE_STR, TORCH_STR_DTYPE

    assert TORCH_STR_DTYPE["float32"] is torch.float32 and TORCH_STR_DTYPE["qint8"] is torch.qint8
    assert all(TORCH_STR_DTYPE[name] is dtype for dtype, name in TORCH_DTYPE_STR.items())


@pytest.mark.parametrize("x", [torch.rand(2, 3), torch.zeros(0, 2), torch.tensor([True, False]), torch.tensor(7)])
def test_the_functions_for_tensors_work_without_bytes(hook, x):
    me = hook.local_worker
    t = msgpack.torch_serde
    assert torch.equal(t._detail_torch_tensor(me, t._simplify_torch_tensor(me, x)), x)
