"""Objects keep their ids where they are sent, and get new ones where those are taken."""

from __future__ import annotations

import os

import pytest
import torch
from torch import nn

import syft as sy
from syft.core.id_provider import create_random_id, is_drawn_here
from syft.workers.remote import RemoteWorker
from syft.workers.websocket_client import WebsocketClientWorker
from tests.helpers import processes
from tests.helpers.nodes import forget, node, websocket_server

hook = sy.TorchHook(torch)
me = hook.local_worker


@pytest.fixture(scope="module")
def process_worker():
    worker = processes.start("ids-process")
    yield worker
    processes.end(worker)


@pytest.fixture(scope="module")
def websocket_worker():
    held = "t = torch.ones(2); t.id = 4242; worker.load_data([t])"
    with websocket_server("ids-websocket", prepare=held) as server:
        worker = WebsocketClientWorker(hook, "localhost", server.port, id="ids-websocket")
        yield worker
        worker.close()
        forget(hook, worker)


@pytest.fixture(scope="module")
def node_process():
    held = "t = torch.arange(2.0).tag('#held'); t.id = 4242; node.worker.load_data([t])"
    with node("ids-node", prepare=held) as process:
        yield process


@pytest.fixture(scope="module")
def node_client(node_process):
    client = node_process.connect(hook)
    yield client
    client.close()
    forget(hook, client)


@pytest.fixture(params=["inline", "bytes", "thread", "process", "websocket", "node"])
def worker(request, make_worker):
    if request.param in ("inline", "bytes", "thread"):
        return make_worker("ids", request.param)
    named = {"process": "process_worker", "websocket": "websocket_worker", "node": "node_client"}
    return request.getfixturevalue(named[request.param])


def make_plan(**options):
    plan = sy.Plan(forward_func=lambda x: x * 3, name="triple", **options)
    return plan.build(torch.ones(1))


def test_pl2_tensors_keep_their_ids(worker):
    x = torch.tensor([1.0, 2.0])
    pointer = x.send(worker)
    assert pointer.id_at_location == x.id
    assert [found.id_at_location for found in worker.search([x.id])] == [x.id]
    assert torch.equal(pointer.get(), x)
    again = x.send(worker)
    assert again.id_at_location == x.id and torch.equal((again + 1).get(), x + 1)


def test_pl2_an_id_that_is_read_before_the_send_is_kept(worker):
    x = torch.tensor([1.0])
    before = x.id
    assert x.send(worker).id_at_location == before


def test_pl2_a_taken_id_is_replaced(worker):
    x = torch.tensor([1.0])
    first = x.send(worker)
    second = x.send(worker)
    assert first.id_at_location == x.id and second.id_at_location != x.id
    with torch.no_grad():
        second.add_(1)
    assert first.get().item() == 1 and second.get().item() == 2


def test_pl2_a_released_id_is_used_again(worker):
    x = torch.tensor([4.0])
    for _ in range(3):
        pointer = x.send(worker)
        assert pointer.id_at_location == x.id and (pointer * 2).get().item() == 8
        del pointer


def test_pl2_an_id_of_ones_choice_is_kept_until_it_is_taken(worker):
    plans = [make_plan(id=f"chosen-{worker.id}") for _ in range(2)]
    pointers = [plan.send(worker) for plan in plans]
    assert pointers[0].id_at_location == plans[0].id and pointers[1].id_at_location != plans[1].id
    assert all(pointer(torch.ones(1).send(worker)).get().item() == 3 for pointer in pointers)
    for pointer in pointers:
        pointer.delete()


def test_pl2_plans_can_be_fetched_and_found_by_their_ids(worker):
    plan = make_plan()
    pointer = plan.send(worker)
    assert pointer.id_at_location == plan.id
    fetched = me.fetch_plan(plan.id, worker)
    assert fetched.id == plan.id and fetched(torch.ones(1)).item() == 3
    (found,) = worker.search([plan.id])
    assert isinstance(found, sy.PointerPlan) and found(torch.ones(1).send(worker)).get().item() == 3
    # Its id is taken by the original.
    assert fetched.send(worker).id_at_location != plan.id


def test_pl2_a_changed_plan_takes_the_place_of_its_earlier_copy(worker):
    layer = nn.Linear(1, 1)
    plan = sy.Plan(forward_func=layer).build(torch.ones(1, 1))
    before = len(worker._objects)
    for value in (1.0, 2.0, 3.0):
        with torch.no_grad():
            layer.weight.fill_(value)
            layer.bias.zero_()
        pointer = plan.send(worker)
        assert pointer.id_at_location == plan.id
        assert me.fetch_plan(plan.id, worker)(torch.ones(1, 1)).item() == value
    assert len(worker._objects) == before + 1
    pointer.delete()
    assert plan.send(worker).id_at_location == plan.id


def test_pl2_protocols_keep_their_ids(worker):
    protocol = sy.Protocol([("first", make_plan())])
    pointer = protocol.send(worker)
    assert pointer.id_at_location == protocol.id
    assert me.fetch_protocol(protocol.id, worker).id == protocol.id


def test_pl2_object_wrappers_keep_their_ids(process_worker, make_worker):
    for worker in (make_worker("ids"), process_worker):
        wrapper = sy.ObjectWrapper("a text", tags={f"#wrapped-{worker.id}"})
        pointer = wrapper.send(worker)
        assert pointer.id_at_location == wrapper.id
        (found,) = worker.search(f"#wrapped-{worker.id}")
        assert found.id_at_location == wrapper.id and found.get().obj == "a text"


def test_pl2_parameters_of_models_keep_their_ids(worker):
    model = nn.Linear(2, 1)
    ids = [parameter.id for parameter in model.parameters()]
    for _ in range(2):
        model.send(worker)
        assert [parameter.id_at_location for parameter in model.parameters()] == ids
        model.get()
    received = sy.deserialize(sy.serialize(list(model.state_dict().values())))
    pointers = me.send_many(received + received, worker)
    assert len({pointer.id_at_location for pointer in pointers}) == 4


def test_pl2_ids_of_another_process_are_looked_up(process_worker, websocket_worker):
    x = torch.tensor([7.0])
    x.id = 123456789
    for worker in (process_worker, websocket_worker):
        assert isinstance(worker, RemoteWorker) and worker._may_hold(x.id) is None
        first, second = x.send(worker), x.send(worker)
        assert first.id_at_location == 123456789 != second.id_at_location


def test_pl2_an_id_that_the_worker_took_itself_is_replaced(websocket_worker):
    x = torch.tensor([7.0])
    x.id = 4242
    pointers = [x.send(websocket_worker), *me.send_many([x, torch.tensor([8.0])], websocket_worker)]
    assert 4242 not in {pointer.id_at_location for pointer in pointers}
    assert [pointer.get().item() for pointer in pointers] == [7.0, 7.0, 8.0]
    (found,) = websocket_worker.search([4242])
    assert found.copy().get().tolist() == [1.0, 1.0]


def test_pl2_sending_a_fresh_tensor_does_not_wait(process_worker):
    with sy.count_messages() as sent:
        torch.ones(2).send(process_worker)
    assert (sent.messages, sent.rounds) == (1, 0)


def test_pl2_a_process_knows_the_ids_that_it_drew():
    assert is_drawn_here(sy.ID_PROVIDER.pop()) and is_drawn_here(create_random_id())
    drawn = create_random_id()
    assert not any(is_drawn_here(other) for other in (drawn ^ 1, drawn ^ 1 << 127, 5, "text", -1, 1 << 128))
    read, write = os.pipe()
    child = os.fork()
    if child == 0:
        os.write(write, b"%d" % (is_drawn_here(drawn) or not is_drawn_here(create_random_id())))
        os._exit(0)
    os.waitpid(child, 0)
    assert os.read(read, 1) == b"0"


def test_pl2_users_of_a_node_do_not_learn_ids_of_others(node_process, node_client):
    """The id of a private object of another user is free, as far as a user can see."""
    eve = node_process.connect(hook, "bob")
    x = torch.tensor([1.0])
    x.id = "private-to-alice"
    mine = x.send(node_client)
    assert eve.search(["private-to-alice"]) == []
    theirs = x.send(eve)
    assert mine.id_at_location == theirs.id_at_location == "private-to-alice"
    with torch.no_grad():
        theirs.add_(1)
    assert mine.get().item() == 1 and theirs.get().item() == 2
    eve.close()


def test_pl2_a_word_of_a_description_is_not_a_taken_id(worker):
    described = torch.ones(1).describe("the weights of a model").send(worker)
    x = torch.ones(1)
    x.id = "weights"
    (pointer,) = me.send_many([x], worker)
    assert pointer.id_at_location == "weights" and described.shape == (1,)


def test_pl2_an_object_does_not_hide_a_published_one_at_a_node(node_client):
    x = torch.zeros(2)
    x.id = 4242
    pointer = x.send(node_client)
    assert pointer.id_at_location != 4242 and torch.equal(pointer.get(), torch.zeros(2))
    assert len(node_client.search("#held")) == 1


def test_pl2_client_objects_of_one_server_share_the_ids_that_were_sent(node_process):
    with websocket_server("ids-shared") as server:
        for connect in (
            lambda: WebsocketClientWorker(hook, "localhost", server.port, id="ids-shared"),
            lambda: node_process.connect(hook),
        ):
            clients = []
            for _ in range(2):
                clients.append(connect())
                me._known_workers.pop(clients[-1].id, None)
            assert clients[0] is not clients[1]
            x = torch.tensor([1.0, 2.0])
            first, second = (x.send(client) for client in clients)
            assert first.id_at_location == x.id != second.id_at_location
            assert torch.equal(first.get(), x) and torch.equal(second.get(), x)
            for client in clients:
                client.close()
