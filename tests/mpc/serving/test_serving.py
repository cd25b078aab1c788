"""Encrypted serving: a model is encrypted once, and clients in other processes get private predictions."""

from __future__ import annotations

import gc
import threading
import time

import pytest
import torch
from torch import nn

import syft as sy
from syft.exceptions import GetNotPermittedError, ProtocolError, SyftError
from syft.messaging.hosting import SharedInferenceMessage
from syft.mpc.serving import endpoint
from syft.mpc.serving.invitation import Invitation
from syft.workers.access.policy import ALLOW_ALL, DenyAll
from tests.helpers.mpc.serving import BITS, DECIMALS, ClientProcess, close, encrypted, make_model
from tests.helpers.mpc.socket_parties import soon
from tests.helpers.processes import end, start

X = torch.linspace(-1, 1, 8).view(1, 8)


@pytest.fixture
def cast(make_worker, kind):
    return [make_worker(name, kind) for name in ("alice", "bob", "carol")]


@pytest.fixture
def trio(make_worker):
    return [make_worker(name) for name in ("alice", "bob", "carol")]


def served_by(workers, **options):
    model, clear = make_model()
    served = encrypted(model, workers).serve(in_shape=(1, 8), **options)
    with torch.no_grad():
        return served, clear(X), clear


# --- in one process -------------------------------------------------------------------------------------------


def test_predictions(cast, nothing_left):
    served, expected, clear = served_by(cast, num_requests=3)
    with sy.mpc.connect(served.invite()) as client:
        for left in (2, 1, 0):
            assert close(client.query_model(X), expected)
            assert client.requests_left == left == served.requests_left
        other = torch.randn(1, 8)
        with pytest.raises(ProtocolError, match="All requests of this invitation were used"):
            client.query_model(other)
    served.stop()
    del clear, served
    gc.collect()
    nothing_left(*cast)


@pytest.mark.parametrize("count", [2, 3, 4])
@pytest.mark.parametrize("form", [DECIMALS, BITS], ids=["decimals", "bits"])
def test_parties_and_formats(make_worker, count, form):
    workers = [make_worker(f"party{i}") for i in range(count + 1)]
    model, clear = make_model()
    with encrypted(model, workers, form).serve(in_shape=(5, 8)) as served, sy.mpc.connect(served.invite()) as client:
        batch = torch.randn(5, 8)
        for _ in range(2):
            assert close(client.query_model(batch), clear(batch).detach(), 0.02)
        assert client.requests_left is None and served.requests_left is None


def test_function_secret_sharing(trio):
    model, clear = make_model()
    served = encrypted(model, trio, protocol="fss").serve(in_shape=(1, 8))
    assert close(sy.mpc.connect(served.invite()).query_model(X), clear(X).detach())


def test_the_owner_chooses_the_result(trio):
    model, clear = make_model()
    batch = torch.randn(6, 8)
    served = encrypted(model, trio).serve(in_shape=(6, 8), answer=lambda y: y.argmax(dim=1))
    client = sy.mpc.connect(served.invite())
    assert torch.equal(client.query_model(batch).long(), clear(batch).argmax(dim=1))
    both = model.serve(in_shape=(6, 8), answer=lambda y: (y, y.max(dim=1).values))
    scores, best = sy.mpc.connect(both.invite()).query_model(batch)
    assert close(scores, clear(batch).detach()) and close(best, clear(batch).max(dim=1).values.detach())


def test_several_inputs(trio):
    class Both(nn.Module):
        def __init__(self):
            super().__init__()
            self.layer = nn.Linear(4, 2)

        def forward(self, x, y):
            return self.layer(x) * y.sum()

    torch.manual_seed(0)
    model, clear = Both(), Both()
    clear.load_state_dict(model.state_dict())
    served = encrypted(model, trio).serve(in_shape=[(2, 4), (3,)])
    x, y = torch.randn(2, 4), torch.randn(3)
    client = sy.mpc.connect(served.invite())
    assert close(client.query_model(x, y), clear(x, y).detach(), 0.01)
    assert close(client.query_model(x.double(), y.tolist()), clear(x, y).detach(), 0.01)
    with pytest.raises(SyftError, match=r"takes \(2, 4\) and \(3,\), not \(2, 4\)"):
        client.query_model(x)


def test_a_convolution_and_evaluation_mode(trio):
    """Dropout is off and batch norm uses what it has learnt, whatever mode the model is in; which stays as it was."""
    torch.manual_seed(0)

    def make():
        return nn.Sequential(
            nn.Conv2d(1, 2, 3), nn.BatchNorm2d(2), nn.ReLU(), nn.Flatten(), nn.Dropout(0.5), nn.Linear(32, 4)
        )

    model, clear = make(), make()
    model(torch.randn(8, 1, 6, 6)).detach()
    clear.load_state_dict(model.state_dict())
    served = encrypted(model, trio).serve(in_shape=(1, 1, 6, 6))
    assert model.training
    x = torch.randn(1, 1, 6, 6)
    assert close(sy.mpc.connect(served.invite()).query_model(x), clear.eval()(x).detach(), 0.01)


def test_a_plan(trio):
    model, clear = make_model()

    @sy.func2plan(args_shape=[(2, 8)])
    def classify(x):
        return model(x).argmax(dim=1)

    alice, bob, carol = trio
    classify.fix_precision_(**BITS).share_(alice, bob, crypto_provider=carol)
    batch = torch.randn(2, 8)
    with sy.mpc.serve(classify, in_shape=(2, 8)) as served, sy.mpc.connect(served.invite()) as client:
        assert torch.equal(client.query_model(batch).long(), clear(batch).argmax(dim=1))


def test_the_served_model_does_not_change_with_the_owners(cast):
    served, expected, _clear = served_by(cast)
    model, clear = make_model(1)
    other = encrypted(model, cast).serve(in_shape=(1, 8))
    client, second = sy.mpc.connect(served.invite()), sy.mpc.connect(other.invite())
    model.get()  # its shares are fetched, and gone from the store; the served ones stay
    assert close(client.query_model(X), expected)
    assert close(second.query_model(X), clear(X).detach())
    other.stop()
    assert close(client.query_model(X), expected)
    with pytest.raises(ProtocolError, match="not served to you"):
        second.query_model(X)


def test_one_program_and_two_messages_a_request(trio):
    served, expected, _clear = served_by(trio)
    client = sy.mpc.connect(served.invite())
    with sy.mpc.count() as cost, sy.count_messages() as n:
        assert close(client.query_model(X), expected)
    assert cost.runs == 1
    assert n.messages == 4, "to each party one that asks and one that fetches; the owner and the dealer get none"
    assert {name.split("-")[0] for _, name in n.by_worker} == {"alice", "bob"} if hasattr(n, "by_worker") else True


def test_a_second_local_worker_asks(trio, make_worker):
    served, expected, _clear = served_by(trio)
    laptop = make_worker("laptop")
    client = sy.mpc.ModelClient(laptop).connect_to_model(served.invite(), in_shape=(1, 8), out_shape=(1, 3))
    assert close(client.query_model(X), expected)
    assert "(1, 8) -> (1, 3)" in repr(client)
    client.close()
    assert "not connected" in repr(client)


def test_requests_are_divided_among_invitations(trio):
    served, _expected, _clear = served_by(trio, num_requests=5)
    first = served.invite(2)
    with pytest.raises(SyftError, match="3 of 5 requests are left"):
        served.invite(4)
    second = served.invite()
    assert (first.requests, second.requests) == (2, 3)
    with pytest.raises(SyftError, match="All requests are assigned"):
        served.invite()
    client = sy.mpc.connect(first)
    client.query_model(X)
    assert served.requests_left == 4
    served.revoke(first)
    with pytest.raises(SyftError, match="not served to you"):
        client.query_model(X)
    with pytest.raises(SyftError, match="revoked before"):
        served.revoke(first)
    assert served.invite().requests == 1, "what was not used can be promised again"
    assert served.requests_left == 4
    with pytest.raises(SyftError, match="at least 1"):
        served.invite(0)


def test_wrong_shapes_and_values_are_found_before_anything_is_sent(cast):
    served, expected, _clear = served_by(cast, num_requests=1)
    client = sy.mpc.connect(served.invite())
    for wrong in (torch.zeros(2, 8), torch.zeros(8), torch.zeros(1, 9), torch.zeros(0, 8), torch.tensor(1.0)):
        with pytest.raises(SyftError, match=r"takes \(1, 8\), not .*Nothing was sent"):
            client.query_model(wrong)
    for bad in (torch.full((1, 8), float("nan")), torch.full((1, 8), 1e30)):
        with pytest.raises(SyftError, match="NaN|encoded"):
            client.query_model(bad)
    with pytest.raises(SyftError, match="plain tensors"):
        client.query_model(X.fix_precision())
    assert close(client.query_model(X), expected), "none of these counted"


def test_models_that_can_not_be_served(trio, hook):
    alice, bob, _carol = trio
    with pytest.raises(SyftError, match="Only encrypted models are served"):
        nn.Linear(2, 2).serve(in_shape=(1, 2))
    with pytest.raises(SyftError, match="Only encrypted models are served"):
        nn.Linear(2, 2).fix_precision().serve(in_shape=(1, 2))
    with pytest.raises(SyftError, match="crypto provider"):
        nn.Linear(2, 2).fix_precision().share(alice, bob).serve(in_shape=(1, 2))
    model = encrypted(nn.Linear(2, 2), trio)
    for requests in (0, -1, 2.5, True, "3"):
        with pytest.raises(SyftError, match="num_requests"):
            model.serve(in_shape=(1, 2), num_requests=requests)
    with pytest.raises(SyftError, match="in_shape"):
        model.serve(in_shape=("a", 2))
    with pytest.raises((SyftError, RuntimeError), match="shape|size"):
        model.serve(in_shape=(1, 5))
    with pytest.raises(SyftError, match="returns a shared tensor"):
        model.serve(in_shape=(1, 2), answer=lambda y: 3)
    with pytest.raises(SyftError, match="helper|snn"):
        encrypted(make_model()[0], trio, protocol="snn").serve(in_shape=(1, 8))
    with pytest.raises(SyftError, match="encrypted module or plan"):
        sy.mpc.serve(torch.relu, in_shape=(1, 2))


def test_the_policy_of_a_server_is_checked(trio):
    model, _clear = make_model()
    encrypted(model, trio)
    trio[1].policy = DenyAll()
    with pytest.raises(GetNotPermittedError):
        model.serve(in_shape=(1, 8))
    assert not endpoint._endpoints.get(trio[0]), "nothing is left at the other one"
    trio[1].policy = ALLOW_ALL


def test_stopping(cast):
    served, _expected, _clear = served_by(cast)
    invitation = served.invite()
    client = sy.mpc.connect(invitation)
    served.stop()
    served.stop()
    assert "stopped" in repr(served)
    with pytest.raises(SyftError, match="not served"):
        client.query_model(X)
    with pytest.raises(SyftError, match="No model is served here"):
        sy.mpc.connect(invitation)
    with pytest.raises(SyftError, match="not served any more"):
        served.invite()
    assert not endpoint._endpoints[cast[0]]
    assert served_by(cast, num_requests=2)[0].requests_left == 2


def test_a_client_is_used_as_it_should(trio):
    served, expected, _clear = served_by(trio)
    with pytest.raises(SyftError, match="not connected"):
        sy.mpc.ModelClient().query_model(X)
    invitation = served.invite()
    for shapes in ({"in_shape": (2, 8)}, {"out_shape": (1, 4)}):
        with pytest.raises(SyftError, match="The served model (takes|gives)"):
            sy.mpc.ModelClient().connect_to_model(invitation, **shapes)
    client = sy.mpc.connect(invitation.to_text())
    with pytest.raises(SyftError, match="connected to a model already"):
        client.connect_to_model(invitation)
    again = sy.mpc.connect(invitation)  # a restarted client: the latest visit counts
    assert close(again.query_model(X), expected)


def test_invitations_as_text(trio):
    served, _expected, _clear = served_by(trio, num_requests=3)
    invitation = served.invite()
    text = invitation.to_text()
    assert "\n" not in text and Invitation.from_text(f"  {text}\n") == invitation
    assert repr(invitation).startswith("<Invitation to a model at alice")
    for damaged in (
        text[:-9],
        text.replace("A", "B"),
        text[:30],
        "syft-invitation-1:",
        "hello",
        "",
        text + "!",
        None,
        3,
    ):
        with pytest.raises(SyftError, match="invitation"):
            Invitation.from_text(damaged)


# --- in processes ---------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def processes():
    workers = [start(name) for name in ("alice", "bob", "carol")]
    yield workers
    end(*workers)


@pytest.fixture(scope="module")
def client():
    process = ClientProcess()
    yield process
    process.end()


@pytest.mark.xdist_group("processes")
@pytest.mark.timeout(300)
class TestInProcesses:
    """The three servers, the owner and each client are different processes."""

    def test_two_clients_at_once(self, processes, client):
        model, clear = make_model()
        with encrypted(model, processes).serve(in_shape=(1, 8), num_requests=8) as served:
            assert "(1, 8) -> (1, 3), 4 requests" in client.connect(served.invite(4).to_text())
            with sy.mpc.connect(served.invite(4)) as other:
                for left in (3, 2, 1, 0):
                    x, y = torch.randn(1, 8), torch.randn(1, 8)
                    client.send("ask", x.tolist())
                    assert close(other.query_model(y), clear(y).detach()) and other.requests_left == left
                    answer, told = client.read()
                    assert told == left and close(answer, clear(x).detach())
            assert served.requests_left == 0
            name, text = client.ask(X)
            assert name == "ProtocolError" and "All requests of this invitation were used" in text

    def test_stopping_ends_it(self, processes):
        model, clear = make_model()
        served = encrypted(model, processes).serve(in_shape=(1, 8), num_requests=9)
        invitation = served.invite()
        client = sy.mpc.connect(invitation)
        assert close(client.query_model(X), clear(X).detach())
        assert (client.requests_left, served.requests_left) == (8, 8)
        served.stop()
        for _ in range(2):
            with pytest.raises(SyftError, match="rejects this invitation, or is lost"):
                client.query_model(X)
        with pytest.raises(SyftError, match="rejects this invitation"):
            sy.mpc.connect(invitation)

    def test_a_client_that_comes_again(self, processes):
        model, clear = make_model()
        with encrypted(model, processes).serve(in_shape=(1, 8), num_requests=3) as served:
            invitation = served.invite()
            for left in (2, 1, 0):
                with sy.mpc.connect(invitation) as client:
                    assert close(client.query_model(X), clear(X).detach()) and client.requests_left == left

    def test_threads_of_one_client(self, processes):
        model, clear = make_model()
        with encrypted(model, processes).serve(in_shape=(1, 8)) as served, sy.mpc.connect(served.invite()) as client:
            found = {}

            def ask(number):
                found[number] = client.query_model(X + number)

            threads = [threading.Thread(target=ask, args=(number,)) for number in range(4)]
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join()
            assert all(close(found[number], clear(X + number).detach(), 0.01) for number in range(4))

    def test_a_client_that_leaves_after_its_first_message(self, processes):
        model, clear = make_model()
        with encrypted(model, processes).serve(in_shape=(1, 8), num_requests=5) as served:
            victim, other = sy.mpc.connect(served.invite(2)), sy.mpc.connect(served.invite(3))
            invitation = victim._invitation
            message = SharedInferenceMessage((X.long(),), invitation.name, invitation.name, 1, 2)
            victim._streams[0].post(message)
            for stream in victim._streams:
                stream._connection.close()
            began = time.monotonic()
            assert close(other.query_model(X), clear(X).detach())
            assert soon(lambda: served.requests_left == 3), "what was begun counts"
        assert time.monotonic() - began < 50, "and nobody waits for it, not even to stop"

    def test_a_client_that_is_killed_does_no_harm(self, processes, client):
        model, clear = make_model()
        with encrypted(model, processes).serve(in_shape=(1, 8)) as served:
            client.connect(served.invite().to_text())
            client.send("ask", X.tolist())
            client.process.kill()
            with sy.mpc.connect(served.invite()) as other:
                assert close(other.query_model(X), clear(X).detach())
