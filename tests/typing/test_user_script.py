"""mypy and pyright accept a user's program and the examples, and know the types of what the hook adds."""

import ast
import inspect
import json
import os
import runpy
import subprocess
import sys
from pathlib import Path

import pytest

from syft.hook import base
from syft.typing import remove_stubs, write_stubs

HERE = Path(__file__).parent
ROOT = HERE.parent.parent
SCRIPT = HERE / "user_script.py"
METHODS = ROOT / "stubs" / "syft-stubs" / "torch_methods.pyi"

# Expression of the user's script -> texts that hovering over it must show.
HOVER = {
    "sy.VirtualWorker.__init__": ["id: ", "data: ", "threaded: bool"],
    "sy.federated.run": ["strategy: Strategy | str", "rounds: int", "batch_size: int", "Result"],
    "x.send": ["location: ", "inplace: bool", "requires_grad: bool", "Tensor"],
    "x.fix_precision": ["base: int", "precision_fractional: int", "Tensor"],
    "x.share": ["owners: ", "crypto_provider: ", "requires_grad: bool", "Tensor"],
    "model.send": ["dest: ", "Linear"],
    "pointer": ["Tensor"],
    "total": ["Tensor"],
    "moved": ["Tensor"],
    "shared": ["Tensor"],
    "product": ["Tensor"],
    "result": ["Result"],
}


@pytest.fixture(scope="module")
def project(tmp_path_factory):
    """A folder with the user's script, one line per expression to hover over, and the stubs of torch."""
    folder = tmp_path_factory.mktemp("project")
    lines = [SCRIPT.read_text(), *(f"reveal_type({expression})\n" for expression in HOVER)]
    (folder / "script.py").write_text("".join(lines))
    write_stubs(folder / "stubs")
    return folder


def shown(project, line):
    """Returns the expression of a line that the fixture added, or None."""
    first = len((project / "script.py").read_text().splitlines()) - len(HOVER) + 1
    return list(HOVER)[line - first] if line >= first else None


def check_hover(texts):
    assert set(texts) == set(HOVER)
    for expression, wanted in HOVER.items():
        for part in wanted:
            assert part in texts[expression], f"{expression}: {texts[expression]}"


def pyright(project, *paths):
    """Runs pyright, and returns its diagnostics."""
    config = project / "pyrightconfig.json"
    settings = {"typeCheckingMode": "standard", "extraPaths": [str(project / "stubs")], "include": [*map(str, paths)]}
    config.write_text(json.dumps(settings))
    command = [
        Path(sys.executable).with_name("basedpyright"),
        "-p",
        config,
        "--outputjson",
        "--pythonpath",
        sys.executable,
    ]
    done = subprocess.run(command, capture_output=True, text=True, cwd=project, timeout=300)
    assert done.returncode in (0, 1), done.stderr
    return json.loads(done.stdout)["generalDiagnostics"]


def test_the_script_runs(capsys):
    runpy.run_path(str(SCRIPT))
    assert capsys.readouterr().out.startswith("1 <History of 1 round")


def test_pyright_knows_the_types_of_a_users_script(project):
    found = pyright(project, project / "script.py")
    assert [row["message"] for row in found if row["severity"] != "information"] == []
    check_hover({shown(project, row["range"]["start"]["line"] + 1): row["message"] for row in found})


def test_pyright_reports_no_error_on_the_examples(project):
    assert [(row["file"], row["message"]) for row in pyright(project, ROOT / "examples")] == []


def test_mypy_knows_the_types_of_a_users_script(project):
    command = [sys.executable, "-m", "mypy", "--no-color-output", "--config-file=", "--cache-dir=cache", "script.py"]
    environment = {**os.environ, "PYTHONPATH": str(project / "stubs")}
    done = subprocess.run(command, capture_output=True, text=True, cwd=project, env=environment, timeout=500)
    texts = {}
    for line in done.stdout.splitlines():
        if ": note: Revealed type is" in line:
            _, number, text = line.split(":", 2)
            texts[shown(project, int(number))] = text.replace("syft.federated.strategies.strategy.", "")
    assert "Success" in done.stdout, done.stdout
    check_hover(texts)


def test_checkers_report_names_that_do_not_exist(project):
    code = "import torch\nimport syft as sy\nsy.nothing\nsy.federated.nothing\ntorch.ones(1).sent()\n"
    (project / "wrong.py").write_text(code)
    found = pyright(project, project / "wrong.py")
    lines = {row["range"]["start"]["line"] for row in found if row["rule"] == "reportAttributeAccessIssue"}
    assert lines == {2, 3, 4}


def test_stubs_can_be_removed_and_are_a_partial_package(tmp_path):
    stubs = write_stubs(tmp_path)
    assert stubs == tmp_path / "torch-stubs"
    assert (stubs / "py.typed").read_text() == "partial\n"
    assert not [file for file in stubs.rglob("*") if file.is_file() and file.suffix not in (".pyi", ".typed")]
    remove_stubs(tmp_path)
    assert not stubs.exists()


def test_the_command_writes_and_removes(tmp_path):
    command = [sys.executable, "-m", "syft.typing", str(tmp_path)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=100, check=True)
    assert done.stdout.startswith(f"Wrote {tmp_path / 'torch-stubs'} for torch ") and done.stderr == ""
    subprocess.run([*command, "--remove"], capture_output=True, timeout=100, check=True)
    assert list(tmp_path.iterdir()) == []


def parameters(function):
    """The parameters of a method of the stub or of the library, but for those that collect others."""
    if isinstance(function, ast.FunctionDef):
        arguments = function.args
        return {arg.arg for arg in [*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs]} - {"self"}
    kinds = (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD)
    return {p.name for p in inspect.signature(function).parameters.values() if p.kind not in kinds} - {"self"}


@pytest.mark.parametrize(
    ("name", "added"),
    [
        ("TensorMethods", base.tensor_methods),
        ("ModuleMethods", base.module_methods),
        ("DatasetMethods", base.dataset_methods),
    ],
)
def test_the_stub_has_the_methods_that_the_hook_adds(name, added):
    tree = ast.parse(METHODS.read_text())
    body = next(node.body for node in tree.body if isinstance(node, ast.ClassDef) and node.name == name)
    real = {key: value for cls in added for key, value in vars(cls).items() if not key.startswith("_")}
    stubbed = set()
    for node in body:
        if isinstance(node, ast.AnnAssign | ast.Assign):
            target = node.target if isinstance(node, ast.AnnAssign) else node.targets[0]
            stubbed.add(target.id)
        elif isinstance(node, ast.FunctionDef):
            stubbed.add(node.name)
            if inspect.isfunction(real[node.name]):
                signature = inspect.signature(real[node.name])
                takes_more = any(p.kind is p.VAR_KEYWORD for p in signature.parameters.values())
                assert takes_more or parameters(node) <= parameters(real[node.name]), node.name
    assert stubbed <= set(real)
    assert set(real) - stubbed == UNTYPED.get(name, set())


# Names for authors of links, which users do not call on tensors.
UNTYPED = {
    "TensorMethods": {
        "attr", "create_pointer", "disable_gc", "get_class_attributes", "handle_func_command", "on", "on_function_call",
        "ptr", "rgetattr", "ser", "torch_type", "wrap",
    }
}  # fmt: skip
