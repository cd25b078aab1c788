"""Plans, protocols and ObjectWrappers stay at a worker when their sender's objects, pointers and connection go."""

from __future__ import annotations

import gc

import pytest
import torch

import syft as sy
from syft.workers.websocket_client import WebsocketClientWorker
from tests.helpers import processes
from tests.helpers.nodes import forget, node, soon, websocket_server

hook = sy.TorchHook(torch)
me = hook.local_worker


@pytest.fixture(scope="module")
def server():
    with websocket_server("lasting-websocket") as process:
        yield process


@pytest.fixture(scope="module")
def process_worker():
    worker = processes.start("lasting")
    yield worker
    processes.end(worker)


def connected(server):
    return WebsocketClientWorker(hook, "localhost", server.port, id="lasting-websocket")


@pytest.fixture(params=["inline", "bytes", "thread", "process", "websocket"])
def worker(request, make_worker, server):
    if request.param == "process":
        yield request.getfixturevalue("process_worker")
    elif request.param == "websocket":
        client = connected(server)
        yield client
        client.clear_objects()
        forget(hook, client)
    else:
        yield make_worker("lasting", request.param)


def make_plan(tags=None):
    plan = sy.Plan(forward_func=lambda x: x * 3, name="triple", tags=tags)
    return plan.build(torch.ones(1))


def publish(obj, worker):
    """Send an object, and drop it and its pointer; returns its id."""
    key = obj.id
    obj.send(worker)
    del obj
    gc.collect()
    return key


def can_be_called(worker, key):
    (found,) = worker.search([key])
    assert isinstance(found, sy.PointerPlan)
    return found(torch.ones(1).send(worker)).get().item() == 3


@pytest.mark.parametrize("tags", [None, {"#triple"}])
def test_pl3_a_sent_plan_stays_when_the_plan_and_its_pointer_go(worker, tags):
    key = publish(make_plan(tags), worker)
    torch.ones(1).send(worker).get()  # carries the ids that were released
    assert can_be_called(worker, key)
    assert me.fetch_plan(key, worker)(torch.ones(1)).item() == 3


def test_pl3_the_pointer_of_a_plan_does_not_collect(worker):
    pointer = make_plan().send(worker)
    assert not pointer.garbage_collect_data
    key = pointer.id_at_location
    del pointer
    gc.collect()
    assert can_be_called(worker, key)


def test_pl3_a_plan_can_still_be_collected_on_request(worker):
    for collected in (lambda plan: me.send(plan, worker, garbage_collect_data=True), lambda plan: plan.send(worker)):
        pointer = collected(make_plan())
        key, pointer.garbage_collect_data = pointer.id_at_location, True
        assert can_be_called(worker, key)
        del pointer
        gc.collect()
        assert worker.search([key]) == []


def test_pl3_a_plan_leaves_with_get_and_delete(worker):
    first, second = make_plan(), make_plan()
    assert first.send(worker).get()(torch.ones(1)).item() == 3
    second.send(worker).delete()
    assert worker.search([first.id]) == worker.search([second.id]) == []


def test_pl3_a_sent_protocol_stays(worker):
    key = publish(sy.Protocol([("first", make_plan())]), worker)
    (found,) = worker.search([key])
    assert isinstance(found, sy.PointerProtocol)
    fetched = me.fetch_protocol(key, worker)
    assert fetched.id == key and len(fetched.plans) == 1


def test_pl3_the_plans_of_a_deployed_protocol_stay(workers):
    leader, player = workers
    protocol = sy.Protocol([("first", make_plan())]).deploy(player)
    key = publish(protocol, leader)
    del protocol
    gc.collect()
    (found,) = leader.search([key])
    assert found.run(torch.ones(1).send(leader)).get().get().item() == 3
    assert [type(obj) for obj in player._objects.values()] == [sy.Plan]


def test_pl3_a_sent_object_wrapper_stays(worker):
    wrapper = sy.ObjectWrapper("text")
    key = publish(wrapper, worker)
    del wrapper
    gc.collect()
    (found,) = worker.search([key])
    assert isinstance(found, sy.CallablePointer) and found.get().obj == "text"


def test_pl3_plans_stay_after_the_connection(server):
    client = connected(server)
    key = publish(make_plan(), client)
    tensor = torch.ones(1)
    pointer = tensor.send(client)
    assert len(client._objects) == 2
    del pointer  # a session with pointers is kept for a while, to be resumed
    forget(hook, client)
    client = connected(server)
    assert soon(lambda: not client.search([tensor.id]))  # tensors end with their connection
    assert can_be_called(client, key)
    client.clear_objects()
    forget(hook, client)


def test_pl3_tensors_are_collected_as_before(worker):
    key = torch.ones(1).send(worker).id_at_location
    gc.collect()
    assert worker.search([key]) == []


def test_pl3_an_untagged_plan_at_a_node_is_private_and_lasts_as_long_as_the_connection():
    with node("lasting-node") as process:
        alice = process.connect(hook)
        key, shown = publish(make_plan(), alice), publish(make_plan({"#shown"}), alice)
        torch.ones(1).send(alice).get()
        assert can_be_called(alice, key) and can_be_called(alice, shown)
        forget(hook, alice)
        bob = process.connect(hook, "bob")
        assert bob.search([key]) == [] and len(bob.search([shown])) == 1
        forget(hook, bob)
        alice = process.connect(hook)
        assert can_be_called(alice, shown)
        assert soon(lambda: not alice.search([key]))
        forget(hook, alice)
