"""TorchAttributes and FrameworkAttributes, Remote and Trace: tables, names, tensors made at a worker."""

import inspect
import threading

import pytest
import torch

import syft as sy
from syft.exceptions import CommandNotAllowedError
from syft.frameworks.torch import torch_attributes
from syft.frameworks.torch.torch_attributes import TorchAttributes
from syft.generic.frameworks.attributes import FrameworkAttributes
from syft.generic.frameworks.hook.trace import Trace, tracer
from syft.generic.frameworks.remote import Remote
from syft.hook.allowed_functions import CONSTRUCTORS, function_of
from syft.hook.denylist import REFUSED
from syft.hook.syft_tensor import SyftTensor
from tests.helpers.documented_rows import Rows

row = Rows("syft.frameworks.torch.torch_attributes")


def test_every_documented_row_has_a_test():
    row.check(5)


@pytest.fixture
def attributes(hook):
    return hook.attributes


@row("TorchAttributes")
def test_made_by_the_hook(hook, attributes):
    assert type(attributes) is TorchAttributes is torch_attributes.TorchAttributes
    assert issubclass(TorchAttributes, FrameworkAttributes)
    assert list(inspect.signature(TorchAttributes).parameters) == ["torch", "hook"]
    assert attributes.torch is torch
    assert attributes.ALIAS == FrameworkAttributes.ALIAS == "torch"
    assert attributes.Tensor is SyftTensor
    again = TorchAttributes(torch, hook)
    assert again.allowed_commands == attributes.allowed_commands
    with pytest.raises(TypeError, match="abstract"):
        FrameworkAttributes(torch, hook)


def test_tables(attributes):
    assert set(attributes.torch_modules) == {"torch", "torch.functional", "torch.nn.functional"}
    assert {"tensor", "rand", "zeros", "randn", "randint"} <= set(attributes.worker_methods)
    assert {"torch.Tensor.add", "torch.Tensor.sum", "torch.nn.functional.relu"} <= attributes.allowed_commands
    assert not attributes.allowed_commands & set(REFUSED)
    assert attributes.exclude == sorted(REFUSED)


@pytest.mark.parametrize(
    "name",
    "load save hub.load jit.load set_num_threads manual_seed from_file compile package.PackageImporter "
    "ops.load_library utils.cpp_extension.load "
    "distributed.broadcast from_numpy set_default_dtype use_deterministic_algorithms".split(),
)
def test_calls_on_files_processes_code_or_global_state_are_refused(attributes, name):
    assert f"torch.{name}" not in attributes.allowed_commands
    with pytest.raises(CommandNotAllowedError):
        function_of(f"torch.{name}")


def test_every_allowed_command_can_be_found(attributes):
    for name in attributes.allowed_commands:
        assert callable(function_of(name)), name
    for name in REFUSED:
        with pytest.raises(CommandNotAllowedError, match="can't be run on a worker"):
            function_of(name)


@row("TorchAttributes.eval_torch_modules")
def test_each_command_has_its_native_function(attributes):
    evaluated = attributes.eval_torch_modules()
    assert set(evaluated) == set(attributes.native_commands)
    assert len(evaluated) > 300
    assert evaluated["torch.add"] is torch.add
    assert evaluated["torch.nn.functional.relu"] is torch.nn.functional.relu
    assert all(callable(function) for function in evaluated.values())
    assert attributes.native_commands["torch.add"] == "torch.native_add"
    for name, native in attributes.native_commands.items():
        place = torch.nn.functional if name.startswith("torch.nn") else torch
        if name.startswith("torch.functional"):
            continue
        assert hasattr(place, native.rpartition(".")[2]), native


@row("TorchAttributes.get_native_torch_name")
@pytest.mark.parametrize(
    ("name", "native"),
    [
        ("torch.add", "torch.native_add"),
        ("torch.nn.functional.relu", "torch.nn.functional.native_relu"),
        ("add", "native_add"),
    ],
)
def test_native_names(name, native):
    assert TorchAttributes.get_native_torch_name(name) == native
    assert TorchAttributes.get_native_framework_name(name) == native
    assert FrameworkAttributes.get_native_framework_name(name) == native


@row("TorchAttributes.is_inplace_method")
@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("add_", True), ("add", False), ("__add__", False), ("__init__", False), ("__iadd__", True),
        ("__imul__", True), ("__int__", False), ("__invert__", False), ("__index__", False), ("requires_grad_", True),
        ("__len__", False), ("_", True), ("__iter__", False), ("__instancecheck__", False),
    ],
)  # fmt: skip
def test_in_place_methods(attributes, name, expected):
    for _ in range(2):
        assert attributes.is_inplace_method(name) is expected
    assert TorchAttributes.is_inplace_method(name) is expected


def test_in_place_methods_end_with_an_underscore(attributes):
    for name in dir(torch.Tensor):
        if attributes.is_inplace_method(name):
            assert name.endswith("_")
    assert not attributes.is_inplace_method("__iter__")


@row("TorchAttributes.apply_fix16922")
def test_the_old_fix_changes_nothing():
    before = dict(vars(torch))
    assert TorchAttributes.apply_fix16922(torch) is None
    assert dict(vars(torch)) == before


# Remote -------------------------------------------------------------------------------------------------

MADE = [
    ("zeros", (2, 3), {}),
    ("zeros", ((2, 3),), {"dtype": torch.int32}),
    ("zeros", (), {"size": (2,), "requires_grad": True}),
    ("ones", (4,), {"dtype": torch.float64}),
    ("tensor", ([[1, 2], [3, 4]],), {}),
    ("tensor", ([1.5, 2.5],), {"requires_grad": True}),
    ("tensor", (3,), {}),
    ("as_tensor", ([1, 2, 3],), {}),
    ("eye", (3,), {}),
    ("arange", (5,), {}),
    ("arange", (1, 2, 0.5), {}),
    ("linspace", (0, 1, 5), {}),
    ("logspace", (0, 2, 3), {"base": 2.0}),
    ("full", ((2, 2), 7), {}),
    ("full", (), {"size": (2,), "fill_value": 1.5}),
]
RANDOM = [
    ("rand", (2, 3), {}),
    ("rand", ((3,),), {"dtype": torch.float64}),
    ("randn", (4,), {"requires_grad": True}),
    ("randint", (3, 9, (5,)), {}),
    ("randint", (7, (2, 2)), {"dtype": torch.int16}),
    ("randint", (), {"low": 2, "high": 4, "size": (6,)}),
    ("randperm", (6,), {}),
    ("normal", (0.0, 1.0, (3,)), {}),
]


def ids(case):
    return case if isinstance(case, str) else None


@pytest.mark.parametrize(("name", "args", "kwargs"), MADE, ids=ids)
def test_made_at_a_worker(make_worker, kind, name, args, kwargs):
    bob = make_worker("bob", kind)
    expected = getattr(torch, name)(*args, **kwargs)
    made = getattr(bob.remote.torch, name)(*args, **kwargs)
    assert made.location is bob
    assert made.is_wrapper
    assert (made.shape, made.dtype, made.requires_grad) == (expected.shape, expected.dtype, expected.requires_grad)
    back = made.get()
    assert torch.equal(back, expected)
    assert back.dtype is expected.dtype
    assert back.requires_grad is expected.requires_grad
    bob.synchronize()
    assert bob._objects == {}


@pytest.mark.parametrize(("name", "args", "kwargs"), RANDOM, ids=ids)
def test_drawn_at_a_worker(bob, name, args, kwargs):
    like = getattr(torch, name)(*args, **kwargs)
    made = getattr(bob.remote.torch, name)(*args, **kwargs)
    assert (made.shape, made.dtype, made.requires_grad) == (like.shape, like.dtype, like.requires_grad)
    values = made.get()
    if name == "randint":
        low, high = (
            (kwargs["low"], kwargs["high"]) if kwargs.get("size") else (args[0], args[1]) if len(args) == 3 else (0, 7)
        )
        assert low <= values.min()
        assert values.max() < high
    elif name == "rand":
        assert 0 <= values.min()
        assert values.max() < 1
    elif name == "randperm":
        assert sorted(values.tolist()) == list(range(6))


def test_every_maker_is_tried():
    assert {f"torch.{name}" for name, *_ in (*MADE, *RANDOM)} | {"torch.empty"} == set(CONSTRUCTORS)


def test_made_tensors_compute(bob):
    x = bob.remote.torch.tensor([1.0, 2.0])
    y = bob.remote.torch.ones(2)
    assert (x + y).get().tolist() == [2, 3]
    model_input = bob.remote.torch.zeros(1, 2)
    model = torch.nn.Linear(2, 1).send(bob)
    assert model(model_input).get().shape == (1, 1)
    with sy.count_messages() as count:
        bob.remote.torch.zeros(3)
    assert count.messages <= 2  # making and, later, deleting


def test_errors_of_torch_come_back(bob):
    with pytest.raises(RuntimeError, match="negative"):
        bob.remote.torch.zeros(-1).get()
    with pytest.raises(TypeError):
        bob.remote.torch.zeros(2, nonsense=1).get()


@pytest.mark.parametrize("name", "load save from_numpy add hub compile manual_seed frombuffer from_file".split())
def test_other_names_are_refused_with_the_list_of_makers(bob, name):
    with pytest.raises(CommandNotAllowedError, match=rf"torch\.{name} can't be run on a worker.*torch\.zeros"):
        getattr(bob.remote.torch, name)


def test_remote_as_an_object(hook, bob):
    remote = Remote(bob, "torch")
    assert remote.frameworks == ["torch"]
    assert {"zeros", "tensor", "randint"} <= set(dir(remote.torch))
    assert remote.torch.zeros.__doc__
    assert remote.torch.zeros.__name__ == "zeros"
    assert not hasattr(remote.torch, "__wrapped__")
    assert remote.torch.zeros(2).get().tolist() == [0, 0]
    assert isinstance(bob.remote, Remote)

    @Remote.register_framework
    class Framework:
        pass

    assert isinstance(Framework, type)


# Trace --------------------------------------------------------------------------------------------------


def test_trace_records_calls_inside_its_block(hook):
    trace = Trace()
    assert (trace.logs, trace.active) == ([], False)
    x = torch.ones(2)
    with trace.enabled() as inside:
        assert inside is trace
        assert trace.active
        y = torch.add(x, 1)
        z = y.mul(2)
    assert not trace.active
    torch.add(x, 5)
    names = [command[0] for command, _ in trace.logs]
    assert names == ["torch.add", "torch.Tensor.mul"]
    (command, response), _ = trace.logs
    assert command[2][0] is x
    assert response is y
    assert z.tolist() == [4, 4]
    trace.clear()
    assert (trace.logs, trace.active) == ([], False)


def test_trace_sees_calls_on_pointers(hook, bob):
    x = torch.ones(2).send(bob)
    trace = Trace()
    with trace.enabled():
        y = x + x
    assert [command[0] for command, _ in trace.logs] == ["torch.Tensor.add"]
    assert y.get().tolist() == [2, 2]


def test_trace_ends_with_an_error(hook):
    trace = Trace()
    with pytest.raises(RuntimeError, match="size"), trace.enabled():
        torch.ones(2) + torch.ones(3)
    assert not trace.active
    torch.ones(1) + 1
    assert [command[0] for command, _ in trace.logs] == ["torch.ones", "torch.ones"]


def test_trace_records_its_own_thread_only(hook):
    trace = Trace()
    with trace.enabled():
        other = threading.Thread(target=lambda: torch.ones(1).neg())
        other.start()
        other.join()
        torch.zeros(1).abs()
    assert "torch.Tensor.neg" not in [command[0] for command, _ in trace.logs]


def test_tracer_changes_nothing():
    def function():
        return 3

    assert tracer(func_name="f")(function) is function
    assert tracer(method_name="m")(function)() == 3
