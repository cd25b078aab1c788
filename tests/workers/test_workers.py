"""BaseWorker and VirtualWorker: the documented API."""

import inspect
import logging

import pytest
import torch

import syft as sy
from syft.core.references import Ref
from syft.exceptions import ObjectNotFoundError, PlanCommandUnknownError, WorkerNotFoundError
from syft.messaging.message import (
    ForceObjectDeleteMessage,
    GetShapeMessage,
    IsNoneMessage,
    ObjectMessage,
    ObjectRequestMessage,
    Operation,
    PlanCommandMessage,
    SearchMessage,
)
from syft.workers.base import BaseWorker
from syft.workers.node_client import NodeClient
from syft.workers.virtual import VirtualWorker
from syft.workers.websocket_client import WebsocketClientWorker


@pytest.fixture
def bob(make_worker, kind):
    return make_worker("bob", kind)


def test_making_a_worker_again_gives_it_back(hook):
    first = VirtualWorker(hook, id="again")
    first.load_data([torch.ones(1)])
    second = VirtualWorker(hook, id="again", data=[torch.zeros(1)])
    assert second is first and len(first._objects) == 2

    class Other(VirtualWorker):
        pass

    with pytest.raises(RuntimeError, match="'again' is already known, as a VirtualWorker"):
        Other(hook, id="again")
    hook.local_worker._known_workers.pop("again")


def test_repr(bob):
    assert repr(bob) == f"<VirtualWorker id:{bob.id} #objects:0>"
    assert bob.id in bob._repr_html_()


def test_data_of_the_owner(make_worker, kind):
    data = (torch.ones(2).tag("#a"), torch.zeros(3).tag("#a", "#b").describe("zeros of the owner"))
    bob = make_worker("bob", kind, data=data)
    assert len(bob.search("#a")) == 2
    (found,) = bob.search(["#a", "#b"])
    assert found.shape == (3,) and found.description == "zeros of the owner" and found.location is bob
    assert [p.shape for p in bob.search("the owner")] == [(3,)]
    assert bob.search(["#a", "nothing"]) == []
    assert [p.id_at_location for p in bob.search(data[0].id)] == [data[0].id]
    del found
    assert len(bob._objects) == 2
    assert bob.clear_objects() is bob and bob.clear_objects(return_self=False) is None


def test_request_search_from_another_worker(make_worker, kind):
    james, alice = make_worker("james", kind), make_worker("alice", kind)
    torch.ones(2).tag("#x").send(james)
    james.synchronize()
    (found,) = alice.request_search(["#x"], location=james)
    assert found.owner is alice and found.location is james
    assert sy.local_worker.request_search("#x", location=james.id)[0].owner is sy.local_worker


def test_address_book(bob, make_worker, caplog):
    alice = make_worker("alice")
    assert bob.get_worker(alice) is alice and bob.get_worker(alice.id) is alice and bob.get_worker(bob.id) is bob
    with caplog.at_level(logging.WARNING):
        assert bob.get_worker("stranger") == "stranger"
    assert "stranger" in caplog.text
    with pytest.raises(WorkerNotFoundError, match="'stranger'.*add_worker"):
        bob.get_worker("stranger", fail_hard=True)
    lonely = VirtualWorker(None, id="lonely", auto_add=False)
    assert lonely.add_worker(bob) is lonely and lonely.get_worker(bob.id) is bob
    assert lonely.add_workers([alice, bob]).get_worker(alice.id) is alice
    lonely.remove_worker_from_registry(alice.id)
    assert alice.id not in lonely._known_workers
    alice.remove_worker_from_local_worker_registry()
    assert alice.id not in sy.local_worker._known_workers


def test_send_obj_request_obj(bob, nothing_left):
    me = sy.local_worker
    x = torch.tensor([1.0, 2.0], id="x of mine")
    me.send_obj(x, bob)
    assert list(bob._objects) == ["x of mine"]
    assert torch.equal(me.request_obj("x of mine", bob), x)
    pointer = me.send(x, bob, ptr_id="my pointer")
    assert pointer.id == "my pointer" and torch.equal(pointer.get(), x)
    with pytest.raises(NotImplementedError, match="takes one worker"):
        me.send(x, [bob, bob])
    nothing_left(bob)


def test_messages(bob):
    me = sy.local_worker
    x = torch.tensor([1.0, 2.0])
    me.stream_to(bob).post(ObjectMessage(x, 7))
    me.send_msg(Operation("torch.Tensor.add", None, (Ref(7), Ref(7)), {}, (8,)), bob)
    assert me.send_msg(GetShapeMessage(Ref(8)), bob).shape == (2,)
    assert me.send_msg(IsNoneMessage(Ref(8)), bob) is False
    assert me.send_msg(IsNoneMessage(Ref(8, "grad")), bob) is True
    assert [row[0] for row in me.send_msg(SearchMessage([8]), bob)] == [8]
    assert torch.equal(me.send_msg(ObjectRequestMessage((8, None, "")), bob), torch.tensor([2.0, 4.0]))
    me.send_msg(ForceObjectDeleteMessage(7), bob)
    assert len(bob._objects) == 0


def test_send_command(bob):
    me = sy.local_worker
    x = torch.tensor([1.0, 2.0]).send(bob)
    result = me.send_command(bob, ("add", x, (x,), {}), return_ids=["sum"])
    assert result.id_at_location == "sum" and torch.equal(result.get(), torch.tensor([2.0, 4.0]))
    values, _ = me.send_command(bob, ("torch.max", None, (x, 0), {}))
    assert values.get().item() == 2.0
    operation = BaseWorker.create_message_execute_command("torch.add", None, [5], x, x)
    assert operation.cmd_name == "torch.add" and operation.return_ids == (5,)
    assert operation.command[0][0] == "torch.add"
    with pytest.raises(PlanCommandUnknownError):
        BaseWorker.create_message_execute_command("clear_objects", "self")


def test_questions(bob):
    me = sy.local_worker
    x = torch.ones(2, 3, requires_grad=True).send(bob)
    assert me.request_remote_tensor_shape(x) == (2, 3) and not me.request_is_remote_tensor_none(x)
    assert BaseWorker.get_tensor_shape(torch.ones(2, 3)) == [2, 3]
    assert BaseWorker.is_tensor_none(None) and not BaseWorker.is_tensor_none(1)
    assert x.child.is_none() is False and x.child.get_shape() == (2, 3)


def test_plan_commands_are_a_closed_table(bob):
    with pytest.raises(ObjectNotFoundError):
        sy.local_worker.fetch_plan("p", bob)
    with pytest.raises(ObjectNotFoundError):
        sy.local_worker.fetch_protocol("p", bob)
    with pytest.raises(PlanCommandUnknownError, match="clear_objects"):
        sy.local_worker.send_msg(PlanCommandMessage((), "clear_objects"), bob)


def test_message_log(make_worker, kind):
    bob = make_worker("bob", kind, log_msgs=True)
    x = torch.ones(1).send(bob)
    (x + x).get()
    kinds = [type(message).__name__ for message in bob.msg_history]
    assert [k for k in kinds if k != "BatchMessage"] == ["ObjectMessage", "Operation", "ObjectRequestMessage"]


def test_client_workers_store_nothing(hook):
    me = hook.local_worker
    assert me.is_client_worker
    x = torch.ones(1)
    me.register_obj(x)
    assert x.id not in me._objects
    with me.registration_enabled():
        me.register_obj(x, "kept")
    assert "kept" in me._objects
    with me.registration_enabled():
        me.de_register_obj(x)
    assert "kept" not in me._objects


def test_a_worker_travels_as_its_id(bob, make_worker):
    assert sy.deserialize(sy.serialize(bob, sy.local_worker), sy.local_worker) is bob
    bob.load_data([torch.ones(2)])
    whole = sy.serde.serialize(bob, sy.local_worker, force_full_simplification=True)
    assert len(whole) > len(sy.serialize(bob, sy.local_worker))
    full = BaseWorker.force_simplify(sy.local_worker, bob)
    rebuilt = BaseWorker.force_detail(sy.local_worker, ("rebuilt", *full[1:]))
    assert list(rebuilt._objects) == list(bob._objects)


def test_recv_msg_takes_bytes(bob):
    from syft.workers.transport.request_codec import read_answer, write_request

    me = sy.local_worker
    bob.load_data([torch.tensor([1.0, 1.0], id="held")])
    written = bob.recv_msg(write_request(me, (), SearchMessage(["held"]), True))
    assert read_answer(me, bob, written)[0][0] == "held"


def test_acting_as_another_client(bob, make_worker):
    carol = make_worker("carol")
    with sy.acting_as(carol):
        assert sy.local_worker is carol
        x = torch.ones(1).send(bob)
        assert x.owner is carol
    assert sy.local_worker.id == "me"
    assert torch.equal((x + x).get(), torch.full((1,), 2.0))


@pytest.mark.parametrize(
    ("worker", "documented"),
    [
        (BaseWorker, "hook id data is_client_worker log_msgs verbose auto_add"),
        (sy.VirtualWorker, "hook id data is_client_worker log_msgs verbose auto_add serialize threaded"),
        (sy.ProcessWorker, "hook id data verbose auto_add threads modules"),
        (sy.RayWorker, "hook id data actor_options verbose auto_add threads"),
        (
            WebsocketClientWorker,
            "hook host port secure id is_client_worker log_msgs verbose data token ca auto_add",
        ),
        (NodeClient, "hook address credential id is_client_worker log_msgs verbose encoding token ca auto_add"),
    ],
)
def test_signatures_name_every_argument(worker, documented):
    for found in (inspect.signature(worker), _without_self(worker.__init__)):
        parameters = found.parameters.values()
        assert " ".join(parameter.name for parameter in parameters) == documented
        assert all(parameter.kind is parameter.POSITIONAL_OR_KEYWORD for parameter in parameters)
        assert all(parameter.annotation not in (parameter.empty, "Any") for parameter in parameters)
    required = [p.name for p in inspect.signature(worker).parameters.values() if p.default is p.empty]
    assert required == (["hook", "address"] if worker is sy.NodeClient else [])


def _without_self(method):
    found = inspect.signature(method)
    return found.replace(parameters=list(found.parameters.values())[1:])
