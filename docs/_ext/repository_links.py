"""Links between files of the repository become links of the site; pages of the root folder become pages of the site.

Links in the sources are relative paths, so that they work wherever the repository is read. `project/*.md` stand for
pages of the root folder: each holds a link to its page, and the site shows the page itself instead.
"""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import Any

from sphinx.application import Sphinx

ROOT = Path(__file__).resolve().parent.parent.parent
DOCS = ROOT / "docs"
# A page of the site -> the file in the root folder that it shows.
ROOT_PAGES = {
    "project/changelog": "CHANGELOG.md",
    "project/contributing": "CONTRIBUTING.md",
    "project/security": "SECURITY.md",
    "project/conduct": "CODE_OF_CONDUCT.md",
}
_SHOWN_AT = {ROOT / file: DOCS / f"{page}.md" for page, file in ROOT_PAGES.items()}
_SHOWN_AT[ROOT / "README.md"] = _SHOWN_AT[DOCS / "README.md"] = DOCS / "index.md"
# Code is matched first, so that a link inside of it is left alone.
_LINK = re.compile(r"(?P<code>^(`{3,}|~{3,}).*?^\2|`[^`\n]+`)|\]\((?P<link>[^)\s]+)\)", re.DOTALL | re.MULTILINE)


def rewritten(text: str, folder: Path, page: Path) -> str:
    """Return a page's text with the relative links of a file in `folder` as `page` of the site needs them."""

    def link(found: re.Match[str]) -> str:
        path, hash_sign, anchor = (found["link"] or "").partition("#")
        if not path or re.match(r"[a-z]+:", path):
            return found[0]
        target = Path(os.path.normpath(folder / path))
        if target.is_dir() and (target / "README.md").exists():
            target /= "README.md"
        target = _SHOWN_AT.get(target, target)
        return f"]({os.path.relpath(target, page.parent)}{hash_sign}{anchor})"

    return _LINK.sub(link, text)


def read(app: Sphinx, docname: str, source: list[str]) -> None:
    """Replace links, and the text of a page that stands for one of the root folder."""
    page = DOCS / f"{docname}.md"
    folder = page.parent
    if docname in ROOT_PAGES:
        file = ROOT / ROOT_PAGES[docname]
        app.env.note_dependency(file)
        source[0], folder = file.read_text(), ROOT
    if page.exists():
        source[0] = rewritten(source[0], folder, page)


def setup(app: Sphinx) -> dict[str, Any]:
    """Register the extension."""
    app.connect("source-read", read, priority=100)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
