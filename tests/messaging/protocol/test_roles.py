"""Protocols between roles: recorded as one function, partitioned into plans, run by several workers."""

import pytest
import torch

import syft as sy
from syft.exceptions import MalformedPlanError, PlanBuildError, TensorsNotCollocatedError
from syft.messaging.protocol import Role, RoleProtocol
from syft.messaging.protocol.schedule import ScheduledMove, ScheduledRun
from syft.pointers.pointer_protocol import PointerProtocol

ONE = torch.tensor([1.0])


def me():
    return sy.local_worker


def shape_of(protocol):
    """The steps of a protocol as text: `a` for a run of role a, `a>b` for a move."""
    at = {}
    for role, name in enumerate(protocol.roles):
        for number in (*protocol.schedule.input_numbers(role), *protocol.schedule.state_numbers(role)):
            at[number] = name
    words = []
    for step in protocol.schedule.steps:
        if isinstance(step, ScheduledRun):
            words.append(protocol.roles[step.role])
            at.update(dict.fromkeys(step.outputs, protocol.roles[step.role]))
        else:
            assert isinstance(step, ScheduledMove)
            words.append(f"{at[step.source]}>{protocol.roles[step.role]}")
            at[step.target] = protocol.roles[step.role]
    return " ".join(words)


def mine(count):
    return sum(number for (sender, _), number in count.by_worker.items() if sender == me().id)


@pytest.fixture
def four(make_worker, kind):
    return [make_worker(name, kind) for name in ("w", "x", "y", "z")]


# --- two, three, four roles -----------------------------------------------------------------------------------


def ping_pong(alice, bob):
    (x,) = alice.inputs
    (y,) = bob.inputs
    return (x + 1).send(bob).mul(y).move(alice) - x


def test_two_roles(four, nothing_left):
    one, two, *_ = four
    protocol = sy.func2protocol(roles=["alice", "bob"], args_shape={"alice": [(1,)], "bob": [(1,)]})(ping_pong)
    assert isinstance(protocol, RoleProtocol) and protocol.is_built
    assert shape_of(protocol) == "alice alice>bob bob bob>alice alice"
    assert protocol.deploy(alice=one, bob=two) is protocol
    x, y = torch.tensor([3.0]).send(one), torch.tensor([10.0]).send(two)
    with sy.count_messages() as n:
        result = protocol.run(alice=(x,), bob=(y,))
    assert result.location is one and result.get() == 37
    # one message a plan and one a crossing; what crosses goes straight
    assert mine(n) == 5
    assert {(one.id, two.id), (two.id, one.id)} < n.by_worker.keys()
    assert x.get() == 3 and y.get() == 10
    del protocol, result
    nothing_left(one, two)


def test_three_roles_in_a_ring(four, nothing_left):
    @sy.func2protocol(args_shape={"a": [(2,)], "b": [(2,)], "c": [(2,)]})
    def ring(a, b, c):
        first = a.input(0).send(b) + b.input(0)
        second = first.send(c) + c.input(0)
        return second.send(a) * 1.0

    assert shape_of(ring) == "a a>b b b>c c c>a a"
    workers = four[:3]
    ring.deploy(*workers)
    with sy.count_messages() as n:
        result = ring.run(*[torch.full((2,), float(k)) for k in (1, 2, 3)])
    assert mine(n) == 3 + 4 + 3  # three inputs, four plans, three crossings
    assert result.location is workers[0] and result.get().tolist() == [6.0, 6.0]
    del ring, result
    nothing_left(*workers)


def test_four_roles_to_a_trusted_one(four, nothing_left):
    """Averages go to one role, which returns to each the mean: levels, not lines, decide the number of messages."""

    @sy.func2protocol(args_shape={name: [(-1, 2)] for name in "abc"} | {"judge": []})
    def average(a, b, c, judge):
        total = sum(role.input(0).mean(0).send(judge) for role in (a, b, c))
        mean = total / 3
        return [role.input(0) - mean.send(role) for role in (a, b, c)]

    assert shape_of(average) == "a a>judge b b>judge c c>judge judge judge>a judge>b judge>c a b c"
    average.deploy(*four)
    given = [torch.randn(rows, 2) for rows in (2, 3, 4)]
    with sy.count_messages() as n:
        results = average.run(*given)
    assert mine(n) == 3 + 7 + 6
    mean = sum(x.mean(0) for x in given) / 3
    for x, result, worker in zip(given, results, four, strict=False):
        assert result.location is worker
        assert torch.allclose(result.get(), x - mean)
    del average, results, result
    nothing_left(*four)


def test_one_worker_in_two_roles(four, nothing_left):
    one, *_ = four
    protocol = sy.func2protocol(args_shape={"alice": [(1,)], "bob": [(1,)]})(ping_pong).deploy(one, one)
    with sy.count_messages() as n:
        result = protocol.run(torch.tensor([3.0]), torch.tensor([10.0]))
    assert n.by_worker == {(me().id, one.id): 5}  # two inputs, three plans, and nothing moves
    assert result.get() == 37
    del protocol, result
    nothing_left(one)


def test_the_local_worker_in_a_role(bob):
    protocol = sy.func2protocol(args_shape={"alice": [(1,)], "bob": [(1,)]})(ping_pong).deploy(me(), bob)
    result = protocol.run(torch.tensor([3.0]), torch.tensor([10.0]))
    assert torch.equal(result, torch.tensor([37.0]))
    with pytest.raises(RuntimeError, match="'alice' belongs to 'me' itself"):
        protocol.send(bob)


# --- cutting --------------------------------------------------------------------------------------------------


def both(function, inputs=1):
    return sy.func2protocol(args_shape={"a": [(2,)] * inputs, "b": [(2,)] * inputs})(function)


def receives_only(a, b):
    return a.input(0).send(b)


def waits_for_what_arrives(a, b):
    """The calls of b before the arrival need no plan of their own."""
    early = b.input(0) * 2
    arrived = (a.input(0) + 1).send(b)
    return early + arrived


def two_crossings_of_one_plan(a, b):
    x = a.input(0)
    first = (x + 1).send(b)
    second = (x * 2).send(b)
    return first + second + b.input(0)


def both_ways_at_once(a, b):
    x, y = a.input(0), b.input(0)
    return (x + 1).send(b) * y, (y + 1).send(a) * x


def used_by_several_plans(a, b):
    x = a.input(0) * 3
    once = (x + 1).send(b)
    back = (once * b.input(0)).send(a)
    return x * back, once + 1, (x + back).send(b) + once


def sent_to_itself(a, b):
    return a.input(0).send(a) + 1, b.input(0).send(a)


def made_from_nothing(a, b):
    zeros = torch.zeros(2)
    ones = torch.ones(2).send(b)
    zeros += a.input(0)
    return zeros, ones + b.input(0), torch.full((2,), 7.0)


def changes_in_place_stay_on_their_side(a, b):
    x = a.input(0) + 0
    y = x.send(b)
    x.add_(100)
    y.mul_(2)
    again = x.send(b)
    return x, y, again


def constants(a, b):
    return a.input(0) * a.load(OUTSIDE) * a.load(OUTSIDE), b.input(0) + b.load(OUTSIDE)


def outside(a, b):
    return a.input(0) * OUTSIDE, b.input(0)


OUTSIDE = torch.tensor([5.0, 6.0])


def sizes(a, b):
    """A size that a later plan of the same role needs is read again there."""
    x = a.input(0)
    count = x.shape[0] * 2 + 1
    back = x.send(b).sum().send(a)
    return back / count + x.new_zeros(x.shape[0])


def modes(a, b):
    with torch.no_grad():
        x = a.input(0) * 2
        y = (x + 1).send(b)
        z = y * b.input(0)
    return z.send(a) + x


def nested(a, b):
    x, y = a.input(0), b.input(0)
    return {"all": [x + 1, (y + 1, {"deep": (x * 2).send(b)})], "number": 3, "none": None}


CUTS = {
    receives_only: "a a>b",
    waits_for_what_arrives: "a a>b b",
    two_crossings_of_one_plan: "a a>b a>b b",
    both_ways_at_once: "a a>b b b>a a",
    used_by_several_plans: "a a>b b b>a a a>b b",
    sent_to_itself: "a b b>a",
    made_from_nothing: "a b",
    changes_in_place_stay_on_their_side: "a a>b a>b b",
    constants: "a b",
    outside: "a b",
    sizes: "a a>b b b>a a",
    modes: "a a>b b b>a a",
    nested: "a a>b b",
}


class Local:
    """A role that is here: what the function does without any protocol."""

    def __init__(self, value):
        self.value = value

    def input(self, _):
        return self.value

    def load(self, tensor):
        return tensor

    def take_recorded(self, tensor):
        return tensor.clone()


def flat(value):
    if isinstance(value, dict):
        value = list(value.values())
    return [leaf for item in value for leaf in flat(item)] if isinstance(value, list | tuple) else [value]


@pytest.mark.parametrize("function", CUTS, ids=lambda function: function.__name__)
def test_cuts(function, four, nothing_left):
    """Each function gives what it gives without a protocol, with as many messages as the table says."""
    one, two, *_ = four
    protocol = both(function)
    assert shape_of(protocol) == CUTS[function]
    protocol.deploy(one, two)
    x, y = torch.tensor([1.5, -2.0]), torch.tensor([4.0, 0.25])
    wanted = function(Local(x.clone()), Local(y.clone()))
    there = (x.send(one), y.send(two))
    with sy.count_messages() as n:
        result = protocol.run(*there)
    assert mine(n) == len(CUTS[function].split())
    assert len(flat(result)) == len(flat(wanted))
    for got, expected in zip(flat(result), flat(wanted), strict=True):
        if isinstance(expected, torch.Tensor):
            assert torch.allclose(got.get(), expected), function.__name__
        else:
            assert got == expected
    assert torch.equal(there[0].get(), x) and torch.equal(there[1].get(), y)
    got = None
    del protocol, result, there
    nothing_left(one, two)


def mixed(a, b):
    return a.input(0) + b.input(0)


def mixed_by_size(a, b):
    return a.input(0).new_zeros(b.input(0).shape[0])


def mixed_by_constant(a, b):
    return a.input(0) * OUTSIDE, b.input(0) * OUTSIDE


def mixed_after_arrival(a, b):
    x = a.input(0)
    return x.send(b) + x


@pytest.mark.parametrize("function", [mixed, mixed_by_size, mixed_by_constant, mixed_after_arrival])
def test_a_call_on_two_roles_is_refused(function):
    with pytest.raises(PlanBuildError, match=r"of (a and b|b and a).*tensor.send\([ab]\)") as caught:
        both(function)
    assert __file__ in str(caught.value) and "return" in str(caught.value)


def size_as_result(a, b):
    return a.input(0).shape[0]


def size_that_changes(a, b):
    x = a.input(0) + 0
    count = x.shape[0]
    back = x.send(b).sum().send(a)
    x.unsqueeze_(0)
    return back + count + x


def optimizer(a, b):
    weight = torch.nn.Parameter(torch.ones(2))
    step = torch.optim.SGD([MODEL], lr=0.1)
    (a.input(0) * MODEL).sum().backward()
    step.step()
    return a.input(0) + 1 + 0 * weight


MODEL = torch.nn.Parameter(torch.ones(2))


@pytest.mark.parametrize("function", [size_as_result, size_that_changes, optimizer])
def test_protocols_that_can_not_be_partitioned_are_refused(function):
    with pytest.raises(PlanBuildError):
        both(function)


# --- state ----------------------------------------------------------------------------------------------------


def test_state_stays_at_its_worker_and_changes_there(four, nothing_left):
    one, two, *_ = four
    weight = torch.tensor([10.0])

    @sy.func2protocol(args_shape={"a": [(1,)], "b": [(1,)]}, states={"a": [weight], "b": (weight, torch.zeros(1))})
    def count(a, b):
        (total,) = a.read()
        total += a.input(0)
        seen, calls = b.read()
        calls.add_(1)
        arrived = total.send(b)
        seen.copy_(arrived)
        return total, calls, (seen + b.input(0)).send(a) + total

    assert [len(part) for part in count.states.values()] == [1, 2]
    count.deploy(one, two)
    assert count.states["a"][0].location is one
    for turn in (1, 2, 3):
        total, calls, sum_of_all = count.run(a=ONE, b=(ONE,))
        assert total.get() == 10 + turn and calls.get() == turn
        assert sum_of_all.get() == 2 * (10 + turn) + 1
    assert weight == 10  # the protocol has copies
    assert count.states["b"][1].copy().get() == 3
    proxy = count.copy()
    assert proxy.states["b"][1] == 3
    del count, total, calls, sum_of_all
    nothing_left(one, two)


def test_training_at_two_workers(four):
    """A split network: the gradient at the cut goes back by hand, as it would in torch."""
    one, two, *_ = four
    torch.manual_seed(0)
    first, second = torch.randn(3, 4, requires_grad=True), torch.randn(4, 1, requires_grad=True)
    shapes = {"bottom": [(-1, 3)], "top": [(-1, 1)]}

    @sy.func2protocol(args_shape=shapes, states={"bottom": [first], "top": [second]})
    def train(bottom, top):
        (w1,), (w2,) = bottom.read(), top.read()
        hidden = torch.tanh(bottom.input(0) @ w1)
        cut = hidden.send(top).requires_grad_()
        loss = ((cut @ w2 - top.input(0)) ** 2).mean()
        grad_cut, grad_w2 = torch.autograd.grad(loss, [cut, w2])
        (grad_w1,) = torch.autograd.grad(hidden, [w1], grad_cut.send(bottom))
        with torch.no_grad():
            w2.sub_(0.1 * grad_w2)
            w1.sub_(0.1 * grad_w1)
        return loss.detach()

    data, target = torch.randn(8, 3), torch.randn(8, 1)
    train.deploy(one, two)
    x, y = data.send(one), target.send(two)
    w1, w2 = first.detach().clone().requires_grad_(), second.detach().clone().requires_grad_()
    for _ in range(3):
        loss = ((torch.tanh(data @ w1) @ w2 - target) ** 2).mean()
        grads = torch.autograd.grad(loss, [w1, w2])
        with torch.no_grad():
            w1.sub_(0.1 * grads[0])
            w2.sub_(0.1 * grads[1])
        assert torch.allclose(train.run(bottom=x, top=y).get(), loss.detach(), atol=1e-6)
    assert torch.allclose(train.states["bottom"][0].copy().get().detach(), w1.detach(), atol=1e-6)


# --- building, deploying, running -----------------------------------------------------------------------------


def test_built_with_examples(four):
    one, two, *_ = four
    protocol = sy.func2protocol()(ping_pong)
    assert not protocol.is_built and "not built" in repr(protocol)
    for call in (lambda: protocol.deploy(one, two), lambda: protocol.run(ONE, ONE), lambda: protocol.send(one)):
        with pytest.raises(RuntimeError, match="not built yet"):
            call()
    assert protocol.build(alice=(ONE,), bob=(ONE,)) is protocol and protocol.is_built
    protocol.deploy(one, two)
    with pytest.raises(RuntimeError, match="deployed already"):
        protocol.build(ONE, ONE)
    assert protocol.run(ONE, ONE).get() == 1


def test_roles_are_the_parameters():
    with pytest.raises(ValueError, match=r"\(alice, eve\) are not the parameters of ping_pong: \(alice, bob\)"):
        sy.func2protocol(roles=["alice", "eve"])(ping_pong)
    with pytest.raises(ValueError, match="not the parameters"):
        sy.func2protocol()(lambda: None)
    with pytest.raises(ValueError, match="states names eve"):
        sy.func2protocol(states={"eve": [ONE]})(ping_pong)
    with pytest.raises(ValueError, match="args_shape names eve"):
        sy.func2protocol(args_shape={"eve": [(1,)]})(ping_pong)
    swapped = sy.func2protocol(roles=["bob", "alice"], args_shape={"alice": [(1,)], "bob": [(1,)]})(ping_pong)
    assert swapped.roles == ("bob", "alice")


def test_states_are_local_tensors(bob):
    for wrong in (3, ONE.send(bob)):
        with pytest.raises(TypeError, match="'alice'"):
            sy.func2protocol(states={"alice": [wrong]})(ping_pong)


def test_every_role_needs_a_worker(alice, bob):
    protocol = sy.func2protocol(args_shape={"alice": [(1,)], "bob": [(1,)]})(ping_pong)
    with pytest.raises(RuntimeError, match="have no workers.*deploy\\(alice, bob\\)"):
        protocol.run(ONE, ONE)
    wrong = [
        ((alice,), {}),
        ((alice, bob, bob), {}),
        ((), {"alice": alice}),
        ((alice, bob), {"bob": bob}),
        ((alice,), {"eve": bob}),
    ]
    for workers, named in wrong:
        with pytest.raises(RuntimeError, match="a worker for each of its roles: alice, bob"):
            protocol.deploy(*workers, **named)
    protocol.deploy(alice, bob=bob)
    with pytest.raises(RuntimeError, match="deployed already"):
        protocol.deploy(alice, bob)


def test_arguments_that_do_not_fit(alice, bob):
    protocol = sy.func2protocol(args_shape={"alice": [(1,)], "bob": [(1,)]})(ping_pong).deploy(alice, bob)
    with pytest.raises(TypeError, match="'bob' of 'ping_pong' takes 1 inputs, got 0"):
        protocol.run(alice=ONE)
    with pytest.raises(TypeError, match="takes 1 inputs, got 2"):
        protocol.run(alice=(ONE, ONE), bob=ONE)
    with pytest.raises(TypeError, match="2 roles, got the inputs of 3"):
        protocol.run(ONE, ONE, ONE)
    with pytest.raises(TypeError, match="two values for the role alice"):
        protocol.run(ONE, alice=ONE, bob=ONE)
    with pytest.raises(TypeError, match="a tuple of tensors"):
        protocol.run(alice=3, bob=ONE)
    with pytest.raises(ValueError, match="names eve"):
        protocol.run(alice=ONE, bob=ONE, eve=ONE)
    elsewhere = ONE.send(bob)
    with pytest.raises(TensorsNotCollocatedError, match=r"this input is on 'bob.*x.move\(alice"):
        protocol.run(alice=elsewhere, bob=ONE)
    assert elsewhere.get() == 1


def test_roles_only_mean_something_in_their_function():
    kept = []

    @sy.func2protocol(args_shape={"a": [(1,)], "b": []})
    def keep(a, b):
        kept.append(a)
        with pytest.raises(IndexError, match="has 1 inputs"):
            a.input(1)
        with pytest.raises(TypeError, match="needs a local tensor"):
            a.load(3)
        with pytest.raises(PlanBuildError, match="Send it"):
            b.load(a.input(0))
        with pytest.raises(TypeError, match="needs a tensor"):
            a.receive(3)
        return a.input(0) + 1

    assert isinstance(kept[0], Role) and repr(kept[0]) == "<Role a>"
    with pytest.raises(PlanBuildError, match="outside of its protocol"):
        ONE.send(kept[0])
    with pytest.raises(PlanBuildError, match="outside of its protocol"):
        kept[0].load(ONE)


# --- travelling -----------------------------------------------------------------------------------------------


def weighted():
    @sy.func2protocol(args_shape={"a": [(1,)], "b": [(1,)]}, states={"b": [torch.tensor([3.0])]})
    def weigh(a, b):
        (weight,) = b.read()
        return {"b": a.input(0).send(b) * weight + b.input(0)}

    return weigh


def test_uploaded_found_fetched_deployed_elsewhere(four, nothing_left):
    one, two, three, james = four
    protocol = weighted().deploy(one, two)
    protocol.tag("#weigh").describe("weighs")
    assert type(protocol.send(james)) is PointerProtocol
    assert protocol.run(ONE, ONE)["b"].location is two
    del protocol  # published, and its plans with it
    (found,) = me().request_search(["#weigh"], location=james)
    with sy.count_messages() as n:
        far = found.run(a=(ONE.send(james),), b=(ONE,))
    assert n.by_worker[me().id, james.id] == 2 and (me().id, one.id) not in n.by_worker
    assert far["b"].location is james and far["b"].get().get() == 4
    copied = me().fetch_protocol(found.id_at_location, james, copy=True)
    fetched = found.get()
    assert fetched.run(ONE, ONE)["b"].get() == copied.run(ONE, ONE)["b"].get() == 4
    elsewhere = fetched.copy().deploy(a=three, b=one)
    result = elsewhere.run(ONE, ONE)["b"]
    assert result.location is one and result.get() == 4
    with pytest.raises(RuntimeError, match="without its function"):
        elsewhere.build(ONE, ONE)
    del found, far, copied, fetched, elsewhere, result
    nothing_left(james, one, two, three)


def test_data_of_a_role_does_not_pass_through_the_coordinator(four):
    """A pointer to a pointer: james leads, and moves nothing through himself."""
    one, two, _, james = four
    pointer = weighted().deploy(one, two).send(james)
    x, y = ONE.send(one).send(james), ONE.send(two).send(james)
    with sy.count_messages() as n:
        far = pointer.run(a=(x,), b=(y,))
    assert n.by_worker[me().id, james.id] == 1
    assert (one.id, james.id) not in n.by_worker and (two.id, james.id) not in n.by_worker
    assert far["b"].get().get() == 4


def test_a_worker_that_leads_and_plays_a_role(four, nothing_left):
    one, two, *_ = four
    protocol = weighted().deploy(one, two)
    first = protocol.send(two)
    result = first.run(a=(ONE,), b=(ONE,))["b"]
    assert result.location is two and result.get() == 4
    second = protocol.send(one)
    assert second.run(a=(ONE,), b=(ONE,))["b"].get().get() == 4
    first.delete()
    second.delete()
    del protocol, result
    # Each holds pointers to the other, and releases them when its own protocol is deleted.
    for worker in (one, two):
        worker._objects
    nothing_left(one, two)


def test_round_trip_in_bytes(alice, bob):
    for protocol in (weighted().tag("#t"), weighted().tag("#t").deploy(alice, bob)):
        proxy = sy.deserialize(sy.serialize(protocol))
        assert type(proxy) is RoleProtocol and proxy.id == protocol.id and proxy.tags == {"#t"}
        assert proxy.schedule == protocol.schedule and proxy.roles == ("a", "b")
        if proxy.workers is None:
            proxy.deploy(bob, alice)
        assert proxy.run(ONE, ONE)["b"].get() == 4
    message = RoleProtocol.bufferize(me(), weighted())
    assert RoleProtocol.unbufferize(me(), message).deploy(alice, bob).run(ONE, ONE)["b"].get() == 4


def two_values(a, b):
    x = a.input(0)
    return (x + 1).send(b), (x + 2).send(b)


WRONG_RESULTS = {
    "did not return 2 results": lambda x: x + 1,
    "something other than tensors": lambda x: ([x + 1], [x + 2]),
}


@pytest.mark.parametrize("message", WRONG_RESULTS)
def test_plans_with_other_results_are_refused(message, alice, bob):
    """The results of an untrusted plan are checked when it runs."""
    parts = list(RoleProtocol.simplify(None, both(two_values)))
    parts[5] = (sy.Plan(forward_func=WRONG_RESULTS[message]).build(torch.ones(2)),)
    proxy = RoleProtocol.detail(me(), tuple(parts)).deploy(alice, bob)
    with pytest.raises(MalformedPlanError, match=message):
        proxy.run(torch.ones(2), torch.ones(2))


def test_how_it_looks(alice, bob):
    protocol = weighted()
    assert "weigh" in repr(protocol) and "not deployed: a, b" in repr(protocol) and "a runs weigh.a.0" in repr(protocol)
    protocol.deploy(alice, bob)
    assert f"deployed: a ({alice.id}), b ({bob.id})" in repr(protocol)
    assert "<table" in protocol._repr_html_() and "receives value" in protocol._repr_html_()
