"""Misspelt names: each error names the close one, once, and the valid ones."""

from __future__ import annotations

import copy
import pickle
import subprocess
import sys
import traceback

import pytest
import torch
from torch.nn.functional import mse_loss

import syft as sy
from syft import _suggestions
from syft.exceptions import WorkerNotFoundError
from tests.notebooks import kernel


@pytest.fixture
def carol(hook):
    return sy.VirtualWorker(hook, id="carol")


def _objects(bob, alice, carol):
    """Return objects of all kinds by a name."""
    x = torch.ones(2)
    pointer = x.send(bob)
    shared = x.fix_prec().share(bob, alice, crypto_provider=carol)
    plan = sy.Plan(name="f", forward_func=lambda t: t).build(x)
    return {
        "pointer": pointer,
        "bare pointer": pointer.child,
        "encoded": x.fix_prec(),
        "shared": shared,
        "shares": shared.child.child,
        "multi-pointer": x.send(bob, alice),
        "worker": bob,
        "plan": plan,
        "plan pointer": plan.send(bob),
        "config": sy.TrainConfig(),
        "string": sy.String("x"),
        "sy": sy,
        "federated": sy.federated,
        "dp": sy.dp,
        "mpc": sy.mpc,
        "nn": sy.nn,
        "linalg": sy.linalg,
        "exceptions": sy.exceptions,
        "workers": sy.workers,
        "hook": sy.hook,
    }


@pytest.mark.parametrize(
    ("kind", "wrong", "meant"),
    [
        ("pointer", "sned", "send"),
        ("pointer", "shap", "shape"),
        ("bare pointer", "id_at_locaton", "id_at_location"),
        ("bare pointer", "rehsape", "reshape"),
        ("encoded", "float_presc", "float_prec"),
        ("shared", "decript", "decrypt"),
        ("shares", "crypto_providr", "crypto_provider"),
        ("multi-pointer", "sum_", "sum"),
        ("worker", "serach", "search"),
        ("plan", "buld", "build"),
        ("plan pointer", "locaton", "location"),
        ("config", "batch_sise", "batch_size"),
        ("string", "uper", "upper"),
        ("sy", "VirtualWorkr", "VirtualWorker"),
        ("sy", "fedrated", "federated"),
        ("federated", "FedAvgg", "FedAvg"),
        ("dp", "Laplac", "Laplace"),
        ("mpc", "profil", "profile"),
        ("nn", "LSTMM", "LSTM"),
        ("linalg", "inv_sim", "inv_sym"),
        ("exceptions", "SyftErorr", "SyftError"),
        ("workers", "virtal", "virtual"),
        ("hook", "local_workr", "local_worker"),
    ],
)
def test_attributes(bob, alice, carol, kind, wrong, meant):
    obj = _objects(bob, alice, carol)[kind]
    assert not hasattr(obj, wrong) and getattr(obj, wrong, 7) == 7
    with pytest.raises(AttributeError) as caught:
        getattr(obj, wrong)
    assert str(caught.value).endswith(f"{wrong!r}. Did you mean {meant!r}?") and caught.value.name == wrong
    printed = "".join(traceback.format_exception(caught.value))
    assert printed.count("Did you mean") == 1, "Python adds nothing of its own"


def test_nothing_is_suggested_for_a_name_that_is_like_no_other(bob):
    with pytest.raises(AttributeError, match=r"^'VirtualWorker' object has no attribute 'qqqq'$"):
        bob.qqqq


def test_a_probe_computes_no_suggestion(bob, monkeypatch):
    pointer = torch.ones(2).send(bob)
    monkeypatch.setattr(_suggestions, "did_you_mean", lambda *args: pytest.fail("nobody reads the text"))
    for obj in (pointer, pointer.child, bob, sy.Plan(name="f")):
        assert not hasattr(obj, "sned")


def test_errors_of_attributes_can_be_copied(bob):
    with pytest.raises(AttributeError) as caught:
        bob.serach
    for again in (pickle.loads(pickle.dumps(caught.value)), copy.deepcopy(caught.value)):
        assert str(again) == str(caught.value) and "'search'" in repr(again)


def test_an_error_of_a_property_is_not_replaced(bob, monkeypatch):
    pointer = torch.ones(2).send(bob)
    monkeypatch.setattr(type(pointer), "broken", property(lambda self: self.child.no_such_thing), raising=False)
    with pytest.raises(AttributeError, match="no_such_thing"):
        pointer.broken


# --- keywords -------------------------------------------------------------------------------------------------------


def _keyword_calls(hook, bob, alice, carol):
    x, model = torch.ones(2), torch.nn.Linear(2, 1)
    return {
        "roundz": lambda **wrong: sy.federated.run("fedavg", [], **wrong),
        "crypto_providr": lambda **wrong: x.fix_prec().share(bob, alice, **wrong),
        "crypto_providerr": lambda **wrong: model.copy().fix_prec().share(bob, alice, **wrong),
        "crypt_provider": lambda **wrong: model.encrypt(workers=[bob, alice], **wrong),
        "precision_fractionl": x.fix_prec,
        "workres": lambda **wrong: x.encrypt(**wrong),
        "garbage_colect_data": lambda **wrong: x.send(bob, **wrong),
        "local_autogrd": lambda **wrong: model.send(bob, **wrong),
        "auto_ad": lambda **wrong: sy.VirtualWorker(hook, **wrong),
        "threds": lambda **wrong: sy.ProcessWorker(hook, **wrong),
        "secur": lambda **wrong: sy.WebsocketClientWorker(hook, "localhost", 1, **wrong),
        "tokn": lambda **wrong: sy.connect("ws://localhost:1", **wrong),
        "credentail": lambda **wrong: sy.NodeClient(hook, "ws://localhost:1", **wrong),
        "is_clint": lambda **wrong: sy.TorchHook(torch, **wrong),
        "arg_shape": sy.func2plan,
        "args_shap": sy.func2protocol,
        "forwad_func": sy.Plan,
        "batch_sze": sy.TrainConfig,
        "muu": sy.federated.FedProx,
        "treshold": sy.federated.SecureAggregation,
        "noise_multipler": sy.dp.SamplePrivacy,
        "cliip": sy.dp.UserPrivacy,
        "sensitivty": sy.dp.Laplace,
        "epsilonn": lambda **wrong: sy.dp.mean(x, **wrong),
        "in_shap": lambda **wrong: sy.mpc.serve(model, **wrong),
        "num_layrs": lambda **wrong: sy.nn.LSTM(2, 2, **wrong),
        "n_lenght": sy.keygen,
        "verbos": lambda **wrong: sy.create_sandbox({}, **wrong),
        "partion": lambda **wrong: sy.federated.Simulation((x, x), 2, **wrong),
    }


MEANT = {
    "roundz": "rounds", "crypto_providr": "crypto_provider", "crypto_providerr": "crypto_provider",
    "crypt_provider": "crypto_provider", "precision_fractionl": "precision_fractional", "workres": "workers",
    "garbage_colect_data": "garbage_collect_data", "local_autogrd": "local_autograd", "auto_ad": "auto_add",
    "threds": "threads", "secur": "secure", "tokn": "token", "credentail": "credential", "is_clint": "is_client",
    "arg_shape": "args_shape", "args_shap": "args_shape", "forwad_func": "forward_func", "batch_sze": "batch_size",
    "muu": "mu", "treshold": "threshold", "noise_multipler": "noise_multiplier", "cliip": "clip",
    "sensitivty": "sensitivity", "epsilonn": "epsilon", "in_shap": "in_shape", "num_layrs": "num_layers",
    "n_lenght": "n_length", "verbos": "verbose", "partion": "partition",
}  # fmt: skip


@pytest.mark.parametrize(("wrong", "meant"), MEANT.items())
def test_keywords(hook, bob, alice, carol, wrong, meant):
    with pytest.raises(TypeError) as caught:
        _keyword_calls(hook, bob, alice, carol)[wrong](**{wrong: 1})
    text = str(caught.value)
    assert text.count("Did you mean") == 1 and f"Did you mean {meant!r}?" in text and wrong in text
    assert "__init__" not in text and "__new__" not in text, "the call that the user typed"


def test_a_keyword_error_of_a_function_further_down_is_not_changed():
    @_suggestions.suggests_keywords
    def outer(rounds=1):
        return inner(roundz=rounds)

    def inner(rounds):
        return rounds

    with pytest.raises(TypeError) as caught:
        outer()
    assert "It takes" not in str(caught.value)
    assert outer.__wrapped__.__name__ == outer.__name__ == "outer"


def test_a_loader_warns_of_options_that_are_like_its_own(bob, caplog):
    data = sy.BaseDataset(torch.rand(4, 2), torch.zeros(4)).federate((bob,))
    sy.FederatedDataLoader(data, batchsize=3)
    assert "batchsize. Did you mean 'batch_size'?" in caplog.text


# --- options --------------------------------------------------------------------------------------------------------


def _wrong_options(bob, alice, carol):
    x, model = torch.ones(2), torch.nn.Linear(2, 1)
    shared = x.fix_prec().share(bob, alice, crypto_provider=carol)
    history = sy.federated.Simulation((torch.rand(4, 1), torch.rand(4, 1)), 2)
    plan = sy.Plan(name="f", forward_func=lambda a, b: a - b).build(x, x)
    bob.add_dataset(sy.BaseDataset(x.view(2, 1), x.view(2, 1)), "patients")
    parts = [sy.Plan(forward_func=model).build(x.view(1, 2)), sy.Plan(forward_func=mse_loss).build(x, x)]
    sy.TrainConfig(*parts).send(bob)
    return {
        "adma": lambda: sy.TrainConfig(optimizer="adma").check(),
        "Adm": lambda: sy.federated.run("fedavg", history, 1, model=model, loss_fn=mse_loss, optimizer="Adm"),
        "fedavgg": lambda: sy.federated.run("fedavgg", history, 1, model=model, loss_fn=mse_loss),
        "dirichlt": lambda: sy.federated.Simulation((x, x), 2, partition="dirichlt"),
        "rey": lambda: sy.federated.Simulation((x, x), 2, backend="rey"),
        "fsss": lambda: x.fix_prec().share(bob, alice, crypto_provider=carol, protocol="fsss"),
        "bever": lambda: x.encrypt(protocol="bever", workers=[bob, alice]),
        "snnn": lambda: model.encrypt(protocol="snnn", workers=[bob, alice]),
        "lage": lambda: x.fix_prec(storage="lage"),
        "int10": lambda: x.fix_prec(storage="crt", field_type="int10"),
        "torch.int23": lambda: x.fix_prec(storage="large", internal_type="torch.int23"),
        "chebishev": lambda: shared.sigmoid(method="chebishev"),
        "modul": lambda: sy.mpc.profile(by="modul"),
        "lz5": lambda: _compressed("lz5"),
        "rpd": lambda: sy.dp.Accountant("rpd"),
        "pur": lambda: sy.dp.event_from_dict({"kind": "pur"}),
        "laplac": lambda: sy.dp.Ledger().charge("u", ["d"], {"mechanism": "laplac"}),
        "bb": lambda: plan(x, bb=x),
        "pateints": lambda: bob.fit("pateints"),
        "zeross": lambda: bob.remote.torch.zeross(3),
        "los": lambda: sy.federated.History().plot("los"),
    }


def _compressed(name):
    worker = sy.VirtualWorker(None, id="compressing", auto_add=False)
    worker.compression = name
    return sy.serialize(torch.ones(2), worker)


OPTIONS = {
    "adma": "Adam", "Adm": "Adam", "fedavgg": "fedavg", "dirichlt": "dirichlet", "rey": "ray", "fsss": "fss",
    "bever": "beaver", "snnn": "snn", "lage": "large", "int10": "int100", "torch.int23": "torch.int32",
    "chebishev": "chebyshev", "modul": "module", "lz5": "lz4", "rpd": "rdp", "pur": "pure", "laplac": "laplace",
    "bb": "b", "pateints": "patients", "zeross": "zeros", "los": "loss",
}  # fmt: skip


@pytest.mark.parametrize(("wrong", "meant"), OPTIONS.items())
def test_options(bob, alice, carol, wrong, meant):
    with pytest.raises(Exception) as caught:
        _wrong_options(bob, alice, carol)[wrong]()
    text = str(caught.value)
    assert wrong in text and text.count(f"Did you mean {meant!r}?") == 1


def test_an_option_like_no_other_lists_the_valid_ones(bob, alice):
    with pytest.raises(Exception, match=r"There is no protocol 'xyz'. Use one of beaver, snn, fss.$"):
        torch.ones(2).fix_prec().share(bob, alice, protocol="xyz")


def test_worker_ids(bob, alice):
    federated = sy.BaseDataset(torch.rand(4, 2), torch.zeros(4)).federate((bob, alice))
    for call in (lambda: torch.ones(2).send(f"{bob.id}b"), lambda: federated[f"{bob.id}b"]):
        with pytest.raises((WorkerNotFoundError, KeyError), match=f"Did you mean '{bob.id}'"):
            call()


def test_peers_get_no_suggestion_of_worker_ids():
    assert "Did you mean" not in str(WorkerNotFoundError("bobb", ("not disclosed to peers",)))


# --- tags -----------------------------------------------------------------------------------------------------------


@pytest.fixture
def toys(bob):
    return torch.ones(2).tag("#toy", "#data").send(bob)


@pytest.mark.parametrize(
    ("query", "hints"),
    [("#toi", ["#toy"]), (["#toi", "#dta"], ["#toy", "#data"]), ("#zzzz", []), (["#toy", "#dtaa"], ["#data"])],
)
def test_search_suggests_tags(bob, toys, query, hints):
    found = bob.search(query)
    assert found == [] and isinstance(found, list)
    assert found.hint == " ".join(f"Did you mean {tag!r}?" for tag in hints)
    assert repr(found).startswith("[]") and all(tag in repr(found) and tag in found._repr_html_() for tag in hints)


def test_search_with_a_match_asks_once(bob, toys):
    with sy.count_messages() as count:
        assert len(bob.search("#toy")) == 1
    assert count.messages == 1


def test_grids_suggest_tags(bob, alice, toys):
    grid = sy.PrivateGridNetwork(bob, alice)
    found = grid.search("#toi")
    assert found == {} and "Did you mean '#toy'?" in repr(found) and "#toy" in found._repr_html_()
    assert list(grid.search("#toy")) == [bob.id] and grid.search("#toy").hint == ""


# --- torch's own classes --------------------------------------------------------------------------------------------

SCRIPT = """
import sys, torch, syft as sy
if {hooked}: hook = sy.TorchHook(torch)
obj = {make}
obj.{wrong}
"""


@pytest.mark.parametrize(
    ("make", "wrong", "meant"),
    [
        ("torch.ones(2)", "sned", "send"),
        ("torch.nn.Linear(2, 1)", "sned", "send"),
        ("torch.nn.Linear(2, 1)", "wieght", "weight"),
        ("torch.optim.SGD([torch.ones(1)])", "zero_gard", "zero_grad"),
    ],
)
def test_uncaught_errors_of_torch_objects(make, wrong, meant):
    code = SCRIPT.format(hooked=True, make=make, wrong=wrong)
    printed = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True).stderr
    assert printed.count("Did you mean") == 1 and printed.rstrip().endswith(f"{wrong!r}. Did you mean {meant!r}?")


def test_unhook_removes_the_handler():
    code = "import sys, torch, syft as sy\nhook = sy.TorchHook(torch)\nhook.unhook()\nprint(sys.excepthook is sys.__excepthook__)"
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True).stdout == "True\n"


NOTEBOOK = """
# %%
import torch, syft as sy
hook = sy.TorchHook(torch)
bob = sy.VirtualWorker(hook, id="bob")
shell, texts = get_ipython(), []
shell._showtraceback = lambda kind, error, lines: texts.append("\\n".join(lines))
# %%
for code in ("torch.ones(2).sned(bob)", "torch.nn.Linear(2, 1).sned(bob)", "torch.ones(2).send(bob).sned"):
    shell.run_cell(code)
print([text.count("Did you mean 'send'?") for text in texts])
"""


def test_notebooks_show_one_suggestion(tmp_path):
    story = tmp_path / "story.py"
    story.write_text(NOTEBOOK)
    assert kernel.shown(kernel.run(story, times=1)).strip() == "[1, 1, 1]"
