"""Protocols: chains of plans that run one after the other."""

import logging

import pytest
import torch

import syft as sy
from syft.exceptions import (
    CommandNotAllowedError,
    MalformedPlanError,
    ObjectNotFoundError,
    TensorsNotCollocatedError,
    WorkerNotFoundError,
)
from syft.messaging.protocol import Protocol
from syft.messaging.protocol.base import MAX_PLANS
from syft.pointers.pointer_plan import PointerPlan
from syft.pointers.pointer_protocol import PointerProtocol

ONE = torch.tensor([1.0])


def plan(function, *examples):
    return sy.Plan(forward_func=function).build(*(examples or (ONE,)))


def add(number):
    return plan(lambda x: x + number)


@pytest.fixture
def three(make_worker, kind):
    return [make_worker(name, kind) for name in ("alice", "bob", "charlie")]


def me():
    return sy.local_worker


# --- deploying ------------------------------------------------------------------------------------------------


def test_names_get_workers_in_the_order_they_first_appear(three, nothing_left):
    alice, bob, _ = three
    protocol = Protocol([("one", add(1)), ("two", plan(lambda x: x * 10)), ("one", add(5))])
    assert not protocol.workers_resolved
    protocol.deploy(alice, bob)
    assert protocol.workers_resolved
    assert [place for place, _ in protocol.plans] == [alice, bob, alice]
    assert all(type(pointer) is PointerPlan for _, pointer in protocol.plans)
    result = protocol.run(ONE)
    assert result.location is alice and result.get() == 25
    del protocol, result
    nothing_left(alice, bob)


@pytest.mark.parametrize("count", [0, 1, 3])
def test_a_wrong_number_of_workers(make_worker, count):
    workers = [make_worker() for _ in range(count)]
    protocol = Protocol([("one", add(1)), ("two", add(1))])
    with pytest.raises(RuntimeError, match=rf"needs 2 workers \(one, two\), got {count}"):
        protocol.deploy(*workers)
    assert not protocol.workers_resolved
    assert protocol.deploy(make_worker(), make_worker()).run(ONE).get() == 3


def test_a_second_deploy_is_refused(alice, bob):
    protocol = Protocol([("one", add(1))]).deploy(alice)
    with pytest.raises(RuntimeError, match="deployed already.*protocol.copy\\(\\).deploy"):
        protocol.deploy(bob)
    assert protocol.run(ONE).location is alice


def test_names_without_workers_do_not_run():
    with pytest.raises(RuntimeError, match="no workers yet for one, two.*protocol.deploy\\(one, two\\)"):
        Protocol([("one", add(1)), ("two", add(1)), ("one", add(1))]).run(ONE)


def test_workers_may_be_given_at_once(three):
    alice, bob, charlie = three
    pointer = torch.zeros(1).send(charlie)
    protocol = Protocol([(alice, add(1)), (bob, add(2)), (pointer, add(3))])
    assert protocol.workers_resolved
    assert protocol.run(ONE).get() == 7
    protocol.deploy()
    assert protocol.run(ONE).get() == 7
    with pytest.raises(RuntimeError, match="deployed already"):
        protocol.deploy()


def test_workers_and_names_together(alice, bob):
    protocol = Protocol([(alice, add(1)), ("other", add(2))])
    with pytest.raises(RuntimeError, match="needs 1 workers"):
        protocol.deploy(alice, bob)
    assert protocol.deploy(bob).run(ONE).location is bob


def test_pointers_to_plans(alice, bob):
    sent, many = add(1).send(alice), add(2)
    everywhere = many.send(alice, bob)
    protocol = Protocol([(alice, sent), (bob, everywhere), ("last", everywhere)]).deploy(alice)
    result = protocol.run(ONE)
    assert result.location is alice and result.get() == 6
    with pytest.raises(RuntimeError, match=f"not at '{bob.id}'"):
        Protocol([(bob, sent)])
    with pytest.raises(RuntimeError, match=f"not at '{bob.id}'"):
        Protocol([("name", sent)]).deploy(bob)


def test_a_plan_that_cannot_be_sent_leaves_the_protocol_as_it_was(alice, bob):
    unbuilt = sy.Plan(forward_func=lambda x: x + 1)
    protocol = Protocol([("one", add(1)), ("two", unbuilt)])
    with pytest.raises(RuntimeError, match="not built"):
        protocol.deploy(alice, bob)
    with pytest.raises(RuntimeError, match="Build it first"):
        protocol.send(alice)
    unbuilt.build(ONE)
    assert protocol.deploy(alice, bob).run(ONE).get() == 3


@pytest.mark.parametrize("plans", [[("one",)], [3], [("one", torch.ones(1))], [("one", "plan")]])
def test_invalid_pairs_of_worker_and_plan_are_refused(plans):
    with pytest.raises(ValueError, match="A protocol"):
        Protocol(plans)


def test_a_plan_needs_a_worker_or_a_name():
    with pytest.raises(sy.exceptions.SyftError, match="can't be assigned to a int"):
        Protocol([(7, add(1))])


def test_bounds():
    one = add(1)
    with pytest.raises(ValueError, match="at most"):
        Protocol([("x", one)] * (MAX_PLANS + 1))
    with pytest.raises(RuntimeError, match="no plans"):
        Protocol().run(ONE)


# --- running --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("count", [1, 2, 5])
def test_any_number_of_workers(make_worker, kind, count, nothing_left):
    workers = [make_worker(f"w{n}", kind) for n in range(count)]
    protocol = Protocol([(f"w{n}", add(n + 1)) for n in range(count)]).deploy(*workers)
    with sy.count_messages() as n:
        result = protocol(ONE)
    mine = sum(number for (sender, _), number in n.by_worker.items() if sender == me().id)
    assert mine == 1 + count + (count - 1)
    assert result.get() == 1 + sum(range(1, count + 1))
    del protocol, result
    nothing_left(*workers)


def test_consecutive_plans_of_one_worker_move_nothing(three):
    alice, *_ = three
    protocol = Protocol([("a", add(1)), ("a", add(2)), ("a", add(3))]).deploy(alice)
    with sy.count_messages() as n:
        result = protocol.run(ONE)
    assert n.by_worker == {(me().id, alice.id): 4}
    assert result.get() == 7


def test_pointers_stay_where_the_caller_has_them(three, nothing_left):
    alice, bob, charlie = three
    protocol = Protocol([("a", add(1)), ("b", add(1))]).deploy(alice, bob)
    for place in (alice, bob, charlie):
        pointer = ONE.send(place)
        assert protocol.run(pointer).get() == 3
        assert pointer.get() == 1
    del protocol
    nothing_left(alice, bob, charlie)


def test_a_plan_that_returns_its_argument_does_not_take_it_away(three):
    alice, bob, _ = three
    protocol = Protocol([("a", plan(lambda x: x)), ("b", add(1))]).deploy(alice, bob)
    pointer = ONE.send(alice)
    assert protocol.run(pointer).get() == 2
    assert pointer.get() == 1
    twice = Protocol([("a", plan(lambda x: (x, x))), ("b", plan(lambda x, y: x + y, ONE, ONE))]).deploy(alice, bob)
    pointer = ONE.send(alice)
    assert twice.run(pointer).get() == 2
    assert pointer.get() == 1


def test_several_results_are_several_arguments(three, nothing_left):
    alice, bob, _ = three
    split = plan(lambda x, y: (x + y, [x - y, x * y]), torch.ones(2), torch.ones(2))
    join = plan(
        lambda total, rest: {"sum": total + rest[0], "product": (rest[1],)}, *split(torch.ones(2), torch.ones(2))
    )
    protocol = Protocol([("a", split), ("b", join)]).deploy(alice, bob)
    result = protocol.run(torch.tensor([5.0, 6.0]), torch.tensor([2.0, 3.0]))
    assert result["sum"].location is bob
    assert result["sum"].get().tolist() == [10.0, 12.0]
    assert result["product"][0].get().tolist() == [10.0, 18.0]
    del protocol, result, split, join
    nothing_left(alice, bob)


def test_keyword_arguments_and_one_tensor_twice(alice, bob):
    subtract = plan(lambda x, y: x - 2 * y, ONE, ONE)
    protocol = Protocol([("a", subtract), ("b", add(1))]).deploy(alice, bob)
    assert protocol.run(torch.tensor([7.0]), y=torch.tensor([2.0])).get() == 4
    assert protocol.run(ONE, ONE).get() == 0
    assert protocol.run(y=ONE, x=ONE.send(bob)).get() == 0


def test_state_of_plans_is_at_their_workers(alice, bob):
    @sy.func2plan(args_shape=[(1,)], state=(torch.tensor([3.0]),))
    def times(x, state):
        (factor,) = state.read()
        return x * factor

    assert Protocol([("a", times), ("b", times.copy())]).deploy(alice, bob).run(ONE).get() == 9


def test_values_that_are_no_tensors_are_refused(alice, bob):
    protocol = Protocol([("a", add(1))]).deploy(alice)
    for thing in (sy.String("x"), sy.String("x").send(bob), torch.ones(1).send(alice, bob)):
        with pytest.raises(TypeError, match="A protocol"):
            protocol.run(thing)


def test_a_plan_at_the_local_worker(alice, nothing_left):
    protocol = Protocol([("a", add(1)), ("here", add(1)), ("a", add(1))]).deploy(alice, me())
    assert protocol.run(ONE).get() == 4
    last = Protocol([("a", add(1)), ("here", add(1))]).deploy(alice, me())
    assert torch.equal(last.run(ONE), torch.tensor([3.0]))
    del protocol, last
    nothing_left(alice)


def test_an_error_of_a_plan_leaves_nothing_behind(three, nothing_left):
    alice, bob, _ = three
    protocol = Protocol([("a", add(1)), ("b", plan(lambda x: x.view(2, 2), torch.ones(4)))]).deploy(alice, bob)
    with pytest.raises((RuntimeError, sy.exceptions.PlanMismatchError)):
        protocol.run(ONE)
    del protocol
    nothing_left(alice, bob)


def test_steps_are_logged_and_not_printed(alice, bob, caplog, capsys):
    protocol = Protocol([("a", add(1)), ("b", add(1))]).deploy(alice, bob)
    with caplog.at_level(logging.INFO, "syft.messaging"):
        protocol.run(torch.tensor([31.25]))
    assert [record.name for record in caplog.records] == ["syft.messaging"] * 2
    assert alice.id in caplog.text and bob.id in caplog.text and "31.25" not in caplog.text
    assert capsys.readouterr() == ("", "")


# --- uploading ------------------------------------------------------------------------------------------------


@pytest.fixture
def upload(three, make_worker, kind):
    """Return a function that makes a protocol and uploads it; pytest would keep what a fixture returns alive."""

    def make():
        alice, bob, _ = three
        james = make_worker("james", kind)
        protocol = Protocol([("a", add(1)), ("b", add(2))], tags={"#sum"}, description="adds three")
        return protocol, protocol.deploy(alice, bob).send(james), james, alice, bob

    return make


def test_a_protocol_runs_where_its_arguments_are(upload, nothing_left):
    protocol, pointer, james, alice, bob = upload()
    assert protocol.location is james and type(pointer) is PointerProtocol
    here, there = ONE, torch.tensor([5.0]).send(james)
    assert Protocol.find_args_location((1, [there])) is james and Protocol.find_args_location((ONE,)) is me()
    assert protocol.run(here).location is bob
    far = protocol.run(there)
    assert far.location is james and far.get().get() == 8
    elsewhere = torch.tensor([5.0]).send(alice)
    assert protocol.run(elsewhere).location is bob
    assert protocol.request_remote_run(james, (here,), {}).location is james
    with pytest.raises(RuntimeError, match=f"not sent to '{alice.id}'"):
        protocol.request_remote_run(alice, (here,), {})
    assert there.get() == 5 and elsewhere.get() == 5
    pointer.delete()
    del protocol, pointer, far, there, elsewhere
    nothing_left(james, alice, bob)


def test_pointers_to_protocols_run_them(upload):
    _, pointer, james, alice, _ = upload()
    with sy.count_messages() as n:
        result = pointer.run(ONE)
    assert n.by_worker[me().id, james.id] == 1
    assert result.get().get() == 4
    assert pointer(ONE.send(james)).get().get() == 4
    assert pointer.request_remote_run(james, [ONE], {}).get().get() == 4
    assert pointer.wrap() is pointer
    with pytest.raises(RuntimeError, match=f"at '{james.id}', not at '{alice.id}'"):
        pointer.request_remote_run(alice, [ONE], {})
    with pytest.raises(TensorsNotCollocatedError):
        pointer.run(ONE.send(alice))


def test_a_protocol_may_return_its_arguments(three, make_worker, kind):
    """Also an argument that came by value, which nothing at this end points at."""
    alice, *_ = three
    james = make_worker("james", kind)
    protocol = Protocol([("j", plan(lambda x: x.add_(1)))]).deploy(james)
    pointer = protocol.send(alice)
    assert pointer.run(ONE.clone()).get().get() == 2
    home = Protocol([("a", plan(lambda x: x))]).deploy(alice)
    pointer = home.send(alice)
    assert pointer.run(ONE).get() == 1
    given = ONE.send(alice)
    assert pointer.run(given).get() == 1 and given.get() == 1


def test_search_and_fetch(upload):
    _protocol, pointer, james, *_ = upload()
    for words in (["#sum"], ["adds three"], [pointer.id_at_location]):
        (found,) = me().request_search(words, location=james)
        assert type(found) is PointerProtocol
    assert found.tags == {"#sum"} and found.description == "adds three"
    same = me().fetch_protocol(pointer.id_at_location, james)
    other = me().fetch_protocol(pointer.id_at_location, james, copy=True)
    assert same.id == pointer.id_at_location != other.id
    assert same.run(ONE).get() == other.run(ONE).get() == 4
    assert found.run(ONE).get().get() == 4  # it is still there
    gone = found.get()
    assert gone.run(ONE).get() == 4 and james.search("#sum") == []
    with pytest.raises(ObjectNotFoundError):
        me().fetch_protocol(pointer.id_at_location, james)


def test_fetching_other_objects_as_protocols_is_refused(make_worker, kind):
    bob = make_worker("bob", kind)
    x = ONE.send(bob)
    with pytest.raises(ObjectNotFoundError, match="it is not a protocol"):
        me().fetch_protocol(x.id_at_location, bob)
    with pytest.raises(ObjectNotFoundError):
        me().fetch_protocol("nothing", bob)


def test_a_fetched_protocol_keeps_its_plans_alive(upload, nothing_left):
    protocol, pointer, james, alice, bob = upload()
    copied = me().fetch_protocol(pointer.id_at_location, james, copy=True)
    pointer.delete()
    del protocol, pointer
    assert copied.run(ONE).get() == 4
    del copied
    nothing_left(james, alice, bob)


def test_a_copy_takes_no_claims_from_its_original(upload, nothing_left):
    protocol, pointer, james, alice, bob = upload()
    copied = me().fetch_protocol(pointer.id_at_location, james, copy=True)
    del protocol, copied
    nothing_left()
    assert pointer.run(ONE).get().get() == 4
    pointer.delete()
    del pointer
    nothing_left(james, alice, bob)


def test_an_uploaded_protocol_keeps_its_plans_alive(three, make_worker, kind, nothing_left):
    alice, bob, _ = three
    james = make_worker("james", kind)
    Protocol([("a", add(1)), ("b", add(2))], tags={"#kept"}).deploy(alice, bob).send(james)
    (found,) = james.search("#kept")
    assert found.run(ONE).get().get() == 4
    found.delete()
    del found
    nothing_left(james, alice, bob)


def test_without_tags_it_stays_too(alice, bob, nothing_left):
    protocol = Protocol([("a", add(1))]).deploy(alice)
    protocol.send(bob)
    key = protocol.id
    del protocol
    nothing_left(bob, alice)
    (found,) = bob.search([key])
    assert found.run(ONE.send(bob)).get().get() == 2
    found.delete()
    assert bob.search([key]) == []


def test_sent_before_it_is_deployed(alice, bob):
    protocol = Protocol([("a", add(1))])
    pointer = protocol.send(bob)
    with pytest.raises(RuntimeError, match="no workers yet"):
        pointer.run(ONE)
    with pytest.raises(ValueError, match="already"):
        protocol.send(me())


def test_a_worker_that_leads_and_has_a_plan(three, nothing_left):
    """A plan that is pointed at where it is needs no claim; the plan outlives its deployer's pointer."""
    alice, bob, _ = three
    protocol = Protocol([("a", add(1)), ("b", add(2))], tags={"#led"}).deploy(alice, bob)
    pointer = protocol.send(bob)
    del protocol
    assert pointer.run(ONE).get() == 4
    pointer.delete()
    del pointer
    nothing_left(bob, alice)


def test_copies(three, make_worker, kind):
    alice, bob, charlie = three
    protocol = Protocol([("a", add(1)), (bob, add(2))], tags={"#t"}, description="d").deploy(alice)
    proxy = protocol.copy()
    assert proxy.id != protocol.id and proxy.tags == {"#t"} and proxy.description == "d"
    assert [place for place, _ in proxy.plans] == ["a", bob.id]
    assert proxy.deploy(charlie, alice).run(ONE).location is alice
    fetched = protocol.send(charlie).get()
    assert fetched.copy().deploy(bob, charlie).run(ONE).get() == 4


def test_create_pointer_and_attributes(alice, bob):
    sent = add(1).send(alice)
    protocol = Protocol.create_from_attributes(me(), 77, {"#t"}, "text", True, [(alice.id, sent.id_at_location)])
    assert protocol.id == 77 and protocol.run(ONE).get() == 2
    named = Protocol.create_from_attributes(me(), None, None, None, False, [("x", add(1))])
    assert named.deploy(bob).run(ONE).get() == 2
    held = Protocol.create_from_attributes(alice, 78, {"#t"}, "text", True, [(bob.id, add(1))])
    alice.register_obj(held)
    pointer = held.create_pointer(me(), False)
    assert type(pointer) is PointerProtocol and pointer.location is alice and pointer.id_at_location == 78
    assert pointer.tags == {"#t"} and not pointer.garbage_collect_data
    assert pointer.run(ONE).get().get() == 2
    alice.clear_objects()


BROKEN = {
    "an unknown worker": (True, (("nobody", 5),)),
    "no pairs": (True, 5),
    "no pair": (True, (5,)),
    "a tensor for a plan": (True, (("here", torch.ones(1)),)),
    "the id of a plan without a worker": (False, (("x", 5),)),
    "a flag that is none": (1, ()),
    "too many plans": (False, (("x", 5),) * (MAX_PLANS + 1)),
}


@pytest.mark.parametrize("what", BROKEN)
def test_parts_that_do_not_fit_are_refused(what, bob):
    resolved, pairs = BROKEN[what]
    if type(pairs) is tuple:
        pairs = tuple((bob.id, p[1]) if type(p) is tuple and p[0] == "here" else p for p in pairs)
    with pytest.raises(WorkerNotFoundError if what == "an unknown worker" else MalformedPlanError):
        Protocol.create_from_attributes(me(), 1, set(), None, resolved, pairs)


def test_a_worker_that_does_not_know_another(hook, make_worker, kind):
    alice, james = make_worker("alice", kind), make_worker("james", kind)
    protocol = Protocol([("a", add(1))]).deploy(alice)
    james._known_workers.pop(alice.id)
    with pytest.raises(WorkerNotFoundError, match=f"'{alice.id}' is known here"):
        protocol.send(james)
        james.synchronize()


def test_round_trip_in_bytes(alice, bob):
    deployed = Protocol([("a", add(1)), ("b", add(2))], tags={"#t"}, description="d").deploy(alice, bob)
    for protocol in (deployed, deployed.copy()):
        proxy = sy.deserialize(sy.serialize(protocol))
        assert type(proxy) is Protocol and (proxy.id, proxy.tags, proxy.description) == (protocol.id, {"#t"}, "d")
        assert [step.name for step in proxy.steps] == ["a", "b"]
        assert proxy.workers_resolved is protocol.workers_resolved
    assert proxy.deploy(alice, bob).run(ONE).get() == 4
    pointer = deployed.send(bob)
    back = sy.deserialize(sy.serialize(pointer))
    assert type(back) is PointerProtocol and back.id_at_location == pointer.id_at_location
    assert back.run(ONE).get() == 4  # bob is the last worker himself
    pointer.delete()


def test_protobuf_message(alice):
    protocol = Protocol([("a", add(1))], tags={"#t"})
    proxy = Protocol.unbufferize(me(), Protocol.bufferize(me(), protocol))
    assert proxy.id == protocol.id and proxy.deploy(alice).run(ONE).get() == 2


def test_how_it_looks(alice):
    def step(x):
        return x + 1

    protocol = Protocol([("first", plan(step)), (alice, plan(step))], tags={"#t"})
    assert "not deployed" in repr(protocol) and "first: step -> " in repr(protocol) and "#t" in repr(protocol)
    protocol.deploy(alice)
    assert f"first ({alice.id}): step" in repr(protocol) and "not" not in repr(protocol)
    html = protocol._repr_html_()
    assert "<table" in html and "step" in html and alice.id in html
    assert "no plans" in repr(Protocol())


# --- circles --------------------------------------------------------------------------------------------------


def test_a_protocol_is_no_plan_of_a_protocol(three):
    """A pointer that says it points at a plan, and points at a protocol: at another worker, and at itself."""
    alice, bob, _ = three
    inner = Protocol([("a", add(1))]).deploy(alice).send(bob)
    fake = PointerPlan(bob, inner.id_at_location, me(), garbage_collect_data=False)
    with pytest.raises(CommandNotAllowedError, match="Protocol as a plan"):
        Protocol([(bob, fake)]).run(ONE)
    circle = Protocol([(bob, fake)])
    with pytest.raises(MalformedPlanError, match="not a Protocol"):
        circle.send(bob)
        bob.synchronize()
    through = circle.send(alice)
    with pytest.raises(CommandNotAllowedError, match="Protocol as a plan"):
        through.run(ONE)


def test_no_plan_can_run_a_protocol():
    from syft.messaging.message import Operation

    placeholder = sy.PlaceHolder(tags={"#input-0"})
    with pytest.raises(CommandNotAllowedError, match="run_protocol"):
        sy.Plan(
            is_built=True,
            operations=[Operation("syft.run_protocol", None, (placeholder,), {}, ())],
            placeholders={placeholder.id: placeholder},
        )
