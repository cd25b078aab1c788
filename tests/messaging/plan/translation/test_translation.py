"""Translations of plans: files that plain torch runs with the same numbers, and that are never loaded by accident."""

from __future__ import annotations

import io
import subprocess
import sys
import unittest.mock
import zipfile

import pytest
import torch

import syft as sy
from syft.exceptions import MalformedPlanError, PlanTranslationError, SerdeError
from syft.messaging.plan.translation import PlanTranslatorExport, PlanTranslatorTorchscript
from tests.helpers.plans.plan_samples import CNN, MLP, Recurrent, built, encoder, training_plan

KINDS = ("torchscript", "torch.export")
MODELS = {
    "mlp": (lambda: built(MLP, 4, 6), [(1, 6), (9, 6)]),
    "mlp built with one row": (lambda: built(MLP, 1, 6), [(1, 6), (9, 6)]),
    "cnn": (lambda: built(CNN, 2, 3, 8, 8), [(1, 3, 8, 8), (5, 3, 8, 8)]),
    "lstm": (lambda: built(Recurrent, 3, 7, 4), [(1, 7, 4), (4, 7, 4)]),
    "encoder": (lambda: built(encoder, 3, 5, 8), [(1, 2, 8), (4, 9, 8)]),
}
constant = torch.tensor([1.0, 2.0])


def plan_of(function, *examples, **named):
    return sy.Plan(name="f", forward_func=function).build(*examples, **named)


def same(found, expected):
    if isinstance(expected, tuple | list):
        return len(found) == len(expected) and all(map(same, found, expected))
    return torch.allclose(found, expected, atol=1e-6, rtol=1e-6)


# --- numbers ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("name", MODELS)
def test_models_give_the_same_numbers_for_several_sizes(hook, name, kind):
    make, shapes = MODELS[name]
    plan = make()
    assert plan.add_translation(kind) is plan
    translated = plan.get_translation(kind)
    for shape in shapes:
        x = torch.randn(*shape)
        assert same(translated(x), plan(x))


@pytest.mark.parametrize("kind", KINDS)
def test_constants_several_results_and_arguments_by_name(hook, kind):
    def f(x, pair, factor=3, *, shift, scale=2.0):
        y = x * constant * scale + shift
        best, where = y.max(dim=1)
        return y + pair[0] * factor, (best, where), x.shape[0]

    x = torch.randn(5, 2)
    plan = plan_of(f, torch.ones(4, 2), [torch.ones(4, 2), 7], shift=torch.ones(4, 2))
    translated = plan.add_translation(kind).get_translation(kind)
    expected = plan(x, [x, 7], shift=x)
    found = translated(x, [x], shift=x)
    assert same(found[:2], expected[:2]) and found[2] == expected[2] == 5


@pytest.mark.parametrize("kind", KINDS)
def test_a_buffer_that_the_plan_changes(hook, kind):
    class Counter(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.register_buffer("count", torch.zeros(1))

        def forward(self, x):
            self.count += 1
            return x + self.count

    plan = sy.Plan(name="counter", forward_func=Counter()).build(torch.ones(2))
    version = plan.state.tensors()[0]._version
    translated = plan.add_translation(kind).get_translation(kind)
    for expected in (2.0, 3.0):
        assert translated(torch.ones(2)).tolist() == [expected] * 2
    assert plan.state.tensors()[0].tolist() == [0.0] and plan.state.tensors()[0]._version == version


@pytest.mark.parametrize("kind", KINDS)
def test_checks_of_sizes_are_translated(hook, kind):
    plan = plan_of(lambda x: x * 2 if x.shape[0] < 4 else x + 1, torch.ones(2, 3))
    translated = plan.add_translation(kind).get_translation(kind)
    assert same(translated(torch.ones(3, 5)), torch.full((3, 5), 2.0))
    with pytest.raises(Exception, match="other shapes|Guard failed|4"):
        translated(torch.ones(4, 5))


@pytest.mark.parametrize("kind", KINDS)
def test_checks_of_fractions_of_sizes(hook, kind):
    plan = plan_of(lambda x: x * (x.shape[0] / 2) if x.shape[0] / 2 > 2 else x, torch.ones(5, 3))
    translated = plan.add_translation(kind).get_translation(kind)
    assert same(translated(torch.ones(9, 3)), torch.full((9, 3), 4.5))


def test_names_of_the_state_stay(hook):
    plan = built(CNN, 2, 3, 8, 8)
    scripted = PlanTranslatorTorchscript(plan).translate()
    exported = PlanTranslatorExport(plan).translate()
    wanted = CNN().state_dict().keys()
    assert isinstance(scripted, torch.jit.ScriptModule) and scripted.state_dict().keys() == wanted
    assert isinstance(exported, torch.export.ExportedProgram) and exported.state_dict.keys() == wanted


def test_a_translation_shares_no_memory_with_the_plan(hook):
    plan = built(MLP, 4, 6)
    scripted = PlanTranslatorTorchscript(plan).translate()
    before = scripted(torch.ones(1, 6)).detach()
    with torch.no_grad():
        for parameter in plan.parameters():
            parameter.zero_()
    assert torch.equal(scripted(torch.ones(1, 6)), before)


ALONE = """
import sys
sys.modules["syft"] = None
import torch
try:
    import syft
except ImportError:
    pass
else:
    raise SystemExit("syft can be imported")
for number in range(int(sys.argv[1])):
    kind, data, x, expected = torch.load(f"{number}.pt", weights_only=True)
    with open("plan.pt2", "wb") as file:
        file.write(bytes(data.tolist()))
    model = torch.jit.load("plan.pt2") if kind == "torchscript" else torch.export.load("plan.pt2").module()
    for inputs, results in zip(x, expected):
        found = model(inputs)
        found = found if isinstance(found, tuple) else (found,)
        assert len(found) == len(results)
        assert all(torch.allclose(a, b, atol=1e-6) for a, b in zip(found, results))
assert not [name for name in sys.modules if name.split(".")[0] == "syft" and sys.modules[name] is not None]
print("same numbers")
"""


def test_a_process_without_this_library_runs_it(hook, tmp_path):
    cases = [(name, kind) for name in ("cnn", "lstm") for kind in KINDS]
    for number, (name, kind) in enumerate(cases):
        make, shapes = MODELS[name]
        plan = make().add_translation(kind)
        inputs = [torch.randn(*shape) for shape in shapes]
        with torch.no_grad():
            results = [plan(x) for x in inputs]
        data = torch.frombuffer(bytearray(plan.translations[kind]), dtype=torch.uint8)
        rows = (kind, data, inputs, [r if isinstance(r, tuple) else (r,) for r in results])
        torch.save(rows, tmp_path / f"{number}.pt")
    command = [sys.executable, "-I", "-W", "ignore", "-c", ALONE, str(len(cases))]
    done = subprocess.run(command, capture_output=True, text=True, cwd=tmp_path, timeout=100, check=False)
    assert done.stdout.strip() == "same numbers", done.stderr


# --- what can't be translated -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", KINDS)
def test_training_is_refused(hook, kind):
    with pytest.raises(PlanTranslationError, match=r"which trains.*model alone"):
        training_plan().add_translation(kind)


def test_results_without_a_type_are_refused_without_showing_values(hook):
    plan = plan_of(lambda x: {"a": x + 123.25, "b": (x,)}, torch.ones(2))
    with pytest.raises(
        PlanTranslationError, match="'f' can't be translated to torchscript: it returns a dict"
    ) as caught:
        plan.add_translation("torchscript")
    assert "123" not in str(caught.value) and plan.translations == {}
    found = plan.add_translation("torch.export").get_translation("torch.export")(torch.ones(2))
    assert found["a"].tolist() == [124.25] * 2


def test_other_numbers_are_noticed(hook, monkeypatch):
    plan = built(MLP, 4, 6)
    wrong = PlanTranslatorTorchscript(built(lambda: torch.nn.Sequential(MLP(), torch.nn.Hardtanh(-1.0, -0.9)), 4, 6))
    data = wrong.to_bytes()
    monkeypatch.setattr(PlanTranslatorTorchscript, "write", lambda self, *args: data)
    with pytest.raises(PlanTranslationError, match="other results"):
        plan.add_translation("torchscript")


def test_errors_for_bad_input(hook):
    plan = built(MLP, 4, 6)
    with pytest.raises(ValueError, match="no translation 'onnx'. Use one of torchscript, torch.export"):
        plan.add_translation("onnx")
    with pytest.raises(KeyError, match="has no translation 'torchscript'"):
        plan.get_translation("torchscript")
    with pytest.raises(PlanTranslationError, match="pass an example of each of its 1 tensors"):
        plan.add_translation("torchscript", torch.ones(4, 6), torch.ones(1))
    with pytest.raises(RuntimeError, match="not built"):
        sy.Plan(forward_func=lambda x: x).add_translation("torchscript")


# --- travelling ---------------------------------------------------------------------------------------------------------


def received(plan, worker):
    return sy.serde.deserialize(sy.serde.serialize(plan, worker), worker)


@pytest.mark.parametrize("form", KINDS)
def test_a_round_trip(hook, workers, form, monkeypatch):
    bob, _ = workers
    for worker in (bob, hook.local_worker):
        assert worker.trusts_translations is False
        monkeypatch.setattr(worker, "trusts_translations", True)
    plan = built(MLP, 4, 6).add_translation(form)
    pointer = plan.send(bob)
    there = bob._objects[pointer.id_at_location]
    assert there.translations == plan.translations
    x = torch.randn(5, 6)
    assert same(there.get_translation(form)(x), plan(x))
    assert same(pointer.get().get_translation(form)(x), plan(x))


def test_copies_have_the_translations(hook):
    plan = built(MLP, 4, 6).add_translation("torchscript")
    proxy = plan.copy()
    with torch.no_grad():
        plan.parameters()[0].add_(1.0)
    assert plan.translations == {} and list(proxy.translations) == ["torchscript"]
    x = torch.randn(2, 6)
    assert same(proxy.get_translation("torchscript")(x), proxy(x))


def test_a_plan_that_was_sent_is_sent_again_with_its_translation(hook, bob):
    plan = built(MLP, 4, 6)
    plan.send(bob)
    pointer = plan.add_translation("torchscript").send(bob)
    assert list(bob._objects[pointer.id_at_location].translations) == ["torchscript"]


@pytest.mark.parametrize("kind", KINDS)
def test_a_worker_that_does_not_trust_never_loads(hook, bob, monkeypatch, kind):
    plan = built(MLP, 4, 6).add_translation(kind)
    proxy = received(plan, bob)
    loaded = []

    def load(*args, **kwargs):
        loaded.append(args)
        return unittest.mock.Mock()

    for place in (torch.jit, torch.export):
        monkeypatch.setattr(place, "load", load)
    x = torch.randn(2, 6)
    assert same(proxy(x), plan(x)) and proxy.translations == plan.translations
    repr(proxy), str(proxy.summary()), proxy.copy()
    with pytest.raises(SerdeError, match=r"code of its sender.*worker.trusts_translations = True"):
        proxy.get_translation(kind)
    with pytest.raises(SerdeError, match="code of its sender"):
        proxy.copy().get_translation(kind)
    bob.trusts_translations = "yes"  # only True is True
    with pytest.raises(SerdeError, match="code of its sender"):
        proxy.get_translation(kind)
    assert loaded == []
    bob.trusts_translations = True
    proxy.get_translation(kind)
    assert len(loaded) == 1


def test_a_local_translation_replaces_a_received_one(hook, bob):
    plan = built(MLP, 4, 6).add_translation("torchscript").add_translation("torch.export")
    proxy = received(plan, bob)
    with pytest.raises(PlanTranslationError, match="not built here"):
        proxy.add_translation("torchscript")
    proxy.add_translation("torchscript", torch.ones(2, 6))
    x = torch.randn(3, 6)
    assert same(proxy.get_translation("torchscript")(x), plan(x))
    with pytest.raises(SerdeError):
        proxy.get_translation("torch.export")


class _Trap:
    """Bytes that say so when they are unpickled."""

    def __reduce__(self):
        return (exec, ("import sys; sys.modules['syft_trap'] = sys",))


def forged():
    out = io.BytesIO()
    torch.save({"a": _Trap()}, out)
    return out.getvalue()


@pytest.mark.parametrize("kind", KINDS)
def test_forged_bytes_do_nothing(hook, make_worker, kind):
    bob = make_worker("bob", "bytes")
    plan = built(MLP, 4, 6)
    plan._translations.data[kind] = forged()
    plan._translations.bind(plan.state)
    pointer = plan.send(bob)
    there = bob._objects[pointer.id_at_location]
    assert there.translations == {kind: forged()}
    x = torch.randn(2, 6)
    assert same(pointer(x.send(bob)).get(), plan(x))
    with pytest.raises(SerdeError):
        there.get_translation(kind)
    pointer.get()
    assert "syft_trap" not in sys.modules


@pytest.mark.parametrize(
    "rows",
    [
        None,
        [("torchscript", b"")],
        (("torchscript",),),
        (("torchscript", "text"),),
        (("onnx", b""),),
        ((b"torchscript", b""),),
        (("torchscript", b""), ("torchscript", b"")),
        (("torchscript", b""),) * 1000,
    ],
)
def test_malformed_translations_are_refused(hook, bob, rows):
    parts = sy.Plan.simplify(None, built(MLP, 4, 6))
    assert parts[-1] == ()
    with pytest.raises(MalformedPlanError):
        sy.Plan.detail(bob, (*parts[:-1], rows))


# --- staleness, and what a file tells -------------------------------------------------------------------------------------


def _train(plan):
    with torch.no_grad():
        plan.parameters()[0].mul_(2.0)


def _replace(plan):
    plan.state.state_placeholders[0].child = plan.state.tensors()[0].detach().clone()


def _build(plan):
    plan.build(torch.ones(2, 6))


@pytest.mark.parametrize("change", [_train, _replace, _build])
def test_a_changed_plan_neither_gives_nor_sends_an_old_translation(hook, bob, change):
    plan = built(MLP, 4, 6).add_translation("torchscript")
    change(plan)
    assert plan.translations == {} and sy.Plan.simplify(None, plan)[-1] == ()
    assert received(plan, bob).translations == {}
    with pytest.raises(KeyError, match="add_translation"):
        plan.get_translation("torchscript")
    x = torch.randn(3, 6)
    assert same(plan.add_translation("torchscript").get_translation("torchscript")(x), plan(x))


def test_removing(hook, bob):
    plan = built(MLP, 4, 6).add_translation("torchscript").add_translation(PlanTranslatorExport)
    assert set(plan.translations) == set(KINDS)
    assert plan.remove_translation(PlanTranslatorExport) is plan
    assert list(received(plan, bob).translations) == ["torchscript"]
    plan.remove_translation()
    assert plan.translations == {} and plan.remove_translation("torchscript").translations == {}


@pytest.mark.parametrize("kind", KINDS)
def test_files_contain_no_examples_and_no_paths(hook, kind):
    example = torch.full((4, 6), 1234.5)
    model = MLP()
    plan = plan_of(lambda x: model(x).view(x.shape[0], -1), example).add_translation(kind, example)
    places = (__file__, sys.prefix, torch.__file__, "site-packages", "test_translation", "stack_trace")
    with zipfile.ZipFile(io.BytesIO(plan.translations[kind])) as file:
        for name in file.namelist():
            data = file.read(name)
            assert torch.tensor(1234.5).numpy().tobytes() not in data
            assert [place for place in places if place.encode() in data] == []


def test_silence_is_exact(hook, recwarn):
    built(MLP, 4, 6).add_translation("torchscript").get_translation("torchscript")
    assert [str(w.message) for w in recwarn if "jit" in str(w.message) or "trace" in str(w.message)] == []
