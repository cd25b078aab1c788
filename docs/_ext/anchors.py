"""Stable anchors: errors by their code (errors.html#sy302), words of the glossary, and links from words in italics."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

from docutils import nodes
from sphinx import addnodes
from sphinx.application import Sphinx

_CODE = re.compile(r"SY\d{3}\b")


def word_id(word: str) -> str:
    """Return the anchor of a word of the glossary."""
    return "word-" + re.sub(r"[^a-z0-9]+", "-", word.lower()).strip("-")


def _rows(doctree: nodes.document) -> Iterator[nodes.entry]:
    """Yield the first cell of each row of a page's tables, without their heads."""
    for body in doctree.findall(nodes.tbody):
        yield from (row[0] for row in body.findall(nodes.row))


def add(app: Sphinx, doctree: nodes.document) -> None:
    """Add the anchors to the two pages."""
    if app.env.docname == "errors":
        for section in doctree.findall(nodes.section):
            if found := _CODE.match(section[0].astext()):
                section["ids"].append(found[0].lower())
    if app.env.docname == "glossary":
        words = {}
        for cell in _rows(doctree):
            cell["ids"].append(word_id(cell.astext()))
            for word in re.split(r", | / ", re.sub(r" \(.*\)", "", cell.astext())):
                words.setdefault(word.lower(), word_id(cell.astext()))
        app.env.resyft_words = words  # type: ignore[attr-defined]


def link_words(app: Sphinx, doctree: nodes.document, docname: str) -> None:
    """Make words in italics links, if the glossary has them."""
    words = getattr(app.env, "resyft_words", {})
    if docname == "glossary":
        return
    for italic in list(doctree.findall(nodes.emphasis)):
        text = italic.astext().lower()
        found = words.get(text) or words.get(text.removesuffix("s"))
        if found is None or isinstance(italic.parent, nodes.reference | addnodes.desc_signature):
            continue
        link = nodes.reference("", "", internal=True, classes=["word"])
        link["refuri"] = app.builder.get_relative_uri(docname, "glossary") + f"#{found}"
        italic.replace_self(link)
        link += italic


def merge(app: Sphinx, env: Any, docnames: object, other: Any) -> None:
    """Take the words that another process read."""
    env.resyft_words = getattr(other, "resyft_words", None) or getattr(env, "resyft_words", {})


def setup(app: Sphinx) -> dict[str, Any]:
    """Register the extension."""
    app.connect("doctree-read", add)
    app.connect("doctree-resolved", link_words)
    app.connect("env-merge-info", merge)
    return {"parallel_read_safe": True, "parallel_write_safe": True, "env_version": 1}
