"""The documented paths: every name of the index is where it is documented, and the finder behaves."""

import ast
import csv
import functools
import importlib
import inspect
import os
import subprocess
import sys
from pathlib import Path

import pytest

import syft
from syft._paths import MOVED, home_of

ROOT = Path(__file__).resolve().parent.parent
INDEX = Path(__file__).parent / "data" / "documented_api.tsv"


def documented() -> list[tuple[str, str]]:
    """The rows of the index: (module, name without its signature; empty for the module itself)."""
    with INDEX.open(newline="") as file:
        rows = list(csv.reader(file, delimiter="\t"))[1:]
    return [(module, name.partition("(")[0].strip()) for module, name in rows]


def resolve(module: object, name: str) -> object:
    """Walks a dotted name; a private one of a class by its mangled form."""
    found = module
    for part in filter(None, name.split(".")):
        if inspect.isclass(found) and part.startswith("__") and not part.endswith("__"):
            part = f"_{found.__name__.lstrip('_')}{part}"
        found = getattr(found, part)
    return found


# The index ----------------------------------------------------------------------------------------------


def test_the_index_is_read_whole():
    rows = documented()
    assert len(rows) == 183
    assert ("syft.frameworks.torch.hook.hook", "TorchHook.__hook_properties") in rows
    assert ("syft.frameworks.torch.crypto.spdz", "") in rows


@pytest.mark.parametrize(("module", "name"), [pytest.param(m, n, id=f"{m}:{n}") for m, n in documented()])
def test_documented_name_is_where_it_is_documented(module, name):
    home = home_of(module) or module
    there = importlib.import_module(module)
    assert there is importlib.import_module(home)
    assert sys.modules[module] is sys.modules[home]
    assert functools.reduce(getattr, module.split(".")[1:], syft) is there
    found = resolve(there, name)
    assert found == resolve(sys.modules[home], name)


def test_attribute_walks_need_no_import():
    modules = sorted({module for module, _ in documented()})
    moved = [(module, home_of(module)) for module in modules if home_of(module)]
    code = "import sys, syft\n" + "\n".join(f"assert {old} is sys.modules[{new!r}]" for old, new in moved)
    assert code.count("assert") > 10
    subprocess.run([sys.executable, "-c", code], check=True, timeout=100)


# The table ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("path", MOVED)
def test_every_row_imports(path):
    assert importlib.import_module(path) is importlib.import_module(MOVED[path])


def test_homes_are_no_documented_paths_themselves():
    for home in MOVED.values():
        assert home_of(home) is None


def test_no_file_hides_behind_a_documented_path():
    package = Path(syft.__file__).parent
    for path in ("generic", "frameworks"):
        assert not (package / path).exists()
        assert not (package / f"{path}.py").exists()


def test_rows_below_a_moved_package_follow_it():
    # The finder hands out the package itself, so its children must be its own.
    for path, home in MOVED.items():
        parent, _, name = path.rpartition(".")
        if parent in MOVED and parent != "syft.frameworks.torch.hook":
            assert home.startswith(f"{MOVED[parent]}.") and home.endswith(f".{name}")


def test_the_library_does_not_import_through_documented_paths():
    guilty = []
    package = Path(syft.__file__).parent
    for file in set(package.rglob("*.py")) - {package / "__init__.py"}:  # that one offers the paths to type checkers
        for node in ast.walk(ast.parse(file.read_text())):
            if isinstance(node, ast.ImportFrom):
                names = [node.module or "", *(f"{node.module}.{alias.name}" for alias in node.names)]
            elif isinstance(node, ast.Import):
                names = [alias.name for alias in node.names]
            else:
                continue
            if any(f"{name}.".startswith(("syft.generic.", "syft.frameworks.")) for name in names):
                guilty.append(f"{file}:{node.lineno}")
    assert not guilty


# The finder, on a made-up package with a module at every home ------------------------------------------


@pytest.fixture(scope="module")
def tree(tmp_path_factory):
    """A package `syft` of small files that note in `syft.LOADED` when they are loaded."""
    base = tmp_path_factory.mktemp("tree")
    homes = set(MOVED.values())
    packages = {"syft.dp", "syft.nn", "syft.linalg"}
    for home in homes:
        parts = home.split(".")
        packages |= {".".join(parts[:k]) for k in range(1, len(parts))}
    for module in homes | packages:
        place = base.joinpath(*module.split("."))
        file = place / "__init__.py" if module in packages else place.with_suffix(".py")
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text("import syft\nsyft.LOADED.append(__name__)\nclass Thing: pass\nvalue = 1\n")
    package = base / "syft"
    for name in ("syft.pointers.nested", "syft.pointers.nested.deep"):
        folder = base.joinpath(*name.split("."))
        folder.mkdir()
        (folder / "__init__.py").write_text(f"import syft\nsyft.LOADED.append({name!r})\n")
    (package / "pointers" / "text.txt").write_text("a resource")
    (package / "hook" / "torch_hook.py").write_text(
        "import syft\nfrom syft.hook import args as hook_args\nsyft.LOADED.append(__name__)\n"
        "class TorchHook: pass\ndef its_args(): return hook_args\n"
    )
    (package / "__init__.py").write_text("LOADED = []\nfrom syft._paths import install\ninstall()\n")
    for name in ("_paths.py", "_suggestions.py"):
        (package / name).write_bytes((ROOT / "syft" / name).read_bytes())
    (package / "mpc" / "compat" / "fss.py").unlink()  # a row whose module is not there
    (package / "dp" / "pate.py").write_text("import there_is_no_such_module\n")
    (package / "federated" / "utils.py").write_text("raise ImportError('out of order')\n")
    for file in (package / "linalg").iterdir():  # a folder without modules
        file.unlink()
    return base


@pytest.fixture
def run(tree):
    """Runs code in a new interpreter that sees the made-up package."""

    def run(code: str, timeout: float = 60, attempts: int = 1) -> str:
        environment = {**os.environ, "PYTHONPATH": str(tree), "PYTHONDONTWRITEBYTECODE": "1"}
        command = [
            sys.executable,
            "-W",
            "error",
            "-c",
            "import sys, importlib\n" + inspect.cleandoc(code),
        ]
        for left in range(attempts - 1, -1, -1):
            try:
                done = subprocess.run(
                    command, env=environment, cwd=tree, capture_output=True, text=True, timeout=timeout
                )
                break
            except subprocess.TimeoutExpired:
                if not left:
                    raise
        assert done.returncode == 0, done.stderr
        return done.stdout

    return run


def test_import_of_the_package_loads_nothing(run):
    run(
        """
        import syft
        assert syft.LOADED == []
        assert not hasattr(syft.generic, '__file__') and not hasattr(syft.frameworks, 'nothing')
        assert 'pointers' in dir(syft.generic) and 'torch' in dir(syft.frameworks)
        assert syft.LOADED == []
        """
    )


@pytest.mark.parametrize("first", ["old", "new"])
def test_both_paths_give_one_module_in_both_orders(run, first):
    run(
        f"""
        import syft
        broken = {{'syft.mpc.compat.fss', 'syft.dp.pate', 'syft.federated.utils'}}
        for old, new in syft._paths.MOVED.items():
            if new in broken or new.startswith('syft.linalg'):
                continue
            pair = [old, new] if {first!r} == 'old' else [new, old]
            a, b = map(importlib.import_module, pair)
            assert a is b and sys.modules[old] is sys.modules[new] is a, old
            assert a.__name__ == a.__spec__.name == new, (a.__name__, a.__spec__)
            assert a.__spec__ is not None and a.__spec__.origin == a.__file__
            assert a.__package__ == a.__spec__.parent
        assert len(syft.LOADED) == len(set(syft.LOADED)), syft.LOADED
        """
    )


def test_all_import_forms(run):
    run(
        """
        import syft.frameworks.torch.hook.hook_args
        import syft.generic.pointers.object_pointer as old
        from syft.frameworks.torch import hook_args
        from syft.frameworks.torch.hook import TorchHook
        from syft.frameworks.torch.hook.hook import TorchHook as Same
        from syft.frameworks.torch.tensors.interpreters import native, Polynomial
        from syft.generic.pointers import string_pointer
        import syft.hook.args, syft.pointers.object_pointer, syft.tensors.polynomial
        assert old is syft.pointers.object_pointer
        assert hook_args is syft.hook.args
        assert sys.modules['syft.frameworks.torch.hook.hook_args'] is sys.modules['syft.hook.torch_args']
        assert TorchHook is Same and TorchHook.__module__ == 'syft.hook.torch_hook'
        assert Polynomial is syft.tensors.polynomial
        assert string_pointer.__name__ == 'syft.pointers.string_pointer'
        """
    )


def test_attribute_walk_is_lazy(run):
    run(
        """
        import syft
        walked = syft.generic.frameworks.hook.hook_args
        assert walked.__name__ == 'syft.hook.args'
        assert syft.LOADED == ['syft.hook', 'syft.hook.args'], syft.LOADED
        assert syft.generic.pointers.string_pointer.__name__ == 'syft.pointers.string_pointer'
        assert syft.frameworks.torch.crypto.spdz is syft.frameworks.torch.mpc.spdz
        assert syft.frameworks.torch.hook.hook.__name__ == 'syft.hook.torch_hook'
        """
    )


def test_assignment_through_either_path_reaches_the_code(run):
    run(
        """
        import syft
        syft.generic.frameworks.hook.hook_args.value = 2
        import syft.hook.args
        assert syft.hook.args.value == 2
        syft.hook.args.value = 3
        import syft.frameworks.torch.hook_args as older
        assert older.value == 3
        """
    )


def test_names_that_a_module_uses_are_not_overwritten(run):
    # torch_hook has a global hook_args of its own, and modules below it by its documented path.
    run(
        """
        import syft.frameworks.torch.hook.hook_args, syft.frameworks.torch.hook.hook
        import syft.hook.torch_hook, syft.hook.args
        assert syft.hook.torch_hook.its_args() is syft.hook.args
        """
    )


def test_modules_without_a_row_below_a_moved_package(run):
    run(
        """
        import syft
        import syft.generic.pointers.nested.deep as old
        import syft.pointers.nested.deep as new
        assert old is new and syft.LOADED.count('syft.pointers.nested.deep') == 1
        """
    )


@pytest.mark.parametrize(
    "path",
    [
        "syft.generic.nothing",
        "syft.nothing",
        "syft.frameworks.tensorflow",
        "syft.generic.pointers.nothing",
        "syft.generic.tensor.nothing",
        "syft.frameworks.torch.hook.nothing",
        "syft.frameworks.torch.tensors.interpreters.native.nothing",
        "syft.frameworks.torch.mpc.fss",  # a row, but its module is not there
        "syft.frameworks.torch.linalg",  # nor is its package
        "syft.frameworks.torch.linalg.lr",
    ],
)
def test_wrong_path_is_named_in_the_error(run, path):
    run(
        f"""
        import syft
        for _ in range(2):
            try:
                importlib.import_module({path!r})
            except ModuleNotFoundError as error:
                assert {path!r}.startswith(error.name) and error.name in str(error), error
            else:
                raise AssertionError('imported')
            assert {path!r} not in sys.modules
        parent, _, name = {path!r}.rpartition('.')
        try:
            exec(f'from {{parent}} import {{name}}')
        except ImportError:
            pass
        else:
            raise AssertionError('imported')
        """
    )


def test_errors_of_a_module_are_its_own(run):
    run(
        """
        import syft
        for _ in range(2):
            for attempt in (
                lambda: importlib.import_module('syft.frameworks.torch.dp.pate'),
                lambda: syft.frameworks.torch.dp.pate,
            ):
                try:
                    attempt()
                except ModuleNotFoundError as error:
                    assert error.name == 'there_is_no_such_module'
                else:
                    raise AssertionError('imported')
        try:
            import syft.frameworks.torch.fl.utils
        except ImportError as error:
            assert str(error) == 'out of order'
        else:
            raise AssertionError('imported')
        """
    )


def test_find_spec_finds_documented_modules(run):
    run(
        """
        from importlib.util import find_spec
        import syft
        assert find_spec('syft.generic') and find_spec('syft.frameworks.torch')
        assert find_spec('syft.generic.tensor')
        assert 'syft.core.tensor' not in syft.LOADED
        assert find_spec('syft.generic.nothing') is None
        assert find_spec('syft.frameworks.torch.mpc.fss') is None
        assert find_spec('syft.frameworks.torch.linalg') is None
        """
    )


def test_reload(run):
    run(
        """
        import syft.generic
        import syft.generic.tensor as old, syft.core.tensor as new, syft.frameworks.torch.hook as hook
        old.value = 5
        assert importlib.reload(old) is new and new.value == 1
        assert syft.LOADED.count('syft.core.tensor') == 2
        assert importlib.reload(hook) is sys.modules['syft.hook.torch_hook']
        assert importlib.reload(syft.generic) is syft.generic and syft.generic.tensor is new
        importlib.reload(syft)
        assert sum(type(f).__module__ == 'syft._paths' for f in sys.meta_path) == 1
        """
    )


def test_a_forgotten_package_can_be_imported_again(run):
    run(
        """
        import syft.generic.tensor
        before = sys.modules['syft.generic.tensor']
        for name in [n for n in sys.modules if n == 'syft' or n.startswith('syft.')]:
            del sys.modules[name]
        import syft.generic.tensor
        assert syft.generic.tensor is sys.modules['syft.core.tensor'] is not before
        assert sum(type(f).__module__ == 'syft._paths' for f in sys.meta_path) == 1
        """
    )


def test_pickle_resources_and_inspection(run):
    run(
        """
        import inspect, pickle, pkgutil, warnings
        from importlib import resources
        import syft
        from syft.generic.tensor import Thing
        assert Thing.__module__ == 'syft.core.tensor'
        assert isinstance(pickle.loads(pickle.dumps(Thing())), Thing)
        assert pickle.loads(b'csyft.generic.tensor\\nThing\\n.') is Thing
        import syft.generic.pointers
        for name in ('syft.generic.pointers', 'syft.pointers'):
            assert resources.files(name).joinpath('text.txt').read_text() == 'a resource'
        assert inspect.getmodule(Thing) is sys.modules['syft.core.tensor']
        assert 'class Thing' in inspect.getsource(Thing)
        loaded = list(syft.LOADED)
        for module in list(sys.modules.values()):  # as unittest and debuggers do
            getattr(module, '__warningregistry__', None), getattr(module, '__file__', None)
        names = [m.name for m in pkgutil.iter_modules(syft.__path__)]
        assert 'generic' not in names and 'hook' in names
        assert syft.LOADED == loaded
        """
    )


def test_threads_get_the_same_module(run):
    # Python 3.11 itself can hang when several threads import at once (its module locks; the standard library's own
    # modules do it too), so a hang is tried again. A wrong module is not.
    run(
        """
        import threading
        import syft
        rows = [(o, n) for o, n in syft._paths.MOVED.items()
                if n.split('.')[1] in ('hook', 'core', 'pointers', 'tensors', 'nn')]
        start, wrong = threading.Barrier(3), []
        def work(k):
            start.wait()
            for old, new in (rows if k % 2 else rows[::-1]):
                a, b = importlib.import_module(old), importlib.import_module(new)
                if a is not b:
                    wrong.append(old)
        threads = [threading.Thread(target=work, args=(k,)) for k in range(3)]
        [t.start() for t in threads]
        [t.join() for t in threads]
        assert not wrong, wrong
        assert all(sys.modules[new].__spec__.name == new for _, new in rows)
        assert len(syft.LOADED) == len(set(syft.LOADED))
        """,
        timeout=10,
        attempts=10,
    )


def test_other_imports_do_not_pay(run):
    out = run(
        """
        import timeit, syft
        finder = sys.meta_path[0]
        assert type(finder).__name__ == '_Finder'
        print(min(timeit.repeat(lambda: finder.find_spec('numpy.linalg'), number=1000, repeat=5)) / 1000)
        """
    )
    assert float(out) < 20e-6
