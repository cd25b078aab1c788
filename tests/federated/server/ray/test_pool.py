"""Simulated clients on Ray: the results of this process, and actors that end or are slow."""

from __future__ import annotations

import gc
import os
import signal
import sys
import time

import pytest
import torch
from torch import nn
from torch.nn.functional import cross_entropy

import syft as sy
from syft.exceptions import ClientLostError, DependencyError, FederatedError, SyftError, TrainingError
from syft.federated.server.dispatch import Job
from syft.federated.server.ray.actor import ClientActor, bytes_of, merge, tensor_of
from syft.federated.server.ray.scheduler import rest, shared
from tests.helpers.ray_cluster import cluster as cluster
from tests.helpers.ray_cluster import marks

pytest.importorskip("ray")
pytestmark = marks

CLIENTS = 12


def digits():
    torch.manual_seed(3)
    data = torch.randn(96, 6)
    return data, (data @ torch.randn(6, 3)).argmax(1)


def network(dropout=0.0):
    torch.manual_seed(4)
    return nn.Sequential(nn.Linear(6, 8), nn.Dropout(dropout), nn.BatchNorm1d(8), nn.ReLU(), nn.Linear(8, 3))


@pytest.fixture(scope="module")
def clients(cluster):
    with sy.federated.Simulation(digits(), CLIENTS, backend="ray", actors=2) as made:
        yield made
    gc.collect()


def trained(clients, strategy="fedavg", rounds=3, **options):
    options = {"model": network(), "seed": 5, "clients_per_round": 7, "batch_size": 3, "progress": False, **options}
    return sy.federated.run(strategy, clients, rounds, loss_fn=cross_entropy, **options)


def states(result):
    return list(result.model.state_dict().values())


def job(clients, number, epochs=1, call="train", **more):
    """A call of a client, as an engine makes it."""
    plan = sy.Plan(forward_func=nn.Linear(6, 3)).build(torch.zeros(2, 6))
    loss = sy.Plan(forward_func=lambda output, target: cross_entropy(output, target)).build(
        torch.zeros(2, 3), torch.zeros(2).long()
    )
    payload = {"plan": plan, "loss": loss, "seed": 1, "round": 1, "epochs": epochs, "batch_size": 1, **more}
    return Job(clients[number], "a run", call, payload)


def wait_for(condition, limit=60.0):
    end = time.monotonic() + limit
    while time.monotonic() < end and not condition():
        time.sleep(0.02)
    return condition()


# --- the same as in this process ----------------------------------------------------------------------------------


def test_thousands_of_clients_of_which_few_are_called(cluster):
    torch.manual_seed(5)
    data = torch.randn(4000, 6)
    targets = (data @ torch.randn(6, 3)).argmax(1)
    options = {"clients_per_round": 50, "rounds": 3, "batch_size": 2}
    with sy.federated.Simulation((data, targets), 2000, backend="ray", actors=1) as many:
        found = trained(many, **options)
    expected = trained(sy.federated.Simulation((data, targets), 2000), **options)
    assert [record.answered for record in found.history] == [50, 50, 50]
    assert all(map(torch.equal, states(found), states(expected)))


@pytest.mark.parametrize("strategy", ["fedavg", "fedmedian", "scaffold"])
def test_results_are_those_of_this_process(clients, strategy, monkeypatch):
    if strategy == "fedmedian":  # as if the model were large
        monkeypatch.setattr("syft.federated.server.ray.scheduler._LARGE", 0)
    here = sy.federated.Simulation(digits(), CLIENTS)
    dropout = 0.0 if strategy == "scaffold" else 0.4
    one, other = (trained(each, strategy, model=network(dropout)) for each in (here, clients))
    assert one.history.losses == other.history.losses
    assert all(torch.equal(a, b) for a, b in zip(states(one), states(other), strict=True))
    assert [record.answered for record in other.history] == [7, 7, 7]


def test_a_client_stays_where_it_remembers_something(clients):
    clients.pool.processes()  # waits for both
    trained(clients, "scaffold", rounds=2, clients_per_round=None)
    homes = next(reversed(clients.pool._homes.values()))
    assert sorted(homes) == list(range(CLIENTS)) and set(homes.values()) == set(clients.pool._slots)
    trained(clients, rounds=2)
    assert not next(reversed(clients.pool._homes.values())), "where nothing is remembered, nothing is kept"


def test_secure_aggregation_and_privacy(clients):
    secure = trained(clients, rounds=1, secure=sy.federated.SecureAggregation())
    plain = trained(clients, rounds=1)
    for a, b in zip(states(secure), states(plain), strict=True):
        torch.testing.assert_close(a, b, atol=1e-4, rtol=1e-4)
    privacy = sy.dp.UserPrivacy(noise_multiplier=1.0, clip=0.5, delta=1e-3)
    private = trained(clients, rounds=1, model=nn.Linear(6, 3), privacy=privacy)
    assert private.epsilon > 0


def test_clients_by_number(clients):
    here = sy.federated.Simulation(digits(), CLIENTS)
    client = clients[-1]
    assert client.name == "client-11" and not client.is_here and client.dispatcher is clients.pool
    assert torch.equal(client.dataset.tensors[0], here[-1].dataset.tensors[0])
    found = client.call("a run", "train", job(clients, 11).payload, 60)
    assert found["samples"] == len(client.dataset) and found["steps"] == 8
    assert repr(client) == "<RayClient 'client-11'>" and "on <RayPool of 2 actors>" in repr(clients)


def test_errors_of_a_client_are_its_own(clients):
    bad = job(clients, 3, batch_size=0)
    with pytest.raises(TrainingError, match="batch_size"):
        bad.client.call(bad.run, bad.call, bad.payload)
    with pytest.raises(TrainingError, match="is unknown to this client"):
        clients[0].call("a run", "nonsense", {})
    found = dict(clients.pool.run([job(clients, 2), bad, job(clients, 4)], None))
    assert [name for name, outcome in found.items() if isinstance(outcome, TrainingError)] == ["client-3"]
    assert found["client-2"]["samples"] == found["client-4"]["samples"] == 8
    assert list(clients.pool.run([], None)) == []


# --- actors that end, and actors that are slow ------------------------------------------------------------------------


def test_an_actor_is_killed_in_the_middle_of_a_round(clients):
    pool = clients.pool
    # The first one is never done, so its actor is in the middle of it whenever it is killed.
    jobs = [job(clients, number, epochs=40 if number else 10**6) for number in range(CLIENTS)]
    outcomes = pool.run(jobs, None)
    name, first = next(outcomes)
    assert first["steps"] == 320
    pids = pool.processes()  # both have said that they are there in this round
    os.kill(pids[pool._slots.index(pool.homes("a run")[0])], signal.SIGKILL)
    found = {name: first, **dict(outcomes)}
    lost = [outcome for outcome in found.values() if isinstance(outcome, Exception)]
    assert len(found) == CLIENTS and 0 < len(lost) < CLIENTS
    assert all(type(error) is ClientLostError and "its actor is gone" in str(error) for error in lost)
    assert len(set(pool.processes()) - set(pids)) == 1, "another actor takes its place"
    assert [record.failed for record in trained(clients).history] == [0, 0, 0]


def test_an_actor_is_killed_between_rounds(clients):
    pids = clients.pool.processes()
    rounds = iter(range(10))

    def measure(model):
        if next(rounds) == 0:
            os.kill(pids[1], signal.SIGKILL)
            assert wait_for(lambda: not is_alive(pids[1]))
        return {}

    found = trained(clients, "scaffold", evaluate=measure, clients_per_round=None)
    assert [(record.answered, record.failed) for record in found.history] == [(CLIENTS, 0)] * 3
    assert pids[1] not in clients.pool.processes()


def is_alive(pid):
    try:
        with open(f"/proc/{pid}/stat") as file:
            return file.read().rsplit(")", 1)[1].split()[0] != "Z"
    except OSError:
        return False


def test_late_clients_are_busy(clients):
    pool = clients.pool
    list(pool.run([job(clients, number) for number in range(4)], None))  # both are there
    pids = pool.processes()
    for pid in pids:
        os.kill(pid, signal.SIGSTOP)  # so that they are late however slow the machine is
    try:
        late = job(clients, 0)
        found = dict(pool.run([late, *(job(clients, number) for number in (1, 2, 3))], 0.25))
        assert found == {} and pool.is_busy("client-0") and not pool.is_busy("client-7")
        with pytest.raises(FederatedError, match=r"'client-0' did not answer within 0.01 s"):
            late.client.call(late.run, late.call, job(clients, 0).payload, 0.01)
        home = pids[pool._slots.index(pool.homes("a run")[0])]
        os.kill(next(pid for pid in pids if pid != home), signal.SIGCONT)
        quick = clients[5].call("a run", "train", job(clients, 5).payload, 60)  # the other actor is free
        assert quick["samples"] == 8 and pool.is_busy("client-0")
    finally:
        for pid in pids:
            os.kill(pid, signal.SIGCONT)
    assert wait_for(lambda: not pool.is_busy("client-0"))
    assert trained(clients, rounds=1, round_timeout=60).history[0].answered == 7


# --- what is sent, and bad options ------------------------------------------------------------------------------------


def test_common_values_are_sent_once():
    model, vector = object(), torch.zeros(3)
    payloads = [
        {
            "plan": model,
            "seed": number + 1000,
            "modifiers": {"control": {"control": vector, "version": number}},
            "none": {},
        }
        for number in range(3)
    ]
    common = shared(payloads)
    assert common["plan"] is model and common["modifiers"]["control"]["control"] is vector
    assert set(common) == {"plan", "modifiers"} and set(common["modifiers"]["control"]) == {"control"}
    for payload in payloads:
        own = rest(payload, common)
        assert own["modifiers"] == {"control": {"version": payload["modifiers"]["control"]["version"]}}
        assert merge(common, own) == payload
    assert shared([{"a": {"b": 1}}, {"a": {}}]) == {} == shared([{"a": None}, {}])


@pytest.mark.parametrize("dtype", [torch.float64, torch.bfloat16, torch.bool, torch.int16])
@pytest.mark.parametrize("shape", [(3, 2), (0, 4), (5,)])
def test_memory_of_tensors(dtype, shape):
    tensor = torch.randn(shape).to(dtype)
    memory = bytes_of(tensor.repeat_interleave(2, 0)[::2])
    memory.flags.writeable = False  # as Ray's is
    found = tensor_of(memory, dtype, shape)
    assert found.dtype == dtype and torch.equal(found, tensor)


def test_options_are_checked(cluster):
    for actors in (0, 1.5, "two"):
        with pytest.raises(ValueError, match="actors must be an integer"):
            sy.federated.Simulation(digits(), 4, backend="ray", actors=actors)
    with pytest.raises(SyftError, match="do not support max_restarts"):
        sy.federated.Simulation(digits(), 4, backend="ray", actor_options={"max_restarts": 3})
    with pytest.raises(ValueError, match="threads must be an integer"):
        sy.federated.Simulation(digits(), 4, backend="ray", threads=0)


def test_an_actor_uses_the_threads_that_its_simulation_chose(cluster):
    before = torch.get_num_threads()
    with sy.federated.Simulation(digits(), 4, backend="ray", actors=1, threads=before + 2) as clients:
        given, *stored = clients.pool._given
        try:
            ClientActor(given, *cluster_values(clients.pool, stored))
            assert torch.get_num_threads() == before + 2
        finally:
            torch.set_num_threads(before)


def cluster_values(pool, stored):
    return [pool._ray.get(value) for value in stored]


def test_an_actor_that_finds_no_room(cluster, monkeypatch):
    monkeypatch.setattr("syft.federated.server.ray.scheduler.STARTUP_SECONDS", 0.5)
    with sy.federated.Simulation(digits(), 4, backend="ray", actors=1, actor_options={"num_cpus": 50}) as clients:
        with pytest.raises(ClientLostError, match=r"has not started its actor. It asks for \{'num_cpus': 50\}"):
            clients[0].call("a run", "train", job(clients, 0).payload)


def test_ray_is_not_installed(monkeypatch):
    monkeypatch.setitem(sys.modules, "ray", None)
    with pytest.raises(DependencyError, match=r"pip install 'ray==2\.60\.0'"):
        sy.federated.Simulation(digits(), 4, backend="ray")


def test_closing_kills_all_actors_and_later_calls_raise(clients):
    """Last, because it closes the pool of the `clients` fixture; a new pool would be slow."""
    pool = clients.pool
    outcomes = pool.run([job(clients, number, epochs=30) for number in range(CLIENTS)], None)
    assert next(outcomes)[1]["samples"] == 8
    pids = pool.processes()  # both have said that they are there in this round: nobody else takes their work
    for pid in pids:
        os.kill(pid, signal.SIGKILL)
    left = list(outcomes)
    assert len(left) == CLIENTS - 1 and type(left[-1][1]) is ClientLostError
    clients.close()
    clients.close()
    assert wait_for(lambda: not any(map(is_alive, pids))) and pool.processes() == []
    with pytest.raises(FederatedError, match="is closed"):
        clients[1].call("a run", "train", job(clients, 1).payload)
    with pytest.raises(FederatedError, match="is closed"):
        trained(clients, rounds=1)
