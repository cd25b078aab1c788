"""How plans look: code, one line, tables, graphs."""

from __future__ import annotations

import html.parser
import re
import shutil

import pytest
import torch

import syft as sy
from syft.exceptions import SyftError
from syft.messaging.plan.display.code import Names
from syft.messaging.plan.program import Program
from tests.helpers.plans.plan_samples import CNN, MLP, Recurrent, built, encoder, training_plan

TAGS = set("table tr th td pre".split())


def _graph(plan, *examples):
    """Return the titles of the nodes of a plan's graph, and its edges with whether they are dashed."""
    dot = plan.summary(*examples).dot()
    nodes = re.findall(r'^  n(\d+) \[label="((?:[^"\\]|\\.)*)" [\w=]+\];$', dot, re.MULTILINE)
    edges = re.findall(r"^  n(\d+) -> n(\d+)( \[style=dashed\])?;$", dot, re.MULTILINE)
    assert dot.count("\n") == len(nodes) + len(edges) + 2, "every line is a node or an edge"
    assert [int(number) for number, _ in nodes] == list(range(len(nodes)))
    return [label.split("\\n")[0] for _, label in nodes], {(int(a), int(b)): bool(dashed) for a, b, dashed in edges}


def plan_of(function, *examples, name="f", **named):
    return sy.Plan(name=name, forward_func=function).build(*examples, **named)


# --- code -----------------------------------------------------------------------------------------------------------


def test_code_of_a_model(hook):
    assert built(MLP, 4, 6, name="mlp").code == (
        "def mlp(self, x):\n"
        "    x1 = F.linear(x, self.fc1.weight, self.fc1.bias)\n"
        "    x2 = F.relu(x1)\n"
        "    x3 = F.linear(x2, self.fc2.weight, self.fc2.bias)\n"
        "    x4 = F.log_softmax(x3, dim=1)\n"
        "    return x4"
    )


def test_code_of_a_convolution_leaves_out_defaults(hook):
    code = built(CNN, 2, 3, 8, 8).code
    assert "x1 = F.conv2d(x, self.c1.weight, self.c1.bias, padding=(1, 1))\n" in code
    assert "F.max_pool2d(x6, 2)\n" in code
    assert "    n1 = x7.shape[0]\n    x8 = x7.view(n1, -1)\n" in code
    assert "check(x7.ndim == 4)" in code


def test_code_of_training(hook):
    assert training_plan().code == (
        "def training(self, x, y):\n"
        "    self.model.fc1.weight.grad = None\n"
        "    self.model.fc1.bias.grad = None\n"
        "    self.model.fc2.weight.grad = None\n"
        "    self.model.fc2.bias.grad = None\n"
        "    x1 = F.linear(x, self.model.fc1.weight, self.model.fc1.bias)\n"
        "    x2 = F.relu(x1)\n"
        "    x3 = F.linear(x2, self.model.fc2.weight, self.model.fc2.bias)\n"
        "    x4 = F.log_softmax(x3, dim=1)\n"
        "    x5 = F.nll_loss(x4, y)\n"
        "    x5.backward()\n"
        "    Adam.step()\n"
        "    with no_grad():\n"
        "        x6 = F.linear(x, self.model.fc1.weight, self.model.fc1.bias)\n"
        "        x7 = F.relu(x6)\n"
        "        x8 = F.linear(x7, self.model.fc2.weight, self.model.fc2.bias)\n"
        "        x9 = F.log_softmax(x8, dim=1)\n"
        "        x10 = x9.argmax(1)\n"
        "        x11 = x10 == y\n"
        "        x12 = x11.float()\n"
        "        x13 = x12.mean()\n"
        "    return (x5, x13)"
    )


def _first(x):
    return x[:, 1:3, None], x[0], x[..., -1]


def _in_place(x):
    y = 1 - x
    y += 2
    y[0] = -1.0
    y.relu_()
    return -y


def _checked(x):
    return x * 2 if x.shape[0] > 3 else x + 1


def _split(x):
    best, where = x.max(dim=1)
    return {"best": best, "rest": [where, x.T @ x]}


@pytest.mark.parametrize(
    ("function", "lines"),
    [
        (_first, ["x1 = x[:, 1:3, None]", "x2 = x[0]", "x3 = x[..., -1]", "return (x1, x2, x3)"]),
        (_in_place, ["x1 = 1 - x", "x1.add_(2)", "x1[0] = -1.0", "x1.relu_()", "x2 = -x1", "return x2"]),
        (_checked, ["check(x.ndim == 2)", "n1 = x.shape[0]", "check(n1 > 3)", "x1 = x * 2", "return x1"]),
        (_split, ["x1, x2 = x.max(dim=1)", "x3 = x.T", "x4 = x3 @ x", "return {'best': x1, 'rest': [x2, x4]}"]),
    ],
)
def test_code_of_operators(hook, function, lines):
    assert plan_of(function, torch.ones(4, 4)).code.split("\n    ")[1:] == lines


def test_code_shows_failed_checks_negated(hook):
    assert "check(n1 <= 3)" in plan_of(_checked, torch.ones(2, 4)).code


def test_code_of_arguments(hook):
    def f(x1, pair, *, scale=2.0):
        return x1 * scale + pair["a"][0]

    plan = plan_of(f, torch.ones(2), {"a": [torch.ones(2)], "b": 3})
    assert plan.code == ("def f(x1, pair, *, scale=2.0):\n    x2 = x1 * 2.0\n    x3 = x2 + pair['a'][0]\n    return x3")


def test_code_is_the_same_for_a_received_plan(hook, bob):
    for plan in (built(Recurrent, 3, 7, 4), training_plan()):
        assert sy.serde.deserialize(sy.serde.serialize(plan, bob), bob).code == plan.code


def test_code_holds_no_values_of_tensors(hook):
    secret = torch.tensor([123.25, 456.5])
    plan = plan_of(lambda x: x + secret, torch.tensor([789.75, 1.5]), name="f")
    everything = plan.code + repr(plan) + str(plan.summary()) + plan._repr_html_() + plan.summary()._repr_html_()
    shown = everything.replace(str(plan.id), "")  # random digits, which may be any
    assert not any(number in shown for number in ("123.2", "456.5", "789.7"))
    assert "x1 = x + self.secret" in plan.code


def test_long_literals_are_cut(hook):
    many = list(range(1000))
    code = plan_of(lambda x: x[many], torch.ones(1000)).code
    assert "... 992 more" in code and len(code) < 300


def test_code_of_a_plan_that_is_not_built(hook):
    plan = sy.Plan(name="later", forward_func=lambda x: x)
    assert plan.code.startswith("#") and "not built" in plan.code


# --- one line ---------------------------------------------------------------------------------------------------------


def test_repr(hook):
    plan = built(MLP, 4, 6, name="mlp")
    head, code = repr(plan).split("\n", 1)
    assert head == f"<Plan mlp id:{plan.id} owner:me built>"
    assert code == plan.code and str(plan) == repr(plan)


def test_repr_of_a_plan_that_is_not_built_and_has_labels(hook):
    plan = sy.Plan(name="later", forward_func=lambda x: x, tags={"#b", "#a"}, description="two\nlines")
    assert repr(plan) == f"<Plan later id:{plan.id} owner:me tags:#a,#b description:two lines not built>"


def test_long_plans_are_cut(hook):
    def f(x):
        for _ in range(1000):
            x = x + 1
        return x

    plan = plan_of(f, torch.ones(1))
    assert repr(plan).endswith("    x50 = x49 + 1\n    ... 950 more operations")
    assert plan.code.endswith("    x1000 = x999 + 1\n    return x1000")
    assert "... 600 more operations" in str(plan.summary())


# --- tables -----------------------------------------------------------------------------------------------------------


def test_summary_of_a_model(hook):
    assert str(built(MLP, 4, 6, name="mlp").summary()).split("\n") == [
        "Plan mlp",
        "#  operation    inputs                     output           parameters",
        "----------------------------------------------------------------------",
        "0  linear       x, self.fc1.weight, bias   (4*, 8) float32          56",
        "1  relu         x1                         (4*, 8) float32",
        "2  linear       x2, self.fc2.weight, bias  (4*, 3) float32          27",
        "3  log_softmax  x3                         (4*, 3) float32",
        "----------------------------------------------------------------------",
        "operations: 4",
        "parameters: 83 (83 trainable, 0 not)",
        "state:      4 tensors, 332 bytes",
        "inputs:     1: x (4*, 6) float32",
        "outputs:    1: x4",
        "* follows the sizes of the inputs",
    ]


@pytest.mark.parametrize(
    ("make", "shapes"),
    [
        (lambda: built(CNN, 2, 3, 8, 8), ["(2*, 8, 8, 8)", "(2*, 8, 4, 4)", "(2*, 10)"]),
        (lambda: built(Recurrent, 3, 7, 4), ["(3*, 7*, 5)", "(1, 3*, 5)", "(3*, 2)"]),
        (lambda: built(encoder, 3, 5, 8), ["(3*, 5*, 16)", "(3*, 5*, 8)"]),
        (training_plan, ["(4*, 3)", "() float32", "(4*,) int64", "(4*,) bool"]),
    ],
)
def test_shapes_in_a_summary(hook, make, shapes):
    rows = "\n".join(row.output for row in make().summary().rows)
    assert [shape for shape in shapes if shape not in rows] == []


def test_shapes_are_those_the_plan_gives(hook):
    plan = built(CNN, 2, 3, 8, 8)
    last = plan.summary().rows[-1]
    result = plan(torch.ones(2, 3, 8, 8))
    assert last.output.replace("*", "") == f"{tuple(result.shape)} float32"
    assert last.number == len(plan.operations) - 1


def test_a_size_that_a_check_fixes_is_not_marked(hook):
    plan = plan_of(lambda x: x * 2 if x.shape[0] == 4 else x, torch.ones(4, 5))
    assert [row.output for row in plan.summary().rows] == ["(4, 5*) float32"]


def test_totals_separate_frozen_parameters_and_buffers(hook):
    model = CNN().eval()
    for parameter in model.c1.parameters():
        parameter.requires_grad_(False)
    totals = sy.Plan(forward_func=model).build(torch.ones(1, 3, 8, 8)).summary().totals
    assert totals["parameters"] == "2,114 (1,890 trainable, 224 not)"
    assert totals["state"] == f"11 tensors, {(2114 + 16) * 4 + 8:,} bytes"
    assert totals["operations"] == "12 (3 of them sizes, checks and settings)"


def test_a_fetched_plan_has_shapes_only_with_examples(hook, bob):
    plan = built(MLP, 4, 6)
    fetched = plan.send(bob).get()
    fetched.__dict__["_input_specs"] = ()
    assert [row.output for row in fetched.summary().rows] == [""] * 4
    assert "(4*, 6)" not in str(fetched.summary())
    assert [row.output for row in fetched.summary(torch.ones(2, 6)).rows][-1] == "(2*, 3) float32"
    with pytest.raises(TypeError, match="takes 1 tensors, got 2"):
        fetched.summary(torch.ones(2, 6), torch.ones(1))


def test_shapes_that_depend_on_values_stay_blank(hook):
    plan = plan_of(lambda x: (x * 2)[x > 0] + 1, torch.ones(3))
    outputs = [row.output for row in plan.summary().rows]
    assert outputs[:2] == ["(3,) float32", "(3,) bool"] and outputs[-1] == ""


def test_summaries_leave_the_state_alone(hook):
    plan = training_plan()
    before = [(tensor.detach().clone(), tensor._version) for tensor in plan.state.tensors()]
    random = torch.get_rng_state()
    str(plan.summary())
    assert torch.equal(torch.get_rng_state(), random) and torch.is_grad_enabled()
    for tensor, (values, version) in zip(plan.state.tensors(), before, strict=True):
        assert torch.equal(tensor, values) and tensor._version == version and tensor.grad is None


def test_a_summary_needs_a_built_plan(hook):
    with pytest.raises(RuntimeError, match="not built"):
        sy.Plan(forward_func=lambda x: x).summary()


# --- graphs -----------------------------------------------------------------------------------------------------------


def _branches(x):
    parts = [(x * number).relu().tanh() for number in range(12)]
    return torch.stack(parts), x.sum(), parts[3]


DRAWN = {
    "mlp": lambda: built(MLP, 4, 6),
    "cnn": lambda: built(CNN, 2, 3, 8, 8),
    "lstm": lambda: built(Recurrent, 3, 7, 4),
    "encoder": lambda: built(encoder, 3, 5, 8),
    "training": training_plan,
    "branches": lambda: plan_of(_branches, torch.ones(2)),
    "nothing": lambda: plan_of(lambda x: x, torch.ones(2)),
    "many": lambda: plan_of(lambda *xs: [x + 1 for x in xs], *[torch.ones(1)] * 100),
}


@pytest.mark.parametrize("name", DRAWN)
def test_edges_go_forward_between_nodes(hook, name):
    titles, edges = _graph(DRAWN[name]())
    assert all(0 <= start < end < len(titles) for start, end in edges)
    connected = {number for edge in edges for number in edge}
    assert all(number in connected for number, title in enumerate(titles) if title.startswith("output"))


def test_a_graph_shows_the_operations_between_inputs_and_outputs(hook):
    titles, _ = _graph(built(MLP, 4, 6))
    assert titles == ["x", "linear", "relu", "linear", "log_softmax", "output"]
    titles, _ = _graph(training_plan())
    assert titles[:2] == ["x", "y"] and titles[-2:] == ["output[0]", "output[1]"]
    assert titles[7:9] == ["backward", "Adam.step()"]
    dot = built(MLP, 4, 6).summary().dot()
    assert dot.split("\n")[3] == r'  n1 [label="linear\n(4*, 8) float32\nfc1.weight, bias" color=black];'


def test_edges_are_the_flow_of_tensors(hook):
    titles, edges = _graph(built(CNN, 2, 3, 8, 8))
    pairs = {(titles[a], titles[b]) for a, b in edges}
    relu = titles.index("relu")
    assert (relu, titles.index("add")) in edges  # the residual connection
    assert pairs >= {
        ("x", "conv2d"),
        ("conv2d", "batch_norm"),
        ("relu", "add"),
        ("view", "linear"),
        ("linear", "output"),
    }
    assert not any(edges.values())


def test_a_step_comes_after_the_gradients_and_before_what_uses_the_weights(hook):
    titles, edges = _graph(training_plan())
    backward, step = titles.index("backward"), titles.index("Adam.step()")
    assert edges[backward, step] is True
    assert [end for start, end in edges if start == step] == [n for n, t in enumerate(titles) if t == "linear"][2:]


def test_a_drawing_needs_graphviz(hook, monkeypatch):
    summary = built(MLP, 4, 6).summary()
    if shutil.which("dot"):
        assert "<svg" in summary.svg()
    monkeypatch.setattr(shutil, "which", lambda name: None)
    with pytest.raises(SyftError, match="Graphviz"):
        summary.svg()


EVIL = '<script>alert("1")</script>\x00\x1b[31m & \'"'


def _hostile_plan(worker):
    """Return a plan whose names are chosen by a stranger."""
    plan = plan_of(lambda x: {"k": x * 2}, torch.ones(2))
    plan.state.add(torch.ones(1), EVIL)
    parts = list(sy.Plan.simplify(None, plan))
    parts[1] = EVIL
    (arguments, operations, outputs) = parts[4]
    (argument,) = arguments
    parts[4] = (((EVIL, *argument[1:]),), operations, {EVIL: outputs["k"]})
    parts[7], parts[8] = {EVIL}, EVIL
    parts[3:6] = parts[3], _renumbered(parts[4]), plan.state
    return sy.Plan.detail(worker, tuple(parts))


def _renumbered(rows):
    """Make room for one tensor of state between the input and the result."""
    from syft.core.references import Ref

    arguments, ((name, args, kwargs, _),), outputs = rows
    return arguments, ((name, args, kwargs, (Ref(2),)),), {key: Ref(2) for key in outputs}


class _Tags(html.parser.HTMLParser):
    def __init__(self):
        super().__init__()
        self.tags = set()

    def handle_starttag(self, tag, attrs):
        self.tags.add(tag)


def test_names_from_peers_are_escaped(hook, bob):
    plan = _hostile_plan(bob)
    summary = plan.summary(torch.ones(2))
    titles, _ = _graph(plan, torch.ones(2))
    assert len(titles) == 3
    for page in (plan._repr_html_(), summary._repr_html_()):
        parser = _Tags()
        parser.feed(page)
        assert parser.tags <= TAGS
        assert "<script" not in page and "\x00" not in page and "\x1b" not in page
    assert "\x1b" not in repr(plan) + str(summary) + summary.dot() + plan.code
    assert repr(plan).count("\n") == plan.code.count("\n") + 1


def test_pages_for_notebooks(hook):
    plan = built(MLP, 4, 6, name="mlp")
    page = plan._repr_html_()
    assert "Plan mlp" in page and "x2 = F.relu(x1)" in page
    assert "Plan mlp" in plan.summary()._repr_html_() and "log_softmax" in plan.summary()._repr_html_()
    unbuilt = sy.Plan(name="later", forward_func=lambda x: x)
    assert "later" in unbuilt._repr_html_() and "<pre" not in unbuilt._repr_html_()


def test_tensors_with_the_same_name_are_distinguished(hook):
    state = sy.messaging.plan.State()
    for _ in range(2):
        state.add(torch.ones(1), "same")
    names = Names(Program(state=tuple(state.state_placeholders)))
    assert [names.of(p) for p in state.state_placeholders] == ["self.same", "self.same_1"]
