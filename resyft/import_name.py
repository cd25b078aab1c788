"""Finds other packages with the import name `syft`.

pip installs two distributions with the same folder into one without a warning: the later one replaces files of the
earlier one, and the rest is mixed. PySyft, whose distribution is `syft`, has the same folder as this library.
"""

from __future__ import annotations

import base64
import csv
import hashlib
import importlib.metadata
import importlib.util
import json
import re
import shlex
import shutil
import sys
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import urlsplit
from urllib.request import url2pathname

__all__ = ["HERE", "mixed", "problem", "require"]

# The folder that holds the packages `resyft` and `syft`: site-packages, or a clone.
HERE = Path(__file__).resolve().parent.parent
_OTHER = re.compile(r"syft-\d[^-]*(-[^-]+)?\.(dist|egg)-info")
_OURS = re.compile(r"resyft-\d[^-]*\.dist-info")


def mixed(folder: Path) -> str | None:
    """Return the error if a distribution named `syft` has files among ours in a folder; reads little else."""
    for info in _entries(folder):
        if _OTHER.fullmatch(info.name.lower()) and _has_files(info):
            version = info.name.removesuffix(info.suffix).partition("-")[2]
            return (
                f"The package syft {version} is installed in the folder of resyft, and the files of both are mixed in "
                f"{folder / 'syft'}. Only one of them can be installed. {_fix(folder)}"
            )
    return None


def problem() -> str | None:
    """Return the error if `import syft` would not give all files of this library."""
    found = mixed(HERE)
    if found is not None:
        return found
    spec = importlib.util.find_spec("syft")
    origin = None if spec is None or spec.origin is None else Path(spec.origin).resolve()
    if origin is not None and origin != HERE / "syft" / "__init__.py":
        if _other_is_installed():
            return f"import syft finds another package, {origin}, instead of {HERE / 'syft'}. {_fix(HERE)}"
        return f"import syft finds {origin} instead of {HERE / 'syft'}. Rename or move it, or work in another folder."
    damaged = sorted(_damaged(HERE))
    if origin is None or damaged:
        named = damaged[0] if damaged else "syft/__init__.py"
        count = max(len(damaged), 1)
        return (
            f"{count} file{'' if count == 1 else 's'} of resyft in {HERE} {'is' if count == 1 else 'are'} missing or "
            f"changed, such as {named}. {_fix(HERE)}"
        )
    return None


def require() -> None:
    """Exit with the error if there is one."""
    found = problem()
    if found is not None:
        sys.stderr.write(f"{found}\n")
        raise SystemExit(1)


def _has_files(info: Path) -> bool:
    """Return whether an installed distribution lists files of the folder `syft`; without a list, it may have some."""
    for name, start in (("RECORD", "syft/"), ("installed-files.txt", "../syft/")):
        if (info / name).is_file():
            return any(line.startswith(start) for line in (info / name).read_text("utf-8").splitlines())
    return True


def _other_is_installed() -> bool:
    try:
        importlib.metadata.distribution("syft")
    except importlib.metadata.PackageNotFoundError:
        return False
    return True


def _damaged(folder: Path) -> Iterator[str]:
    """Yield the installed Python files that differ from the list that pip wrote; an editable install lists none."""
    record = _info(folder, "RECORD")
    if record is None:
        return
    for name, digest, *_ in csv.reader(record.read_text("utf-8").splitlines()):
        if not name.startswith(("syft/", "resyft/")) or not digest.startswith("sha256="):
            continue
        try:
            content = (folder / name).read_bytes()
        except OSError:
            yield name
            continue
        found = base64.urlsafe_b64encode(hashlib.sha256(content).digest()).rstrip(b"=").decode()
        if digest.removeprefix("sha256=") != found:
            yield name


def _info(folder: Path, file: str) -> Path | None:
    """Return a file of our own metadata in a folder of packages."""
    for info in _entries(folder):
        if _OURS.fullmatch(info.name.lower()) and (info / file).is_file():
            return info / file
    return None


def _entries(folder: Path) -> list[Path]:
    try:
        return list(folder.iterdir())
    except OSError:  # packages in a zip file have no folder
        return []


def _fix(folder: Path) -> str:
    """Return the sentence with the command that leaves this library alone in its environment."""
    beside = Path(sys.executable).parent
    pip = "pip" if Path(shutil.which("pip") or "").parent == beside else f"{shlex.quote(sys.executable)} -m pip"
    if _info(folder, "METADATA") is None:  # a clone: nothing of it is to be installed again
        return f"To use this one: {pip} uninstall -y syft"
    return f"To use resyft: {pip} uninstall -y syft resyft && {pip} install {_source(folder)}"


def _source(folder: Path) -> str:
    """Return where pip installed this library from: a clone, a file, a repository, or the package index."""
    recorded = _info(folder, "direct_url.json")
    if recorded is None:
        return f"resyft=={importlib.metadata.version('resyft')}"
    told = json.loads(recorded.read_text("utf-8"))
    url = told["url"]
    if "vcs_info" in told:
        version = told["vcs_info"]
        return shlex.quote(f"resyft @ {version['vcs']}+{url}@{version['commit_id']}")
    if url.startswith("file:"):
        url = url2pathname(urlsplit(url).path)
    editable = "-e " if told.get("dir_info", {}).get("editable") else ""
    return f"{editable}{shlex.quote(url)}"
