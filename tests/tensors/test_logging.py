"""LoggingTensor: prints each call, then runs it; on plain tensors, on pointers, at a worker, in modules."""

import copy
import csv
from pathlib import Path

import pytest
import torch
import torch.nn.functional as F
from torch import nn

import syft as sy
from syft.frameworks.torch.tensors.decorators import logging as documented
from syft.generic.frameworks.hook import hook_args

INDEX = Path(__file__).parents[1] / "data" / "documented_api.tsv"
ROWS = "add manual_add torch on_function_call simplify detail".split()


@pytest.fixture(autouse=True)
def hooked(hook):
    return hook


@pytest.fixture
def log(capsys):
    """Return what was printed since the last call, by lines."""
    return lambda: capsys.readouterr().out.splitlines()


def logged(values, **kwargs):
    return sy.LoggingTensor().on(torch.tensor(values, **kwargs))


def below(tensor):
    return tensor.child.child


@pytest.mark.parametrize("name", ROWS)
def test_documented_names_are_there(name):
    """Row: syft.frameworks.torch.tensors.decorators.logging."""
    with INDEX.open(newline="") as file:
        assert [
            documented.__name__.replace("syft.tensors", "syft.frameworks.torch.tensors.decorators"),
            "(module)",
        ] in (list(csv.reader(file, delimiter="\t")))
    assert documented.LoggingTensor is sy.LoggingTensor
    assert hasattr(sy.LoggingTensor, name)


def test_fields(bob):
    link = sy.LoggingTensor(owner=bob, id=3, tags=["t"], description="d")
    assert (link.owner, link.id, link.tags, link.description) == (bob, 3, {"t"}, "d")


def test_the_documented_lines(log):
    x = logged([1.0, -2.0])
    assert below(x.add(x)).tolist() == [2, -4]
    assert log() == ["Log method add"]
    assert below(x + x).tolist() == [2, -4]
    assert log() == ["Log method add"]
    assert x.child.manual_add(x.child).child.tolist() == [2, -4]
    assert log() == ["Log method manual_add"]
    assert below(torch.add(x, x)).tolist() == [2, -4]
    assert log() == ["Log function torch.add"]
    assert below(torch.mul(x, x)).tolist() == [1, 4]
    assert log() == ["Log function torch.mul"]
    assert below(F.relu(x)).tolist() == [1, 0]
    assert log() == ["Log function torch.nn.functional.relu"]
    assert below(torch.sub(x, x)).tolist() == [0, 0]
    assert log() == ["Default log torch.sub"]
    assert below(x.sum()).item() == -1
    assert log() == ["Default log torch.Tensor.sum"]


def test_add_and_manual_add_are_the_same():
    x, y = logged([1.0, 2.0]), logged([3.0, 4.0])
    for args, kwargs in (((y.child,), {}), ((1,), {}), ((y.child,), {"alpha": 3}), ((torch.ones(2),), {})):
        first, second = x.child.add(*args, **kwargs), x.child.manual_add(*args, **kwargs)
        assert type(first) is type(second) is sy.LoggingTensor
        assert torch.equal(first.child, second.child)


def test_keyword_arguments(log):
    x = logged([1.0, 2.0])
    assert below(torch.add(input=x, other=x, alpha=2)).tolist() == [3, 6]
    assert below(torch.mul(x, other=x)).tolist() == [1, 4]
    assert below(F.relu(input=x, inplace=False)).tolist() == [1, 2]
    assert len(log()) == 3


CALLS = {
    "x * 2": lambda x: x * 2,
    "2 - x": lambda x: 2 - x,
    "x / 2": lambda x: x / 2,
    "x ** 2": lambda x: x**2,
    "x @ x.T": lambda x: x @ x.T,
    "x[0]": lambda x: x[0],
    "x > 1": lambda x: x > 1,
    "mean": lambda x: x.mean(dim=0, keepdim=True),
    "reshape": lambda x: x.reshape(-1),
    "cat": lambda x: torch.cat([x, x], dim=1),
    "stack": lambda x: torch.stack((x, torch.zeros(2, 2), x)),
    "softmax": lambda x: F.softmax(x, dim=1),
    "linear": lambda x: F.linear(x, torch.ones(3, 2), bias=torch.ones(3)),
    "where": lambda x: torch.where(x > 1, x, torch.zeros(2, 2)),
    "einsum": lambda x: torch.einsum("ij,jk->ik", x, x),
    "clone": lambda x: x.clone(),
    "to": lambda x: x.to(torch.float64),
    "index": lambda x: x[x > 1],
    "zeros_like": lambda x: torch.zeros_like(x),
    "neg": lambda x: -x,
    "T": lambda x: x.T,
}


@pytest.mark.parametrize("name", CALLS)
def test_any_other_call_gives_what_it_gives_without_the_log(log, name):
    plain = torch.tensor([[1.0, 2.0], [3.0, 0.5]])
    result = CALLS[name](sy.LoggingTensor().on(plain.clone()))
    assert isinstance(result.child, sy.LoggingTensor)
    assert torch.equal(below(result), CALLS[name](plain))
    assert result.shape == CALLS[name](plain).shape
    assert result.dtype is CALLS[name](plain).dtype
    lines = log()
    assert lines
    assert all(line.startswith(("Log ", "Default log torch.")) for line in lines)


def test_several_results_and_python_values(log):
    x = logged([3.0, 1.0, 2.0])
    values, indices = x.sort()
    assert below(values).tolist() == [1, 2, 3]
    assert below(indices).tolist() == [1, 2, 0]
    assert type(x.max(dim=0)) is torch.return_types.max
    assert [below(part).tolist() for part in x.split(2)] == [[3, 1], [2]]
    assert x.sum().item() == 6
    assert x.tolist() == [3, 1, 2]
    assert float(x[0]) == 3
    assert bool((x > 0).all())
    assert len(x) == 3
    assert [below(part).item() for part in x] == [3, 1, 2]
    assert x.shape == (3,)


IN_PLACE = {
    "add_": lambda x: x.add_(1),
    "mul_": lambda x: x.mul_(x),
    "zero_": lambda x: x.zero_(),
    "clamp_": lambda x: x.clamp_(min=2),
    "relu_": lambda x: F.relu(x, inplace=True),
    "out": lambda x: torch.neg(x, out=x),
}


@pytest.mark.parametrize("name", IN_PLACE)
def test_in_place_calls_change_the_tensor_and_return_it(name):
    plain = torch.tensor([1.0, -2.0])
    x = sy.LoggingTensor().on(plain.clone())
    link, bottom = x.child, below(x)
    result = IN_PLACE[name](x)
    assert result is x
    assert x.child is link
    assert below(x) is bottom
    IN_PLACE[name](plain)
    assert torch.equal(bottom, plain)


def test_augmented_assignments():
    x = same = logged([1.0, 2.0])
    x += 1
    x *= 2
    x -= torch.ones(2)
    x /= 2
    x[0] = 9
    assert x is same
    assert below(x).tolist() == [9, 2.5]
    x.t_()
    y = logged([[1.0, 2.0]])
    y.t_()
    assert y.shape == below(y).shape == (2, 1)


def test_mixed_with_plain_tensors(log):
    x = logged([1.0, 2.0])
    assert below(torch.ones(2) + x).tolist() == [2, 3]
    assert below(torch.ones(2).mul(x)).tolist() == [1, 2]
    assert below(1 - x).tolist() == [0, -1]
    assert len(log()) == 3


def test_link_on_link(log):
    x = sy.LoggingTensor().on(logged([1.0, 2.0]))
    result = x.add(x)
    assert log() == ["Log method add", "Log method add"]
    assert result.child.child.child.tolist() == [2, 4]
    result = x.mean()
    assert log() == ["Default log torch.Tensor.mean"] * 2
    assert result.child.child.child.item() == 1.5


def test_the_log_can_be_redirected(monkeypatch, log):
    lines = []
    monkeypatch.setattr(sy.LoggingTensor, "out", staticmethod(lines.append))
    x = logged([1.0])
    x + x
    x.neg()
    assert lines == ["Log method add", "Default log torch.Tensor.neg"]
    assert log() == []


def test_commands(log):
    x = logged([1.0, 2.0]).child
    assert sy.LoggingTensor.handle_func_command(("torch.add", None, (x, x), {})).child.tolist() == [2, 4]
    assert sy.LoggingTensor.handle_func_command(("add", x, (1,), {})).child.tolist() == [2, 3]
    assert log() == ["Log function torch.add", "Log method add"]
    sy.LoggingTensor.on_function_call(("torch.anything", None, (), {}))
    assert log() == ["Default log torch.anything"]


# Gradients and modules ----------------------------------------------------------------------------------


def test_gradients_flow_below(log):
    x = logged([1.0, 2.0], requires_grad=True)
    assert x.requires_grad
    (x * x).sum().backward()
    assert below(x).grad.tolist() == [2, 4]
    assert below(x.grad).tolist() == [2, 4]


def test_parameters():
    parameter = nn.Parameter(logged([1.0, 2.0]))
    assert isinstance(parameter, nn.Parameter)
    assert isinstance(parameter.child, sy.LoggingTensor)
    assert parameter.requires_grad


def test_a_module_takes_it(log):
    model = nn.Sequential(nn.Linear(2, 3), nn.ReLU(), nn.Linear(3, 1))
    x = torch.randn(4, 2)
    out = model(sy.LoggingTensor().on(x))
    assert torch.allclose(below(out), model(x))
    assert "Log function torch.nn.functional.relu" in log()
    F.mse_loss(out, torch.zeros(4, 1)).backward()
    expected = [p.grad.clone() for p in model.parameters()]
    model.zero_grad()
    F.mse_loss(model(x), torch.zeros(4, 1)).backward()
    for parameter, gradient in zip(model.parameters(), expected, strict=True):
        assert torch.allclose(parameter.grad, gradient)


def test_copies():
    x = logged([1.0, 2.0])
    for proxy in (x.clone(), x.copy(), copy.deepcopy(x)):
        assert isinstance(proxy.child, sy.LoggingTensor)
        assert proxy.child is not x.child
        proxy.add_(1)
        assert below(proxy).tolist() == [2, 3]
    assert below(x).tolist() == [1, 2]


# Elsewhere ----------------------------------------------------------------------------------------------


def test_on_a_pointer(bob, log, nothing_left):
    x = sy.LoggingTensor().on(torch.tensor([1.0, 2.0]).send(bob))
    assert x.location is bob
    y = x.add(x)
    assert log() == ["Log method add"]
    z = torch.mul(y, 2).sum()
    assert log() == ["Log function torch.mul", "Default log torch.Tensor.sum"]
    assert z.child.child.location is bob
    back = z.get()
    assert back.child.child.item() == 12
    x += 1
    assert x.get().child.child.tolist() == [2, 3]
    del x, y, z, back
    nothing_left(bob)


def test_sent_computed_on_and_fetched(make_worker, kind, log, nothing_left):
    bob = make_worker("bob", kind)
    x = logged([1.0, 2.0])
    pointer = x.send(bob)
    assert isinstance(pointer.child, sy.PointerTensor)
    assert pointer.shape == (2,)
    y = pointer + pointer
    bob.synchronize()
    assert log() == ["Log method add"], "the worker prints: this is its log"
    there = bob._objects[y.id_at_location]
    assert isinstance(there.child, sy.LoggingTensor)
    back = y.get()
    assert isinstance(back.child, sy.LoggingTensor)
    assert below(back).tolist() == [2, 4]
    again = pointer.get()
    assert below(again).tolist() == [1, 2]
    assert below(x).tolist() == [1, 2]
    del pointer, y, there
    bob.synchronize()
    nothing_left(bob)


def test_sending_copies(bob):
    x = logged([1.0, 2.0])
    pointer = x.send(bob)
    x.zero_()
    assert below(pointer.get()).tolist() == [1, 2]


def test_wire_form(hook):
    x = logged([1.0, 2.0])
    x.child.tag("t").describe("d")
    back = sy.deserialize(sy.serialize(x))
    assert isinstance(back.child, sy.LoggingTensor)
    assert torch.equal(below(back), below(x))
    assert (back.child.id, back.child.tags, back.child.description) == (x.child.id, {"t"}, "d")
    worker = hook.local_worker
    parts = sy.LoggingTensor.simplify(worker, x.child)
    assert isinstance(parts, tuple)
    rebuilt = sy.LoggingTensor.detail(worker, parts)
    assert type(rebuilt) is sy.LoggingTensor
    assert rebuilt.owner is worker
    nested = sy.deserialize(sy.serialize([{"k": sy.LoggingTensor().on(x)}]))[0]["k"]
    assert nested.child.child.child.tolist() == [1, 2]


def test_hook_args_knows_it():
    x = logged([1.0])
    assert hook_args.build_rule((x, x.child, 1)) == (1, 1, 0)
    assert hook_args.unwrap_args_from_method("add", x.child, (x.child,), {})[0] is below(x)
