"""`doctor`: installed and missing packages, and the isolation that the system supports."""

from __future__ import annotations

import importlib.metadata
import importlib.util
import platform

from syft.cli.output import rows, say
from syft.grid.isolation.confinement.confine import MEASURES, available

# package as it is imported -> what installs it
PACKAGES = {
    "fastapi": "resyft[node]",
    "uvicorn": "resyft[node]",
    "jwt": "resyft[node]",
    "argon2": "resyft[node]",
    "sqlalchemy": "resyft[node]",
    "typer": "resyft[node]",
    "pg8000": "resyft[postgres]",
    "ray": "resyft[ray]",
    "sklearn": "resyft[examples]",
    "opacus": "resyft[dp]",
}
_CORE = ("resyft", "torch", "numpy", "msgpack", "cryptography", "websockets", "rich")
_NAMES = {"jwt": "pyjwt", "argon2": "argon2-cffi", "sklearn": "scikit-learn"}
_PURPOSE = {
    "resyft[node]": "running nodes",
    "resyft[postgres]": "nodes with PostgreSQL",
    "resyft[ray]": "workers in a Ray cluster",
    "resyft[examples]": "the demo",
    "resyft[dp]": "training with differential privacy",
}


def doctor() -> None:
    """Print the installed versions, and the parts that need packages which are not installed."""
    lines = [("python", platform.python_version(), "")]
    lines += [(name, _version(name), "") for name in _CORE]
    missing: dict[str, list[str]] = {}
    for module, extra in PACKAGES.items():
        name = _NAMES.get(module, module)
        if importlib.util.find_spec(module) is None:
            missing.setdefault(extra, []).append(name)
        lines.append((name, _version(name), _PURPOSE[extra]))
    rows(("package", "version", "for"), lines, "")
    for extra, names in missing.items():
        say(f"{_PURPOSE[extra]} needs {', '.join(names)}: pip install '{extra}'")
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
