"""The navigation of the site follows the lists of links on its index pages: a page is listed once, in Markdown."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from sphinx.application import Sphinx

DOCS = Path(__file__).resolve().parent.parent
# Pages whose links are the navigation below them.
INDEXES = ("index", "decisions/README", "reference/api/README")
# A heading "Tutorials: learn by doing" of the front page starts a part of the navigation, named by its first words.
_PART = re.compile(r"^## ([^:\n]+): .*$", re.MULTILINE)
_ENTRY = re.compile(r"^(?:[*-] |\| )\[[^]]+\]\(([^)#\s]+)\.md\)", re.MULTILINE)


def parts(docname: str, text: str) -> Iterator[tuple[str, list[str]]]:
    """Yield the parts of an index page: a caption, and the pages that its list links to."""
    if docname != "index":
        yield "", _pages(docname, text)
        return
    _, *found = _PART.split(text)
    for caption, section in zip(found[::2], found[1::2], strict=True):
        listed = _pages(docname, re.split(r"^## ", section, flags=re.MULTILINE)[0])
        course = (
            sorted(f"tutorials/{path.stem}" for path in DOCS.glob("tutorials/*.md")) if caption == "Tutorials" else []
        )
        yield caption, [*listed, *(page for page in course if page not in listed)]


def _pages(docname: str, text: str) -> list[str]:
    folder = Path(docname).parent
    return [os.path.normpath(folder / page) for page in _ENTRY.findall(text)]


def toctree(caption: str, pages: list[str]) -> str:
    """Return the directive that puts pages into the navigation."""
    lines = [f":caption: {caption}"] if caption else []
    return "\n".join(["```{toctree}", ":hidden:", *lines, "", *(f"/{page}" for page in pages), "```"])


def read(app: Sphinx, docname: str, source: list[str]) -> None:
    """Add the navigation to an index page."""
    if docname in INDEXES:
        found = [toctree(caption, pages) for caption, pages in parts(docname, source[0]) if pages]
        source[0] = "\n\n".join([source[0], *found, ""])


def drop_old(app: Sphinx, error: Exception | None) -> None:
    """Remove pages of the site whose source is gone."""
    if error is None and app.builder.name == "html":
        kept = {f"{name}.html" for name in (*app.env.found_docs, "search", "genindex", "py-modindex")}
        for path in Path(app.outdir).rglob("*.html"):
            if path.relative_to(app.outdir).as_posix() not in kept and "_static" not in path.parts:
                path.unlink()


def setup(app: Sphinx) -> dict[str, Any]:
    """Register the extension."""
    app.connect("source-read", read, priority=200)
    app.connect("build-finished", drop_old)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
