"""Moved pointers that are sent on, fetched, moved again, copied or passed to plans keep the way back of gradients."""

from __future__ import annotations

import copy
import gc

import pytest
import torch
from torch import nn

import syft as sy
from syft.exceptions import SpentPointerError, SyftError, UnsupportedOperationError
from syft.pointers.moves import ALIVE
from tests.helpers import processes
from tests.helpers.nodes import forget, node, websocket_server

EXPECTED = [18.0, 36.0]  # of w, for ((3 * w) ** 2).sum()


@pytest.fixture(params=["inline", "thread"])
def three(make_worker, request):
    return [make_worker(name, request.param) for name in ("alice", "bob", "carol")]


@pytest.fixture(autouse=True)
def no_moves_left():
    """Check that moves are forgotten with the pointers that carry them."""
    others = {each().number for each in tuple(ALIVE) if each() is not None}
    yield
    gc.collect()
    assert {each().number for each in tuple(ALIVE) if each() is not None} <= others


def moved_from(alice, bob):
    """Return a leaf at alice, and a copy of three times the leaf, at bob."""
    w = torch.tensor([1.0, 2.0], requires_grad=True).send(alice)
    return w, (w * 3).move(bob, requires_grad=True)


def squared():
    return sy.Plan(forward_func=_loss).build(torch.ones(2, requires_grad=True))


def _loss(x):
    loss = (x * x).sum()
    loss.backward()
    return loss


def gradient(w):
    return None if w.grad is None else w.grad.copy().get().tolist()


def in_place(method, *args):
    def run(x):
        getattr(x, method)(*args)
        return x

    return run


# A use of the copy at bob -> the tensor whose squares are differentiated.
TRANSFERS = {
    "sent on": lambda x, a, c: x.send(c),
    "sent on in place": lambda x, a, c: in_place("send_", c)(x),
    "sent on twice": lambda x, a, c: x.send(c).send(a),
    "sent on to its own worker": lambda x, a, c: x.send(c).send(x.location),
    "sent on and fetched": lambda x, a, c: x.send(c).get(),
    "sent on twice and fetched": lambda x, a, c: x.send(c).send(a).get().get(),
    "sent on and copied": lambda x, a, c: x.send(c).copy(),
    "sent on and deep-copied": lambda x, a, c: copy.deepcopy(x.send(c)),
    "sent on and moved": lambda x, a, c: x.send(c).move(a),
    "sent on and moved with gradients": lambda x, a, c: x.send(c).move(a, requires_grad=True),
    "sent on under an AutogradTensor": lambda x, a, c: sy.AutogradTensor().on(x).send(c),
    "mid_get": lambda x, a, c: in_place("mid_get")(x.send(c)),
    "mid_get twice": lambda x, a, c: in_place("mid_get")(in_place("mid_get")(x.send(c).send(a))),
    "remote_send": lambda x, a, c: x.remote_send(c),
    "remote_send and back": lambda x, a, c: x.remote_send(c).remote_get(),
    "remote_send and fetched": lambda x, a, c: x.remote_send(c).get(),
    "remote_send with the location": lambda x, a, c: x.remote_send(c, change_location=True),
    "moved": lambda x, a, c: x.move(c),
    "moved in place": lambda x, a, c: x.move_(c),
    "moved with gradients": lambda x, a, c: x.move(c, requires_grad=True),
    "moved home": lambda x, a, c: x.move(a),
    "fetched": lambda x, a, c: x.get(),
    "fetched in place": lambda x, a, c: x.get_(),
    "moved to the local worker": lambda x, a, c: x.move(sy.local_worker),
    "copied": lambda x, a, c: x.copy(),
    "cloned": lambda x, a, c: x.clone(),
    "deep-copied": lambda x, a, c: copy.deepcopy(x),
}


@pytest.mark.parametrize("transfer", TRANSFERS)
def test_t1_moved_pointers_keep_their_way_back(three, transfer):
    alice, bob, carol = three
    w, x = moved_from(alice, bob)
    y = TRANSFERS[transfer](x, alice, carol)
    del x
    gc.collect()
    (y * y).sum().backward()
    assert gradient(w) == EXPECTED
    (y * y).sum().backward()
    assert gradient(w) == [2 * value for value in EXPECTED]


@pytest.mark.parametrize("transfer", ["sent on", "remote_send", "moved", "fetched", "deep-copied"])
def test_t1_sent_tensors_keep_their_way_back(three, transfer):
    alice, bob, carol = three
    x = torch.tensor([1.0, 2.0])
    y = TRANSFERS[transfer](x.send(bob, requires_grad=True), alice, carol)
    (y * y).sum().backward()
    assert x.grad.tolist() == [2, 4]


def test_t1_a_sent_multi_pointer_keeps_the_way_back(three):
    alice, bob, carol = three
    w, x = moved_from(alice, bob)
    y = x.send(alice, carol)
    (y * y).sum().backward()
    assert gradient(w) == [36, 72]
    fetched = torch.tensor([1.0, 2.0]).send(bob, alice, requires_grad=True).send(carol).get()
    assert fetched.location == [bob, alice]


def test_t1_results_that_are_sent_on_keep_the_way_back(three):
    alice, bob, carol = three
    w, x = moved_from(alice, bob)
    (x * x).send(carol).sum().backward()
    assert gradient(w) == EXPECTED
    w, x = moved_from(alice, bob)
    (x.send(carol) * x.send(carol)).get().sum().backward()
    assert gradient(w) == EXPECTED


def test_t1_pointers_to_pointers_move_with_gradients(three):
    alice, bob, carol = three
    w = torch.tensor([1.0, 2.0], requires_grad=True).send(alice)
    moved = (w * 3).send(bob).move(carol, requires_grad=True)
    (moved * moved).sum().backward()
    assert gradient(w) == EXPECTED


def test_t1_plans_that_differentiate_send_gradients_back(three):
    alice, bob, carol = three
    plan = squared()
    w, x = moved_from(alice, bob)
    plan(x)
    assert gradient(w) == EXPECTED
    w, x = moved_from(alice, bob)
    sent = plan.send(bob)
    sent(x)
    assert gradient(w) == EXPECTED
    (found,) = bob.search([sent.id_at_location])  # its operations are not known here
    found(x)
    assert gradient(w) == [2 * value for value in EXPECTED]
    w, x = moved_from(alice, bob)
    plan.send(carol)(x.send(carol))
    assert gradient(w) == EXPECTED


def test_t1_plans_that_do_not_differentiate_cost_nothing(three):
    alice, bob, _ = three
    forward = sy.Plan(forward_func=lambda x: x * x).build(torch.ones(2)).send(bob)
    w, x = moved_from(alice, bob)
    with sy.count_messages() as count:
        y = forward(x)
    assert count.messages == 1
    y.sum().backward()
    assert gradient(w) == EXPECTED


LEAVING = {
    "moved": lambda x, c: x.move(c),
    "fetched": lambda x, c: x.get(),
    "remote_send": lambda x, c: x.remote_send(c),
    "mid_get": lambda x, c: x.send(c).mid_get(),
}


@pytest.mark.parametrize("leave", LEAVING)
def test_t1_results_of_a_copy_that_has_left_are_refused(three, leave):
    alice, bob, carol = three
    w, x = moved_from(alice, bob)
    loss = (x * x).sum()
    LEAVING[leave](x, carol)
    with pytest.raises((SpentPointerError, UnsupportedOperationError), match=r"moved to|fetched by"):
        loss.backward()
        bob.synchronize()
    assert gradient(w) is None


def test_t1_moved_pointers_are_not_serialized(three):
    alice, bob, _ = three
    _, x = moved_from(alice, bob)
    for obj in (x, x * 2, [x], x.child):
        with pytest.raises(UnsupportedOperationError, match=r"x\.detach\(\)"):
            sy.serialize(obj)
    with pytest.raises(UnsupportedOperationError, match="serialize"):
        sy.ObjectWrapper(x).send(alice)
    detached = x.detach()
    again = sy.deserialize(sy.serialize(detached))
    assert again.copy().get().tolist() == [3, 6]


def test_t1_deep_copies_of_results_are_refused_as_in_torch(three):
    _, x = moved_from(*three[:2])
    with pytest.raises(UnsupportedOperationError, match=r"x\.clone\(\)"):
        copy.deepcopy(x * 2)


def test_t1_remote_get_keeps_the_claim_of_its_client(three, nothing_left):
    alice, bob, carol = three
    x = torch.ones(2).send(bob).send(carol)
    x.remote_get()
    assert len(carol._objects) == 1
    del x
    nothing_left(alice, bob, carol)


# --- other kinds of workers ----------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def process_workers():
    workers = [processes.start(f"way-{name}") for name in ("one", "two")]
    yield workers
    for worker in workers:
        processes.end(worker)


@pytest.fixture(scope="module")
def server():
    with websocket_server("way-websocket") as process:
        yield process


@pytest.fixture(scope="module")
def nodes():
    with node("way-node") as process:
        yield process


@pytest.fixture(params=["process", "websocket", "node"])
def elsewhere(request, hook):
    """A worker in another process."""
    if request.param == "process":
        yield request.getfixturevalue("process_workers")[0]
        return
    named = request.getfixturevalue("server" if request.param == "websocket" else "nodes")
    client = (
        sy.WebsocketClientWorker(hook, "localhost", named.port, id="way-websocket")
        if request.param == "websocket"
        else named.connect(hook)
    )
    yield client
    client.close()
    forget(hook, client)


@pytest.mark.parametrize("transfer", ["fetched", "fetched in place", "copied", "deep-copied"])
def test_t1_copies_in_other_processes_keep_their_way_back(elsewhere, transfer):
    x = torch.tensor([1.0, 2.0])
    y = TRANSFERS[transfer](x.send(elsewhere, requires_grad=True), None, None)
    (y * y).sum().backward()
    assert x.grad.tolist() == [2, 4]


def test_t1_plans_in_other_processes_send_gradients_back(elsewhere):
    x = torch.tensor([1.0, 2.0])
    squared().send(elsewhere)(x.send(elsewhere, requires_grad=True))
    assert x.grad.tolist() == [2, 4]


@pytest.mark.parametrize("transfer", ["sent on", "moved", "mid_get", "remote_send", "sent on and fetched"])
def test_t1_transfers_between_processes_keep_the_way_back(process_workers, make_worker, transfer):
    first, second = process_workers
    w, x = moved_from(make_worker("alice"), first)
    y = TRANSFERS[transfer](x, None, second)
    (y * y).sum().backward()
    assert gradient(w) == EXPECTED


# --- leaves that have left -----------------------------------------------------------------------------------------


def test_t1_backward_through_a_fetched_model_is_refused(three):
    alice = three[0]
    model, x = nn.Linear(2, 1).send(alice), torch.ones(1, 2).send(alice)
    loss = model(x).sum()
    model.get()
    with pytest.raises(UnsupportedOperationError, match=r"fetched by 'me'.*Call backward\(\) before get\(\)"):
        loss.backward()
    assert model.weight.grad is None
    model.send(alice)
    model(x).sum().backward()
    assert model.weight.grad.copy().get().tolist() == [[1, 1]]


def test_t1_backward_through_a_fetched_tensor_is_refused(three):
    alice, bob, _ = three
    for leave in (lambda t: t.get(), lambda t: t.move(bob), lambda t: t.get_()):
        x = torch.ones(2, requires_grad=True).send(alice)
        y = x * 2
        leave(x)
        z = y.exp()  # computed after it has left
        with pytest.raises(UnsupportedOperationError, match="would get no gradient"):
            z.sum().backward()


def test_t1_backward_through_a_fetched_model_is_refused_elsewhere(elsewhere):
    model, x = nn.Linear(2, 1).send(elsewhere), torch.ones(1, 2).send(elsewhere)
    loss = model(x).sum()
    model.get()
    with pytest.raises(UnsupportedOperationError, match="would get no gradient"):
        loss.backward()


def test_t1_other_gradients_of_the_graph_are_computed(three):
    alice = three[0]
    x, w = (torch.ones(2, requires_grad=True).send(alice) for _ in range(2))
    y = (x * w).sum()
    x.get()
    y.backward(inputs=[w])
    assert w.grad.copy().get().tolist() == [1, 1]


def test_t1_a_fetch_that_is_refused_leaves_the_tensor_usable(make_worker):
    alice = make_worker("alice", "bytes")
    x = torch.ones(2, requires_grad=True).send(alice)
    y = (x * 2).sum()
    with pytest.raises(SyftError):
        alice_stream = sy.local_worker.stream_to(alice)
        alice_stream.fetch_many([x.id_at_location, 12345])
    y.backward()
    assert x.grad.copy().get().tolist() == [2, 2]


def test_t1_a_tensor_of_the_owner_may_be_used_after_a_client_fetched_it(make_worker):
    alice = make_worker("alice")
    own = torch.ones(2, requires_grad=True)
    alice.load_data([own])
    (pointer,) = alice.search([own.id])
    pointer.get()
    (own * 2).sum().backward()
    assert own.grad.tolist() == [2, 2]


def test_t1_training_rounds_with_fetched_models_do_not_wait(hook, make_worker):
    bob = make_worker("bob", "thread")
    model, x = nn.Linear(2, 1), torch.ones(1, 2).send(bob)
    for _ in range(3):
        model.send(bob)
        loss = model(x).sum()
        with sy.count_messages() as count:
            loss.backward()
        assert count.rounds == 0
        assert loss.get().shape == ()
        model.get()
