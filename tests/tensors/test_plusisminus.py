"""PlusIsMinusTensor: below autograd + is -, for all writers of a sum; other calls are unchanged."""

import csv
from pathlib import Path

import pytest
import torch
from torch import nn

import syft as sy
from syft.core.dispatch import find_rule
from syft.core.tensor import Level
from syft.exceptions import UnsupportedOperationError
from syft.frameworks.torch.tensors.interpreters import plusisminus as documented

INDEX = Path(__file__).parents[1] / "data" / "documented_api.tsv"


@pytest.fixture(autouse=True)
def hooked(hook):
    return hook


def turned(values, **kwargs):
    return sy.PlusIsMinusTensor().on(torch.tensor(values, **kwargs))


def below(tensor):
    return tensor.child.child


def test_documented_module():
    """Row: syft.frameworks.torch.tensors.interpreters.plusisminus."""
    with INDEX.open(newline="") as file:
        rows = list(csv.reader(file, delimiter="\t"))
    assert ["syft.frameworks.torch.tensors.interpreters.plusisminus", "(module)"] in rows
    assert documented.PlusIsMinusTensor is sy.PlusIsMinusTensor
    assert sy.PlusIsMinusTensor.level is Level.ATEN
    assert find_rule(sy.PlusIsMinusTensor, torch.ops.aten.add.Tensor)
    assert find_rule(sy.PlusIsMinusTensor, torch.ops.aten.add.Scalar)


ADDITIONS = {
    "x + y": (lambda x, y: x + y, lambda x, y: x - y),
    "x.add(y)": (lambda x, y: x.add(y), lambda x, y: x - y),
    "torch.add": (lambda x, y: torch.add(x, y), lambda x, y: x - y),
    "keywords": (lambda x, y: torch.add(input=x, other=y, alpha=2), lambda x, y: x - 2 * y),
    "alpha": (lambda x, y: x.add(y, alpha=0.5), lambda x, y: x - 0.5 * y),
    "x + 1": (lambda x, y: x + 1, lambda x, y: x - 1),
    "1 + x": (lambda x, y: 1 + x, lambda x, y: x - 1),
    "x + 1.5": (lambda x, y: x + 1.5, lambda x, y: x - 1.5),
    "x + x": (lambda x, y: x + x, lambda x, y: x - x),
    "broadcast": (lambda x, y: x.unsqueeze(1) + y, lambda x, y: x.unsqueeze(1) - y),
    "broadcast scalar tensor": (lambda x, y: x + y.sum(), lambda x, y: x - y.sum()),
    "plain on the right": (lambda x, y: x + torch.ones(2), lambda x, y: x - torch.ones(2)),
    "plain on the left": (lambda x, y: torch.ones(2) + x, lambda x, y: torch.ones(2) - x),
    "x += y": (lambda x, y: x.clone().add_(y), lambda x, y: x - y),
    "x.add_(1)": (lambda x, y: x.clone().add_(1), lambda x, y: x - 1),
    "aten scalar": (lambda x, y: torch.ops.aten.add.Scalar(x, 2, 3), lambda x, y: x - 6),
    "twice": (lambda x, y: x + y + y, lambda x, y: x - y - y),
}


FLOAT_ONLY = {"x + 1.5", "alpha"}


@pytest.mark.parametrize(
    ("name", "dtype"),
    [(name, torch.float32) for name in ADDITIONS]
    + [(name, torch.int64) for name in ADDITIONS if name not in FLOAT_ONLY],
)
def test_plus_is_minus(name, dtype):
    ours, meant = ADDITIONS[name]
    x, y = torch.tensor([5, 7], dtype=dtype), torch.tensor([1, 2], dtype=dtype)
    if name.startswith("plain"):
        y, dtype = y.float(), torch.result_type(x, torch.ones(1))
    result = ours(sy.PlusIsMinusTensor().on(x), sy.PlusIsMinusTensor().on(y))
    assert isinstance(result.child, sy.PlusIsMinusTensor)
    assert torch.equal(below(result), meant(x, y))
    assert result.dtype is below(result).dtype is meant(x, y).dtype
    assert result.shape == meant(x, y).shape


OTHERS = {
    "x - y": lambda x, y: x - y,
    "x * y": lambda x, y: x * y,
    "x / y": lambda x, y: x / y,
    "-x": lambda x, y: -x,
    "x @ y": lambda x, y: x @ y,
    "sum": lambda x, y: x.sum(),
    "relu": lambda x, y: torch.relu(x - 6),
    "cat": lambda x, y: torch.cat([x, y]),
    "x > y": lambda x, y: x > y,
    "view": lambda x, y: x.view(2, 1).t(),
    "max": lambda x, y: x.max(dim=0).values,
    "index": lambda x, y: x[1:],
    "exp": lambda x, y: y.exp().log(),
}


@pytest.mark.parametrize("name", OTHERS)
def test_everything_else_is_as_it_was(name):
    x, y = torch.tensor([5.0, 7.0]), torch.tensor([1.0, 2.0])
    result = OTHERS[name](sy.PlusIsMinusTensor().on(x), sy.PlusIsMinusTensor().on(y))
    assert isinstance(result.child, sy.PlusIsMinusTensor)
    assert torch.equal(below(result), OTHERS[name](x, y))


def test_in_place_keeps_the_object():
    x = same = turned([5.0, 7.0])
    x += turned([1.0, 2.0])
    assert x is same
    assert below(x).tolist() == [4, 5]
    x += 1
    assert below(x).tolist() == [3, 4]
    x.mul_(2)
    assert below(x).tolist() == [6, 8]
    assert x is same


def test_autograd_differentiates_what_was_written():
    x = turned([5.0, 7.0], requires_grad=True)
    y = turned([1.0, 2.0], requires_grad=True)
    assert x.requires_grad
    result = x + y
    assert result.grad_fn is not None
    result.sum().backward()
    for leaf in (x, y):
        assert isinstance(leaf.grad.child, sy.PlusIsMinusTensor)
        assert below(leaf.grad).tolist() == [1, 1]


def test_sums_of_gradients_are_differences_too():
    x = turned([5.0, 7.0], requires_grad=True)
    (x * 3 - x * 1).sum().backward()
    assert below(x.grad).tolist() in ([4, 4], [-4, -4])  # 3 - (-1), or the other way round


def test_gradients_through_other_calls():
    x = turned([5.0, 7.0], requires_grad=True)
    (x * 3 * 2).sum().backward()
    assert below(x.grad).tolist() == [6, 6]
    assert isinstance(x.grad.child, sy.PlusIsMinusTensor)


def test_on_keeps_requires_grad_and_shares_no_history():
    leaf = torch.tensor([1.0], requires_grad=True)
    x = sy.PlusIsMinusTensor().on(leaf)
    assert x.requires_grad
    assert x.is_leaf
    assert not below(x).requires_grad


def test_in_a_module():
    class Shift(nn.Module):
        def __init__(self):
            super().__init__()
            self.offset = nn.Parameter(torch.tensor([1.0, 2.0]))

        def forward(self, x):
            return x * 2 + self.offset

    out = Shift()(turned([5.0, 7.0]))
    assert below(out).tolist() == [9, 12]
    linear = nn.Linear(2, 1, bias=False)
    x = torch.tensor([[5.0, 7.0]])
    assert torch.allclose(below(linear(sy.PlusIsMinusTensor().on(x))), linear(x))


def test_links_can_be_stacked(capsys):
    x = sy.LoggingTensor().on(turned([5.0, 7.0]))
    assert (x + x).child.child.child.tolist() == [0, 0]
    twice = sy.PlusIsMinusTensor().on(turned([5.0, 7.0]))
    assert (twice + 2).child.child.child.tolist() == [3, 5]


def test_send_compute_get(make_worker, kind, nothing_left):
    bob = make_worker("bob", kind)
    x, y = turned([5.0, 7.0]).send(bob), turned([1.0, 2.0]).send(bob)
    assert isinstance(x.child, sy.PointerTensor)
    result = (x + y) * 2
    assert isinstance(bob.synchronize()._objects[result.id_at_location].child, sy.PlusIsMinusTensor)
    back = result.get()
    assert isinstance(back.child, sy.PlusIsMinusTensor)
    assert below(back).tolist() == [8, 10]
    assert below(x.get()).tolist() == [5, 7]
    del x, y, result
    bob.synchronize()
    nothing_left(bob)


def test_on_a_pointer_is_refused(bob):
    """ATen operations have no name on the wire: the link is sent along with its tensor instead."""
    x = sy.PlusIsMinusTensor().on(torch.tensor([5.0, 7.0]).send(bob))
    with pytest.raises(UnsupportedOperationError, match=r"aten\.sub\.Tensor can't be run on a worker"):
        x + x


def test_wire_form():
    x = turned([5.0, 7.0], requires_grad=True)
    back = sy.deserialize(sy.serialize(x))
    assert isinstance(back.child, sy.PlusIsMinusTensor)
    assert torch.equal(below(back), below(x))
    assert back.requires_grad
