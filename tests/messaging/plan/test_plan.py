"""The documented rows of `syft.messaging.plan`: each does what its page says."""

from __future__ import annotations

import pytest
import torch
from torch import nn

import syft as sy
from syft.exceptions import MalformedPlanError, ObjectNotFoundError, PlanMismatchError
from syft.messaging.message import Operation
from syft.messaging.plan import Plan, State, func2plan, method2plan
from tests.helpers.documented_rows import Rows
from tests.helpers.plans.models import Net

row = Rows("syft.messaging.plan")


@pytest.fixture
def net(hook):
    return Net().build(torch.tensor([1.0, 2.0]))


@pytest.fixture
def double_abs(hook):
    @func2plan()
    def double_abs(x):
        return x.abs() * 2

    return double_abs


@row("func2plan", "func2plan.__call__")
def test_func2plan_makes_a_plan_and_builds_it_if_shapes_are_given(hook, double_abs):
    assert isinstance(double_abs, Plan)
    assert double_abs.name == "double_abs" and not double_abs.is_built

    @func2plan(args_shape=[(-1, 1)])
    def shaped(x):
        return x + x.shape[0]

    assert shaped.is_built
    assert shaped(torch.zeros(5, 1)).tolist() == [[5.0]] * 5


def test_func2plan_gives_the_state_to_the_function(hook, bob):
    @func2plan(args_shape=[(1,)], state=(torch.tensor([1.0]), torch.tensor([3.0])))
    def with_state(x, state):
        bias, factor = state.read()
        return x * factor + bias

    assert with_state(torch.tensor([2.0])).tolist() == [7.0]
    assert with_state.send(bob)(torch.tensor([2.0]).send(bob)).get().tolist() == [7.0]
    assert [t.tolist() for t in with_state.parameters()] == [[1.0], [3.0]]


@row("method2plan")
def test_method2plan_names_its_replacement(hook):
    with pytest.raises(SyntaxError, match="Subclass sy.Plan"):
        method2plan(args_shape=[(1,)])


@row("Plan")
def test_every_argument_of_the_constructor(hook):
    x, y = sy.PlaceHolder(tags={"#input-0"}), sy.PlaceHolder(tags={"#output-0"})
    state = State(state_placeholders=[sy.PlaceHolder(tags={"#state"}, child=torch.tensor([10.0]))])
    operation = Operation("torch.Tensor.add", None, (x, state.state_placeholders[0]), {}, (y,))
    plan = Plan(
        name="adds", state=state, include_state=False, is_built=True, operations=[operation],
        placeholders={x.id: x, y.id: y}, id="an-id", owner=hook.local_worker, tags=["#a"], description="adds ten",
    )  # fmt: skip
    assert plan.is_built and plan(torch.tensor([1.0])).tolist() == [11.0]
    assert (plan.name, plan.id, plan.owner, plan.tags, plan.description) == (
        "adds", "an-id", hook.local_worker, {"#a"}, "adds ten",
    )  # fmt: skip
    empty = Plan()
    assert not empty.is_built and empty.operations == [] and empty.state.tensors() == []
    assert Plan(forward_func=torch.abs)(torch.tensor([-1.0])).tolist() == [1.0]
    assert Plan(state_tensors=(torch.ones(2),)).state.tensors()[0].tolist() == [1.0, 1.0]


def test_inputs_of_the_constructor_come_in_the_order_of_their_numbers(hook):
    inputs = [sy.PlaceHolder(tags={f"#input-{number}"}) for number in range(12)]
    total, operations = inputs[0], []
    for factor, placeholder in enumerate(inputs[1:], 2):
        scaled, added = sy.PlaceHolder(), sy.PlaceHolder()
        operations.append(Operation("torch.Tensor.mul", None, (placeholder, factor), {}, (scaled,)))
        operations.append(Operation("torch.Tensor.add", None, (total, scaled), {}, (added,)))
        total = added
    total.tags.add("#output-0")
    shuffled = [*sorted(inputs, key=lambda p: str(p.tags)), total]
    plan = Plan(is_built=True, operations=operations, placeholders={p.id: p for p in shuffled})
    values = [torch.tensor(float(number)) for number in range(12)]
    assert plan(*values).item() == sum(number * (number + 1) for number in range(12)) == 572


def test_operations_that_do_not_fit_together_are_refused(hook):
    x, y = sy.PlaceHolder(tags={"#input-0"}), sy.PlaceHolder(tags={"#output-0"})
    with pytest.raises(MalformedPlanError, match="before it has a value"):
        Plan(is_built=True, operations=[Operation("torch.abs", None, (sy.PlaceHolder(),), {}, (y,))],
             placeholders={x.id: x, y.id: y})  # fmt: skip


@row("Plan.get", "Plan.get_")
def test_get_fetches_the_state_and_returns_the_plan(net, bob):
    before = [p.tolist() for p in net.parameters()]
    for placeholder in net.state.state_placeholders:
        placeholder.child = placeholder.child.detach().send(bob)
    assert all(isinstance(t.child, sy.PointerTensor) for t in net.state.tensors())
    assert net.get() is net
    assert [p.tolist() for p in net.parameters()] == before
    assert Plan.get is Plan.get_


@row("Plan.fix_precision_", "Plan.float_precision_", "Plan.share_", "Plan.share")
def test_encoding_and_sharing_reach_every_tensor_of_the_state(net, make_worker):
    parties, dealer = [make_worker("alice"), make_worker("bob")], make_worker("carol")
    before = [tensor.detach().clone() for tensor in net.state.tensors()]
    assert net.fix_precision_(base=2, precision_fractional=20) is net
    links = [tensor.child for tensor in net.state.tensors()]
    assert {(type(link).__name__, link.base) for link in links} == {("FixedPrecisionTensor", 2)}
    assert net.share_(*parties, crypto_provider=dealer, protocol="snn") is net
    assert all(tensor.child.is_shared for tensor in net.state.tensors())
    assert net.get_().float_precision_() is net
    assert all(torch.allclose(a, b, atol=1e-5) for a, b in zip(before, net.state.tensors(), strict=True))
    assert (
        Plan.share is Plan.share_ and Plan.fix_prec is Plan.fix_precision_ and Plan.float_prec is Plan.float_precision_
    )


@row("Plan._create_placeholders")
def test_examples_for_shapes(hook):
    examples = Plan._create_placeholders([(2, 3), (1,), (-1, 4), torch.tensor([7])])
    assert [tuple(e.shape) for e in examples[:2]] == [(2, 3), (1,)]
    assert examples[2].shape[1] == 4 and examples[2].shape[0] > 1
    assert examples[3].tolist() == [7]


@row("Plan._known_workers", "Plan.location", "Plan.send_msg", "Plan.request_obj")
def test_a_plan_uses_its_owner_for_ids_and_storage(net, hook, bob):
    assert net._known_workers is hook.local_worker._known_workers
    assert not hasattr(net, "location")
    with pytest.raises(AttributeError, match="get_pointers"):
        net.location
    tensor = torch.tensor([1.0, 2.0])
    pointer = tensor.send(bob)
    assert net.request_obj(pointer.id_at_location, bob).tolist() == [1.0, 2.0]
    net.send_msg(sy.messaging.message.ObjectMessage(torch.tensor([5.0]), "by-message"), bob)
    assert bob._objects["by-message"].tolist() == [5.0]


@row("Plan.readable_plan")
def test_the_readable_plan_is_the_list_of_operations(double_abs):
    assert double_abs.readable_plan == []
    double_abs.build(torch.tensor([1.0]))
    assert [o.cmd_name for o in double_abs.readable_plan] == ["torch.Tensor.abs", "torch.Tensor.mul"]
    assert double_abs.readable_plan == double_abs.operations


@row("Plan.parameters")
def test_parameters_are_what_training_changes(net):
    names = ["fc1.weight", "fc1.bias", "fc2.weight", "fc2.bias", "scale"]
    assert [p.description for p in net.state.state_placeholders] == names
    assert net.parameters()[0] is net.fc1.weight and net.parameters()[4] is net.scale

    class Normed(sy.Plan):
        def __init__(self):
            super().__init__()
            self.norm = nn.BatchNorm1d(3)

        def forward(self, x):
            return self.norm(x)

    normed = Normed()
    assert len(normed.parameters()) == 2 and len(normed.state.tensors()) == 5


@row("Plan.respond_to_obj_req")
def test_objects_of_the_plans_store_are_released(hook):
    plan, tensor = Plan(), torch.tensor([1.0])
    plan.register_obj(tensor, "t")
    assert plan.respond_to_obj_req("t") is tensor
    with pytest.raises(ObjectNotFoundError):
        plan.respond_to_obj_req("t")


@row("Plan.add_placeholder")
def test_placeholders_are_made_once_and_numbered(hook):
    plan, x, y = Plan(), torch.ones(1), torch.zeros(1)
    first = plan.add_placeholder(x, "input")
    assert plan.add_placeholder(x, "input") is first
    second = plan.add_placeholder(y, node_type="input")
    assert first.tags == {"#0", "#input-0"} and second.tags == {"#1", "#input-1"}
    assert plan.add_placeholder(torch.ones(2), "output").tags == {"#2", "#output-0"}
    assert plan.add_placeholder(torch.ones(2)).tags == {"#3"}
    with pytest.raises(ValueError, match="'input', 'output' or None"):
        plan.add_placeholder(x, "middle")


@row("Plan.replace_with_placeholders")
def test_tensors_in_arguments_become_placeholders(hook):
    plan, x = Plan(), torch.ones(1)
    replaced = plan.replace_with_placeholders(
        (x, [x, 3], {"k": x, "s": "t"}, None, 1.5, slice(0, 2)), node_type="input"
    )
    placeholder = plan.add_placeholder(x)
    assert replaced == (placeholder, [placeholder, 3], {"k": placeholder, "s": "t"}, None, 1.5, slice(0, 2))
    with pytest.raises(TypeError, match="can't hold a object"):
        plan.replace_with_placeholders([object()])


@row("Plan.find_placeholders")
def test_placeholders_are_found_by_a_part_of_a_tag(net):
    assert [sorted(p.tags) for p in net.find_placeholders("#input")] == [["#0", "#input-0"]]
    assert len(net.find_placeholders("#state")) == 5
    assert len(net.find_placeholders("#input", "#output")) == 2
    assert net.find_placeholders("#nothing") == []


@row("Plan.build")
def test_build_records_and_leaves_no_trace(hook):
    model = nn.Sequential(nn.Linear(3, 3), nn.BatchNorm1d(3), nn.Dropout(0.5))
    before = {name: tensor.clone() for name, tensor in model.state_dict().items()}
    generator = torch.get_rng_state()
    example = torch.randn(4, 3)
    kept = example.clone()
    torch.set_rng_state(generator)

    @func2plan()
    def train(x):
        x.add_(1)
        loss = model(x).sum()
        loss.backward()
        return loss

    assert train.build(example) is train
    assert train.is_built
    assert all(torch.equal(tensor, before[name]) for name, tensor in model.state_dict().items())
    assert all(p.grad is None for p in model.parameters())
    assert torch.equal(torch.get_rng_state(), generator)
    assert torch.equal(example, kept)


@row("Plan.copy")
def test_a_copy_is_independent(net):
    x = torch.tensor([1.0, 2.0])
    proxy, before = net.copy(), net(x)
    assert proxy.id != net.id and torch.equal(proxy(x), before)
    with torch.no_grad():
        proxy.parameters()[3].add_(1)
    assert torch.equal(net(x), before) and not torch.equal(proxy(x), before)
    unbuilt = Net()
    other = unbuilt.copy()
    assert other.fc1 is not unbuilt.fc1 and torch.equal(other(x), unbuilt(x)) and len(other.state.tensors()) == 5
    with torch.no_grad():
        other.fc2.bias.add_(1)
    assert not torch.equal(other(x), unbuilt(x))


@row("Plan.__setattr__")
def test_tensors_and_modules_set_as_attributes_become_state(hook):
    worker = hook.local_worker
    plan = Plan()
    with worker.registration_enabled():
        plan.weight = torch.tensor([1.0])
        assert worker._objects[plan.weight.id] is plan.weight
        worker.rm_obj(plan.weight.id)
    plan.layer = nn.Linear(2, 1)
    plan.word = "no tensor"
    assert [p.description for p in plan.state.state_placeholders] == ["weight", "layer.weight", "layer.bias"]
    plan.weight = torch.tensor([2.0])
    assert [p.description for p in plan.state.state_placeholders] == ["layer.weight", "layer.bias", "weight"]


@row("Plan.__call__")
def test_a_call_runs_the_function_before_and_the_operations_after_the_build(double_abs):
    x = torch.tensor([-1.0, 2.0])
    assert double_abs(x).tolist() == [2.0, 4.0] and not double_abs.is_built
    double_abs.build(x)
    assert double_abs(x).tolist() == [2.0, 4.0]
    assert double_abs(x=x).tolist() == [2.0, 4.0]
    with pytest.raises(TypeError, match="takes 1 arguments, got 2"):
        double_abs(x, x)
    with pytest.raises(TypeError, match="needs the argument x"):
        double_abs()
    with pytest.raises(TypeError, match="no argument z"):
        double_abs(x, z=1)
    with pytest.raises(PlanMismatchError, match="Make it one with torch.tensor"):
        double_abs(3.0)


@row("Plan.run")
def test_run_builds_and_stores_results_under_the_given_ids(double_abs, hook):
    worker = hook.local_worker
    with worker.registration_enabled():
        result = double_abs.run((torch.tensor([-1.0]),), ["result-id"])
        assert double_abs.is_built and result.tolist() == [2.0]
        assert worker._objects["result-id"] is result
        worker.rm_obj("result-id")
        with pytest.raises(PlanMismatchError, match="returns 1 tensors, got 2"):
            double_abs.run((torch.tensor([-1.0]),), ["a", "b"])


@row("Plan.send")
def test_sending_needs_a_built_plan_and_is_cached(double_abs, make_worker, kind):
    bob, alice = make_worker("bob", kind), make_worker("alice", kind)
    with pytest.raises(RuntimeError, match="is not built"):
        double_abs.send(bob)
    forced = double_abs.send(bob, force=True)
    with pytest.raises(sy.exceptions.CommandNotAllowedError, match="sent before it was built"):
        forced(torch.tensor([1.0]).send(bob))
    double_abs.build(torch.tensor([1.0]))
    pointer = double_abs.send(bob)
    with sy.count_messages() as counted:
        assert double_abs.send(bob) is pointer
    assert counted.messages == (kind == "thread")  # where it waits until it knows that the plan is there
    assert pointer.location is bob
    both = double_abs.send(bob, alice)
    assert both.location == [bob, alice] and both.id_at_location == [pointer.id_at_location, double_abs.id]
    for worker in (bob, alice):
        assert both(torch.tensor([-1.0]).send(worker)).get().tolist() == [2.0]
    with pytest.raises(ValueError, match="needs a worker"):
        double_abs.send()


def test_a_plan_whose_state_changed_is_sent_again(hook, bob):
    weight = torch.tensor([1.0])

    @func2plan(args_shape=[(1,)])
    def scale(x):
        return x * weight

    x = torch.tensor([3.0]).send(bob)
    first = scale.send(bob)
    weight.mul_(2)
    second = scale.send(bob)
    assert second is not first
    # The plan keeps its id there, so the new copy takes the place of the old one.
    assert (first(x).get().item(), second(x).get().item()) == (6.0, 6.0)


@row("Plan.get_pointers", "Plan.create_pointer")
def test_pointers_to_a_plan(double_abs, bob, alice, hook):
    double_abs.build(torch.tensor([1.0]))
    assert double_abs.get_pointers() == {}
    pointer = double_abs.send(bob)
    double_abs.send(alice)
    assert set(double_abs.get_pointers()) == {bob, alice} and double_abs.get_pointers()[bob] is pointer
    made = double_abs.create_pointer(hook.local_worker, False, location=bob, id_at_location=pointer.id_at_location)
    assert isinstance(made, sy.PointerPlan) and made(torch.tensor([-4.0]).send(bob)).get().tolist() == [8.0]


@row("Plan.__str__", "Plan.__repr__")
def test_how_a_plan_prints(net):
    for text in (str(net), repr(net)):
        assert "Net" in text and str(net.id) in text and "linear" in text
        values = [f"{value:.3f}" for tensor in net.state.tensors() for value in tensor.flatten().tolist()]
        assert not [value for value in values if value in text]


@row("Plan.simplify", "Plan.detail")
def test_a_plan_is_taken_apart_and_put_together(net, hook):
    parts = Plan.simplify(hook.local_worker, net)
    assert isinstance(parts, tuple)
    proxy = sy.deserialize(sy.serialize(net.tag("#net").describe("a net")))
    x = torch.tensor([[1.0, 2.0], [3.0, 4.0], [5.0, 6.0]])
    assert torch.equal(proxy(x), net(x))
    assert (proxy.id, proxy.name, proxy.tags, proxy.description) == (net.id, net.name, {"#net"}, "a net")
    assert [p.requires_grad for p in proxy.parameters()] == [True, True, True, True, False]
    rebuilt = Plan.detail(hook.local_worker, parts)
    assert torch.equal(rebuilt(x), net(x))


@row("Plan.bufferize", "Plan.unbufferize")
def test_a_plan_becomes_a_protobuf_message_and_back(net, hook):
    message = Plan.bufferize(hook.local_worker, net)
    assert message.SerializeToString()
    proxy = Plan.unbufferize(hook.local_worker, message)
    x = torch.tensor([1.0, 2.0])
    assert isinstance(proxy, Plan) and torch.equal(proxy(x), net(x)) and proxy.id == net.id


def test_every_documented_row_is_tested():
    row.check(35)
