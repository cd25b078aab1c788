"""`doctor`: installed and missing packages, and the isolation that the system supports."""

from __future__ import annotations

import importlib.metadata
import importlib.util
import platform

from syft._extras import EXTRAS, install_line
from syft.cli.output import rows, say
from syft.grid.isolation.confinement.confine import MEASURES, available

_CORE = ("resyft", "torch", "numpy", "msgpack", "cryptography", "websockets", "rich")


def doctor() -> None:
    """Show versions, missing packages and isolation. Prints the command for each missing package."""
    lines = [("python", platform.python_version(), "")]
    lines += [(name, _version(name), "") for name in _CORE]
    missing: dict[str, list[str]] = {}
    for extra, (purpose, packages) in EXTRAS.items():
        for module, name in packages.items():
            if importlib.util.find_spec(module) is None:
                missing.setdefault(extra, []).append(name)
            lines.append((name, _version(name), purpose))
    rows(("package", "version", "for"), lines, "")
    say("")
    for extra, names in missing.items():
        say(f"Missing for {EXTRAS[extra][0]}: {', '.join(names)}. Install: {install_line(extra)}")
    if not missing:
        say("Nothing is missing.")
    say("")
    say("Isolation of the processes that run users' calls:")
    offered = available()
    rows(("measure", "here", "effect"), [(name, offered[name], effect) for name, effect in MEASURES.items()], "")


def _version(name: str) -> str:
    try:
        return importlib.metadata.version(name)
    except importlib.metadata.PackageNotFoundError:
        return "not installed"
