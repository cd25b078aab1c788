"""The manual's section on each error: docs/errors.md, which an installed package holds next to this file."""

from __future__ import annotations

import re
from pathlib import Path

_HERE = Path(__file__).resolve().parent
_PLACES = (_HERE / "errors.md", _HERE.parent.parent / "docs" / "errors.md")


def page() -> str:
    """Return the manual's page on errors."""
    return next(path for path in _PLACES if path.exists()).read_text(encoding="utf-8")


def section(error: str) -> str:
    """Return the section of an error, without its links.

    Args:
        error: a code such as "SY302", or the name of the class.
    """
    for found in re.split(r"^(?=##)", page(), flags=re.MULTILINE):
        names = re.match(r"### (SY\d{3}) (\w+)\n", found)
        if names and error.lower() in (names[1].lower(), names[2].lower()):
            text = found.removeprefix("### ").strip()
            return re.sub(r"\[([^]]+)\]\([^)]+\)", r"\1", text)
    raise ValueError(f"No error has the code or name {error!r}. help(sy.exceptions) lists all of them.")


def explain(error: str) -> None:
    """Print when an error is raised and what to do about it.

    Args:
        error: a code such as "SY302", or the name of the class.
    """
    print(section(error))
