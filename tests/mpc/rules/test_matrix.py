"""The operation matrix: every row correct on fixed precision and on shares of 2, 3 and 4 parties, or refused."""

import contextlib
import itertools

import pytest
import torch

import syft as sy
from syft.exceptions import SyftError, UnsupportedOperationError
from syft.workers.process.worker import ProcessWorker
from tests.helpers.mpc.protocols import cast_of
from tests.helpers.mpc.rows import FORMATS, MATRIX, REFUSED, A, check_row, encrypted, run_row


@pytest.fixture(scope="module")
def cast():
    """Four parties and a crypto provider, used by all rows; they must be empty at the end."""
    yield from cast_of("matrix", 4)


@pytest.fixture(autouse=True)
def hooked(hook):
    return hook


@pytest.mark.parametrize("name", MATRIX)
def test_row(name, cast):
    parties, provider = cast
    for count, form in itertools.product((0, 2, 3, 4), FORMATS):
        with noted(f"{count} parties, {form}"):
            check_row(name, parties[:count], provider, form)
            assert not any(worker._objects for worker in (*parties, provider))


@contextlib.contextmanager
def noted(where):
    """Say where a check failed."""
    try:
        yield
    except Exception as error:
        error.add_note(where)
        raise


COMPARING = ["a>b", "a<=b", "a==b", "a!=b", "F.relu", "sign", "abs", "max(dim).indices", "where", "clamp", "max_pool2d"]


@pytest.mark.parametrize("protocol", ["snn", "fss"])
@pytest.mark.parametrize("count", [2, 3])
@pytest.mark.parametrize("name", COMPARING)
def test_rows_that_compare_in_other_ways(name, count, protocol, cast):
    parties, provider = cast
    check_row(name, parties[:count], provider, protocol=protocol)


@pytest.fixture(scope="module")
def processes():
    """Two parties and a crypto provider, each in a process of its own."""
    hook = sy.TorchHook(torch)
    workers = [ProcessWorker(hook, id=f"matrix-process-{i}") for i in range(3)]
    yield workers[:2], workers[2]
    for worker in workers:
        worker.stop()
        for other in (*workers, hook.local_worker):
            other._known_workers.pop(worker.id, None)


# All of MATRIX is right there too; these have each kind of message.
IN_PROCESSES = [
    "a*b",
    "plain@a",
    "a/b",
    "conv2d groups",
    "max(dim).indices",
    "through views",
    "cat plain",
    "max_pool2d",
]


@pytest.mark.parametrize("name", IN_PROCESSES)
def test_rows_in_processes(name, processes):
    check_row(name, *processes)


# Rows whose results are exact whatever the format: nothing is divided.
EXACT = [
    "a+b",
    "1-a",
    "a*3",
    "a>b",
    "a==a",
    "F.relu",
    "max",
    "argmax(dim=1)",
    "abs",
    "cat",
    "through views",
    "pad value",
]


@pytest.mark.parametrize("count", [0, 2, 3])
@pytest.mark.parametrize("name", EXACT)
def test_rows_without_a_division_are_exact(name, count, cast):
    parties, provider = cast
    found, meant = run_row(name, parties[:count], provider, "2^-16")
    assert torch.equal(found, meant)


@pytest.mark.parametrize("count", [0, 2])
@pytest.mark.parametrize("name", REFUSED)
def test_refused(name, count, cast):
    parties, provider = cast
    tensor = encrypted(torch.tensor(A), parties[:count], provider)
    with pytest.raises(SyftError) as caught:
        REFUSED[name](tensor)
    assert isinstance(caught.value, UnsupportedOperationError)
    assert "not supported on" in str(caught.value)
    assert "1.5" not in str(caught.value)


def test_a_refusal_names_the_call_and_the_nearest_one(cast):
    tensor = encrypted(torch.tensor(A))
    with pytest.raises(UnsupportedOperationError, match=r"median is not supported on FixedPrecisionTensor. .*mean"):
        tensor.median()
    with pytest.raises(UnsupportedOperationError, match=r"topk is not supported .*argmax"):
        tensor.topk(1)


NUMBERS = {
    "a+b": lambda a, b: a + b,
    "a-b": lambda a, b: a - b,
    "a*b": lambda a, b: a * b,
    "a@b": lambda a, b: a @ b.t(),
    "a*3": lambda a, b: a * 3,
    "a+plain": lambda a, b: a + torch.tensor([1, 2, 3]),
    "plain@a": lambda a, b: torch.arange(4).view(2, 2) @ a,
    "a@plain": lambda a, b: a @ torch.arange(6).view(3, 2),
    "a//3": lambda a, b: a // 3,
    "a//-3": lambda a, b: a // -3,
    "a%7": lambda a, b: a % 7,
    "a**3": lambda a, b: a**3,
    "-a": lambda a, b: -a,
    "a>b": lambda a, b: (a > b).long(),
    "a<=2": lambda a, b: (a <= 2).long(),
    "a==b": lambda a, b: (a == b).long(),
    "relu": lambda a, b: a.relu(),
    "abs": lambda a, b: a.abs(),
    "sign": lambda a, b: a.sign(),
    "clamp": lambda a, b: a.clamp(-5, 5),
    "max": lambda a, b: a.max(),
    "max(dim=0)": lambda a, b: torch.cat(list(a.max(dim=0))),
    "argmin": lambda a, b: a.argmin(1),
    "sum": lambda a, b: a.sum(1),
    "cumsum": lambda a, b: a.cumsum(0),
    "prod": lambda a, b: a.prod(1),
    "where": lambda a, b: torch.where(a > b, a, b),
    "cat": lambda a, b: torch.cat([a, b]),
    "views": lambda a, b: a.t()[1:].reshape(-1).flip(0),
    "einsum": lambda a, b: torch.einsum("ij,kj->ik", a, b),
    "a+=b": lambda a, b: a.clone().add_(b),
}


@pytest.mark.parametrize("count", [2, 3, 4])
@pytest.mark.parametrize("name", NUMBERS)
def test_whole_numbers_are_exact(name, count, cast):
    parties, provider = cast
    a, b = torch.tensor([[7, -8, 100], [-3, 0, 12]]), torch.tensor([[2, -8, 5], [9, -1, 12]])
    shares = [t.share(*parties[:count], crypto_provider=provider) for t in (a, b)]
    result = NUMBERS[name](*shares)
    assert isinstance(result.child, sy.AdditiveSharingTensor)
    assert torch.equal(result.get(), NUMBERS[name](a, b))


GRADIENTS = {
    "square": lambda x: (x * x).sum(),
    "matmul": lambda x: (x @ x.t()).sum(),
    "linear": lambda x: torch.nn.functional.linear(x, x).pow(2).mean(),
    "relu": lambda x: (x.relu() * 3).sum(),
    "leaky": lambda x: torch.nn.functional.leaky_relu(x).sum(),
    "abs": lambda x: x.abs().sum(),
    "clamp": lambda x: x.clamp(-1, 1).sum(),
    "max": lambda x: x.max(1).values.sum(),
    "max of all": lambda x: x.max(),
    "maximum": lambda x: torch.maximum(x, x.detach() * 2).sum(),
    "where": lambda x: torch.where(x > 0, x * x, x).sum(),
    "division": lambda x: (x / (x * x + 1)).sum(),
    "mean, var": lambda x: x.var() + x.mean(0).pow(2).sum(),
    "prod": lambda x: x.prod(),
    "mse": lambda x: torch.nn.functional.mse_loss(x, x.detach() * 2),
    "views": lambda x: x.t()[1].sum() * 2 + x.repeat(2, 1)[1:3].sum() + x.expand(2, 2, 3).sum(),
    "index": lambda x: x[:, torch.tensor([0, 0])].sum(),
    "conv": lambda x: (
        torch.nn.functional.conv2d(x.view(1, 1, 2, 3), x.view(1, 1, 2, 3)[..., :2], padding=1).pow(2).sum()
    ),
    "pools": lambda x: (
        torch.nn.functional.max_pool2d(x.view(1, 1, 2, 3), 2, 1).sum()
        + torch.nn.functional.avg_pool2d(x.view(1, 1, 2, 3), 2, 1).sum()
    ),
    "written": lambda x: written(x * 1),
}


def written(y):
    y[0] = y[1] * 2
    y.t()[1] = 3.0
    y[:, 2] *= 2
    return (y * y).sum()


@pytest.mark.parametrize("count", [0, 2, 3])
@pytest.mark.parametrize("name", GRADIENTS)
def test_gradients(name, count, cast):
    parties, provider = cast
    plain = torch.tensor(A, requires_grad=True)
    GRADIENTS[name](plain).backward()
    x = encrypted(torch.tensor(A), parties[:count], provider, "2^-16").requires_grad_()
    GRADIENTS[name](x).backward()
    grad = x.grad.get() if x.grad.child.is_shared else x.grad
    assert torch.allclose(grad.float_precision(), plain.grad, atol=2e-3, rtol=1e-3)
