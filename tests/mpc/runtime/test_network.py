"""Parties and dealer in child processes: two, three and four parties, and one that is killed."""

from __future__ import annotations

import gc
import os
import signal
import time
from pathlib import Path

import pytest
import torch

import syft as sy
from syft.exceptions import ObjectNotFoundError, PartyLostError, ProtocolError, SyftError, WorkerLostError
from syft.mpc.runtime import client
from syft.mpc.runtime.cost_meter import Meter
from syft.mpc.runtime.protocol_registry import PROTOCOLS
from syft.workers.process import worker as process_worker
from syft.workers.process.worker import ProcessWorker
from tests.helpers.mpc import network_child
from tests.helpers.mpc.socket_parties import AT_ONCE, soon
from tests.helpers.processes import end, start

pytestmark = [
    pytest.mark.skipif(os.name != "posix", reason="sockets are handed to processes"),
    pytest.mark.timeout(300),
    pytest.mark.xdist_group("processes"),
]


@pytest.fixture(scope="module")
def everybody():
    before, process_worker.MAIN = process_worker.MAIN, "tests.helpers.mpc.network_child"
    names = network_child.register()
    workers = [start(name) for name in ("bob", "alice", "dan", "eve", "carol")]
    yield workers
    end(*workers)
    process_worker.MAIN = before
    for name in names:
        del PROTOCOLS[name]


@pytest.fixture
def parties(everybody):
    yield everybody[:4]
    gc.collect()


@pytest.fixture
def carol(everybody):
    return everybody[4]


def share(values, parties, provider):
    return torch.as_tensor(values).share(*parties, crypto_provider=provider)


def run(name, x, **options):
    """Run a protocol of network_child on a shared tensor."""
    return client.run(name, x.child, **options)


def total(link):
    return sum(pointer.get() for pointer in link.child.values())


def told(*workers):
    """Return the errors that workers have not reported yet; the error of a run is reported once."""
    errors = []
    for worker in workers:
        try:
            worker.synchronize()
        except SyftError as error:
            errors.append(error)
    return errors


@pytest.mark.parametrize("count", [2, 3, 4])
def test_arithmetic(parties, carol, count):
    x = share([1, -2, 3], parties[:count], carol)
    y = share([4, 5, -6], parties[:count], carol)
    for _ in range(3):
        assert (x * y).get().tolist() == [4, -10, -18]
    assert (x + y - 1).get().tolist() == [4, 2, -4]
    assert (x > y).get().tolist() == [0, 0, 1]
    w = share([[1, 2], [3, 4], [5, 6]], parties[:count], carol)
    assert torch.equal((w @ w.t()).get(), torch.tensor([[5, 11, 17], [11, 25, 39], [17, 39, 61]]))


@pytest.mark.parametrize("protocol", ["beaver", "fss", "snn"])
def test_comparisons(parties, carol, protocol):
    values = torch.tensor([[5, -3, 0], [2**40, -(2**40), 1]])
    x = values.share(*parties[:2], crypto_provider=carol, protocol=protocol)
    for _ in range(3):
        assert torch.equal((x > 0).get(), (values > 0).long())
    assert torch.equal(torch.relu(x).get(), torch.relu(values))
    assert torch.equal(x.max().get(), values.max())


def test_fixed_precision(parties, carol):
    values = torch.tensor([[1.5, -2.25], [0.1, 3.0]])
    x = values.fix_precision().share(*parties[:2], crypto_provider=carol)
    torch.testing.assert_close((x @ x).get().float_precision(), values @ values, atol=5e-3, rtol=0)
    torch.testing.assert_close(torch.relu(x).get().float_precision(), torch.relu(values), atol=2e-3, rtol=0)


def test_results_are_those_of_one_process(hook, make_worker, parties, carol):
    torch.manual_seed(3)
    values = torch.randn(6, 5)
    local = make_worker("bob"), make_worker("alice"), make_worker("carol")
    results = []
    for bob, alice, dealer in ((parties[0], parties[1], carol), local):
        x = values.fix_precision().share(bob, alice, crypto_provider=dealer)
        results.append((x @ x.t() > 0).get().float_precision())
    assert torch.equal(*results)


@pytest.mark.parametrize("count", [2, 3, 4])
def test_messages_between_parties(parties, carol, count):
    x = share([5, 6, 7], parties[:count], carol)
    assert total(run("test_exchange", x)).tolist() == [5, 6, 7]
    for values in ([1, 4, 8], [2, 4, 8], [3, 4, 8], [3, 4, 8]):
        x = share(values, parties[:count], carol)
        assert total(run("test_moody", x)).tolist() == [value**2 for value in values]


def test_the_client_does_not_wait_and_values_do_not_pass_it(parties, carol):
    x = share(torch.ones(200_000, dtype=torch.int64), parties[:2], carol)
    for party in parties[:2]:
        party.synchronize()
    os.kill(parties[1].pid, signal.SIGSTOP)  # so nothing is done before the client has gone on
    try:
        with sy.count_messages() as n:
            opened = run("test_open", x, times=100)
    finally:
        os.kill(parties[1].pid, signal.SIGCONT)
    assert n.bytes < 2000 and n.messages == 2 and n.rounds == 0
    assert torch.equal(total(opened), torch.ones(200_000, dtype=torch.int64))


def test_cost_of_runs(parties, carol):
    x = share(torch.ones(1000, dtype=torch.int64), parties[:3], carol)
    with Meter() as meter:
        run("test_open", x, times=3)
        x * x
    assert len(meter.costs) == 2
    for index, costs in enumerate(zip(*meter.costs.values(), strict=True)):
        assert sum(cost.rounds for cost in costs) == 4
        sent = sum(cost.bytes for cost in costs)
        assert sent in (2 * 8000 * 4, 2 * 8000 * 5)  # a square opens one value, a product two
        assert sum(cost.dealt for cost in costs) == (8000 if index == 2 else 0)


def test_two_clients(parties, carol, make_worker):
    other = make_worker("other")
    for _ in range(3):
        x = share([2, 3], parties[:2], carol)
        with sy.acting_as(other):
            y = share([4, 5], parties[:2], carol)
            product = y * y
        assert (x * x).get().tolist() == [4, 9]
        with sy.acting_as(other):
            assert product.get().tolist() == [16, 25]


def test_nothing_is_left(parties, carol):
    gc.collect()
    for party in (*parties, carol):
        party.synchronize()
        assert [tuple(pointer.shape) for pointer in party._objects.values()] == []


@pytest.mark.parametrize("how", ["size", "type", "two", "raise"])
def test_a_share_that_does_not_fit(parties, carol, how):
    x = share([1, 2, 3], parties[:3], carol)
    began = time.monotonic()
    run("test_wrong", x, who=1, how=how)
    (error,) = told(*parties[:3])
    assert isinstance(error, ProtocolError) and "12345" not in str(error)
    assert any(party.id in str(error) for party in parties[:3])
    assert time.monotonic() - began < AT_ONCE
    assert (x * x).get().tolist() == [1, 4, 9]


def test_a_share_that_is_not_there(parties, carol):
    x = share([1, 2, 3], parties[:2], carol)
    parties[1].rm_obj(x.child.child[parties[1].id].id_at_location)
    began = time.monotonic()
    product = x * x
    with pytest.raises(ObjectNotFoundError, match=parties[1].id):  # not the abort at the other party
        product.get()
    assert told(*parties[:2]) == []
    assert time.monotonic() - began < AT_ONCE
    y = share([1, 2, 3], parties[:2], carol)
    assert (y * y).get().tolist() == [1, 4, 9]


@pytest.mark.parametrize("count", [2, 3])
def test_a_party_that_is_killed(parties, carol, count):
    victim = start("victim")
    group = [*parties[: count - 1], victim]
    x = share([1, 2, 3], group, carol)
    assert (x * x).get().tolist() == [1, 4, 9]
    began = time.monotonic()
    run("test_die", x, who=count - 1)
    (error,) = told(*group[:-1])
    assert isinstance(error, PartyLostError) and victim.id in str(error)
    with pytest.raises(WorkerLostError, match=victim.id):
        victim.synchronize()
    with pytest.raises(SyftError, match=victim.id):
        total(run("test_open", x))
    assert time.monotonic() - began < AT_ONCE
    with pytest.raises(SyftError, match="lost|ended"):
        total(run("test_open", x))
    told(*group[:-1])
    y = share([1, 2, 3], parties[:2], carol)
    assert (y * y).get().tolist() == [1, 4, 9], "others go on"
    end(victim)


def cpu_seconds(pid):
    """The processor time that a process has used."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def test_a_party_that_is_killed_from_outside(parties, carol):
    victim = start("victim")
    x = share(torch.ones(300_000, dtype=torch.int64), (victim, parties[0]), carol)
    assert (x * x).get().sum() == 300_000
    before = cpu_seconds(victim.pid)
    endless = run("test_open", x, times=100_000)
    assert soon(lambda: cpu_seconds(victim.pid) > before + 0.1), "the victim computes"
    began = time.monotonic()
    os.kill(victim.pid, signal.SIGKILL)
    with pytest.raises(PartyLostError, match=victim.id):
        parties[0].synchronize()
    assert time.monotonic() - began < AT_ONCE
    end(victim)
    del endless
    y = share([1, 2, 3], parties[:2], carol)
    assert (y * y).get().tolist() == [1, 4, 9]


def test_a_dealer_that_is_killed_and_comes_back(hook, parties):
    dealer = start("dealer")
    x = share([1, 2, 3], parties[:2], dealer)
    assert (x * x).get().tolist() == [1, 4, 9]
    os.kill(dealer.pid, signal.SIGKILL)
    dealer._handle.process.wait()
    x * share([1, 2, 4], parties[:2], dealer)
    (error,) = told(*parties[:2])
    assert isinstance(error, ProtocolError) and dealer.id in str(error)
    again = ProcessWorker(hook, id=dealer.id)
    y = share([1, 2, 3], parties[:2], again)
    assert (y * y).get().tolist() == [1, 4, 9]
    end(again)
    dealer.stop()
