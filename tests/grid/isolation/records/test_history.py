"""Slices of a history: they replay to the same bytes, leave out unrelated calls, and read as Python."""

import contextlib
import dataclasses
import random
import warnings

import pytest
import torch

import syft as sy
from syft.core.id_provider import create_random_id
from syft.core.labels import add_tags
from syft.core.references import Ref
from syft.exceptions import ObjectNotFoundError, SyftError
from syft.grid.isolation.records.call_codec import write_call, write_put
from syft.grid.isolation.records.history import VaultHistory
from syft.grid.isolation.records.listing import code_of
from syft.grid.isolation.records.record_reader import read_record
from syft.grid.isolation.records.records import CallRecord, DeleteRecord, LoadRecord, PutRecord, encode
from syft.grid.isolation.records.replay import Runner, describe_plan, replay, seal
from syft.messaging.message import Operation
from syft.serde import deserialize
from syft.workers.virtual import VirtualWorker

PATIENTS = create_random_id()
WEATHER = create_random_id()


def _data():
    generator = torch.Generator().manual_seed(1)
    return {
        PATIENTS: torch.randn(6, 3, generator=generator),
        WEATHER: torch.randn(6, 2, generator=generator),
    }


class Vault:
    """A plain worker in place of a vault, and its history at the supervisor."""

    def __init__(self, hook=None, **limits):
        self.history = VaultHistory(**limits)
        self.data = _data()
        self.runner = Runner(VirtualWorker(None, id="vault", auto_add=False), self.data)
        self.failed = set()

    def take(self, record):
        written = encode(record)
        record = read_record(written)
        number = self.history.append(record, len(written))
        try:
            self.runner.run(record)
        except Exception:
            self.failed.add(number)

    def load(self, obj_id, name):
        tensor = self.data[obj_id]
        self.take(LoadRecord(obj_id, name, f"float32 {tuple(tensor.shape)}", len(tensor)))
        return Ref(obj_id)

    def put(self, obj):
        obj_id = create_random_id()
        self.take(write_put(obj_id, obj))
        return Ref(obj_id)

    def call(self, name, *args, grad=True, **kwargs):
        base = create_random_id()
        self.take(write_call(Operation(name, None, args, kwargs, (base,), grad)))
        return Ref(base)

    def delete(self, *refs):
        self.take(DeleteRecord(tuple(ref.id for ref in refs)))

    def slice(self, ref):
        return self.history.snapshot().slice(ref.id)

    def check(self, ref):
        """The slice replays to the bytes of the object in the vault; where a call failed, only if that is passed over."""
        part, expected = self.slice(ref), seal(self.runner.get(ref.id))
        again = Runner(VirtualWorker(None, id="again", auto_add=False), self.data)
        for record in part.records:
            with contextlib.suppress(Exception):
                again.run(record)
        assert seal(again.get(ref.id)) == expected
        if self.failed.isdisjoint(part.numbers):
            assert replay(part.records, [ref.id], self.data) == expected
        return part


@pytest.fixture
def vault():
    return Vault()


def _run(code, **given):
    space = {"torch": torch, **given}
    exec(compile(code, "<slice>", "exec"), space)
    return space["result"]


# --- contents of a slice -------------------------------------------------------------------------------------------


def test_a_slice_leaves_out_unrelated_calls(vault):
    patients, weather = vault.load(PATIENTS, "patients"), vault.load(WEATHER, "weather")
    other = vault.call("torch.Tensor.sum", weather)
    vault.call("torch.Tensor.mul_", other, 3)
    mean = vault.call("torch.Tensor.mean", patients, dim=0)
    centred = vault.call("torch.Tensor.sub", patients, mean)
    part = vault.check(mean)
    assert [call.name for call in part.calls] == ["torch.Tensor.mean"]
    assert part.others == 3
    assert [(load.name, load.rows) for load in part.datasets] == [("patients", 6)]
    assert not part.reasons
    assert code_of(vault.check(centred), {}).splitlines() == [
        "# patients: data set 'patients', float32 (6, 3), 6 rows",
        "x1 = patients.mean(dim=0)",
        "x2 = patients - x1",
        "result = x2",
    ]


def test_a_hidden_row_shows(vault):
    patients, weather = vault.load(PATIENTS, "#patients"), vault.load(WEATHER, "#weather")
    picked = vault.call("torch.Tensor.__getitem__", patients, (4, slice(None, 2)))
    nothing = vault.call("torch.Tensor.mul", vault.call("torch.Tensor.sum", patients), 0)
    mean = vault.call("torch.Tensor.add", vault.call("torch.Tensor.mean", weather), nothing)
    assert "patients[4, :2]" in code_of(vault.check(picked), {})
    part = vault.check(mean)
    assert {load.name for load in part.datasets} == {"#patients", "#weather"}


def test_writes_through_views_belong_to_the_slice(vault):
    patients = vault.load(PATIENTS, "patients")
    box = vault.call("torch.zeros", 6, 3)
    view = vault.call("torch.Tensor.view_as", box, patients)
    turned = vault.call("torch.Tensor.t", view)
    vault.call("torch.Tensor.add_", view, patients)
    vault.call("torch.Tensor.mul_", turned, 2)
    part = vault.check(box)
    assert [load.name for load in part.datasets] == ["patients"]
    assert "add_" in code_of(part, {})
    assert "mul_" in code_of(part, {})


@pytest.mark.parametrize("how", ["torch.Tensor.set_", "torch.Tensor.data.__set__", "torch.Tensor.grad.__set__"])
def test_shared_memory_by_assignment_belongs_to_the_slice(vault, how):
    patients = vault.load(PATIENTS, "patients")
    box = vault.call("torch.zeros", 6, 3)
    source = vault.call("torch.Tensor.clone", patients)
    vault.call(how, box, source)
    vault.call("torch.Tensor.mul_", source, 5)
    target = vault.call("torch.Tensor.grad.__get__", box) if "grad" in how else box
    part = vault.check(target)
    assert part.datasets
    assert "mul_" in code_of(part, {})


def test_writes_after_the_object_was_computed_are_left_out(vault):
    patients = vault.load(PATIENTS, "patients")
    mean = vault.call("torch.Tensor.mean", patients)
    vault.call("torch.Tensor.zero_", patients)
    assert len(vault.check(mean).calls) == 1
    assert len(vault.check(patients).calls) == 1


def test_training_by_calls_belongs_to_the_slice_through_gradients(vault):
    patients = vault.load(PATIENTS, "patients")
    weight = vault.put(torch.nn.Parameter(torch.ones(1, 3)))
    apart = vault.put(torch.nn.Parameter(torch.ones(1, 3)))
    for _ in range(3):
        for model in (weight, apart):
            out = vault.call("torch.nn.functional.linear", patients, model)
            loss = vault.call("torch.Tensor.mean", vault.call("torch.Tensor.mul", out, out))
            vault.call("torch.Tensor.backward", loss)
            step = vault.call("torch.Tensor.mul", Ref(model.id, "grad"), 0.1, grad=False)
            vault.call("torch.Tensor.sub_", model, step, grad=False)
            vault.call("torch.Tensor.zero_", Ref(model.id, "grad"), grad=False)
    part = vault.check(weight)
    assert len(part.calls) == 21
    assert part.others == 21
    assert "with torch.no_grad():" in code_of(part, {})
    assert ".backward()" in code_of(part, {})


def test_values_that_autograd_saved_belong_to_the_slice(vault):
    patients = vault.load(PATIENTS, "patients")
    weight = vault.put(torch.nn.Parameter(torch.ones(3)))
    loss = vault.call("torch.Tensor.sum", vault.call("torch.Tensor.mul", patients, weight))
    vault.call("torch.Tensor.mul_", Ref(patients.id, "data"), 7)
    vault.call("torch.Tensor.backward", loss)
    grad = vault.call("torch.Tensor.clone", Ref(weight.id, "grad"))
    assert "patients.data.mul_(7)" in code_of(vault.check(grad), {})


def test_batch_norm_statistics_belong_to_the_slice(vault):
    patients = vault.load(PATIENTS, "patients")
    mean, var = vault.put(torch.zeros(3)), vault.put(torch.ones(3))
    vault.call("torch.nn.functional.batch_norm", patients, mean, var, None, None, True)
    part = vault.check(mean)
    assert [load.name for load in part.datasets] == ["patients"]


def test_several_results_are_named(vault):
    patients = vault.load(PATIENTS, "patients")
    top = vault.call("torch.Tensor.topk", patients, 2)
    indices = Ref(top.id + 1)
    total = vault.call("torch.Tensor.sum", indices)
    only = vault.call("torch.Tensor.max", patients, dim=0)
    assert "_, x1, *_ = patients.topk(2)" in code_of(vault.check(total), {})
    assert "x1, *_ = patients.max(dim=0)" in code_of(vault.check(only), {})
    assert vault.check(indices)


def test_ids_that_are_used_again(vault):
    patients = vault.load(PATIENTS, "patients")
    first = vault.call("torch.Tensor.sum", patients)
    double = vault.call("torch.Tensor.mul", first, 2)
    vault.delete(first)
    vault.take(write_call(Operation("torch.Tensor.mean", None, (patients,), {}, (first.id,))))
    both = vault.call("torch.Tensor.add", double, first)
    vault.check(both)
    vault.check(double)


def test_a_used_id_does_not_hide_its_object(vault):
    patients, weather = vault.load(PATIENTS, "patients"), vault.load(WEATHER, "weather")
    rows = vault.call("torch.Tensor.unbind", patients)
    second = Ref(rows.id + 1)
    # It fails in the vault, since the id is in use.
    vault.take(write_call(Operation("torch.Tensor.sum", None, (weather,), {}, (second.id,))))
    assert "patients" in {load.name for load in vault.slice(second).datasets}
    assert not vault.failed.isdisjoint(vault.check(second).numbers)
    with pytest.raises(SyftError, match="fails when it is run again: IdNotUniqueError"):
        replay(vault.slice(second).records, [second.id], vault.data)


def test_a_slice_with_a_failed_call_is_not_verified(vault):
    """The code contains the call, but the object is unchanged."""
    patients = vault.load(PATIENTS, "patients")
    vault.call("torch.Tensor.copy_", patients, vault.put(torch.ones(5, 5)))
    total = vault.call("torch.Tensor.sum", patients)
    assert not vault.failed.isdisjoint(vault.check(total).numbers)
    with pytest.raises(SyftError, match="fails when it is run again"):
        replay(vault.slice(total).records, [total.id], vault.data)


def test_unknown_objects(vault):
    with pytest.raises(ObjectNotFoundError):
        vault.slice(Ref(3))


# --- reasons ------------------------------------------------------------------------------------------------------


def test_random_calls_are_not_reproducible(vault):
    patients = vault.load(PATIENTS, "patients")
    dropped = vault.call("torch.nn.functional.dropout", patients)
    assert vault.slice(dropped).reasons == ("random numbers are drawn by torch.nn.functional.dropout",)
    assert not vault.slice(vault.call("torch.nn.functional.dropout", patients, training=False)).reasons


def test_calls_of_unknown_effect_are_not_reproducible(vault):
    patients = vault.load(PATIENTS, "patients")
    model = vault.put(torch.ones(3))
    vault.call("syft.fit", model, patients)
    part = vault.slice(model)
    assert part.reasons == ("the effect is unknown of syft.fit",)
    assert "patients" in {load.name for load in part.datasets}


def test_dropped_blobs_are_not_reproducible():
    vault = Vault(max_blob_bytes=5000)
    small = vault.put(torch.ones(3))
    large = vault.put(torch.rand(3000))
    assert not vault.slice(small).reasons
    part = vault.slice(large)
    assert part.reasons == ("1 large argument is no longer kept",)
    assert "no longer kept" in code_of(part, {})
    assert vault.history.blob_bytes < 5000


def test_old_records_are_dropped():
    vault = Vault(max_records=5)
    patients = vault.load(PATIENTS, "patients")
    for _ in range(6):
        last = vault.call("torch.Tensor.sum", patients)
    part = vault.slice(last)
    assert part.reasons == ("earlier calls are no longer kept",)
    assert part.others == 5
    assert "unknown_1: an object of unknown origin" in code_of(part, {})


# --- plans --------------------------------------------------------------------------------------------------------


def _plan():
    @sy.func2plan(args_shape=[(6, 3)], state=(torch.ones(3),))
    def scaled(x, state):
        (weight,) = state.read()
        return (x * weight).mean(dim=0)

    return scaled


def test_plans_are_shown_by_the_hash_of_their_bytes(vault):
    patients = vault.load(PATIENTS, "patients")
    plan = vault.put(_plan())
    result = vault.call("syft.run_plan", plan, patients)
    part = vault.check(result)
    (digest,) = part.plan_blobs()
    described = describe_plan(next(r.blob.data for r in part.records if type(r) is PutRecord))
    assert described["inputs"] == 1
    assert described["operations"] == 2
    assert not described["alters"]
    assert not described["draws"]
    assert describe_plan(seal(_altering_plan()))["alters"]
    assert "mean" in described["code"]
    code = code_of(part, {digest: described["code"]})
    assert f"x1 = plan_{digest[:8]}(patients)" in code
    assert code.endswith(described["code"])


def test_plans_may_change_their_arguments_unless_known_to_be_non_mutating(vault):
    patients = vault.load(PATIENTS, "patients")
    plan = vault.put(_plan())
    vault.call("syft.run_plan", plan, patients)
    total = vault.call("torch.Tensor.sum", patients)
    part = vault.check(total)
    assert len(part.calls) == 2
    vault.history.non_mutating_plans.add(next(iter(part.plan_blobs())))
    assert len(vault.check(total).calls) == 1


def test_a_plan_that_trains_belongs_to_the_slice(vault):
    model = torch.nn.Linear(3, 1)

    @sy.func2plan(args_shape=[(6, 3)], state=tuple(model.parameters()))
    def learn(x, state):
        weight, bias = state.read()
        loss = torch.nn.functional.linear(x, weight, bias).pow(2).mean()
        loss.backward()
        return loss

    patients = vault.load(PATIENTS, "patients")
    plan = vault.put(learn)
    vault.call("syft.run_plan", plan, patients)
    parameters = vault.call("syft.plan_parameters", plan)
    grad = vault.call("torch.Tensor.clone", Ref(parameters.id, "grad"))
    assert "syft.run_plan" in [call.name for call in vault.check(grad).calls]
    assert vault.check(plan)


# --- the code -----------------------------------------------------------------------------------------------------


def test_code_is_printable_and_bounded(vault):
    vault.take(LoadRecord(PATIENTS, "\x1b[2Jpa\ntients; import os", "x\ny", 6))
    patients = Ref(PATIENTS)
    for _ in range(600):
        patients = vault.call("torch.Tensor.add", patients, 1)
    tagged = vault.call("syft.tag", patients, "\u202e\x1b evil\n" * 50)
    code = code_of(vault.slice(patients), {})
    assert tagged
    assert code.isascii()
    assert all(line.isprintable() for line in code.split("\n"))
    assert code.count("\n") < 1000
    assert "more lines" in code
    compile(code, "<slice>", "exec")


@pytest.mark.parametrize("name", ["torch", "list", "x1", "import", "9 lives", "", "ü", "result"])
def test_names_of_data_sets_never_shadow_anything(vault, name):
    data = vault.load(PATIENTS, name)
    total = vault.call("torch.Tensor.__rpow__", vault.call("torch.Tensor.abs", data), -1.5)
    rows = vault.call("torch.cat", [total, data])
    code = code_of(vault.check(rows), {})
    called = code.split(":")[0].removeprefix("# ")
    assert called not in ("torch", "list", "import")
    assert torch.equal(_run(code, **{called: _data()[PATIENTS]}).nan_to_num(), vault.runner.get(rows.id).nan_to_num())


UNARY = "abs neg exp sigmoid t T.__get__ flatten relu_ clone detach contiguous square_ __neg__ sum".split()
BINARY = "add sub mul div __radd__ __rsub__ __truediv__ maximum add_ copy_ __iadd__ pow".split()


def _random_call(rng, vault, refs):
    ref, other = rng.choice(refs), rng.choice(refs)
    kind = rng.randrange(9)
    if kind < 3:
        return vault.call(f"torch.Tensor.{rng.choice(UNARY)}", ref)
    if kind < 5:
        return vault.call(f"torch.Tensor.{rng.choice(BINARY)}", ref, rng.choice([other, 2, -0.5]))
    if kind == 5:
        return vault.call("torch.Tensor.__getitem__", ref, rng.choice([0, slice(0, 2), (..., 0), (slice(None), None)]))
    if kind == 6:
        return vault.call("torch.Tensor.mean", ref, dim=rng.choice([0, -1]), keepdim=rng.random() < 0.5)
    if kind == 7:
        return vault.call("torch.nn.functional.softmax", ref, dim=0, dtype=torch.float64)
    return vault.call("torch.Tensor.__setitem__", ref, rng.choice([0, ..., slice(1, None)]), rng.choice([other, 1.5]))


@pytest.mark.parametrize("seed", range(25))
def test_slices_of_random_programs_replay_and_their_code_runs(seed):
    rng = random.Random(seed)
    vault = Vault()
    refs = [vault.load(PATIENTS, "patients"), vault.load(WEATHER, "weather")]
    for _ in range(40):
        refs.append(_random_call(rng, vault, refs))
        objects = vault.runner.worker.object_store.objects
        refs = [ref for ref in refs if ref.id in objects and objects[ref.id].numel() < 10_000]
        if len(refs) > 6 and rng.random() < 0.2:
            gone = refs.pop(rng.randrange(2, len(refs)))
            vault.delete(gone)
    names = {PATIENTS: "patients", WEATHER: "weather"}
    calls = set()
    for ref in refs:
        part = vault.check(ref)
        calls.add(len(part.calls))
        if not _has_failed(vault, part):
            data = {names[key]: value.clone() for key, value in _data().items()}
            assert seal(_run(code_of(part, {}), **data)) == seal(vault.runner.get(ref.id)), code_of(part, {})
    assert min(calls) < 40


WIDE = (
    "data.__get__ detach T.__get__ grad.__get__ requires_grad_ detach_ retain_grad sum mean exp clone unbind zero_ view_as "
    "expand_as reshape_as sigmoid_ relu"
).split()


def _wide_call(rng, vault, refs):
    """A call that shares memory, writes in place, walks the graph of autograd, or runs a plan."""
    ref, other = rng.choice(refs), rng.choice(refs)
    ref = rng.choice([ref, ref, ref, Ref(ref.id, "grad"), Ref(ref.id, "data"), Ref(ref.id, "T")])
    grad = rng.random() < 0.7
    kind = rng.randrange(12)
    if kind < 3:
        name = rng.choice(WIDE)
        more = (other,) if name.endswith("_as") else ()
        made = vault.call(f"torch.Tensor.{name}", ref, *more, grad=grad)
        return [made, Ref(made.id + 1)] if name == "unbind" else [made]
    if kind < 5:
        name = rng.choice(["add", "mul", "sub_", "mul_", "copy_", "set_", "data.__set__", "grad.__set__", "maximum"])
        return [vault.call(f"torch.Tensor.{name}", ref, other, grad=grad)]
    if kind < 8:
        loss = vault.call("torch.Tensor.sum", vault.call("torch.Tensor.mul", ref, other))
        vault.call("torch.Tensor.backward", loss, retain_graph=rng.random() < 0.5)
        return [loss]
    if kind == 8:
        total = vault.call("torch.Tensor.sum", ref)
        return [vault.call("torch.autograd.grad", total, other, allow_unused=True)]
    if kind == 9:
        return [vault.call("torch.add", ref, other, out=rng.choice(refs), grad=grad)]
    if kind == 10:
        args = (vault.call("torch.Tensor.exp", ref), rng.choice(refs), rng.choice(refs), None, None, True)
        return [vault.call("torch.nn.functional.batch_norm", *args)]
    return [vault.call("syft.run_plan", vault.plan, other)]


def _altering_plan():
    @sy.func2plan(args_shape=[(4, 4)], state=(torch.nn.Parameter(torch.ones(4)),))
    def altering(x, state):
        (weight,) = state.read()
        loss = (x * weight).sum()
        loss.backward()
        return x.mul_(1.5), weight.grad

    return altering


@pytest.mark.parametrize("seed", range(40))
def test_slices_of_wild_programs_replay(seed):
    rng = random.Random(seed)
    vault = Vault()
    vault.data[PATIENTS] = torch.rand(4, 4, generator=torch.Generator().manual_seed(seed))
    vault.plan = vault.put(_altering_plan())
    vault.call("torch.Tensor.mul", vault.put(torch.ones(3)), 2)  # unrelated
    refs = [
        vault.load(PATIENTS, "patients"),
        vault.put(torch.rand(4, 4)),
        vault.put(torch.nn.Parameter(torch.rand(4, 4))),
    ]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for _ in range(40):
            refs += _wide_call(rng, vault, refs)
            objects = vault.runner.worker.object_store.objects
            refs = [ref for ref in refs if ref.id in objects and objects[ref.id].numel() < 1000]
        for ref in refs:
            vault.check(ref)
            grad = vault.call("torch.Tensor.clone", Ref(ref.id, "grad"))
            if grad.id in objects:
                vault.check(grad)


def _has_failed(vault, part):
    """Calls that fail are in the slice too; its code then stops at them."""
    runner = Runner(VirtualWorker(None, id="again", auto_add=False), vault.data)
    try:
        for record in part.records:
            runner.run(record)
    except Exception:
        return True
    return False


# --- sealed copies ------------------------------------------------------------------------------------------------


def test_sealed_copies_depend_only_on_values():
    x = torch.arange(6.0).reshape(2, 3)
    other = x.t().contiguous().t()
    add_tags(other, "#mine")
    other.grad = torch.ones(2, 3)
    assert seal(x) == seal(other)
    assert seal(x) == seal(x.clone().requires_grad_())
    assert seal(x) != seal(x + 1e-6)
    assert seal(x) != seal(x.double())
    assert seal(x) != seal(x.reshape(3, 2))
    assert torch.equal(deserialize(seal(other)), x)
    plan = _plan()
    proxy = plan.copy()
    add_tags(proxy, "#mine")
    assert seal(plan) == seal(proxy)


def test_slicing_does_not_change_records(vault):
    patients = vault.load(PATIENTS, "patients")
    part = vault.slice(vault.call("torch.Tensor.sum", patients))
    assert all(type(record) in (CallRecord, LoadRecord) for record in part.records)
    with pytest.raises(dataclasses.FrozenInstanceError):
        part.records = ()


def test_a_long_history_is_sliced_in_bounded_time(vault):
    patients = Ref(PATIENTS)
    vault.history.append(LoadRecord(PATIENTS, "patients", "", 6))
    for _ in range(20_000):
        vault.history.append(CallRecord("torch.Tensor.add", (patients, 1), return_ids=(create_random_id(),)))
    last = create_random_id()
    vault.history.append(CallRecord("torch.Tensor.add", (patients, 1), return_ids=(last,)))
    assert len(vault.history.snapshot().slice(last).calls) == 1


def test_records_beyond_their_bytes_are_dropped():
    history = VaultHistory(max_header_bytes=1000)
    numbers = [history.append(CallRecord("torch.Tensor.sum", (Ref(1),)), 100) for _ in range(50)]
    assert numbers == list(range(50))
    assert (len(history), history.dropped, history.header_bytes) == (10, 40, 1000)
