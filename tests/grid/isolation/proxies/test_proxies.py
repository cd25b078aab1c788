"""Calls on proxies agree with torch, for every sample of every call that workers run."""

from __future__ import annotations

import contextlib

import pytest
import torch

import syft as sy
from syft.core.references import ObjectMeta, Ref, SameAs, TensorMeta
from syft.core.trees import iter_tensors, map_tensors
from syft.exceptions import CommandNotAllowedError, GetNotPermittedError
from syft.federated.client.stored_dataset import StoredDataset
from syft.grid.isolation.proxies import calls as proxies_module
from syft.grid.isolation.proxies.calls import attribute, call_on_proxies
from syft.grid.isolation.proxies.objects import Proxy, describe, proxy_of, walk
from syft.messaging.message import Operation
from syft.pointers.object_wrapper import ObjectWrapper
from syft.pointers.pointer_plan import RUN_PLAN
from syft.workers.access.tensor_spec import leaves_of
from syft.workers.execution.results import meta_of
from tests.helpers.depth import deep
from tests.helpers.proxy_worker import look
from tests.helpers.remote.sample import replaced, tensors
from tests.helpers.remote.samples import allowed, samples
from tests.remote.test_foresight import KINDS

# Calls whose results are values, or have shapes that depend on values. All others are predicted for some sample.
BY_VALUES = set(
    "__bool__ __complex__ __contains__ __float__ __index__ __int__ __long__ __nonzero__ allclose argwhere bincount "
    "equal is_nonzero item masked_select nonzero numpy tensor_split tolist unique unique_consecutive lstsq lobpcg one_hot".split()
)
# Properties of memory.
HIDDEN = {"is_set_to", "output_nr.__get__", "storage_offset", "_version.__get__"}
# Torch's fake tensors lay these out in another way than torch does, or not at all.
LAID_OUT = {"torch.nn.functional.unfold"}
FAKES_FAIL = {"torch.nn.functional.native_channel_shuffle"}

# Only CPU tensors draw here, and torch.manual_seed spends more time on other devices than the average call takes.
seed = torch.default_generator.manual_seed


@pytest.fixture(scope="module", autouse=True)
def remembering():
    """Remember all calls: several tests make the same ones, and all samples of one are more than are remembered."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(proxies_module, "_MAX_REMEMBERED", 1 << 30)
        yield


def operation(name, args, kwargs, grad_enabled=True):
    """The call as a client would send it, with references in place of all tensors."""
    sent = map_tensors(lambda leaf: Ref(id(leaf)), (args, kwargs))
    return Operation(name, None, *sent, (1,), grad_enabled)


def call(name, *args, grad_enabled=True, **kwargs):
    """Run a call on proxies whose tensors are all at the worker."""
    return call_on_proxies(operation(name, args, kwargs, grad_enabled), args, kwargs)


def flat(value):
    """The proxies and arguments in a result."""
    if isinstance(value, Proxy | SameAs):
        return [value]
    if isinstance(value, dict):
        return [leaf for item in value.values() for leaf in flat(item)]
    if isinstance(value, list | tuple) and not isinstance(value, torch.Size):
        return [leaf for item in value for leaf in flat(item)]
    return []


def arguments(sample, change):
    """The arguments of a sample with copies of its tensors, changed if they can have gradients."""

    def made(tensor):
        tensor = tensor.detach().clone()
        if tensor.layout is not torch.strided or not (tensor.is_floating_point() or tensor.is_complex()):
            return tensor
        return change(tensor.requires_grad_() if sample.needs_grad else tensor)

    return replaced(sample, made)


def check_result(name, kind, found, result, proxies):
    """Compare the result of a call on proxies with the real one."""
    expected = [*iter_tensors(result)]
    parts = flat(found.result)
    assert len(parts) == len(expected), name
    if not expected:
        assert found.result == result, name
    for part, tensor in zip(parts, expected, strict=True):
        if isinstance(part, SameAs):
            assert part.meta == TensorMeta.of(tensor), name
        elif any(part is proxy for proxy in proxies.values()):
            assert proxies[id(tensor)] is part, name
        else:
            assert look(part) == look(tensor), name
            assert describe(part) == TensorMeta.of(tensor), name
            if name not in LAID_OUT and not kind.startswith("turned"):
                assert part.spec.strides == tensor.stride(), name
            if kind in ("plain", "leaves"):
                reached = {id(leaf) for leaf in leaves_of([tensor])} if tensor.requires_grad else set()
                leaves = walk([part])[0]
                assert {one for one, proxy in proxies.items() if proxy in leaves} == reached & proxies.keys(), name


def compare(name, function, sample, kind):
    """Run a sample on tensors and on their proxies; returns whether there was something to compare."""
    args, kwargs = arguments(sample, KINDS[kind])
    given = tensors((args, kwargs))
    proxies = {id(tensor): proxy_of(tensor) for tensor in given}
    try:
        found = call_on_proxies(
            operation(name, args, kwargs), *map_tensors(lambda tensor: proxies[id(tensor)], (args, kwargs))
        )
    except GetNotPermittedError:
        return False
    except Exception as mistake:
        if name not in FAKES_FAIL:
            with pytest.raises(type(mistake)):
                function(*args, **kwargs)
        return False
    try:
        seed(0)
        result = function(*args, **kwargs)
    except Exception:  # it fails in the vault, which says so when something is released
        return False
    assert not found.moves
    if isinstance(found.result, SameAs):
        assert (*args, *kwargs.values())[found.result.position] is result, name
    check_result(name, kind, found, result, proxies)
    for tensor in given:
        assert look(proxies[id(tensor)]) == look(tensor), name
    return True


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("kind", KINDS)
def test_proxies_of_results_look_like_results(kind):
    """All samples as they are and as results of calls; of the other kinds, one sample a call unless it is a deep run."""
    most = None if kind in ("plain", "results") else deep(1, None)
    compared = {
        name: sum([compare(name, function, sample, kind) for sample in samples()[name][:most]])
        for name, function in allowed().items()
    }
    assert sum(compared.values()) > (2500 if most is None else 700)
    if kind == "plain":
        missing = {name for name, count in compared.items() if not count and samples()[name]}
        last = {name.removeprefix("torch.").removeprefix("Tensor.").rpartition(".")[2] for name in missing}
        assert not last - BY_VALUES - {one.partition(".")[0] for one in HIDDEN} - {"__get__", "backward"}


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("requires_grad", [False, True])
def test_exactly_written_or_connected_tensors_move(requires_grad):
    """All tensors of a call are the user's own: those that would not be the same if only copies were given move."""
    compared = 0
    for name, function in allowed().items():
        if name.endswith(".__set__") or name == "torch.Tensor.requires_grad_":
            continue
        for sample in samples()[name]:
            args, kwargs = arguments(sample, lambda tensor: tensor.requires_grad_(requires_grad))
            given = tensors((args, kwargs))
            before = [(tensor._version, tensor.detach().clone(), tensor.grad) for tensor in given]
            found = result = None
            with contextlib.suppress(Exception):
                found = call_on_proxies(operation(name, args, kwargs), args, kwargs)
                seed(0)
                result = function(*args, **kwargs)
            if found is None or result is None:
                continue
            moved = {id(move.obj) for move in found.moves}
            results = [tensor for tensor in iter_tensors(result) if not any(tensor is one for one in given)]
            reached = {id(leaf) for tensor in results if tensor.requires_grad for leaf in leaves_of([tensor])}
            for tensor, (version, values, grad) in zip(given, before, strict=True):
                changed = tensor._version != version or tensor.grad is not grad or not same(tensor, values)
                if changed or id(tensor) in reached:
                    assert id(tensor) in moved, name
                # Statistics may be written with the values they had.
                elif not name.endswith("batch_norm"):
                    assert id(tensor) not in moved or not isinstance(result, torch.Tensor), name
            compared += 1
    assert compared > 3000


def same(tensor, values):
    if tensor.layout is not torch.strided or tensor.shape != values.shape:
        return tensor.shape == values.shape
    return torch.equal(tensor.detach().nan_to_num(), values.nan_to_num())


@pytest.mark.parametrize(
    "name", ["item", "tolist", "__bool__", "__float__", "numpy", "nonzero", "unique", "argwhere", "__repr__"]
)
def test_results_that_depend_on_values_are_refused(name):
    with pytest.raises((GetNotPermittedError, CommandNotAllowedError)):
        call(f"torch.Tensor.{name}", proxy_of(torch.ones(())))


def test_refusals_say_what_to_do():
    with pytest.raises(GetNotPermittedError, match="request"):
        call("torch.Tensor.item", proxy_of(torch.ones(())))
    with pytest.raises(GetNotPermittedError, match=r"torch\.where"):
        call("torch.Tensor.__getitem__", proxy_of(torch.ones(3)), proxy_of(torch.ones(3) > 0))
    with pytest.raises(GetNotPermittedError, match="plan"):
        call("syft.call", proxy_of(ObjectWrapper(len, id=1)), proxy_of(torch.ones(3)))
    with pytest.raises(GetNotPermittedError, match="dense"):
        call("torch.Tensor.add", proxy_of(torch.ones(3).to_sparse()), 1)


def test_results_may_depend_on_own_values():
    x = proxy_of(torch.randn(4, 3))
    mask = torch.tensor([True, False, True, True])
    assert call("torch.Tensor.__getitem__", x, mask).result.shape == (3, 3)
    assert call("torch.Tensor.__getitem__", x, (slice(None), mask[:3])).result.shape == (4, 2)
    assert call("torch.Tensor.masked_select", x, torch.ones(4, 3) > 0).result.shape == (12,)
    assert call("torch.Tensor.repeat_interleave", x, torch.tensor([1, 2, 0, 3]), dim=0).result.shape == (6, 3)
    assert [part.shape for part in call("torch.Tensor.tensor_split", x, torch.tensor([1, 2])).result] == [
        (1, 3),
        (1, 3),
        (2, 3),
    ]


def test_errors_have_the_types_of_torch():
    x = proxy_of(torch.randn(4, 3))
    with pytest.raises(RuntimeError):
        call("torch.Tensor.matmul", x, x)
    with pytest.raises(IndexError):
        call("torch.Tensor.sum", x, 5)
    with pytest.raises(TypeError):
        call("torch.Tensor.add", x, "one")
    with pytest.raises(CommandNotAllowedError):
        call("torch.save", x)


def test_bytes_count_new_memory():
    x = proxy_of(torch.randn(4, 3, requires_grad=True))
    assert call("torch.Tensor.repeat", x, 10, 1).bytes == 4 * 3 * 10 * 4
    assert call("torch.Tensor.view", x, 12).bytes == 0
    assert call("torch.Tensor.expand", x, 1000, 4, 3).bytes == 0
    assert call("torch.Tensor.double", x).bytes == 4 * 3 * 8
    loss = call("torch.Tensor.sum", x).result
    assert call("torch.Tensor.backward", loss).bytes == 4 * 3 * 4
    assert call("torch.Tensor.backward", loss).bytes == 0
    assert call("torch.Tensor.expand", proxy_of(torch.ones(1)), 2**40).result.shape == (2**40,)
    assert call("torch.Tensor.repeat", proxy_of(torch.ones(1)), 2**40).bytes == 4 * 2**40


def test_calls_without_effect_need_not_run():
    x = proxy_of(torch.randn(4, 3))
    assert not call("torch.Tensor.dim", x).has_effect
    assert not call("torch.Tensor.float", x).has_effect
    assert call("torch.Tensor.double", x).has_effect
    assert call("torch.Tensor.add_", x, 1).has_effect
    own = torch.ones(3)
    found = call("torch.Tensor.type_as", own, x)
    assert found.result == SameAs(0, TensorMeta.of(own))
    assert not found.has_effect


def test_attributes_of_proxies():
    x = proxy_of(torch.randn(4, 3, requires_grad=True))
    assert attribute(x, "grad") is None
    call("torch.Tensor.backward", call("torch.Tensor.sum", x).result)
    assert attribute(x, "grad") is attribute(x, "grad") is x.grad
    assert attribute(x, "grad.T").shape == (3, 4)
    assert attribute(x, "data").requires_grad is False
    assert attribute(x, "mT").requires_grad is True
    assert attribute(proxy_of(torch.ones(2, dtype=torch.complex64)), "imag").dtype is torch.float32
    with pytest.raises(CommandNotAllowedError):
        attribute(x, "grad_fn")
    with pytest.raises(CommandNotAllowedError):
        attribute(proxy_of(torch.ones(2)), "grad.T")


def test_proxies_are_described_like_their_objects():
    objects = (
        torch.ones(2, 3, requires_grad=True),
        torch.ones(2).to_sparse(),
        StoredDataset(torch.ones(3, 2), torch.ones(3)),
        ObjectWrapper(len, id=1),
    )
    for obj in objects:
        assert describe(proxy_of(obj)) == meta_of(obj)
    assert describe(proxy_of(objects[2])) == ObjectMeta("dataset")
    assert proxy_of(objects[2]).data.shape == (3, 2)


def test_tags_stay_with_the_proxy():
    x = proxy_of(torch.ones(2))
    call("syft.tag", x, "a", "b")
    call("syft.describe", x, "ones")
    assert (x.tags, x.description) == ({"a", "b"}, "ones")
    assert proxy_of(torch.ones(2)).tags == set()


def test_a_plan_that_trains_moves_with_its_parameters(hook):
    """Its backward pass adds to the gradients of its parameters: the result is detached, and nothing else changes."""
    model = torch.nn.Linear(2, 1)

    def gradients(x):
        loss = model(x).sum()
        loss.backward()
        return loss.detach()

    plan = sy.Plan(name="gradients", forward_func=gradients).build(torch.ones(3, 2))
    for parameter in model.parameters():
        parameter.grad = torch.zeros_like(parameter)
    found = call(RUN_PLAN, plan, proxy_of(torch.ones(3, 2)))
    assert [move.reason for move in found.moves if move.obj is plan] == ["syft.run_plan writes to it"]
