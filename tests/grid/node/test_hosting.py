"""Hosted models: permissions to query, download, replace and delete them; contents of results and errors."""

from __future__ import annotations

import threading

import pytest
import torch

import syft as sy
from syft.core.references import Ref
from syft.exceptions import (
    CommandNotAllowedError,
    GetNotPermittedError,
    ModelError,
    ModelNotFoundError,
    QuotaExceededError,
    SerdeError,
)
from syft.hosting import client, server
from syft.messaging import hosting as messages
from syft.messaging.message import Operation
from syft.pointers.pointer_plan import COPY_PLAN, PLAN_PARAMETERS, RUN_PLAN
from syft.workers.access.policy import DenyAll
from tests.helpers.processes import end, start

WEIGHT = 31.25  # shows up nowhere but in the model


class Logged(DenyAll):
    """A policy that lets nothing out, with a log."""

    def __init__(self):
        self.rows = []
        self.audit = self

    def write(self, user, action, obj_id=None, allowed=None, **more):
        self.rows.append((user, action, obj_id, allowed))


@pytest.fixture
def guarded(make_worker):
    worker = make_worker("host")
    worker.policy = Logged()
    return worker


@pytest.fixture
def eve(make_worker):
    return make_worker("eve")


def linear(weight=WEIGHT):
    """A plan of x * weight + 1, for rows of two."""
    module = torch.nn.Linear(2, 1)
    torch.nn.init.constant_(module.weight, weight), torch.nn.init.ones_(module.bias)
    return sy.Plan(name="linear", forward_func=module, id="linear").build(torch.zeros(1, 2))


def ask(worker, name="linear", data=None):
    return client.query(worker, name, torch.tensor([[1.0, 2.0]]) if data is None else data)


# --- plain hosting --------------------------------------------------------------------------------------------


def test_a_model_is_queried_by_its_name(make_worker):
    worker = make_worker("host")
    client.host(worker, linear(), allow_remote_inference=True)
    assert ask(worker).tolist() == [[3 * WEIGHT + 1]]
    assert ask(worker, data=torch.ones(5, 2)).shape == (5, 1)
    (facts,) = client.facts_at(worker)
    assert facts == {
        "name": "linear",
        "owner": None,
        "mpc": False,
        "allow_download": False,
        "allow_remote_inference": True,
    }
    assert client.facts_at(worker, "linear") == [{**facts, "inputs": ((1, 2),)}]


def test_a_model_outlives_its_sender_and_no_pointer_deletes_it(make_worker):
    worker, alice = make_worker("host"), make_worker("alice")
    with sy.acting_as(alice):
        client.host(worker, linear(), allow_remote_inference=True)
    alice.close()
    assert ask(worker).tolist() == [[3 * WEIGHT + 1]]
    found = worker.search(["model:linear"])
    del found
    assert ask(worker).tolist() == [[3 * WEIGHT + 1]]


def test_models_with_several_inputs_and_outputs(make_worker):
    worker = make_worker("host")

    @sy.func2plan(args_shape=[(2,), (2,)])
    def both(x, y):
        return x + y, {"difference": x - y}

    client.host(worker, both, "both", allow_remote_inference=True)
    total, rest = client.query(worker, "both", (torch.tensor([1.0, 2.0]), torch.tensor([3.0, 5.0])))
    assert total.tolist() == [4, 7]
    assert rest["difference"].tolist() == [-2, -3]


def test_modules_become_plans_and_script_modules_need_trust(make_worker):
    worker = make_worker("host")
    module = torch.nn.Linear(2, 1)
    with pytest.raises(ModelError, match="args_shape"):
        client.host(worker, module, "module")
    client.host(worker, module, "module", allow_remote_inference=True, args_shape=[(1, 2)])
    x = torch.tensor([[1.0, 2.0]])
    assert torch.equal(ask(worker, "module"), module(x).detach())
    script = torch.jit.script(module)
    client.host(worker, script, "script", allow_remote_inference=True)
    assert torch.equal(ask(worker, "script"), module(x).detach())
    wary = sy.VirtualWorker(sy.local_worker.hook, id="wary", serialize=True)
    wary.trusts_script_modules = False
    with pytest.raises(SerdeError):
        client.host(wary, script, "script")
    assert server.names_at(wary) == []


def test_asking_changes_nothing(make_worker):
    worker = make_worker("host")
    norm = torch.nn.BatchNorm1d(2)
    client.host(worker, norm, "norm", allow_remote_inference=True, allow_download=True, args_shape=[(4, 2)])
    first, second = (client.query(worker, "norm", 100 * torch.ones(4, 2)) for _ in range(2))
    assert torch.equal(first, second)
    mean = client.download(worker, "norm").state_dict()
    assert all(value.abs().max() <= 1 for value in mean.values())


def test_answers_and_downloads_share_no_memory_with_the_model(make_worker):
    worker = make_worker("host")
    state = torch.tensor([1.0, 2.0])

    @sy.func2plan(args_shape=[(2,)], state=(state,))
    def give(x, state):
        (weight,) = state.read()
        return weight

    client.host(worker, give, "give", allow_remote_inference=True, allow_download=True)
    client.query(worker, "give", torch.zeros(2)).zero_()
    for tensor in client.download(worker, "give").state.tensors():
        tensor.zero_()
    assert client.query(worker, "give", torch.zeros(2)).tolist() == [1, 2]


def test_many_threads_query_at_once(make_worker):
    worker = start("hosting-threads")
    try:
        client.host(worker, linear(1.0), allow_remote_inference=True)
        wrong = []

        def many(number):
            for step in range(20):
                x = torch.full((1, 2), float(1000 * number + step))
                if ask(worker, data=x).item() != 2 * x[0, 0].item() + 1:
                    wrong.append(number)

        threads = [threading.Thread(target=many, args=(number,)) for number in range(6)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert not wrong
        with pytest.raises(ModelNotFoundError, match="hosts no model 'gone'"):
            ask(worker, "gone")
    finally:
        end(worker)


# --- what is allowed ------------------------------------------------------------------------------------------


def test_permissions_of_the_owner_hold(guarded, eve):
    client.host(guarded, linear(), "closed")
    client.host(guarded, linear(), "asked", allow_remote_inference=True)
    client.host(guarded, linear(), "given", allow_download=True)
    with sy.acting_as(eve):
        assert [row["name"] for row in client.facts_at(guarded)] == ["asked", "given"]
        with pytest.raises(ModelNotFoundError):
            ask(guarded, "closed")
        with pytest.raises(ModelNotFoundError):
            client.download(guarded, "closed")
        assert ask(guarded, "asked").item() == 3 * WEIGHT + 1
        with pytest.raises(ModelError, match="may not be downloaded"):
            client.download(guarded, "asked")
        with pytest.raises(RuntimeError, match="may not be queried by other users"):
            ask(guarded, "given")
        assert client.download(guarded, "given")(torch.tensor([[1.0, 2.0]])).item() == 3 * WEIGHT + 1
    # who hosted it may do everything
    assert ask(guarded, "closed").item() == 3 * WEIGHT + 1
    assert (eve.id, "download model", "model:asked", False) in guarded.policy.rows
    assert (eve.id, "inference", "model:asked", True) in guarded.policy.rows


def test_only_owners_replace_and_delete_a_model(guarded, eve):
    client.host(guarded, linear(), "mine", allow_remote_inference=True)
    with sy.acting_as(eve):
        with pytest.raises(ModelError, match="is taken"):
            client.host(guarded, linear(0.0), "mine")
        with pytest.raises(ModelError, match="only be deleted by its owner"):
            client.delete(guarded, "mine")
    assert ask(guarded, "mine").item() == 3 * WEIGHT + 1
    client.host(guarded, linear(2.0), "mine", allow_remote_inference=True)
    assert ask(guarded, "mine").item() == 7
    eve_session = eve.stream_to(guarded).session
    eve_session.role = "owner"  # as the token of the node's owner would say
    with sy.acting_as(eve):
        client.delete(guarded, "mine")
    with pytest.raises(ModelNotFoundError):
        ask(guarded, "mine")


def test_weights_can_not_be_read_by_other_calls(guarded, eve):
    client.host(guarded, linear(), "asked", allow_remote_inference=True)
    with sy.acting_as(eve):
        stream = eve.stream_to(guarded)
        with pytest.raises(GetNotPermittedError):
            stream.fetch("model:asked")
        for call in (PLAN_PARAMETERS, RUN_PLAN, COPY_PLAN, "syft.call"):
            with pytest.raises((CommandNotAllowedError, GetNotPermittedError)):
                stream.ask(Operation(call, None, (Ref("model:asked"),), {}, (12345,)))


def test_errors_never_show_weights(guarded, eve):
    index = torch.tensor([int(WEIGHT)])

    @sy.func2plan(args_shape=[(64,)], state=(index,))
    def pick(x, state):
        (place,) = state.read()
        return x[place]

    client.host(guarded, pick, "pick", allow_remote_inference=True)
    with sy.acting_as(eve), pytest.raises(ModelError) as caught:
        client.query(guarded, "pick", torch.zeros(3))
    shown = repr(caught.value) + "".join(getattr(caught.value, "__notes__", ()))
    shown = shown.replace(guarded.id, "")  # the id contains a random number
    assert "31" not in shown and "(3,)" in shown and "(64,)" in shown and "is hidden" in shown
    assert caught.value.__cause__ is None and caught.value.__suppress_context__
    with pytest.raises(ModelError, match="31"):  # users who may download the model see the cause
        client.query(guarded, "pick", torch.zeros(3))


def test_queries_can_not_name_objects_of_the_worker(guarded, eve):
    client.host(guarded, linear(), "asked", allow_remote_inference=True)
    private = torch.tensor([[5.0, 6.0]]).tag("#private").send(guarded)
    with sy.acting_as(eve):
        found = eve.request_search(["#private"], guarded)[0]
        with pytest.raises(ModelError, match="plain tensors"):
            client.query(guarded, "asked", found)
        for forged in (Ref(private.id_at_location), found.child, "text", 5, None):
            with pytest.raises((ModelError, SerdeError)):
                eve.send_msg(messages.InferenceMessage((forged,), "asked"), guarded)


@pytest.mark.parametrize(
    "name",
    ["", " ", "a/b", "..", "../x", ".hidden", "a\\b", "a\nb", "x" * 101, "\u202eabc", " a", "a ", "e\u0301", 7, None],
)
def test_bad_names_are_refused_on_both_sides(guarded, name):
    if not isinstance(name, int):
        with pytest.raises(ModelError, match="name of a model"):
            client.host(guarded, linear(), "" if name is None else name)
    plan = linear()
    with pytest.raises((ModelError, SerdeError, TypeError)):
        sy.local_worker.send_msg(messages.HostModelMessage(plan, name), guarded)
    assert server.names_at(guarded) == []


def test_unicode_names_are_names(guarded):
    client.host(guarded, linear(), "Röntgen 模型", allow_remote_inference=True)
    assert ask(guarded, "Röntgen 模型").item() == 3 * WEIGHT + 1


def test_models_that_can_not_be_hosted(make_worker, guarded):
    unbuilt = sy.Plan(forward_func=torch.nn.Linear(2, 1))
    with pytest.raises(ModelError, match="not built"):
        client.host(guarded, unbuilt, "x")
    with pytest.raises(ModelError, match="can't be hosted"):
        client.host(guarded, torch.zeros(2), "x")
    a, b, c = (make_worker(name) for name in "abc")
    with pytest.raises(ModelError, match="encrypted"):
        client.host(guarded, linear().fix_precision_().share_(a, b, crypto_provider=c), "x")
    for forged in (torch.zeros(2), None, sy.ObjectWrapper(len), "plan"):
        with pytest.raises((ModelError, SerdeError)):
            sy.local_worker.send_msg(messages.HostModelMessage(forged, "x"), guarded)
    assert server.names_at(guarded) == []


def test_there_is_a_limit_to_how_many(guarded, monkeypatch):
    monkeypatch.setattr(server, "MAX_USER_MODELS", 2)
    client.host(guarded, linear(), "one")
    client.host(guarded, linear(), "two")
    client.host(guarded, linear(), "two")  # in place of itself
    with pytest.raises(QuotaExceededError):
        client.host(guarded, linear(), "three")


def test_an_id_that_is_taken_is_not_a_model(guarded, eve):
    with sy.acting_as(eve):
        eve.send_object(torch.zeros(2), guarded, "model:squat", published=True)
        with pytest.raises(ModelNotFoundError):
            ask(guarded, "squat")
    with pytest.raises(sy.exceptions.IdNotUniqueError):
        client.host(guarded, linear(), "squat")
