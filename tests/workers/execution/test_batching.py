"""Batches of small calls: the same results as single calls."""

from __future__ import annotations

import gc
import itertools
import sys
import threading

import pytest
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import syft as sy
from syft.core.references import Ref
from syft.core.trees import iter_tensors
from syft.exceptions import AuthenticationError, IdNotUniqueError
from syft.exceptions.remote_traceback import facts_of
from syft.grid.server import sessions
from syft.grid.storage import result_size
from syft.grid.storage.object_manager import ObjectManager
from syft.grid.storage.quotas import Quota
from syft.hook.allowed_functions import function_of
from syft.messaging import message as m
from syft.messaging.call_batch import MAX_ARGUMENTS, MAX_STEPS, StepsMessage, operation_of, read_ids, write_ids
from syft.messaging.mutation import changed_values
from syft.workers.access.policy import ALLOW_ALL, DenyAll
from syft.workers.execution.batch import SIDE_EFFECT_FREE, BatchExecutor
from syft.workers.transport import framing
from syft.workers.transport.request_codec import write_request
from syft.workers.websocket_client import WebsocketClientWorker
from tests.helpers.attacks.hostile_peer import Mallory, error_name, request
from tests.helpers.depth import deep
from tests.helpers.nodes import Line, websocket_server

STEPS = 144
_ids = itertools.count(10**6)


def written(obj_id):
    return obj_id.to_bytes(16, "big")


def step(name, result, *args, released=(), grad=True):
    """A step as it is written: references become bytes."""
    flat = [written(arg.id) if type(arg) is Ref else arg for arg in args]
    return (write_ids(released), grad, name, written(result), *flat)


def rows_request(steps):
    return write_request(None, (), StepsMessage(tuple(steps)), False)


class Peer(Mallory):
    """A client that sends and fetches tensors."""

    def get(self, obj_id):
        return self.ask(m.ObjectRequestMessage((obj_id, None, "")))

    def send_tensor(self, tensor, obj_id, published=False):
        assert self.ask(m.ObjectMessage(tensor, obj_id, published)) is None


class World:
    """A worker with two users: alice's tensors are 1 to 6, bob's are 20 (published) and 21 (his own)."""

    def __init__(self, make_worker, policy, quota=None):
        self.worker = make_worker("node")
        self.worker.policy = policy
        self.object_manager = ObjectManager(self.worker, quota=quota) if quota is not None else None
        self.alice, self.bob = Peer(self.worker, "alice"), Peer(self.worker, "bob")
        for obj_id, tensor in (
            (1, torch.tensor([1.0, 2.0])),
            (2, torch.tensor([[0.5], [3.0], [-1.0]])),
            (3, torch.tensor([2, 0])),
            (4, torch.arange(300.0)),
            (5, torch.tensor([4.0, 5.0], requires_grad=True)),
            (6, torch.tensor(1.5, dtype=torch.float64)),
        ):
            self.alice.send_tensor(tensor, obj_id)
        self.bob.send_tensor(torch.tensor([7.0, 8.0]), 20, published=True)
        self.bob.send_tensor(torch.tensor([9.0, 9.0]), 21)

    def one_by_one(self, steps):
        """Run steps as calls of their own; returns the first error, and which call it was of."""
        first = None
        for number, each in enumerate(steps):
            released = tuple(read_ids(each[0]))
            answer = self.alice.send(write_request(None, released, operation_of(each), False))
            if answer is not None and first is None:
                first = (*answer.contents[:2], str(number))
        return first

    def in_a_row(self, steps):
        answer = self.alice.send(rows_request(steps))
        return None if answer is None else (*answer.contents[:2], answer.contents[3])

    def state(self):
        """Everything that is held: values, claims, and their owners."""
        held = {}
        for obj_id, obj in self.worker.object_store.outlines().items():
            claims = self.worker.object_store.claims
            whose = (claims.belongs_to(obj_id, self.alice.session), claims.is_published(obj_id))
            held[obj_id] = (obj.dtype, tuple(obj.shape), obj.requires_grad, str(obj.tolist()), whose)
        ledger = None if self.object_manager is None else self.object_manager.ledger.usage("alice")
        return held, ledger

    def unnamed(self, failure):
        return None if failure is None else tuple(part.replace(repr(self.worker.id), "W") for part in failure)


def converse(world, check):
    """Let alice's session belong to a conversation, as at a server."""
    session = world.alice.session
    return sessions.ResumableSession(world.worker, session, check, sessions.LocalResponder(session))


POLICIES = {"open": lambda: ALLOW_ALL, "closed": DenyAll}
OTHERS = (
    "torch.Tensor.add_ torch.matmul torch.Tensor.t torch.Tensor.item torch.Tensor.nonzero torch.sum torch.no_such "
    "torch.Tensor.detach torch.Tensor.numpy torch.Tensor.floor_divide torch.Tensor.__floordiv__ torch.Tensor.bogus"
).split()

THREE = ["torch.where", "torch.addcmul", "torch.lerp"]


@st.composite
def rows(draw):
    """A row of calls on what there is and what the calls before made, or should have."""
    names = st.sampled_from(
        [*["torch.Tensor.add", "torch.Tensor.__mul__"] * 20, *sorted(SIDE_EFFECT_FREE), *OTHERS, *THREE]
    )
    known = [99, 21, 4, 3, 5, 6, 2, 20, 1]
    steps = []
    for number in range(draw(st.integers(1, 14))):
        things = st.sampled_from(3 * known[-3:] + [1, 2, 20] + known).map(Ref)
        numbers = st.sampled_from([0, 2, -1, 0.5, True, None, 2**63, float("nan")])
        name = draw(names)
        count = 3 if name in THREE else draw(st.integers(1, 2))
        args = draw(st.lists(st.one_of(things, things, things, numbers), min_size=count, max_size=count))
        released = draw(st.lists(st.sampled_from(known), max_size=2)) if draw(st.integers(0, 3)) == 0 else []
        result = draw(st.sampled_from(known)) if draw(st.integers(0, 7)) == 0 else 1000 + number
        steps.append(step(name, result, *args, released=released, grad=draw(st.booleans())))
        known.append(result)
    return steps


@pytest.mark.parametrize("policy", POLICIES)
@given(row=rows())
@settings(max_examples=deep(60, 2000), deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_a_batch_equals_its_calls_one_by_one(policy, row, hook, worker_maker):
    first, second = (World(worker_maker, POLICIES[policy](), Quota(30, None)) for _ in range(2))
    expected, found = first.one_by_one(row), second.in_a_row(row)
    assert second.unnamed(found) == first.unnamed(expected)
    assert second.state() == first.state()


@pytest.fixture
def worker_maker(hook):
    """Make workers that leave no trace in those of other tests; several for each example of a property."""

    def make(name):
        worker = sy.VirtualWorker(hook, id=f"{name}-steps-{next(_ids)}")
        hook.local_worker._known_workers.pop(worker.id)
        return worker

    return make


def test_side_effect_free_calls_are_within_size_bounds():
    assert SIDE_EFFECT_FREE <= result_size._ELEMENTWISE | result_size._SMALL


@pytest.mark.parametrize("name", sorted(SIDE_EFFECT_FREE))
def test_side_effect_free_calls_create_results_and_change_nothing(name):
    assert not list(iter_tensors(changed_values(m.Operation(name, None, (Ref(1), Ref(2)), {}, (3,)))))
    for operands in ((torch.tensor([1.5, 2.0]),), (torch.tensor([1.5, 2.0]), torch.tensor([3.0])), (torch.ones(2), 1)):
        before = [torch.as_tensor(operand).clone() for operand in operands]
        versions = [operand._version for operand in operands if isinstance(operand, torch.Tensor)]
        try:
            result = function_of(name)(*operands)
        except (TypeError, ValueError):
            continue
        if not isinstance(result, torch.Tensor):
            assert result is NotImplemented
            continue
        places = [operand.untyped_storage().data_ptr() for operand in operands if isinstance(operand, torch.Tensor)]
        assert result.untyped_storage().data_ptr() not in places
        assert all(torch.equal(torch.as_tensor(x), y) for x, y in zip(operands, before, strict=True))
        assert versions == [operand._version for operand in operands if isinstance(operand, torch.Tensor)]
        return
    raise AssertionError(f"{name} takes none of these")


def test_results_released_within_a_batch_are_never_stored(worker_maker, monkeypatch):
    world = World(worker_maker, ALLOW_ALL, Quota(8, None))  # room for two more objects
    kept = []
    keep = type(world.alice.session).keep
    monkeypatch.setattr(
        type(world.alice.session), "keep", lambda self, obj_id, *rest, **more: (kept.append(obj_id), keep(self, obj_id, *rest, **more))
    )  # fmt: skip
    row = [step("torch.Tensor.add", 100, Ref(1), 1)]
    row += [
        step("torch.Tensor.add", 100 + n, Ref(99 + n), 1, released=[98 + n] if n > 1 else [])
        for n in range(1, MAX_STEPS)
    ]
    assert world.in_a_row(row) is None
    assert kept == [100 + MAX_STEPS - 2, 100 + MAX_STEPS - 1]
    assert torch.equal(world.alice.get(100 + MAX_STEPS - 1), torch.tensor([1.0, 2.0]) + MAX_STEPS)
    # One that would be too much is refused, and it is said which.
    fill = [step("torch.Tensor.add", 200 + n, Ref(1), n) for n in range(4)]
    name, text, number = world.in_a_row(fill)
    assert (name, number) == ("QuotaExceededError", "1") and "may hold at most 8 objects" in text


def test_a_batch_ends_when_its_client_may_not_stay(worker_maker, monkeypatch):
    monkeypatch.setattr(sessions, "_CHECK", -1.0)
    world = World(worker_maker, ALLOW_ALL)
    left = [2]

    def check():
        left[0] -= 1
        if left[0] < 0:
            raise AuthenticationError("Its token was revoked.")

    converse(world, check)
    name, _, _ = (*world.alice.send(write_request(None, (), StepsMessage(tuple(
        step("torch.Tensor.add_", 100 + n, Ref(1), 1) for n in range(10)
    )), False)).contents,)[:3]  # fmt: skip
    assert name == "AuthenticationError"
    assert torch.equal(world.worker.object_store.get(1), torch.tensor([3.0, 4.0]))


def test_a_session_that_ends_in_the_middle_of_a_batch(worker_maker):
    world = World(worker_maker, ALLOW_ALL, Quota(30, None))
    conversation = converse(world, lambda: None)
    row = [step("torch.Tensor.add_", 100 + n, Ref(1), 1) for n in range(3)]
    assert world.in_a_row(row) is None
    conversation.is_over = True
    assert world.alice.send(rows_request([step("torch.Tensor.add", 200, Ref(1), 1), *row])).contents[0] == (
        "AuthenticationError"
    )
    assert torch.equal(world.worker.object_store.get(1), torch.tensor([4.0, 5.0]))  # not changed any more
    world.alice.session.close()
    world.alice.session.keep(400, torch.ones(2))  # by a call that was under way
    assert world.worker.object_store.claims.held_by(world.alice.session) == []
    assert {20, 21} == set(world.worker.object_store.outlines())
    assert world.object_manager.ledger.usage("alice").objects == 0


def test_calls_of_other_sessions_run_between_batches(worker_maker, monkeypatch):
    monkeypatch.setattr(sessions, "_CHECK", -1.0)
    world = World(worker_maker, ALLOW_ALL)
    again = Peer(world.worker, "alice")
    found = []

    def check():
        other = threading.Thread(target=lambda: found.append(again.get(6)))
        other.start()
        other.join(60)

    converse(world, check)
    assert world.in_a_row([step("torch.Tensor.add", 100, Ref(1), 1), step("torch.Tensor.add_", 101, Ref(1), 1)]) is None
    assert found == [torch.tensor(1.5, dtype=torch.float64)]


def test_an_id_that_was_taken_in_the_meantime(worker_maker):
    world = World(worker_maker, ALLOW_ALL)
    row = BatchExecutor(world.worker, world.alice.session)
    assert row._run(step("torch.Tensor.add", 100, Ref(1), 1), 7)
    world.bob.send_tensor(torch.zeros(5), 100, published=True)
    row._store_results()
    assert isinstance(row.failure, IdNotUniqueError) and row.failure.syft_step == 7
    assert world.worker.object_store.get(100).shape == (5,)


def test_a_call_that_failed_keeps_no_memory(worker_maker):
    world = World(worker_maker, ALLOW_ALL)
    world.alice.send_tensor(torch.ones(321, 321), 50)
    gc.collect()
    gc.disable()
    try:
        for _ in range(3):
            assert world.in_a_row([step("torch.matmul", 1, Ref(50), Ref(50))] * 2)[0] == "IdNotUniqueError"
        alive = [x for x in gc.get_objects() if type(x) is torch.Tensor and x.shape == (321, 321)]
    finally:
        gc.enable()
    assert len(alive) == 1


def test_large_results_are_counted_at_once(worker_maker):
    world = World(worker_maker, ALLOW_ALL, Quota(None, 2**20))
    world.alice.send_tensor(torch.ones(256, 1), 50)
    world.alice.send_tensor(torch.ones(1, 256), 51)
    row = BatchExecutor(world.worker, world.alice.session)
    before = world.object_manager.ledger.usage("alice").bytes
    for number in range(1, 4):
        assert row._run(step("torch.Tensor.add", 100 + number, Ref(50), Ref(51)), number)
        assert world.object_manager.ledger.usage("alice").bytes >= before + number * 2**18
    found = world.in_a_row([step("torch.Tensor.add", 200 + n, Ref(50), Ref(51)) for n in range(6)])
    assert (found[0], found[2]) == ("QuotaExceededError", "0")


# --- bytes ------------------------------------------------------------------------------------------------------


GOOD = (b"", True, "torch.add", bytes(16), bytes(16), 1.5)


@pytest.mark.parametrize(
    "parts",
    [
        (6, *GOOD[:-1]),
        (7, *GOOD),
        (5, *GOOD),
        (3, *GOOD[:3]),
        ("6", *GOOD),
        (-1, *GOOD),
        (2**62, *GOOD),
        (True, *GOOD),
        (6, bytes(15), *GOOD[1:]),
        (6, b"", 1, *GOOD[2:]),
        (6, b"", True, b"torch.add", *GOOD[3:]),
        (6, b"", True, "torch.add", bytes(15), bytes(16), 1.5),
        (6, b"", True, "torch.add", 5, bytes(16), 1.5),
        (6, b"", True, "torch.add", bytes(16), bytes(17), 1.5),
        (6, b"", True, "torch.add", bytes(16), bytes(16), "text"),
        (6, b"", True, "torch.add", bytes(16), bytes(16), (1, 2)),
        (4 + MAX_ARGUMENTS + 1, *GOOD[:4], *[1] * (MAX_ARGUMENTS + 1)),
        (6, *GOOD) * (MAX_STEPS + 1),
    ],
)
def test_malformed_batches_are_refused(worker_maker, parts):
    world = World(worker_maker, ALLOW_ALL)
    before = world.state()
    assert error_name(world.alice.send(request((STEPS, *parts)))) == "SerdeError"
    assert world.state() == before


@given(
    st.lists(
        st.one_of(st.integers(-2, 9), st.sampled_from(GOOD), st.binary(max_size=20), st.text(max_size=5)), max_size=30
    )
)
@settings(max_examples=deep(200, 5000), deadline=None)
def test_any_parts_are_a_batch_or_refused(parts):
    try:
        made = StepsMessage.detail(None, tuple(parts))
    except TypeError:
        return
    assert StepsMessage.simplify(None, made) == tuple(parts)


# --- over a line ------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def server():
    with websocket_server("ws-steps", log_msgs=True) as process:
        yield process


@pytest.fixture
def line(server):
    line = Line(server.port)
    yield line
    line.close()


@pytest.fixture
def far(hook, line):
    worker = WebsocketClientWorker(hook, "localhost", line.port, id="ws-steps")
    yield worker
    worker.clear_objects_remote()  # a closed session with pointers would keep them for a while
    worker.close()
    hook.local_worker._known_workers.pop("ws-steps", None)


def stream_of(worker):
    return sy.local_worker.stream_to(worker)


def test_a_thousand_calls_are_few_messages(far, monkeypatch):
    monkeypatch.setattr(framing, "_GATHER_CALLS", 0.5)  # on a slow machine many would go half full
    x, one = torch.zeros(10).send(far), torch.ones(10).send(far)
    far.synchronize()
    with sy.count_messages() as count:
        for _ in range(1000):
            x = x + one
        far.synchronize()
    assert 1000 / MAX_STEPS <= count.messages <= 60
    assert count.rounds == 1
    assert torch.equal(x.get(), torch.full((10,), 1000.0))


def test_one_call_counts_as_one_message(far):
    x = torch.zeros(2).send(far)
    y = x + 1
    with sy.count_messages() as none:
        pass
    with sy.count_messages() as one:
        y = y + 1
    assert (none.messages, one.messages) == (0, 1)
    assert torch.equal(y.get(), torch.tensor([2.0, 2.0]))


def test_callers_do_not_wait_for_a_slow_node(hook, server):
    worker = WebsocketClientWorker(hook, "localhost", server.port, id="ws-steps")  # with nothing between that reads
    x = torch.zeros(2).send(worker)
    worker.synchronize()
    server.pause()
    try:
        large = torch.randn(10 << 20).send(worker)  # more than the line holds
        for _ in range(4 * MAX_STEPS):
            x = x + 1
        assert stream_of(worker)._connection._waiting > 0  # still on its way: nobody reads it
    finally:
        server.go_on()
    assert torch.equal(x.get(), torch.full((2,), 4.0 * MAX_STEPS)) and large.shape == (10 << 20,)
    worker.close()
    hook.local_worker._known_workers.pop("ws-steps", None)


def test_batched_calls_are_sent_after_a_moment(far):
    """Nobody asks for anything after the call, and the worker gets it all the same."""
    flag = torch.zeros(1).send(far)
    flag.add_(1)
    stream = stream_of(far)
    moment = threading.Event()
    for _ in range(6000):
        if not stream._batch:
            break
        moment.wait(0.01)
    assert not stream._batch
    assert flag.get().item() == 1


def test_calls_and_everything_else_stay_in_order(far):
    x = torch.zeros(3).send(far)
    for number in range(50):
        x.add_(1)
        y = x * 2
        if number % 7 == 0:
            assert torch.equal(y.copy().get(), torch.full((3,), 2.0 * (number + 1)))
        if number % 11 == 0:
            x = x + torch.ones(3).send(far) - 1
        y.sub_(x)
    assert torch.equal(y.get(), torch.full((3,), 50.0))
    assert torch.equal(x.get(), torch.full((3,), 50.0))
    gc.collect()
    far.synchronize()
    assert far._objects == {}


def test_the_line_of_the_call_that_failed(far):
    x = torch.ones(2, dtype=torch.int64).send(far)
    with pytest.raises(RuntimeError, match="ZeroDivisionError") as caught:
        a = x + 1
        b = x // 0  # this line
        c = x + 2
        far.synchronize()
    assert "# this line" in facts_of(caught.value)
    assert torch.equal(a.get() + c.get(), torch.tensor([5, 5]))
    with pytest.raises(sy.exceptions.SyftError, match="failed"):
        b.get()


def test_connections_lost_in_the_middle_of_batches(far, line):
    counter, one = torch.zeros(1).send(far), torch.ones(1).send(far)
    total = counter * 1
    for number in range(600):
        counter.add_(1)
        total = total + one
        if number % 150 == 70:
            line.cut()
    assert counter.get().item() == 600 and total.get().item() == 600
    assert stream_of(far).reconnects >= 1


def test_ids_that_users_choose(far):
    x = torch.ones(2)
    x.id = "mine"
    pointer = x.send(far)
    kept = torch.ones(2).send(far)
    y = pointer + kept
    del pointer
    gc.collect()
    z = kept + kept  # the id that was let go of is of no row
    assert torch.equal(y.get(), z.get())
    del kept, x
    gc.collect()
    far.synchronize()
    assert far._objects == {}


def test_no_batching_under_another_default_dtype(far):
    x = torch.tensor([1, 2]).send(far)
    stream = x.child.lease.stream
    assert stream.gather("torch.Tensor.div", (x.child, 2), next(_ids)).dtype == torch.float32
    torch.set_default_dtype(torch.float64)
    try:
        assert stream.gather("torch.Tensor.div", (x.child, 2), next(_ids)) is NotImplemented
        half = x / 2
        assert half.dtype == half.get().dtype
    finally:
        torch.set_default_dtype(torch.float32)


def test_operands_of_every_kind(far):
    x = torch.tensor([1.0, -2.0, 3.0])
    p = x.send(far)
    assert torch.equal((2 - p).get(), 2 - x) and torch.equal((p * True).get(), x * True)
    assert torch.equal((p + 2**62).get(), x + 2**62) and torch.equal((p**2).get(), x**2)
    assert torch.equal(torch.add(p, p, alpha=3).get(), torch.add(x, x, alpha=3))
    assert torch.equal((p + torch.tensor(5.0)).get(), x + 5) and torch.equal(p[1].get(), x[1])
    assert torch.equal((p == 1).get(), x == 1) and torch.equal((-p).abs().get(), (-x).abs())
    big = 2**70
    with pytest.raises(OverflowError):
        p.long() + big
    with pytest.raises(RuntimeError, match="must match the size"):
        p + torch.ones(2).send(far)
    with torch.no_grad():
        assert not (p.detach().requires_grad_() * 2).requires_grad


def test_gradients_through_batches(far):
    x = torch.tensor([1.0, 2.0], requires_grad=True)
    p = x.send(far)
    loss = (p * p + 3 * p).exp().log().sum()
    loss.backward()
    assert torch.allclose(p.grad.copy().get(), 2 * x.detach() + 3)


def test_threads_of_one_client(far):
    start = torch.zeros(4).send(far)
    far.synchronize()
    wrong = []

    def work(number):
        x = start + number
        for _ in range(200):
            x = x + 1
        if not torch.equal(x.get(), torch.full((4,), 200.0 + number)):
            wrong.append(number)

    threads = [threading.Thread(target=work, args=(number,)) for number in range(6)]
    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-5)  # threads meet in the middle of everything
    try:
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    finally:
        sys.setswitchinterval(interval)
    far.synchronize()
    assert not wrong


def test_batching_goes_on_in_a_session_that_is_resumed(hook, line):
    worker = WebsocketClientWorker(hook, "localhost", line.port, id="ws-steps")
    x = torch.zeros(2).send(worker)
    y = x + 1
    worker.close()
    assert (y + 1).get().tolist() == [2.0, 2.0]
    worker.clear_objects_remote()
    worker.close()
    hook.local_worker._known_workers.pop("ws-steps", None)
