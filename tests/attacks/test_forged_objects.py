"""Forged plans, pointers, claims and protocols: none reaches values, objects or workers that its sender may not."""

from __future__ import annotations

import textwrap
from pathlib import Path

import pytest
import torch

import syft as sy
from syft.core.references import Ref
from syft.messaging import message as m
from syft.pointers.pointer_plan import COPY_PLAN, PLAN_PARAMETERS, RUN_PLAN
from syft.serde.msgpack.serde import _simplify
from syft.workers.access.policy import ALLOW_ALL, DenyAll
from tests.helpers import warm_processes as warm
from tests.helpers.attacks.forged_plans import op, parts_of, program, put, send
from tests.helpers.attacks.hostile_peer import error_name


@pytest.fixture(autouse=True)
def silent(monkeypatch):
    monkeypatch.setattr(sy.LoggingTensor, "out", staticmethod(lambda text: None))


def test_the_inferred_result_of_a_plan_reveals_no_values(mallory, bob, secret, honest):
    """The expected form may be a placeholder: a tensor, whose text is in the PlanMismatchError under DenyAll."""
    forged = program(
        op("torch.Tensor.sum", Ref(0)),
        ("syft.plan.expect_form", (Ref(0), "ndim", Ref(2)), {}, ()),
        outputs=Ref(2),
    )
    send(mallory, parts_of(honest, ROWS=forged))
    mallory.call(RUN_PLAN, Ref("forged"), Ref(secret.id))
    # The number of a worker may be any.
    assert all(b"7297" not in seen.replace(bob.id.encode(), b"") for seen in mallory.seen)


def chained(*values):
    return sy.LoggingTensor().on(torch.tensor(values))


def run_apart(body, seconds=110):
    """Run a script in a process of its own; return its exit code (negative: killed by a signal)."""
    head = """
        import sys
        import torch, syft as sy
        from syft.core.references import Ref
        from syft.messaging import message as m
        from syft.messaging.plan.state import State
        from syft.tensors.placeholder import PlaceHolder
        from syft.pointers.pointer_plan import RUN_PLAN
        from syft.workers.access.policy import DenyAll
        from tests.helpers.attacks.hostile_peer import Mallory
        from tests.helpers.attacks.forged_plans import op, parts_of, program, put, send
        hook = sy.TorchHook(torch)
        bob = sy.VirtualWorker(hook, id="bob")
        mallory = Mallory(bob)
        weight = torch.tensor([2.0])
        honest = sy.func2plan(args_shape=[(3,)])(lambda x: x.mul(weight).add(1.0))
        sy.LoggingTensor.out = lambda text: None
    """
    limit = "import resource; resource.setrlimit(resource.RLIMIT_AS, (6_000_000 << 10,) * 2)\n"
    code = limit + textwrap.dedent(head) + textwrap.dedent(body)
    return warm.run(code, cwd=Path(__file__).resolve().parents[2], timeout=seconds).returncode


def test_a_link_in_the_state_does_not_skip_the_guards(hook):
    """A LoggingTensor among the arguments makes executor.guarded skip the check: SIGFPE of the worker."""
    assert 0 == run_apart("""
        bob.policy = DenyAll()
        smallest = sy.LoggingTensor().on(torch.tensor([-(2**63)]))
        parts = parts_of(honest, ROWS=program(op("torch.div", Ref(1), Ref(0), rounding_mode="trunc")))
        parts[5] = State(None, [PlaceHolder(tags={"#state"}, child=smallest)])
        send(mallory, parts)
        mallory.call(RUN_PLAN, Ref("forged"), torch.tensor([-1]))
    """)


def test_the_guard_of_recurrent_layers_does_not_unfold_their_number(hook):
    """A 200-byte call: the guard itself lists the weight shapes of 10**9 layers."""
    assert 0 == run_apart("""
        z = torch.zeros(1, 1, 1)
        mallory.call("torch.lstm", z, (z, z), [z], True, 10**10, 0.0, False, False, False)
        sys.exit(0)
    """)


@pytest.fixture
def deputy(bob, alice):
    """Bob has a tensor of his own at alice; both deny everything. Returns its id and a forged shell of a pointer."""
    from syft.core.context import acting_as
    from tests.helpers.attacks.hostile_peer import DEVICE, DTYPE, SET, SHELL, SIZE, TENSOR_META, TENSOR_POINTER

    with acting_as(bob):
        pointer = torch.tensor([1.0, 2.0]).send(alice)
    obj_id = pointer.id_at_location
    alice.policy, bob.policy = DenyAll(), DenyAll()
    meta = (TENSOR_META, (SIZE, 2), (DTYPE, "float32"), False, (DEVICE, "cpu", None))

    def shell(owned):
        link = (TENSOR_POINTER, 99, obj_id, alice.id, None, (SET,), None, owned, meta)
        return (SHELL, link, False, False, None, None, None)

    yield obj_id, shell
    alice.policy, bob.policy = ALLOW_ALL, ALLOW_ALL


def test_a_forged_pointer_changes_no_objects_elsewhere(mallory, bob, alice, deputy):
    """Mallory gives bob a pointer to alice; calls on it act at alice in bob's name (also inside plans)."""
    obj_id, shell = deputy
    mallory.raw((122, shell(False), "p1", False, None))
    mallory.call("torch.Tensor.zero_", Ref("p1"))
    assert alice._objects[obj_id].tolist() == [1.0, 2.0]


def test_a_forged_claim_drops_no_objects_elsewhere(mallory, bob, alice, deputy):
    """`owned` is what the sender says: bob adopts a claim that alice never gave, and releases his own."""
    obj_id, shell = deputy
    mallory.raw((122, shell(True), "p2", False, None))
    mallory.ask(m.ForceObjectDeleteMessage("p2"))
    assert obj_id in alice._objects


def test_bytes_do_not_overwrite_the_store_of_a_worker(mallory, bob, alice):
    """Wire code 162 (a worker in its full form): `force_detail` finds the KNOWN worker of that id and fills its store."""
    for worker in (bob, alice):
        worker.load_data([torch.ones(2).tag("#theirs")])
        worker.policy = DenyAll()
    kept = {worker: dict(worker._objects) for worker in (bob, alice)}
    known = set(bob._known_workers)
    for name in (bob.id, alice.id, "planted"):
        ids = [*kept[bob], *kept[alice], "extra"]
        mallory.raw((162, name, _simplify(None, {obj_id: torch.zeros(2) for obj_id in ids}), True))
    try:
        assert set(bob._known_workers) == known
        assert {worker: dict(worker._objects) for worker in (bob, alice)} == kept
    finally:
        for worker in (*bob._known_workers.values(), *alice._known_workers.values(), sy.local_worker):
            worker._known_workers.pop("planted", None)


def test_a_protocol_does_not_reveal_known_workers(mallory, bob, alice):
    """`get_worker(place, fail_hard=True)` in the details of both protocols lists the known workers to a peer."""
    bob.policy = DenyAll()
    mallory.raw((122, (102, 1, (4,), None, True, (1, (1, "nobody", 7)), (1, "a")), 5, False, None))
    rows = (1, (1, "a"), (1, 0), (1, 0), (1,), None)
    mallory.raw((122, (103, 1, (4,), None, "x", rows, (1,), (1, (1,)), (1, "nobody")), 6, False, None))
    assert all(alice.id.encode() not in seen for seen in mallory.seen)


def test_packed_values_inside_each_other_are_not_unfolded(hook):
    """Protobuf: the reader parses a packed value in a packed value in ... before the level is checked."""
    assert 0 == run_apart("""
        import resource
        from syft.serde import compression
        from syft.serde.protobuf import envelope, serde
        from syft.serde.protobuf.schema import syft_pb2 as pb
        data = pb.Value(data=bytes(2_000_000)).SerializeToString()
        for _ in range(400):
            data = pb.Value(packed=data).SerializeToString()
        plan = pb.Value()
        plan.plan.optimizers.add().MergeFromString(data)
        sent = bytes(compression.join(envelope.write(plan, []), bob))
        assert len(sent) < 50_000
        before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        try:
            serde.deserialize(sent, bob)
        except sy.exceptions.SerdeError:
            pass
        sys.exit(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before > 200_000)
    """)


def test_numbers_do_not_travel_to_another_worker_with_a_call(mallory, bob, alice, secret):
    """A 0-dim tensor counts as a number and travels along with a call on a pointer, past DenyAll: to alice/eve."""
    from tests.helpers.attacks.hostile_peer import DEVICE, DTYPE, SET, SHELL, SIZE, TENSOR_META, TENSOR_POINTER

    mine = torch.zeros(3).send(alice)  # alice stands for any worker that bob knows and Mallory can read
    meta = (TENSOR_META, (SIZE, 3), (DTYPE, "float32"), False, (DEVICE, "cpu", None))
    link = (TENSOR_POINTER, 99, mine.id_at_location, alice.id, None, (SET,), None, False, meta)
    mallory.raw((122, (SHELL, link, False, False, None, None, None), "there", False, None))
    for number in range(3):
        mallory.call("torch.Tensor.__getitem__", Ref(secret.id), number, return_id=f"n{number}")
        mallory.call("torch.Tensor.__setitem__", Ref("there"), number, Ref(f"n{number}"))
    assert mine.get().tolist() == [0.0, 0.0, 0.0]


def test_remote_get_of_a_forged_pointer_takes_no_objects_from_others(mallory, bob, alice, deputy):
    """Alice releases to bob; Mallory's pointer on bob + FetchThereMessage moves X away from alice, into her hands."""
    obj_id, shell = deputy

    class ToBob:
        def allows(self, release):
            return release.client == bob.id

    alice.policy = ToBob()
    mallory.raw((122, shell(False), "p3", False, None))
    mallory.ask(m.FetchThereMessage("p3"))
    assert obj_id in alice._objects


def test_claims_of_ids_that_do_not_exist_leave_nothing(mallory, bob):
    """Each ClaimMessage for an invented id is remembered for ever (also after the session has ended)."""
    for number in range(100):
        mallory.ask(m.ClaimMessage(f"invented-{number}"))
    mallory.session.close()
    claims = bob.object_store.claims
    assert not getattr(claims, "_unfounded", {})


def test_labels_of_other_users_print_no_escape_codes(mallory, bob, honest):
    """plan.__repr__ and plan.code escape them; State.__repr__, pointers and HTML tables do not."""
    from syft.messaging.plan.state import State
    from syft.tensors.placeholder import PlaceHolder

    assert error_name(send(mallory, parts_of(honest, DESCRIPTION="\x1b[2J", TAGS={"\x1b[2J"}))) == "ValueError"
    parts = parts_of(honest)
    parts[5] = State(None, [PlaceHolder(tags={"#state"}, description="\x1b[2J", child=torch.ones(1))])
    send(mallory, parts)
    (found,) = sy.local_worker.request_search(["forged"], bob)
    for text in (repr(bob._objects["forged"].state), repr(found), found._repr_html_(), bob._repr_html_()):
        assert "\x1b" not in text


def test_attributes_of_a_forged_pointer_reach_no_worker(mallory, bob, alice, deputy):
    """resolve() walks T/real/data of a held pointer, each a call at alice in bob's name, before the policy is asked."""
    _, shell = deputy
    mallory.raw((122, shell(False), "p4", False, None))
    with sy.count_messages() as count:
        mallory.ask(m.IsNoneMessage(Ref("p4", "real.real")))
        mallory.ask(m.GetShapeMessage(Ref("p4", "data.data")))
        mallory.call("torch.Tensor.abs", Ref("p4", "real"))
    assert (bob.id, alice.id) not in count.by_worker


def test_a_plan_holds_a_bounded_number_of_values(mallory, bob, honest):
    one_list = program(op("torch.tensor", [0] * 300_000 + [Ref(0)]))
    many = program(*(op("torch.cat", [Ref(0)] * 1000, results=(Ref(2 + n),)) for n in range(300)), outputs=Ref(2))
    results = program(op("torch.Tensor.unbind", Ref(0), results=(tuple(Ref(2 + n) for n in range(300_000)),)))
    for number, forged in enumerate((one_list, many, results)):
        answer = send(mallory, parts_of(honest, ROWS=forged), f"many-{number}")
        assert error_name(answer) == "MalformedPlanError" and "values in its operations" in str(answer.contents)
    assert not [key for key in bob._objects if str(key).startswith("many")]


def test_a_plan_that_comes_along_with_a_call_is_not_run(mallory, bob, secret, hook):
    """A plan by value: nobody looked at what it changes."""
    before = secret.clone()

    @sy.func2plan(args_shape=[(3,)])
    def meddle(x):
        return x.fill_(42.0)

    for name in (RUN_PLAN, PLAN_PARAMETERS, COPY_PLAN):
        assert error_name(mallory.call(name, meddle, Ref(secret.id))) == "CommandNotAllowedError"
        assert error_name(mallory.call(name)) == "CommandNotAllowedError"
        assert error_name(mallory.call(name, Ref(secret.id, "data"))) == "CommandNotAllowedError"
    assert torch.equal(secret, before)


def test_a_result_that_is_refused_in_part_leaves_nothing(mallory, bob, secret, hook):
    @sy.func2plan(args_shape=[(3,)])
    def mixed(x):
        return x + 1, x.shape[0]

    ref, held = put(mallory, mixed), len(bob._objects)
    assert error_name(mallory.call(RUN_PLAN, ref, Ref(secret.id))) == "GetNotPermittedError"
    assert len(bob._objects) == held
