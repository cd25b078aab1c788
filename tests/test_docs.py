"""The README's example, the pages of docs/ and the examples run as they stand; docstring examples too."""

import ast
import doctest
import importlib
import importlib.util
import inspect
import pkgutil
import re
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest
import torch

import syft
import syft as sy
from tests.helpers import warm_processes as warm
from tests.helpers.cli import run

ROOT = Path(__file__).resolve().parent.parent
DOCS = ROOT / "docs"
pytestmark = pytest.mark.timeout(300)  # a page is long, and a machine may be slow


@pytest.fixture
def fresh_names(hook):
    """Forget workers that a page made, so that each page starts with none."""
    before = dict(hook.local_worker._known_workers)
    yield
    for name in set(hook.local_worker._known_workers) - set(before):
        hook.local_worker._known_workers.pop(name).stop()


# `<!-- not run: reason -->` above a block leaves it out; blocks of ```py are fragments in running text.
NOT_RUN = re.compile(r"<!-- not run: [^>]+ -->\n```python$", re.MULTILINE)
PAGES = sorted(
    path.relative_to(ROOT).as_posix()
    for where in ("*.md", "docs/**/*.md", ".github/**/*.md")
    for path in ROOT.glob(where)
    if "_build" not in path.parts
)
PAGES_WITH_CODE = [page for page in PAGES if re.search(r"^```python$", (ROOT / page).read_text(), re.MULTILINE)]


def code_of(page):
    """Return the code of a page; everything else becomes empty lines, so that errors name those of the page."""
    code, inside = [], False
    for line in NOT_RUN.sub("\n```", (ROOT / page).read_text()).split("\n"):
        inside = inside and line != "```"
        code.append(line if inside else "")
        inside = inside or line == "```python"
    return code


def test_few_blocks_are_left_out():
    left_out = [page for page in PAGES_WITH_CODE for _ in NOT_RUN.findall((ROOT / page).read_text())]
    assert left_out == ["docs/how-to/deploy.md"] * 2


@pytest.mark.parametrize("page", [page for page in PAGES_WITH_CODE if any(code_of(page))])
def test_blocks_of_a_page_run(page, fresh_names, capsys):
    code, lines = code_of(page), (ROOT / page).read_text().split("\n")
    differ = []

    def shown(*values, **options):
        """Print, and compare with the comment behind the call, if it is a value and not a word on it."""
        number = sys._getframe(1).f_lineno
        _, found, comment = lines[number - 1].partition("  # ")
        text = " ".join(str(value) for value in values)
        if found and lines[number - 1].lstrip().startswith("print(") and not agrees(text, comment):
            differ.append(f"{page}:{number} prints {text}, and says {comment}")
        print(*values, **options)

    exec(compile("\n".join(code), page, "exec"), {"__name__": "page", "print": shown})
    assert not differ, "\n".join(differ)


NUMBER = re.compile(r"-?\d+\.?\d*(?:e[+-]?\d+)?")


def agrees(text, comment):
    """Whether a printed text is as a comment says: `...` is any text, and numbers may be a little beside."""
    text, comment = " ".join(text.split()), comment.partition(", or ")[0]
    if "..." in comment:
        parts = [re.escape(part.strip()) for part in comment.split("...")]
        return re.search(".*".join(parts), text) is not None
    if re.match(r"(?!tensor)[a-z]", comment):
        return True  # not a value: words
    said, told = ([float(number) for number in NUMBER.findall(each)] for each in (comment, text))
    same_words = comment[0].isdigit() or NUMBER.sub("", comment) == NUMBER.sub("", text)
    return same_words and said == pytest.approx(told, abs=2e-3, rel=1e-3)


def test_a_comment_is_compared_with_what_is_printed():
    assert agrees("tensor([[-13.0001, -19.]])", "tensor([[-13., -19.]]), or a unit beside it")
    assert not agrees("tensor([[-13., -19.]])", "tensor([[-10., -15.]]), or a unit beside it")
    assert agrees("<3 messages, 1 rounds, 99 bytes>", "<3 messages, 1 rounds, ... bytes>")
    assert not agrees("<4 messages, 1 rounds, 99 bytes>", "<3 messages, 1 rounds, ... bytes>")
    assert agrees("anything", "what was spent") and not agrees("True", "False") and not agrees("3", "2")


def test_the_table_of_costs_in_the_guide_is_what_is_printed(hook, fresh_names):
    page = (ROOT / "docs/tutorials/guide.md").read_text()
    block, table = re.search(
        r"```python\n([^`]*sy\.mpc\.profile\(\) as p[^`]*)```\s*```\n(.*?)```", page, re.DOTALL
    ).groups()
    names = {name: sy.VirtualWorker(hook, id=f"profiled-{name}") for name in ("bob", "alice", "james")}
    found = names | {"torch": torch, "sy": sy}
    exec(block, found)

    def costs(text):
        """All but the times, and the order, which is by time."""
        rows = [re.split(r"  +", line.strip()) for line in text.splitlines() if re.match(r"(linear|relu|all)\b", line)]
        return sorted((row[0], row[1], *row[4:]) for row in rows)

    assert len(costs(table)) == 3 and costs(table) == costs(str(found["p"]))


def test_readme_names_what_exists():
    text = (ROOT / "README.md").read_text()
    for link in re.findall(r"\]\(([^)]+)\)", text):
        assert (ROOT / link).exists(), link
    for script in re.findall(r"`?(scripts/\w+)", text):
        assert (ROOT / script).exists(), script
    assert "scripts/test" in (ROOT / ".ci" / "run").read_text()


def anchors_of(text):
    """Return the anchors that GitHub gives to the headings of a page."""
    found = set()
    for heading in re.findall(
        r"^#+ (.+)$", re.sub(r"^```.*?^```", "", text, flags=re.DOTALL | re.MULTILINE), re.MULTILINE
    ):
        anchor = re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-")
        repeats = sum(1 for other in found if re.fullmatch(re.escape(anchor) + r"(-\d+)?", other))
        found.add(f"{anchor}-{repeats}" if anchor in found else anchor)
    return found


@pytest.mark.parametrize("page", PAGES)
def test_relative_links_of_a_page_resolve(page):
    path = ROOT / page
    text = re.sub(r"^```.*?^```|`[^`\n]*`", "", path.read_text(), flags=re.DOTALL | re.MULTILINE)
    broken = []
    for link in re.findall(r"\]\(([^)\s]+)\)", text):
        if re.match(r"[a-z]+:", link):
            continue
        name, _, anchor = link.partition("#")
        target = (path.parent / name).resolve() if name else path
        if not target.exists() or (anchor and anchor not in anchors_of(target.read_text())):
            broken.append(link)
    assert not broken, f"{page}: {broken}"


def test_every_page_is_in_the_index():
    """docs/index.md links to every page of docs/; the indexes of decisions and of the API to theirs."""
    for index in (DOCS / "index.md", DOCS / "decisions" / "README.md", DOCS / "reference" / "api" / "README.md"):
        text = index.read_text()
        linked = {(index.parent / link).resolve() for link in re.findall(r"\]\(([^)#\s]+)", text)}
        beside = {path for path in index.parent.rglob("*.md") if path != index and "_build" not in path.parts}
        if index.parent == DOCS:
            beside -= {DOCS / "README.md"}
            beside = {p for p in beside if p.parent.name not in ("decisions", "api") or p.name == "README.md"}
        assert beside <= linked, beside - linked


def test_commands_of_the_cheat_sheet_run():
    block = re.search(r"```bash\n(.*?)```", (DOCS / "reference" / "cheat-sheet.md").read_text(), re.DOTALL)[1]
    commands = re.findall(r"^python -m syft ([^#\n]+)", block, re.MULTILINE)
    assert len(commands) == len(block.splitlines())
    for command in commands:
        ran = run(*command.split())
        assert ran.code == 0 and ran.out, command


NAMES_MODULES = ["CONTRIBUTING.md", "docs/architecture.md", "docs/glossary.md", "docs/decisions/*.md"]


def test_files_that_pages_name_exist():
    """`mpc/rules/` or `syft/hook/guards.py` in backquotes is a path below syft/ or below the repository."""
    named = re.compile(r"`((?:\w+/)+(?:\w+\.py)?|\w+\.py)`")
    missing = [
        f"{page.relative_to(ROOT)}: {name}"
        for pattern in NAMES_MODULES
        for page in sorted(ROOT.glob(pattern))
        for name in named.findall(page.read_text())
        if not (ROOT / name).exists() and not (ROOT / "syft" / name).exists()
    ]
    assert not missing, "\n".join(missing)


def load(path):
    spec = importlib.util.spec_from_file_location(path.stem, path)
    module = importlib.util.module_from_spec(spec)
    sys.modules[path.stem] = module
    spec.loader.exec_module(module)
    return module


def test_own_link_example(fresh_names):
    module = load(ROOT / "examples" / "own_link.py")
    try:
        lines = module.main()
    finally:
        syft.serde.unregister(module.Chatty)  # other tests of this process use its code
    assert lines == ["adding to weight", "torch.Tensor.relu passes through", "adding to weight"]


def test_demo(fresh_names, capsys, tmp_path, monkeypatch):
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    demo = load(ROOT / "examples" / "demo.py")
    # Its nodes and commands start from a warm process; tests/cli starts cold ones.
    demo.subprocess = SimpleNamespace(Popen=warm.command, PIPE=subprocess.PIPE, DEVNULL=subprocess.DEVNULL)
    figures = demo.main()
    printed = capsys.readouterr().out
    assert figures["federated"] >= 0.94 and abs(figures["federated"] - figures["central"]) <= 0.02
    assert figures["messages"] > 0 and figures["bytes"] > 0
    assert "does not release this value: it " in printed and printed.count("Approved: rosa may fetch") == 2
    assert not list(tmp_path.glob("resyft-demo-*")), "the demo leaves nothing behind"
    assert "accuracy on 100 unseen" in printed and "Who saw what" in printed


def test_training_example(fresh_names, capsys):
    figures = load(ROOT / "examples" / "train_with_a_plan.py").main()
    assert figures["messages"] == 20 and figures["accuracy"] >= 0.95
    assert "100 steps in 20 messages" in capsys.readouterr().out


DEFINITIONS = (ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)
MODULES = sorted(info.name for info in pkgutil.walk_packages(syft.__path__, "syft."))


def test_the_example_of_shares_runs(fresh_names):
    found = load(ROOT / "examples" / "compute_on_shares.py").main()
    assert found == {"waiting": 36.75, "above five": 3.0, "longest": "north"}


def test_the_example_of_serving_runs(fresh_names):
    *answers, refusal = load(ROOT / "examples" / "serve_encrypted.py").main()
    assert [line.partition(";")[0] for line in answers] == [f"sent a {d}, got a {d}" for d in (1, 7, 4, 6)]
    assert refusal.startswith("refused: All requests")


def examples_of(module):
    """Yield the examples in the docstrings of a module and of what its file defines, whatever path it is public by."""
    finder = doctest.DocTestFinder(recurse=True)
    defined = [node.name for node in ast.parse(inspect.getsource(module)).body if isinstance(node, DEFINITIONS)]
    yield doctest.DocTestParser().get_doctest(module.__doc__ or "", dict(vars(module)), module.__name__, None, 0)
    for name in defined:
        yield from finder.find(
            getattr(module, name), f"{module.__name__}.{name}", module=False, globs=dict(vars(module))
        )


def test_docstring_examples(fresh_names):
    torch.manual_seed(0)
    runner = doctest.DocTestRunner(optionflags=doctest.ELLIPSIS)
    for name in MODULES:
        module = importlib.import_module(name)
        if module.__file__.endswith(("_pb2.py", ".pyi")):
            continue
        for example in examples_of(module):
            assert runner.run(example).failed == 0, example.name
    assert runner.tries > 60


def test_every_module_has_a_docstring():
    for name in MODULES:
        assert importlib.import_module(name).__doc__, name


def test_unknown_names_are_attribute_errors():
    with pytest.raises(AttributeError, match="has no attribute 'nonsense'$"):
        sy.nonsense


def test_public_names():
    """`sy.<name>` for every public name of this part of the API."""
    for name in (
        "TorchHook VirtualWorker BaseWorker PointerTensor MultiPointerTensor ObjectPointer CallablePointer "
        "StringPointer ObjectWrapper LoggingTensor PlusIsMinusTensor String combine_pointers count_messages "
        "serialize deserialize serde frameworks exceptions codes workers messaging generic local_worker hook torch "
        "framework ID_PROVIDER __version__"
    ).split():
        assert getattr(sy, name) is not None, name
