"""Each row of the table "What changed" of the migration page, run."""

from __future__ import annotations

import gc
import re

import numpy as np
import pytest
import torch
from torch import nn

import syft as sy
from syft import exceptions as e
from syft.exceptions.remote_traceback import RemoteTraceback
from syft.frameworks.torch.dp import pate
from syft.messaging.message import ObjectMessage
from syft.workers.access.policy import DenyAll
from tests.helpers.names_0_2 import PAGE
from tests.helpers.processes import end, start

CHECKS = {}


def row(start):
    """Register the check of the row whose first cell begins like this."""

    def register(check):
        CHECKS[start] = check
        return check

    return register


def rows():
    """Return the first cells of the table."""
    part = PAGE.read_text().partition("## What changed")[2].partition("## Nodes")[0]
    return [line.split(" | ")[0].removeprefix("| ") for line in part.splitlines() if line.startswith("| ")][1:]


@pytest.fixture
def parties(make_worker):
    return [make_worker(name) for name in ("alice", "bob", "carol", "dave")]


def shared(parties, values, count=2, **options):
    return torch.tensor(values).fix_prec().share(*parties[:count], crypto_provider=parties[3], **options)


@row("`torch.tensor([0.5]).share(bob, alice)`")
def sharing_floats(parties):
    with pytest.raises(e.SyftError, match="fix_precision"):
        torch.tensor([0.5]).share(*parties[:2])


@row("`x * x` on shares without `crypto_provider`")
def products_without_a_provider(parties):
    x = torch.tensor([2]).share(*parties[:2])
    with pytest.raises(e.ProtocolError, match="crypto_provider="):
        x * x


@row("`share(field=...)`")
def fields_of_shares(parties):
    with pytest.raises(e.UnsupportedOperationError, match="leave field out"):
        torch.tensor([2]).share(*parties[:2], field=67)
    assert torch.tensor([2]).share(*parties[:2], field=2**62).get().item() == 2


@row("`x / y` on shares of whole numbers")
def quotients_of_whole_numbers(parties):
    x = torch.tensor([7]).share(*parties[:2], crypto_provider=parties[3])
    with pytest.raises(e.UnsupportedOperationError, match="x // y"):
        x / 2
    assert (x // 2).get().tolist() == [3]


@row("an index or operand that was sent, `shared[i.send(bob, alice)]`")
def sent_indices(parties):
    x, i = shared(parties, [1.0, 2.0]), torch.tensor([1])
    for sent in (i.send(*parties[:2]), i.send(parties[0])):
        with pytest.raises(e.UnsupportedOperationError, match="Use the local value"):
            x[sent]
    assert x[i].get().float_prec().tolist() == [2.0]
    hidden = i.share(*parties[:2], crypto_provider=parties[3])
    assert x[hidden].get().float_prec().tolist() == [2.0]


@row("a branch on a value inside a plan")
def branches_in_plans(parties):
    with pytest.raises(e.PlanBuildError, match="torch.where"):

        @sy.func2plan(args_shape=[(1,)])
        def plan(x):
            return x if x.sum() > 0 else -x


@row("calling a plan here and at a worker")
def plans_here_and_there(parties):
    @sy.func2plan(args_shape=[(-1, 1)])
    def plan(x):
        return x / x.shape[0]

    data = torch.tensor([[2.0], [4.0]])
    assert torch.equal(plan(data), plan.send(parties[0])(data.send(parties[0])).get())


@row("results with three or more parties")
def three_parties(parties):
    for count in (2, 3):
        x = shared(parties, [1.5, -2.0], count)
        assert torch.allclose((x * x).get().float_prec(), torch.tensor([2.25, 4.0]), atol=2e-3)
        assert (x > 0).get().float_prec().tolist() == [1.0, 0.0]


@row("`x.child.field` of shared tensors")
def the_field(parties):
    x = torch.tensor([25, -3]).share(*parties[:3])
    assert x.child.field == 2**64
    total = sum(worker._objects[x.child.child[worker.id].id_at_location] for worker in parties[:3])
    assert (total % x.child.field).tolist() == [25, -3]


@row("`fix_prec(field=...)`")
def small_fields(parties):
    with pytest.raises(e.SyftError):
        torch.tensor([9.0]).fix_prec(field=7, precision_fractional=0)
    assert torch.tensor([9.0]).fix_prec(field=2**62).float_prec().item() == 9.0


@row("objects of your own on the wire")
def own_objects(parties):
    with pytest.raises(e.SerdeError, match="register"):
        sy.serialize(object())


@row("`sy.serde` tables and `_simplify`")
def simplified_forms(parties):
    serde = sy.serde.msgpack.serde
    code, *parts = serde._simplify(parties[0], slice(1, 2))
    assert code == serde.simplifiers[slice][0] and len(parts) == 3
    assert serde._detail(parties[0], (code, *parts)) == slice(1, 2)


@row("`TrainConfig(model=torch.jit.trace(...)).send(worker)` to another process")
def script_modules(parties):
    bob, config = parties[1], sy.TrainConfig(model=torch.jit.trace(nn.Linear(2, 1), torch.ones(1, 2)), loss_fn=None)
    assert config.send(bob) is not None  # it is in this process
    remote = start("t-migration-models")
    try:
        with pytest.raises(e.SerdeError, match="trusts_script_modules"):
            config.send(remote)
        model = sy.Plan(forward_func=nn.Linear(2, 1)).build(torch.ones(1, 2))
        sy.TrainConfig(model=model, loss_fn=None).send(remote)
    finally:
        end(remote)


@row("`fetch_plan` or `fetch_protocol` of an unknown id")
def unknown_plans(parties):
    with pytest.raises(e.ObjectNotFoundError):
        sy.local_worker.fetch_plan("t-unknown", parties[0])


@row("two pointers to one object")
def two_pointers(parties):
    first = torch.ones(2).send(parties[0])
    there = first.id_at_location
    second = sy.PointerTensor(location=parties[0], id_at_location=there, owner=first.owner, garbage_collect_data=True)
    del first
    gc.collect()
    assert there in parties[0]._objects
    del second
    gc.collect()
    assert there not in parties[0]._objects


@row("`pointer.clone()`")
def clones_of_pointers(parties):
    pointer = torch.ones(2).send(parties[0])
    clone = pointer.clone()
    assert clone.id == pointer.id and clone.id_at_location != pointer.id_at_location
    pointer += 1
    assert clone.get().tolist() == [1.0, 1.0] and pointer.get().tolist() == [2.0, 2.0]


@row("`x.clone()` of a plain tensor")
def clones_of_tensors(parties):
    x = torch.ones(1)
    assert x.clone().id != x.id
    encoded = x.fix_prec()
    assert encoded.clone().id == encoded.id and encoded.copy().id != encoded.id


@row("`print(x)` of a local tensor with tags")
def texts_of_local_tensors(parties):
    x = torch.tensor([1.0]).tag("#t").describe("about it")
    assert (str(x), x.tags, x.description) == ("tensor([1.])", {"#t"}, "about it")


@row("`pointer.item()`")
def numbers_of_pointers(parties):
    x = torch.tensor([3.0]).send(parties[0])
    assert x.item() == float(x) == 3
    parties[0].policy = DenyAll()
    with pytest.raises(e.GetNotPermittedError):
        x.item()


@row("a fetched pointer that is used again")
def spent_pointers(parties):
    pointer = torch.ones(1).send(parties[0])
    pointer.get()
    with pytest.raises(e.SpentPointerError, match="fetched"):
        pointer.get()


@row("`x.move(bob)` where x is at bob already")
def moves_to_the_same_worker(parties):
    pointer = torch.ones(1).send(parties[0])
    assert pointer.move(parties[0]).get().tolist() == [1.0]


@row("`x.private = True`")
def private_tensors(parties):
    x = torch.tensor([1.0, 2.0])
    x.private = True
    pointer = x.send(parties[0])
    with pytest.raises(e.GetNotPermittedError):
        pointer.get()
    assert pointer.sum().get().item() == 3.0


@row("`x.share(..., requires_grad=True)`")
def the_autograd_link(parties):
    x = shared(parties, [1.0, 2.0], requires_grad=True)
    assert isinstance(x.child, sy.AutogradTensor)
    (x * x).backward()
    assert x.grad.get().float_prec().tolist() == [2.0, 4.0]
    whole = torch.tensor([1]).share(*parties[:2], crypto_provider=parties[3], requires_grad=True)
    assert isinstance(whole.child, sy.AutogradTensor)
    with pytest.raises(e.SyftError, match="fix_precision"):
        whole.backward()


@row("`sigmoid(method=...)`, `exp(iterations=...)` and similar options")
def approximations(parties):
    x = shared(parties, [0.5, -0.5])
    expected = torch.sigmoid(torch.tensor([0.5, -0.5]))
    assert torch.allclose(x.sigmoid(method="maclaurin").get().float_prec(), expected, atol=5e-3)
    with pytest.raises(e.SyftError, match="positive number of iterations"):
        x.exp(iterations="many")


@row("`p.grad` of a sent module that has no gradient")
def zero_gradients(parties):
    model = nn.Linear(2, 1).send(parties[0])
    assert model.weight.grad.copy().get().tolist() == [[0.0, 0.0]]


@row("`backward()` through a prediction made before `model.send(bob)`")
def old_predictions(parties):
    model = nn.Linear(2, 1)
    prediction = model(torch.ones(1, 2)).sum()
    model.send(parties[0])
    with pytest.raises(e.SyftError, match="Compute the prediction and the loss again"):
        prediction.backward()


@row("`backward()` on a result of a tensor or model that was fetched or moved since")
def results_of_fetched_models(parties):
    model = nn.Linear(2, 1).send(parties[0])
    loss = model(torch.ones(1, 2).send(parties[0])).sum()
    copied = model.copy().get()
    model.get()
    with pytest.raises(e.UnsupportedOperationError, match="would get no gradient"):
        loss.backward()
    assert torch.equal(copied.weight, model.weight)


@row("a pointer that `move(worker, requires_grad=True)` returned")
def moved_pointers(parties):
    x = torch.tensor([3.0]).send(parties[0])
    moved = x.move(parties[1], requires_grad=True)
    with pytest.raises(e.UnsupportedOperationError, match="serialize"):
        sy.serialize(moved)
    moved.send(parties[2]).pow(2).backward()
    assert x.grad.copy().get().tolist() == [6.0]


@row("Paillier operands that require a gradient")
def paillier_gradients(parties):
    public, _ = sy.keygen(n_length=256)
    x = torch.tensor([2.0], requires_grad=True)
    for wrong in (lambda: x.encrypt(public), lambda: x * x.detach().encrypt(public)):
        with pytest.raises(e.UnsupportedOperationError, match="detach"):
            wrong()


@row("products of Paillier ciphertexts")
def paillier_products(parties):
    public, _ = sy.keygen(n_length=256)
    x = torch.tensor([2]).encrypt(public)
    with pytest.raises(e.UnsupportedOperationError, match="Paillier"):
        x * x


@row("Paillier exponents")
def paillier_scales(parties):
    public, _ = sy.keygen(n_length=512)
    small, large = (torch.tensor([number]).encrypt(public) for number in (0.001, 1000.0))
    assert small.child.child.scale == large.child.child.scale and small.child.child.bound == large.child.child.bound


@row("products and comparisons of shared LargePrecisionTensors")
def shared_large_numbers(parties):
    x = torch.tensor([1.5]).fix_prec(storage="large", precision_fractional=3)
    held = x.share(*parties[:2], crypto_provider=parties[3])
    assert (held + held).get().float_prec().item() == 3.0
    for wrong in (lambda: held * held, lambda: held > held):
        with pytest.raises(e.UnsupportedOperationError):
            wrong()


@row("division of CRTPrecisionTensors")
def crt_division(parties):
    x = torch.tensor([4]).fix_prec(storage="crt")
    with pytest.raises(NotImplementedError):
        x / 2


@row("a value that does not fit its encoding")
def values_that_do_not_fit(parties):
    with pytest.raises(e.SyftError):
        torch.tensor([1e30]).fix_prec(storage="crt", field_type="int64")


@row("losses of `evaluate`")
def losses_of_evaluate(parties):
    worker = parties[0]
    data, target = torch.randn(10, 2), torch.randint(0, 2, (10,))
    worker.add_dataset(sy.BaseDataset(data, target), key="page")
    model = nn.Linear(2, 2)
    loss = sy.Plan(forward_func=lambda pred, target: nn.functional.cross_entropy(pred, target))
    settings = sy.TrainConfig(
        model=sy.Plan(forward_func=model).build(data[:2]),
        loss_fn=loss.build(model(data[:2]).detach(), target[:2]),
        batch_size=4,
    )
    settings.send(worker)
    found = worker.evaluate("page")["loss"]
    assert found == pytest.approx(nn.functional.cross_entropy(model(data), target).item(), rel=1e-4)


@row("`FederatedDataLoader(num_iterators=k)`")
def loaders(parties):
    dataset = sy.BaseDataset(torch.arange(12.0), torch.arange(12)).federate(tuple(parties[:3]))
    loader = sy.FederatedDataLoader(dataset, batch_size=2, num_iterators=2)
    assert [len(step) for step in loader] == [2] * 6


@row("`pate.perform_analysis_torch`")
def pate_tensors(parties):
    votes, indices = np.zeros((10, 4), dtype=int), np.zeros(4, dtype=int)
    exact = pate.perform_analysis(votes, indices, noise_eps=0.1, delta=1e-5, moments=8)
    rounded = pate.perform_analysis_torch(
        torch.from_numpy(votes), torch.from_numpy(indices), noise_eps=0.1, delta=1e-5, moments=8
    )
    assert all(t.dtype is torch.float32 and t.dim() == 0 for t in rounded)
    assert all(float(t) >= number for t, number in zip(rounded, exact, strict=True))


@row("`worker.recv_msg(bytes)`")
def messages_as_bytes(parties):
    x = torch.ones(2)
    parties[0].recv_msg(sy.serde.serialize(ObjectMessage(x)))
    assert parties[0].get_obj(x.id).tolist() == [1.0, 1.0]


@row("`worker._objects` of a worker in another process")
def objects_elsewhere(parties):
    worker = start("page-process")
    try:
        pointer = torch.ones(1).tag("#page").send(worker)
        (found,) = worker._objects.values()
        assert found.location is worker and found.id_at_location == pointer.id_at_location
    finally:
        end(worker)


@row("`repr(pointer)`")
def short_ids(parties):
    pointer = torch.ones(1).send(parties[0])
    shown = re.search(rf"-> {parties[0].id}:(\d+)\]", repr(pointer))[1]
    assert len(shown) == 11 and str(pointer.id_at_location).startswith(shown)
    assert parties[0].search([shown])[0].id_at_location == pointer.id_at_location


@row("a tensor of another user under the same id")
def taken_ids(parties):
    first = torch.tensor([1.0], id=4242).send(parties[0])
    second = torch.tensor([2.0], id=4242).send(parties[0])
    assert first.id_at_location == 4242 != second.id_at_location
    assert (first.get().item(), second.get().item()) == (1.0, 2.0)


@row("`sy.torch`")
def the_framework(parties):
    assert sy.torch == torch and sy.torch.Tensor is torch.Tensor and sy.torch.hook is sy.framework.hook
    assert not hasattr(torch, "hook")


@row("the remote traceback of an error")
def remote_tracebacks(hook, make_worker):
    worker = make_worker("traceback", "bytes")
    x = torch.ones(2).send(worker)
    with pytest.raises(e.ObjectNotFoundError) as caught:
        pointer = x.copy()
        worker.rm_obj(pointer.id_at_location)
        pointer.get()
    assert isinstance(caught.value.__cause__, RemoteTraceback) and "Traceback" in str(caught.value.__cause__)
    assert "Traceback" not in str(caught.value)


@row("`String.format` at a worker")
def formats(parties):
    assert not hasattr(sy.String("a{}").send(parties[0]), "format")


@row("`method2plan`")
def methods(parties):
    with pytest.raises(SyntaxError, match="sy.Plan"):
        sy.method2plan(None)


@row("`KerasHook`, `TFECluster`, `TFEWorker`")
def keras(parties):
    for name in ("KerasHook", "TFECluster", "TFEWorker"):
        with pytest.raises(AttributeError, match="not supported"):
            getattr(sy, name)


@row("`NetworkMonitor`")
def monitors(parties):
    with pytest.raises(AttributeError, match="count_messages"):
        _ = sy.NetworkMonitor


def test_t14_every_row_has_a_check():
    assert rows() == list(CHECKS)


@pytest.mark.parametrize("start", CHECKS)
def test_t14_row_of_the_page(start, request):
    check = CHECKS[start]
    names = check.__code__.co_varnames[: check.__code__.co_argcount]
    check(*(request.getfixturevalue(name) for name in names))
