"""The shape of the code base: sizes, cycles, names, annotations. A failure says which file to split or to type."""

import ast
import collections
import importlib
import inspect
from pathlib import Path

import grimp
import pytest

import syft as sy
from syft._paths import MOVED

ROOT = Path(sy.__file__).parent
MAX_FILES, MAX_LINES, MAX_ANY = 25, 400, 0.10
# Tables of rules, one file for a family of operations.
RULE_TABLES = {"mpc/rules"}
SOURCES = sorted(path for path in ROOT.rglob("*.py") if not path.name.endswith("_pb2.py"))
TREES = {path.relative_to(ROOT).as_posix(): ast.parse(path.read_text()) for path in SOURCES}


def test_folders_are_small():
    counts = collections.Counter(Path(name).parent.as_posix() for name in TREES)
    assert {folder: n for folder, n in counts.items() if n > MAX_FILES and folder not in RULE_TABLES} == {}


def test_files_are_small():
    lengths = {path.relative_to(ROOT).as_posix(): len(path.read_text().splitlines()) for path in SOURCES}
    assert {name: length for name, length in lengths.items() if length > MAX_LINES} == {}


def test_there_are_no_import_cycles():
    graph = grimp.build_graph("syft", exclude_type_checking_imports=True, cache_dir=None)
    imported = {module: sorted(graph.find_modules_directly_imported_by(module)) for module in graph.modules}
    assert list(cycles(imported)) == []


def cycles(imported):
    """Yield the strongly connected components with more than one module, by Tarjan's algorithm."""
    index, low, stack = {}, {}, []

    def visit(module):
        index[module] = low[module] = len(index)
        stack.append(module)
        for other in imported[module]:
            if other not in index:
                yield from visit(other)
                low[module] = min(low[module], low[other])
            elif other in stack:
                low[module] = min(low[module], index[other])
        if low[module] == index[module]:
            component = [stack.pop()]
            while component[-1] != module:
                component.append(stack.pop())
            if len(component) > 1:
                yield sorted(component)

    for module in imported:
        if module not in index:
            yield from visit(module)


def test_cycles_are_found():
    assert list(cycles({"a": ["b"], "b": ["c"], "c": ["b"], "d": []})) == [["b", "c"]]


def test_class_names_are_unique():
    homes = collections.defaultdict(list)
    for name, tree in TREES.items():
        for node in tree.body:
            if isinstance(node, ast.ClassDef):
                homes[node.name].append(name)
    assert {name: places for name, places in homes.items() if len(places) > 1} == {}


def parameters(function):
    """Return the parameters of a function, but for self and cls."""
    given = function.args
    found = [*given.posonlyargs, *given.args, *given.kwonlyargs, given.vararg, given.kwarg]
    return [parameter for parameter in found if parameter is not None and parameter.arg not in ("self", "cls")]


def test_few_parameters_are_annotated_any():
    found = collections.Counter()
    for tree in TREES.values():
        for node in ast.walk(tree):
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
                found.update(ast.unparse(p.annotation) == "Any" for p in parameters(node) if p.annotation is not None)
    share = found[True] / found.total()
    assert share <= MAX_ANY, f"{found[True]} of {found.total()} parameters are annotated Any"


def public_callables():
    """Yield the name and the object of each public function and class, and of each public method."""
    for package in (sy, sy.mpc, sy.dp, sy.federated):
        for name in dir(package):
            value = getattr(package, name)
            if name.startswith("_") or not (inspect.isclass(value) or inspect.isfunction(value)):
                continue
            yield f"{package.__name__}.{name}", value
            if inspect.isclass(value):
                for method, function in vars(value).items():
                    if not method.startswith("_") and inspect.isfunction(function):
                        yield f"{package.__name__}.{name}.{method}", function


# Their arguments are those of a function or a text that the user wrote.
VARIADIC = {
    "syft.Plan.build",
    "syft.Protocol.run",
    "syft.Protocol.run_here",
    "syft.PointerProtocol.run",
    "syft.method2plan",
    "syft.String.format",
}


def is_bare(function):
    """Return whether a signature names none of its arguments: (*args, **kwargs), with or without self."""
    try:
        given = [p for p in inspect.signature(function).parameters.values() if p.name not in ("self", "cls")]
    except (TypeError, ValueError):
        return False
    return [str(p).partition(":")[0] for p in given] == ["*args", "**kwargs"]


def test_public_signatures_name_their_arguments():
    assert {name for name, function in public_callables() if is_bare(function)} == VARIADIC


@pytest.mark.parametrize("path", sorted(MOVED))
def test_documented_paths_import(path):
    assert importlib.import_module(path) is importlib.import_module(MOVED[path])
