"""Entry points of workers that take bytes, their log of messages, and attributes that programs of 0.2 read."""

import copy
import pickle
import re
from pathlib import Path
from types import ModuleType

import pytest
import torch

import syft as sy
from syft.exceptions import (
    CommandNotAllowedError,
    GetNotPermittedError,
    IdNotUniqueError,
    NotPermittedError,
    ObjectNotFoundError,
    PlanCommandUnknownError,
    SerdeError,
)
from syft.grid.isolation.children.worker import SessionWorker
from syft.grid.isolation.records.replay import ConfinedWorker
from syft.grid.node.node import NodeWorker
from syft.messaging.message import (
    BatchMessage,
    ForceObjectDeleteMessage,
    GetShapeMessage,
    IsNoneMessage,
    ObjectMessage,
    ObjectRequestMessage,
    Operation,
    PlanCommandMessage,
    SearchMessage,
)
from syft.workers.access.policy import ALLOW_ALL, DenyAll
from syft.workers.base import BaseWorker


@pytest.fixture
def worker(make_worker, kind):
    return make_worker("entry", kind)


@pytest.fixture(scope="module")
def elsewhere():
    """A worker in a process of its own."""
    worker = sy.ProcessWorker(sy.TorchHook(torch), id="entry-process")
    yield worker
    worker.stop()
    for other in (sy.local_worker, *list(sy.local_worker._known_workers.values())):
        other._known_workers.pop(worker.id, None)


def answer(worker, message):
    """Send a message as bytes and read the answer."""
    written = worker.recv_msg(sy.serde.serialize(message))
    assert type(written) is bytes
    return sy.serde.deserialize(written)


def pointer_to(worker, obj_id):
    return sy.PointerTensor(location=worker, id_at_location=obj_id, garbage_collect_data=False)


def talk(worker):
    """Exchange every documented message with a worker, as bytes."""
    w = torch.tensor([1.0, 2.0], requires_grad=True)
    assert answer(worker, ObjectMessage(w)) is None
    ptr = pointer_to(worker, w.id)
    assert answer(worker, GetShapeMessage(ptr)) == torch.Size([2])
    assert answer(worker, IsNoneMessage(ptr.wrap())) is False
    assert answer(worker, IsNoneMessage(sy.core.references.Ref(w.id, "grad"))) is True
    answer(worker, Operation("add", ptr, (ptr,), {}, (71,)))
    answer(worker, Operation("__mul__", w.id, (3,), {}, (72,)))
    answer(worker, Operation("torch.sub", None, (sy.core.references.Ref(72), 1), {"alpha": 2}, (73,)))
    command = BaseWorker.create_message_execute_command("neg", ptr, [74])
    answer(worker, command)
    for obj_id, value in ((71, [2, 4]), (72, [3, 6]), (73, [1, 4]), (74, [-1, -2])):
        back = answer(worker, ObjectRequestMessage((obj_id, None, "")))
        assert back.tolist() == value and back.id == obj_id
    (found,) = answer(worker, SearchMessage([w.id]))
    assert found.location is worker and found.id_at_location == w.id and not found.child.garbage_collect_data
    back = answer(worker, ObjectRequestMessage((w.id, None, "")))
    assert back.id == w.id and back.requires_grad and torch.equal(back, w)
    with pytest.raises(ObjectNotFoundError):
        answer(worker, ObjectRequestMessage((w.id, None, "")))
    answer(worker, ObjectMessage(w))
    assert answer(worker, ForceObjectDeleteMessage(w.id)) is None
    assert answer(worker, SearchMessage([w.id])) == []


def test_m1_messages_travel_as_bytes(worker):
    talk(worker)


def test_m1_messages_to_a_worker_elsewhere_are_forwarded(elsewhere):
    talk(elsewhere)


def test_m1_stored_objects_stay_and_have_their_own_memory(worker, nothing_left):
    w = torch.tensor([1.0, 2.0]).tag("#w")
    written = sy.serde.serialize(ObjectMessage(w))
    worker._recv_msg(written)
    w[0] = 5
    found = worker._objects[w.id]
    assert found.tolist() == [1, 2] and found.tags == {"#w"} and worker.object_store.claims.is_published(w.id)
    pointer = sy.PointerTensor(location=worker, id_at_location=w.id)
    del pointer
    assert w.id in worker._objects
    with pytest.raises(IdNotUniqueError):
        worker._recv_msg(written)
    answer(worker, BatchMessage((ObjectMessage(torch.zeros(1), "second"), ForceObjectDeleteMessage(w.id))))
    assert list(worker._objects) == ["second"]


def test_m1_plans_are_fetched_with_bytes(worker):
    @sy.func2plan(args_shape=[(1,)])
    def double(x):
        return x * 2

    sent = double.send(worker)
    for message in (
        PlanCommandMessage("fetch_plan", (sent.id_at_location, False)),
        PlanCommandMessage((sent.id_at_location, True), "fetch_plan"),
    ):
        assert answer(worker, message)(torch.ones(1)).item() == 2
    with pytest.raises(PlanCommandUnknownError):
        answer(worker, PlanCommandMessage("clear_objects", ()))


def test_m1_private_tensors_are_answered_with_the_error(worker):
    x = torch.ones(2).private_tensor(allowed_users=["ann"]).send(worker, user="ann")
    written = worker.recv_msg(sy.serde.serialize(ObjectRequestMessage((x.id_at_location, "bea", ""))))
    assert type(written) is bytes
    with pytest.raises(GetNotPermittedError, match="not released to 'bea'"):
        sy.serde.deserialize(written)
    assert x.id_at_location in worker._objects
    assert answer(worker, ObjectRequestMessage((x.id_at_location, "ann", ""))) is not None


def test_m1_under_a_policy_the_sender_is_unknown(bob):
    asked = []

    class Noting(DenyAll):
        def allows(self, release):
            asked.append((release.client, release.how))
            return False

    x = torch.ones(2)
    bob.load_data([x])
    ptr = pointer_to(bob, x.id)
    bob.policy = Noting()
    try:
        for message in (
            ObjectRequestMessage((x.id, "owner", "")),
            BatchMessage((ObjectRequestMessage((x.id, bob.id, "")),)),
            Operation("tolist", ptr, (), {}, (9,)),
        ):
            asked.clear()
            with pytest.raises(GetNotPermittedError):
                answer(bob, message)
            assert {client for client, _ in asked} == {None}
        assert x.id in bob._objects
        answer(bob, Operation("add", ptr, (ptr,), {}, (9,)))  # computes, and releases nothing
        with pytest.raises(GetNotPermittedError):
            answer(bob, ObjectRequestMessage((9, None, "")))
        with pytest.raises(GetNotPermittedError):  # a pointer to the worker would become the object
            answer(bob, Operation("torch.neg", None, (ptr,), {}, (10,)))
    finally:
        bob.policy = ALLOW_ALL
        bob.clear_objects()


@pytest.mark.parametrize("bad", [b"", b"(nonsense", "text", 5, None, ObjectMessage(1)])
def test_m1_other_arguments_are_refused(bob, bad):
    with pytest.raises((SerdeError, sy.exceptions.CompressionNotFoundError)):
        bob.recv_msg(bad)


def test_m1_objects_that_are_no_messages_are_refused(bob):
    for obj in (torch.ones(2), [1], "text", sy.String("x")):
        with pytest.raises(SerdeError, match="takes a serialized message"):
            bob.recv_msg(sy.serde.serialize(obj))


def test_m1_commands_of_the_worker_itself_are_refused(bob):
    with pytest.raises(PlanCommandUnknownError):
        answer(bob, Operation("clear_objects", "self", (), {}, ()))
    with pytest.raises(PlanCommandUnknownError):
        sy.local_worker.send_msg(Operation("clear_objects", "self", (), {}, ()), bob)


def test_m1_own_transports_feed_a_worker(hook, make_worker):
    seen = []

    class Recording(sy.VirtualWorker):
        def _recv_msg(self, message):
            seen.append(message)
            return super()._recv_msg(message)

    remote = Recording(hook, id="own-transport", auto_add=False)
    written = sy.serde.serialize(ObjectMessage(torch.ones(2), 3))
    sy.local_worker._send_msg(written, remote)
    assert seen == [written] and remote._objects[3].tolist() == [1, 1]


def test_m1_send_msg_copies_and_keeps_the_id(worker):
    x = torch.ones(2)
    obj_id = x.id
    sy.local_worker.send_msg(ObjectMessage(x), worker)
    assert worker._objects[obj_id] is not x
    x[0] = 5
    assert worker._objects[obj_id].tolist() == [1, 1]
    ptr = pointer_to(worker, obj_id)
    sy.local_worker.send_msg(Operation("mul_", ptr, (3,), {}, ("r",)), worker)
    assert worker._objects[obj_id].tolist() == [3, 3]
    assert Operation("add", ptr, (1,), {}, (2,)).contents == (("add", ptr, (1,), {}), (2,))


def test_m1_operations_are_copied_and_compared():
    operation = Operation("torch.add", None, (1, 2), {"alpha": 3}, (4,), False)
    for other in (copy.copy(operation), copy.deepcopy(operation), pickle.loads(pickle.dumps(operation))):
        assert other == operation and other.contents == (("torch.add", None, (1, 2), {"alpha": 3}), (4,))


def test_m1_workers_of_a_node_serve_connected_clients_only():
    for worker in (ConfinedWorker("vault"), NodeWorker("node", ALLOW_ALL)):
        with pytest.raises(NotPermittedError, match="serves connected clients only"):
            worker.recv_msg(sy.serde.serialize(SearchMessage([])))
    assert SessionWorker.serves_unknown_clients is False


def test_m1_no_port_of_the_library_uses_the_entry():
    root = Path(sy.__file__).parent
    users = {
        path.relative_to(root).as_posix()
        for path in root.rglob("*.py")
        if re.search(r"[.](_?recv_msg|_send_msg)\b", path.read_text())
    }
    assert users == {"workers/entry_points.py"}


@pytest.mark.filterwarnings("ignore:torch.quantize_per_tensor:UserWarning")
def test_s4_quantized_tensors_reach_another_process(elsewhere):
    x = torch.quantize_per_tensor(torch.tensor([0.5, -1.0]), 0.1, 3, torch.qint8)
    back = x.send(elsewhere).get()
    assert torch.equal(back.int_repr(), x.int_repr()) and (back.q_scale(), back.q_zero_point()) == (0.1, 3)


def test_m2_unknown_names_of_remote_torch_are_attribute_errors(worker, elsewhere):
    for each in (worker, elsewhere):
        assert not hasattr(each.remote.torch, "nonsense") and hasattr(each.remote.torch, "zeros")
        assert getattr(each.remote.torch, "save", None) is None
        with pytest.raises(AttributeError) as raised:
            each.remote.torch.nonsense
        assert isinstance(raised.value, CommandNotAllowedError) and "torch.zeros" in str(raised.value)
        for framework in each.remote.frameworks:
            for name, given in (("tensor", [1, 2, 3]), ("zeros", (2, 3)), ("ones", (2, 3))):
                made = getattr(getattr(each.remote, framework), name)(given)
                assert torch.equal(made.get(), getattr(torch, name)(given))


def test_m3_messages_of_the_log_by_index(make_worker, kind):
    worker = make_worker("logging", kind, log_msgs=True)
    x = torch.ones(2).send(worker)
    assert isinstance(worker._get_msg(-1), ObjectMessage)
    y = x + x
    assert isinstance(worker._get_msg(-1), Operation) and worker._get_msg(-1).cmd_name == "torch.Tensor.add"
    y.get()
    assert isinstance(worker._get_msg(-1), ObjectRequestMessage)
    sy.local_worker.request_search(["#none"], worker)
    assert isinstance(worker._get_msg(-1), SearchMessage)

    @sy.func2plan(args_shape=[(1,)])
    def double(x):
        return x * 2

    sent = double.send(worker)
    sy.local_worker.fetch_plan(sent.id_at_location, worker)
    assert isinstance(worker._get_msg(-1), PlanCommandMessage)
    answer(worker, ForceObjectDeleteMessage(5))
    assert isinstance(worker._get_msg(-1), ForceObjectDeleteMessage)
    assert isinstance(worker._get_msg(0), ObjectMessage)
    with pytest.raises(IndexError):
        worker._get_msg(1000)


def test_w1_a_worker_knows_itself(hook, worker, bob):
    me = hook.local_worker
    for each in (me, worker, bob):
        assert each._known_workers[each.id] is each and each.get_worker(each.id) is each
    assert me._known_workers[bob.id] is bob and bob._known_workers[me.id] is me
    lonely = sy.VirtualWorker(hook, id="lonely-w1", auto_add=False)
    assert lonely._known_workers == {"lonely-w1": lonely} and "lonely-w1" not in me._known_workers
    with pytest.raises(sy.exceptions.WorkerNotFoundError) as raised:
        lonely.get_worker("nobody", fail_hard=True)
    assert "lonely-w1" not in str(raised.value)


def test_h1_sy_torch_is_torch_with_a_hook(hook):
    for namespace in (sy.torch, sy.framework):
        assert namespace.hook.local_worker is sy.local_worker
        assert namespace.Tensor is torch.Tensor and namespace.nn.functional is torch.nn.functional
        assert isinstance(namespace, ModuleType) and namespace == torch and hash(namespace) == hash(torch)
        assert namespace.__name__ == "torch" and namespace.__version__ == torch.__version__
        assert isinstance(namespace.ones(2), namespace.Tensor)
        assert pickle.loads(pickle.dumps(namespace)) is copy.deepcopy(namespace) is sy.torch
        assert set(dir(namespace)) == {*dir(torch), "hook"}
    from syft import torch as imported

    assert imported is sy.torch and not hasattr(torch, "hook") and not hasattr(sy.torch, "nonsense")
    made = sy.VirtualWorker(sy.torch.hook, id="h1")
    assert sy.VirtualWorker(hook, id="h1") is made
    made.remove_worker_from_local_worker_registry()
    assert sy.TorchHook(sy.torch).local_worker is hook.local_worker


def test_h1_names_are_set_on_torch(monkeypatch):
    monkeypatch.setattr(sy.torch, "made_up", 3, raising=False)
    assert torch.made_up == 3
    monkeypatch.undo()
    assert not hasattr(torch, "made_up")
    with pytest.raises(AttributeError, match="can't be set"):
        sy.torch.hook = None


def test_s5_a_serialized_worker_is_the_known_one(bob):
    assert sy.serde.deserialize(sy.serde.serialize(bob)) is bob
    assert sy.serde.deserialize(sy.serde.serialize([bob, {"w": bob}]))[1]["w"] is bob
    assert sy.serde.deserialize(sy.serde.serialize(bob, strategy=sy.serde.protobuf.serialize),
                                strategy=sy.serde.protobuf.deserialize) is bob  # fmt: skip
    x = torch.ones(2).send(bob)
    back = sy.serde.deserialize(sy.serde.serialize(x))
    assert back.location is bob and back.id_at_location == x.id_at_location
    unknown = sy.VirtualWorker(None, id="nobody knows", auto_add=False)
    assert sy.serde.deserialize(sy.serde.serialize(unknown)) == "nobody knows"
    for payload in ((), ([1],), (1.5,), ("a", "b")):
        with pytest.raises(SerdeError):
            sy.serde.msgpack.serde._detail(None, (161, *[(2, *p) if type(p) is list else p for p in payload]))


def test_s6_auto_add_survives_the_complete_form(hook, bob):
    me = hook.local_worker
    lonely = sy.VirtualWorker(hook, id="lonely-s6", auto_add=False)
    assert bob.auto_add is True and lonely.auto_add is False
    for worker in (bob, lonely):
        rebuilt = sy.serde.deserialize(sy.serde.serialize(worker, force_full_simplification=True), me)
        assert rebuilt.auto_add is worker.auto_add and rebuilt.id == worker.id
    assert me._known_workers[bob.id] is bob and "lonely-s6" not in me._known_workers
    with pytest.raises(SerdeError):
        BaseWorker.force_detail(me, ("x", {}, "yes"))


def test_s6_the_framework_selects_the_serializer(bob):
    x = torch.tensor([1.5, -2.0])
    assert bob.framework is torch and bob.serializer == "raw"
    bob.framework = None
    assert bob.serializer == sy.codes.TENSOR_SERIALIZATION.ALL
    assert sy.serde.deserialize(sy.serde.serialize(x, bob), bob).tolist() == x.tolist()
    bob.framework = sy.torch
    assert bob.framework == torch and bob.serializer == "raw"
    bob.serializer = "numpy"
    bob.framework = torch
    assert bob.serializer == "numpy"
    with pytest.raises(sy.exceptions.SyftError, match="torch or None"):
        bob.framework = copy
