"""Ids that users choose at a node: none can be taken for the id of somebody else's object."""

from __future__ import annotations

import http.client

import pytest
import torch

import syft as sy
from syft.core.id_provider import check_user_id, parse_id
from syft.exceptions import ModelError, NotPermittedError, SyftError
from syft.grid.node.api import ROUTERS
from syft.grid.node.node import Node
from syft.grid.node.settings import Settings
from syft.grid.storage.admin import ObjectAdmin
from syft.messaging import message as m

LOOK_ALIKES = ("12", "-12", "0", "007", "+5", "1_000", " 5", "5 ", "\u0661\u0662", "\uff11")
FORBIDDEN = (*LOOK_ALIKES, "dataset:pat", "model:risk", "", "two\nlines", "tab\t", "\x1b[2J", "line\u2028")


@pytest.fixture(scope="module")
def node(tmp_path_factory):
    made = Node(Settings(id="ids", store=tmp_path_factory.mktemp("node") / "store"), ROUTERS)
    made.start()
    yield made
    made.stop()


@pytest.fixture
def mallory(node):
    token = node.identity.tokens.issue("mallory", "user", 600)
    client = sy.connect(f"http://127.0.0.1:{node.port}", token=token, hook=sy.TorchHook(torch))
    yield client
    client.close()


def delete(node, path):
    token = node.identity.tokens.issue("olga", "owner", 600)
    connection = http.client.HTTPConnection("127.0.0.1", node.port, timeout=60)
    try:
        connection.request("DELETE", f"/v1/objects/{path}", headers={"Authorization": f"Bearer {token}"})
        return connection.getresponse().status
    finally:
        connection.close()


@pytest.mark.parametrize("obj_id", FORBIDDEN)
def test_a_node_refuses_ids_that_could_be_taken_for_others(obj_id, node, mallory):
    for published in (True, False):
        with pytest.raises(NotPermittedError, match="The id"):
            sy.local_worker.send_msg(m.ObjectMessage(torch.ones(2), obj_id, published), mallory)
    with pytest.raises(NotPermittedError, match="The id"):
        sy.local_worker.send_msg(m.Operation("torch.zeros", None, (3,), {}, (obj_id,)), mallory)
    assert obj_id not in node.worker.object_store.objects


def test_a_node_takes_other_ids(node, mallory):
    for obj_id in (12345, -7, "patients", "a12", "12 months", "1.5", "datasets", "Größe"):
        sy.local_worker.send_msg(m.ObjectMessage(torch.ones(2), obj_id, True), mallory)
        assert obj_id in node.worker.object_store.objects


def test_the_owner_deletes_exactly_the_object_that_is_named(node, mallory):
    number = ObjectAdmin(node.object_manager).publish(torch.ones(3), ["#patients"])
    with pytest.raises(NotPermittedError, match="text of a number"):
        sy.local_worker.send_msg(m.ObjectMessage(torch.ones(2), str(number), True), mallory)
    # A store of an earlier version may hold such an object; the text of a number means the number all the same.
    node.worker.object_store.objects[str(number)] = torch.zeros(1)
    assert delete(node, number) == 204
    assert number not in node.worker.object_store.objects and str(number) in node.worker.object_store.objects
    assert delete(node, number) == 404


def test_negative_numbers_are_ids_too(node, mallory):
    sy.local_worker.send_msg(m.ObjectMessage(torch.ones(2), -99, True), mallory)
    assert delete(node, -99) == 204


def test_ordinary_workers_take_any_id(bob):
    x = torch.ones(2)
    x.id = "1"
    assert x.send(bob).id_at_location is not None
    sy.local_worker.send_msg(m.ObjectMessage(torch.ones(2), "1"), bob)
    assert "1" in bob.object_store.objects


def test_hosting_a_model_still_works(node, mallory):
    plan = sy.Plan(name="linear", forward_func=torch.nn.Linear(3, 1)).build(torch.zeros(1, 3))
    mallory.serve_model(plan, model_id="risk", allow_remote_inference=True)
    assert "model:risk" in node.worker.object_store.objects


def test_a_model_that_the_owner_replaces_is_the_owners(node, mallory):
    """Mallory takes the name first. After that she can neither have the owner's model, nor replace or delete it."""
    plan = sy.Plan(name="linear", forward_func=torch.nn.Linear(3, 1)).build(torch.zeros(1, 3))
    mallory.serve_model(plan, model_id="scores", allow_remote_inference=True)
    before = node.object_manager.ledger.usage("mallory")
    token = node.identity.tokens.issue("olga", "owner", 600)
    olga = sy.connect(f"http://127.0.0.1:{node.port}", token=token, hook=sy.TorchHook(torch))
    try:
        for _ in range(2):
            olga.serve_model(plan, model_id="scores", allow_remote_inference=True)
            assert node.object_manager.item("model:scores").facts.owner == "olga"
        assert node.object_manager.ledger.usage("mallory").objects == before.objects - 1
        for attempt in (
            lambda: mallory.download_model("scores"),
            lambda: mallory.serve_model(plan, model_id="scores", allow_download=True),
            lambda: mallory.delete_model("scores"),
        ):
            with pytest.raises(ModelError, match="scores"):
                attempt()
        assert mallory.run_remote_inference("scores", torch.zeros(1, 3)).shape == (1, 1)
        assert node.object_manager.item("model:scores").facts.owner == "olga"
    finally:
        olga.close()


def test_a_user_replaces_an_own_model_and_keeps_it(node, mallory):
    plan = sy.Plan(name="linear", forward_func=torch.nn.Linear(3, 1)).build(torch.zeros(1, 3))
    for _ in range(2):
        mallory.serve_model(plan, model_id="own", allow_remote_inference=True)
    assert node.object_manager.item("model:own").facts.owner == "mallory"
    mallory.delete_model("own")


def test_an_id_is_read_in_one_way():
    assert [parse_id(text) for text in ("0", "12", "-12", "012", "x", "-0", "1_0")] == [
        0,
        12,
        -12,
        "012",
        "x",
        0,
        "1_0",
    ]
    for text in LOOK_ALIKES:
        with pytest.raises(SyftError):
            check_user_id(text)
