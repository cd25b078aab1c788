"""The contract of workers: a user sees no difference between kinds, wherever a worker runs.

Properties of one kind alone are tested in test_process.py, test_ray.py, test_websockets.py and test_workers.py.
"""

from __future__ import annotations

import contextlib
import gc
import inspect
import itertools
import threading
import time

import pytest
import torch
from torch import nn

import syft as sy
from syft.exceptions import ObjectNotFoundError, WorkerNotFoundError
from syft.exceptions.remote_traceback import facts_of
from syft.workers.websocket_client import WebsocketClientWorker
from tests.helpers.nodes import forget, websocket_server
from tests.helpers.processes import end, start
from tests.helpers.ray_cluster import cluster as cluster
from tests.helpers.ray_cluster import marks

pytestmark = marks
_number = itertools.count()


@contextlib.contextmanager
def virtual(request, **options):
    """Make a worker of this process."""
    hook = sy.TorchHook(torch)
    worker = sy.VirtualWorker(hook, id=f"contract-{next(_number)}", **options)
    yield worker
    worker.stop()
    hook.local_worker._known_workers.pop(worker.id, None)


@contextlib.contextmanager
def process(request):
    """Make a worker in a child process."""
    worker = start("contract")
    yield worker
    end(worker)


@contextlib.contextmanager
def websocket(request):
    """Make a worker behind a WebSocket."""
    hook = sy.TorchHook(torch)
    with websocket_server("contract-ws") as server:
        worker = WebsocketClientWorker(hook, host="localhost", port=server.port, id="contract-ws")
        yield worker
        forget(hook, worker)


@contextlib.contextmanager
def actor(request):
    """Make a worker that is an actor of a Ray cluster."""
    request.getfixturevalue("cluster")
    worker = sy.RayWorker(sy.TorchHook(torch), id="contract-ray", actor_options={"num_cpus": 0.5})
    yield worker
    end(worker)


KINDS = {
    "inline": virtual,
    "bytes": lambda request: virtual(request, serialize=True),
    "thread": lambda request: virtual(request, threaded=True),
    "process": process,
    "websocket": websocket,
    "ray": actor,
}


@pytest.fixture(scope="module", params=KINDS)
def shared_worker(request):
    with KINDS[request.param](request) as made:
        yield made


@pytest.fixture
def worker(shared_worker):
    """A worker of each kind; afterwards it must hold nothing."""
    yield shared_worker
    assert becomes_empty(shared_worker), "a test left objects at the worker"


def becomes_empty(worker, seconds=60.0):
    """Wait until a worker holds nothing. The release of a pointer that is gone may arrive a moment later."""
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        gc.collect()
        worker.synchronize()
        if not len(worker._objects):
            return True
        time.sleep(0.02)
    return False


def test_calls_give_what_torch_gives(worker):
    local = torch.arange(6.0).view(2, 3)
    x = local.send(worker)
    y = (x @ x.t() + 1).relu()
    assert y.shape == (2, 2) and y.location is worker
    assert torch.equal(y.get(), (local @ local.t() + 1).relu())
    assert x.sum().item() == 15
    x.add_(1)
    assert torch.equal(x.get(), local + 1)
    with pytest.raises(ObjectNotFoundError):
        x.get()


@pytest.mark.parametrize(
    "tensor",
    [
        torch.tensor(True),
        torch.empty(0),
        torch.empty(3, 0, 2),
        torch.arange(12.0).view(3, 4).t(),
        torch.tensor([1 + 2j]),
    ],
    ids=["bool", "empty", "no rows", "not contiguous", "complex"],
)
def test_tensors_of_any_shape_and_dtype_return_unchanged(worker, tensor):
    assert torch.equal(tensor.send(worker).get(), tensor)


def test_large_tensors_return_unchanged(worker):
    x = torch.arange(5 * (1 << 20), dtype=torch.float32)  # 20 MB: more than any buffer on the way
    pointer = x.send(worker)
    assert torch.equal((pointer * 2).get(), x * 2)
    assert torch.equal(pointer.get(), x)


def test_a_tensor_can_be_sent_twice(worker):
    x = torch.ones(2)
    first, second = x.send(worker), x.send(worker)
    assert torch.equal((first + second).get(), torch.full((2,), 2.0))


def test_search_finds_tags_and_descriptions(worker):
    pointer = torch.ones(3).tag("#größe ✓").describe("rows of ones: µ").send(worker)
    (found,) = worker.search("#größe ✓")
    assert found.shape == (3,) and found.description == "rows of ones: µ"
    assert torch.equal((found * 2).get(), torch.full((3,), 2.0))
    assert worker.get_obj(pointer.id_at_location).shape == (3,)
    worker.rm_obj(pointer.id_at_location)
    with pytest.raises(ObjectNotFoundError):
        worker.get_obj(pointer.id_at_location)


def test_clear_objects_removes_everything(worker):
    torch.ones(1).tag("#kept").send(worker)
    worker.synchronize()
    assert len(worker._objects) == 1
    worker.clear_objects()
    assert len(worker._objects) == 0


@pytest.mark.parametrize("optimizer", [torch.optim.SGD, torch.optim.Adam])
def test_a_model_trains_as_it_does_locally(worker, optimizer):
    torch.manual_seed(0)
    models = [nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 1)) for _ in range(2)]
    models[1].load_state_dict(models[0].state_dict())
    data, target = torch.randn(16, 4), torch.randn(16, 1)
    remote = models[0].send(worker)
    for model, x, y in ((remote, data.send(worker), target.send(worker)), (models[1], data, target)):
        steps = optimizer(model.parameters(), lr=0.01)
        for _ in range(3):
            steps.zero_grad()
            (model(x) - y).pow(2).mean().backward()
            steps.step()
    fetched = remote.get()
    for ours, theirs in zip(fetched.parameters(), models[1].parameters(), strict=True):
        torch.testing.assert_close(ours, theirs)


def test_plans_run_and_can_be_fetched(worker):
    @sy.func2plan(args_shape=[(2,)])
    def double(x):
        return x + x

    pointer = double.send(worker)
    assert torch.equal(pointer(torch.ones(2).send(worker)).get(), torch.full((2,), 2.0))
    fetched = sy.local_worker.fetch_plan(pointer.id_at_location, worker)
    assert torch.equal(fetched(torch.ones(2)), torch.full((2,), 2.0))
    pointer.delete()  # a plan stays until then


def test_calls_run_in_the_order_they_were_made(worker):
    x = torch.zeros(3).send(worker)
    local = torch.zeros(3)
    for number in range(600):
        x.mul_(0.5).add_(number % 3)
        local.mul_(0.5).add_(number % 3)
    assert torch.equal(x.get(), local)


def test_an_error_names_the_line_of_the_failed_call(worker):
    good, index = torch.arange(4.0).send(worker), torch.tensor([0, 99]).send(worker)
    line = inspect.currentframe().f_lineno + 2
    with pytest.raises(IndexError, match="out of range|out of bounds") as caught:  # at the call, or when waited for
        bad = good[index]
        worker.synchronize()
    notes = facts_of(caught.value)
    traceback_lines = [frame.lineno for frame in inspect.getinnerframes(caught.tb)]
    assert line in traceback_lines or f'{__file__}", line {line}: bad = good[index]' in notes
    if line not in traceback_lines:  # the call returned before it failed
        with pytest.raises(ObjectNotFoundError, match="failed"):
            bad.get()
    assert torch.equal((good + 1).get(), torch.arange(4.0) + 1)


def test_threads_of_one_client_get_their_own_results(worker):
    results = {}

    def compute(number):
        results[number] = (torch.full((4,), float(number)).send(worker) * 2).get()

    threads = [threading.Thread(target=compute, args=(number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(120)
    assert {number: value[0].item() for number, value in results.items()} == {0: 0.0, 1: 2.0, 2: 4.0, 3: 6.0}


def test_objects_move_to_another_worker(worker, make_worker):
    other = make_worker("other")
    pointer = torch.arange(3.0).send(worker)
    if isinstance(worker, WebsocketClientWorker):
        with pytest.raises(WorkerNotFoundError, match="No worker"):  # it can't reach a worker of this process
            pointer.move(other)
        assert torch.equal(pointer.get(), torch.arange(3.0))
        return
    moved = pointer.move(other)
    assert moved.location is other and torch.equal(moved.get(), torch.arange(3.0))
