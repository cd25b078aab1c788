"""The site builds without warnings; its notebooks run, its links resolve, and it loads nothing from other hosts."""

import inspect
import json
import posixpath
import re
import sys
from functools import cache
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote

import pytest

import syft as sy
from syft import exceptions
from tests.test_public_api import TABLE

ROOT = Path(__file__).resolve().parent.parent.parent
DOCS, HTML = ROOT / "docs", ROOT / "docs" / "_build" / "html"
sys.path.append(str(DOCS / "_ext"))

import commands  # noqa: E402
import notebooks  # noqa: E402

pytestmark = pytest.mark.timeout(1600)  # the first test waits for the build
MAX_CPU_SECONDS = 120  # a notebook should take a quarter of it
NOTEBOOKS = notebooks.pages()
LOADING = {"script": "src", "img": "src", "iframe": "src", "source": "src", "video": "src", "audio": "src"}
OTHER_HOST = re.compile(r"""(?:url\(\s*|@import\s+|\bimport\s*\(?\s*|\bfrom\s+)['"]?(?:https?:)?//""")
# Relations of <link> that name another page without loading it.
NAMING = {"canonical", "search", "index", "next", "prev", "author", "license"}


def test_the_site_builds_without_warnings(build):
    assert build.returncode == 0, f"{build.stdout[-3000:]}\n{build.stderr[-6000:]}"
    assert "WARNING: " not in build.stderr, build.stderr


@pytest.mark.parametrize("page", NOTEBOOKS, ids=lambda page: page.stem)
def test_a_notebook_runs(page, build):
    ran = json.loads(notebooks.REPORT.read_text())[page.stem]
    print(f"{page.stem}: {ran['seconds']} s, {ran['cpu']} s of CPU")
    assert ran["error"] is None, ran["error"]
    assert ran["cpu"] <= MAX_CPU_SECONDS


@pytest.mark.parametrize("page", NOTEBOOKS, ids=lambda page: page.stem)
def test_a_notebook_has_exercises_with_hidden_solutions(page):
    hidden = [cell for cell in notebooks.read(page).cells if "hide-cell" in cell.metadata.get("tags", [])]
    assert len(hidden) >= 2


@pytest.mark.parametrize("page", NOTEBOOKS, ids=lambda page: page.stem)
def test_outputs_of_a_notebook_are_on_its_page(page, build):
    text = (HTML / page.relative_to(DOCS).with_suffix(".html")).read_text()
    assert text.count('class="cell_output') >= 3 and "Traceback" not in text.split('class="cell_output')[0]


class Page(HTMLParser):
    """The anchors and links of a page, and the addresses that it loads."""

    def __init__(self, text):
        super().__init__()
        self.anchors, self.links, self.loaded = set(), [], []
        self.feed(text)

    def handle_starttag(self, tag, attrs):
        found = dict(attrs)
        self.anchors.update(filter(None, (found.get("id"), found.get("name"))))
        if tag == "a" and "href" in found:
            self.links.append(found["href"])
        if tag in LOADING and found.get(LOADING[tag]):
            self.loaded.append(found[LOADING[tag]])
        if tag == "link" and found.get("rel", "") not in NAMING:
            self.loaded.append(found["href"])


@cache
def site():
    """Return the pages of the site by name, without folders of assets."""
    return {path.relative_to(HTML).as_posix(): Page(path.read_text()) for path in HTML.rglob("*.html")}


def test_links_of_the_site_resolve(build):
    broken, followed = [], 0
    for name, page in site().items():
        for link in page.links:
            path, _, anchor = unquote(link).partition("#")
            if re.match(r"[a-z]+:|//", link):
                continue
            target = posixpath.normpath(posixpath.join(posixpath.dirname(name), path)) if path else name
            followed += 1
            known = site().get(target)
            if not (HTML / target).is_file() or (anchor and known is not None and anchor not in known.anchors):
                broken.append(f"{name}: {link}")
    assert not broken, "\n".join(broken)
    assert followed > 5000


def test_the_site_loads_nothing_from_other_hosts(build):
    found = [f"{name}: {url}" for name, page in site().items() for url in page.loaded if re.match(r"([a-z]+:)?//", url)]
    for path in HTML.rglob("*"):
        if path.suffix in (".css", ".js", ".html"):
            text = path.read_text()
            if path.suffix == ".html":  # text that shows code is no code
                text = " ".join(re.findall(r"<(?:script|style)[^>]*>.*?</(?:script|style)>", text, re.DOTALL))
            text = re.sub(r"/\*.*?\*/", "", text, flags=re.DOTALL)
            found += [f"{path.relative_to(HTML)}: {hit}" for hit in OTHER_HOST.findall(text)]
    assert not found, "\n".join(found)


def test_no_page_is_orphaned(build):
    """Each page can be reached from the front page by the links of the navigation."""
    seen, todo = set(), ["index.html"]
    while todo:
        name = todo.pop()
        if name in seen or name not in site():
            continue
        seen.add(name)
        folder = posixpath.dirname(name)
        todo += [posixpath.normpath(posixpath.join(folder, link.partition("#")[0])) for link in site()[name].links]
    pages = {path.relative_to(DOCS).with_suffix(".html").as_posix() for path in DOCS.rglob("*.md")}
    pages = {page for page in pages if not page.startswith("_build")} - {"README.html"}
    assert pages <= seen, pages - seen


def test_each_error_has_an_anchor_by_its_code(build):
    codes = {cls.code.lower() for cls in vars(exceptions).values() if inspect.isclass(cls) and hasattr(cls, "code")}
    assert len(codes) > 50 and codes <= site()["errors.html"].anchors
    assert all(f"../../errors.html#{code}" in site()["reference/api/exceptions.html"].links for code in codes)


def test_words_in_italics_link_to_the_glossary(build):
    glossary = site()["glossary.html"].anchors
    links = [link for link in site()["architecture.html"].links if "glossary.html#word-" in link]
    assert len(links) > 10 and all(link.partition("#")[2] in glossary for link in links)


@pytest.mark.parametrize("package", TABLE)
def test_public_names_are_documented(package, build):
    anchors = set().union(*(page.anchors for name, page in site().items() if name.startswith("reference/api/")))
    for name in TABLE[package]:
        value = getattr(getattr(sy, package.partition(".")[2]) if "." in package else sy, name)
        home = value.__module__ if isinstance(value, type) or inspect.isfunction(value) else package
        assert {f"{package}.{name}", f"{home}.{name}"} & anchors, name


def test_methods_of_the_hook_are_documented(build, hook):
    anchors = site()["reference/api/torch-methods.html"].anchors
    added = [(target, name) for target, name, _ in hook._patches._undo if not name.startswith(("native_", "_"))]
    missing = [
        f"{target.__name__}.{name}"
        for target, name in added
        if isinstance(target, type) and not any(anchor.endswith(f".{target.__name__}.{name}") for anchor in anchors)
    ]
    assert len(added) > 50 and missing == ["Optimizer.follow_parameters"]


def test_commands_are_documented(build):
    import typer

    from syft.cli.main import app

    found = ["-".join(words) for words, _ in commands.commands(typer.main.get_command(app), [])]
    assert len(found) > 20 and set(found) <= site()["reference/api/commands.html"].anchors


def test_charts_are_drawn(build):
    text = (HTML / "architecture.html").read_text()
    drawn = re.search(r'<div class="chart">.*?</svg>', text, re.DOTALL)[0]
    source = re.search(r"```mermaid\n(.*?)```", (DOCS / "architecture.md").read_text(), re.DOTALL)[1]
    assert drawn.count("<rect") == source.count('["') > 10
    assert drawn.count("marker-end") >= source.count("-->") and "flowchart" not in text
