"""Grids of workers of every kind: searching them all, hosting models at some, asking the models wherever they are."""

from __future__ import annotations

import os
import signal
import threading
import warnings

import pytest
import torch

import syft as sy
from syft.exceptions import ModelError, ModelNotFoundError, SyftError, WorkerLostError
from syft.grid.abstract_grid import AbstractGrid
from syft.hosting import client
from syft.hosting import server as hosting_server
from tests.helpers.nodes import websocket_server
from tests.helpers.processes import end, start

X = torch.tensor([[1.0, 2.0]])


def linear(weight=4.0):
    module = torch.nn.Linear(2, 1)
    torch.nn.init.constant_(module.weight, weight), torch.nn.init.ones_(module.bias)
    return sy.Plan(name="linear", forward_func=module, id="linear").build(torch.zeros(1, 2))


@pytest.fixture
def workers(make_worker):
    return [make_worker(name) for name in ("ann", "ben", "cid", "dan")]


@pytest.fixture
def grid(workers):
    return sy.PrivateGridNetwork(*workers)


@pytest.fixture(scope="module")
def processes():
    """A worker in a process of its own, and one behind a websocket."""
    made = [start("grid")]
    with websocket_server("grid-socket") as server:
        socket = sy.WebsocketClientWorker(sy.TorchHook(torch), port=server.port, id="grid-socket")
        yield [*made, socket]
        socket.close()
    end(*made)


# --- searching ------------------------------------------------------------------------------------------------


def test_search_finds_what_matches_all_words(workers, grid):
    ann, ben, cid, _ = workers
    kept = [
        torch.ones(3).tag("#rain", "#daily").describe("rain at ann").send(ann),
        torch.ones(4).tag("#rain").send(ben),
        torch.ones(5).tag("#rain", "#daily").send(cid),
        torch.ones(6).tag("#snow", "#daily").send(cid),
    ]
    found = grid.search("#rain", "#daily")
    assert {key: [tuple(p.shape) for p in pointers] for key, pointers in found.items()} == {
        ann.id: [(3,)],
        cid.id: [(5,)],
    }
    assert found[ann.id][0].description == "rain at ann"
    assert set(grid.search("#rain")) == {ann.id, ben.id, cid.id}
    assert grid.search("#rain", "#unknown") == {}
    assert len(kept) == 4
    assert (found[ann.id][0] + 1).sum().get() == 6


def test_search_over_all_kinds_of_workers(workers, processes):
    grid = sy.PrivateGridNetwork(*workers[:2], *processes)
    pointers = [torch.full((2,), float(i)).tag("#kinds").send(worker) for i, worker in enumerate(grid.workers)]
    found = grid.search("#kinds")
    assert list(found) == [worker.id for worker in grid.workers]
    assert [found[worker.id][0].sum().get().item() for worker in grid.workers] == [0, 2, 4, 6]
    for pointer in pointers:
        pointer.get()


class Deaf(sy.VirtualWorker):
    """A worker that waits for something before it answers, or is gone."""

    def __init__(self, *args, wait=None, **kwargs):
        super().__init__(*args, **kwargs)
        self.wait = wait

    def search(self, query):
        if self.wait is None:
            raise WorkerLostError(self.id, "its line was cut.")
        self.wait()
        return super().search(query)


@pytest.fixture
def deaf(hook):
    made = []

    def make(name, wait=None):
        made.append(Deaf(hook, id=name, wait=wait, auto_add=False))
        return made[-1]

    yield make
    for worker in made:
        worker.stop()


def test_a_worker_that_is_gone_is_left_out_with_a_warning(workers, deaf):
    kept = torch.ones(3).tag("#rain").send(workers[0])
    grid = sy.PrivateGridNetwork(*workers, deaf("gone"))
    with pytest.warns(UserWarning, match="'gone' could not be searched: .*line was cut"):
        found = grid.search("#rain")
    assert list(found) == [workers[0].id] and kept is not None
    with pytest.raises(SyftError, match="None of 2 workers could be searched"):
        sy.PrivateGridNetwork(deaf("gone"), deaf("away")).search("#rain")


def test_workers_are_searched_at_the_same_time_and_not_for_ever(deaf):
    together = threading.Barrier(8, timeout=60)  # none answers before all are asked
    grid = sy.PrivateGridNetwork(*[deaf(f"slow-{i}", together.wait) for i in range(8)])
    grid.timeout = 100
    assert grid.search("#nothing") == {}
    over, quick = threading.Event(), threading.Event()
    others = deaf("gone"), deaf("hangs", lambda: over.wait(60)), deaf("quick", quick.set)
    grid = sy.PrivateGridNetwork(*others)
    grid.timeout = 3
    try:
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            grid.search("#nothing")
        assert not over.is_set() and quick.is_set(), "nobody waits for the one that hangs"
    finally:
        over.set()
    assert sorted("within 3 s" in str(warning.message) for warning in caught) == [False, True]


def test_a_grid_requires_nodes(workers):
    with pytest.raises(SyftError, match="needs workers, got str"):
        sy.PrivateGridNetwork("bob")
    with pytest.raises(SyftError, match="different ids"):
        sy.PrivateGridNetwork(workers[0], workers[0])
    with pytest.raises(TypeError):
        AbstractGrid()
    assert AbstractGrid.SMPC_HOST_CHUNK == 4
    assert sy.PrivateGridNetwork().search("#x") == {}


# --- models in clear ------------------------------------------------------------------------------------------


def hosts_of(grid, id="linear"):
    return [worker for worker in grid.workers if id in hosting_server.names_at(worker)]


def test_a_model_is_hosted_found_and_asked(grid):
    grid.serve_model(linear(), id="linear", allow_remote_inference=True)
    (host,) = hosts_of(grid)
    assert grid.query_model_hosts("linear") is host
    assert grid.run_remote_inference("linear", X).tolist() == [[13.0]]
    with pytest.raises(ModelNotFoundError, match="hosts the model 'other'"):
        grid.run_remote_inference("other", X)
    with pytest.raises(RuntimeError, match="encrypted model 'linear'"):
        grid.run_remote_inference("linear", X, mpc=True)
    with pytest.raises(RuntimeError, match="failed on inputs"):
        grid.run_remote_inference("linear", torch.ones(7))


def test_a_replaced_model_answers_nowhere_any_more(grid):
    for weight, replicas in ((1.0, 3), (2.0, 1), (3.0, 4)):
        grid.serve_model(linear(weight), id="linear", allow_remote_inference=True, n_replica=replicas)
        assert len(hosts_of(grid)) == replicas
        for _ in range(6):
            assert grid.run_remote_inference("linear", X).item() == 3 * weight + 1
    with pytest.raises(ModelError, match="5 replicas"):
        grid.serve_model(linear(), id="linear", n_replica=5)
    for wrong in (0, -1, 1.5, True):
        with pytest.raises(ModelError, match="n_replica"):
            grid.serve_model(linear(), id="linear", n_replica=wrong)


def test_replicas_take_turns_and_the_least_busy_is_asked(grid, monkeypatch):
    grid.serve_model(linear(), id="linear", allow_remote_inference=True, n_replica=3)
    hosts = grid.query_model_hosts("linear")
    assert len(hosts) == 3
    asked, busy, go_on = [], threading.Event(), threading.Event()
    plain = client.query

    def watched(worker, name, data):
        asked.append(worker)
        if not busy.is_set():
            busy.set()
            go_on.wait(60)
        return plain(worker, name, data)

    monkeypatch.setattr(client, "query", watched)
    thread = threading.Thread(target=grid.run_remote_inference, args=("linear", X))
    thread.start()
    busy.wait(60)
    for _ in range(6):
        grid.run_remote_inference("linear", X)
    go_on.set()
    thread.join()
    others = [worker for worker in hosts if worker is not asked[0]]
    assert asked[0] not in asked[1:] and [asked[1:].count(worker) for worker in others] == [3, 3]


def test_a_replica_that_is_gone_is_skipped(processes):
    grid = sy.PrivateGridNetwork(*processes)
    grid.serve_model(linear(), id="replicated", allow_remote_inference=True, n_replica=2)
    client.delete(processes[0], "replicated")
    asked = [grid.run_remote_inference("replicated", X).item() for _ in range(4)]
    assert asked == [13.0] * 4
    with pytest.raises(ModelError, match="No host of the model"):
        grid._ask_first("replicated", processes[:1], lambda worker: client.query(worker, "replicated", X))


def test_a_model_of_another_user_with_the_same_name_is_no_replica(make_worker, workers):
    alice, eve = make_worker("alice"), make_worker("eve")
    for worker in workers:
        worker.policy = Guarded()
    with sy.acting_as(alice):
        client.host(workers[0], linear(4.0), "linear", allow_remote_inference=True)
    with sy.acting_as(eve):
        client.host(workers[1], linear(0.0), "linear", allow_remote_inference=True)
    grid = sy.PrivateGridNetwork(*workers)
    with pytest.raises(ModelError, match="Several users host"):
        grid.run_remote_inference("linear", X)
    for _ in range(3):
        assert grid.run_remote_inference("linear", X, owner=alice.id).item() == 13.0
    assert grid.query_model_hosts("linear", owner=eve.id) is workers[1]


# --- encrypted models -----------------------------------------------------------------------------------------


def test_an_encrypted_model_answers_and_is_nowhere_in_clear(grid):
    grid.serve_model(linear(), id="linear", allow_remote_inference=True, mpc=True)
    *holders, dealer = grid.query_model_hosts("linear", mpc=True)
    assert len(holders) == 3 and hosts_of(grid) == [w for w in grid.workers if w in holders]
    assert dealer not in holders
    for _ in range(3):
        assert grid.run_remote_inference("linear", X, mpc=True).item() == pytest.approx(13.0, abs=1e-2)
    for holder in holders:
        part = hosting_server.model_at(holder, "linear")
        for share in part.contents():
            plain = share.double() / 2**16
            assert not torch.any((plain - 4.0).abs() < 1e-3) and not torch.any((plain - 1.0).abs() < 1e-3)
        assert len(holder._objects) == 1  # nothing of a run is left
    with pytest.raises(ModelError, match=r"takes \(1, 2\), not \(3, 2\)"):
        grid.run_remote_inference("linear", torch.ones(3, 2), mpc=True)


def test_an_encrypted_model_takes_three_workers(workers):
    grid = sy.PrivateGridNetwork(*workers[:3])
    grid.serve_model(linear(), id="linear", allow_remote_inference=True, mpc=True)
    assert len(grid.query_model_hosts("linear", mpc=True)) == 3
    assert grid.run_remote_inference("linear", X, mpc=True).item() == pytest.approx(13.0, abs=1e-2)
    with pytest.raises(ModelError, match="at least 3 workers"):
        sy.PrivateGridNetwork(*workers[:2]).serve_model(linear(), id="two", mpc=True)
    with pytest.raises(ModelError, match="can't be downloaded"):
        grid.serve_model(linear(), id="linear", mpc=True, allow_download=True)
    client.delete(grid.query_model_hosts("linear", mpc=True)[0], "linear")
    with pytest.raises(ModelError, match="Some workers that hold shares"):
        grid.run_remote_inference("linear", X, mpc=True)


class Guarded:
    """A policy that releases everything but models."""

    def allows(self, release):
        return not str(release.obj_id).startswith("model:")


def test_users_without_the_right_get_no_encrypted_prediction(make_worker, workers):
    eve = make_worker("eve")
    for worker in workers:
        worker.policy = Guarded()
    grid = sy.PrivateGridNetwork(*workers)
    grid.serve_model(linear(), id="closed", mpc=True)
    grid.serve_model(linear(), id="asked", mpc=True, allow_remote_inference=True)
    with sy.acting_as(eve):
        with pytest.raises(ModelNotFoundError):
            grid.run_remote_inference("closed", X, mpc=True)
        assert grid.run_remote_inference("asked", X, mpc=True).item() == pytest.approx(13.0, abs=1e-2)
        for holder in grid.query_model_hosts("asked", mpc=True)[:-1]:
            with pytest.raises(SyftError):
                client.download(holder, "asked")
            with pytest.raises(SyftError):
                eve.stream_to(holder).fetch("model:asked")
            with pytest.raises(ModelError):
                client.delete(holder, "asked")


def test_several_threads_ask_an_encrypted_model(make_worker):
    grid = sy.PrivateGridNetwork(*[make_worker(name, "thread") for name in "abc"])
    model = torch.nn.Sequential(torch.nn.Linear(2, 4), torch.nn.ReLU(), torch.nn.Linear(4, 2))
    grid.serve_model(model, id="net", allow_remote_inference=True, mpc=True, args_shape=[(1, 2)])
    wrong = []

    def many():
        for _ in range(3):
            x = torch.randn(1, 2)
            if not torch.allclose(grid.run_remote_inference("net", x, mpc=True), model(x), atol=1e-2):
                wrong.append(x)

    threads = [threading.Thread(target=many) for _ in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong


def test_forged_encrypted_models_are_refused(workers):
    from syft.messaging.hosting import HostSharesMessage
    from syft.mpc.serving.client import EncryptedDraft

    draft = EncryptedDraft(linear(), "linear", workers[:2], workers[2], True)
    good = tuple(draft.parts[0])
    forged = [
        (),
        good[:-1],
        ((("pickle", (), {}, 1),), *good[1:]),
        (*good[:2], ("no tensor",), *good[3:]),
        (*good[:3], ("ann", "ann"), *good[4:]),
        (*good[:3], (workers[2].id, workers[3].id), *good[4:]),
        (*good[:5], (((-1,), 1, 4, False),), *good[6:]),
        (*good[:5], "text", *good[6:]),
    ]
    for contents in forged:
        with pytest.raises(SyftError):
            sy.local_worker.send_msg(HostSharesMessage(contents, "linear"), workers[0])
    assert hosting_server.names_at(workers[0]) == []


# --- last, for it kills one of them -----------------------------------------------------------------------------


def test_a_killed_replica_is_skipped(processes):
    grid = sy.PrivateGridNetwork(*processes)
    grid.serve_model(linear(), id="killed", allow_remote_inference=True, n_replica=2)
    os.kill(processes[0].pid, signal.SIGKILL)
    for _ in range(3):
        assert grid.run_remote_inference("killed", X).item() == 13.0
    with pytest.warns(UserWarning, match="could not be searched"):
        assert grid.search("#nothing") == {}


def test_grids_do_not_need_a_server_to_be_imported():
    assert issubclass(sy.PrivateGridNetwork, AbstractGrid) and issubclass(sy.PublicGridNetwork, AbstractGrid)
