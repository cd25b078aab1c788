"""Environments of their own for tests of the installation: quick ones, which borrow installed packages by links."""

import base64
import hashlib
import importlib.metadata
import os
import re
import subprocess
import sys
import venv
import zipfile
from pathlib import Path

from packaging.requirements import Requirement

ROOT = Path(__file__).resolve().parent.parent.parent
# No index, no configuration of this machine, no sources but the files that a test names.
QUIET = {name: value for name, value in os.environ.items() if not name.startswith(("PIP_", "PYTHON"))}
PIP = {**QUIET, "PIP_NO_INDEX": "1", "PIP_NO_DEPS": "1", "PIP_CONFIG_FILE": os.devnull, "OMP_NUM_THREADS": "1"}


def normal(name):
    """Return the normalised name of a distribution."""
    return re.sub(r"[-_.]+", "-", name).lower()


def closure(name, extras=()):
    """Return the names of a distribution and of all that it needs, with some extras."""
    found = {}

    def add(name, extras):
        if name in found and extras <= found[name]:
            return
        found[name] = found.get(name, set()) | extras
        for line in importlib.metadata.requires(name) or []:
            needed = Requirement(line)
            if needed.marker is None or any(needed.marker.evaluate({"extra": each}) for each in (*extras, "")):
                add(normal(needed.name), set(needed.extras))

    add(normal(name), set(extras))
    return set(found)


class Environment:
    """A virtual environment with links to the packages of this one: to all but ours, or only to those named."""

    def __init__(self, folder, names=None):
        venv.create(folder, symlinks=True)
        self.bin = folder / "bin"
        (self.site,) = folder.glob("lib/python*/site-packages")
        wanted = {normal(each.name) for each in importlib.metadata.distributions()} if names is None else names
        for name in (wanted | {"pip"}) - {"resyft"}:
            try:
                files = importlib.metadata.distribution(name).files or []
            except importlib.metadata.PackageNotFoundError:
                continue  # for another system, such as the packages of torch with CUDA
            home = Path(str(importlib.metadata.distribution(name).locate_file("")))
            for top in {file.parts[0] for file in files} - {"..", "__pycache__"}:
                if not top.endswith(".pth") and (home / top).exists() and not (self.site / top).exists():
                    (self.site / top).symlink_to(home / top)

    def run(self, *words, **environment):
        """Run a command of this environment."""
        return subprocess.run(
            [self.bin / words[0], *words[1:]],
            capture_output=True,
            text=True,
            timeout=240,
            cwd=self.site.parent,
            env={**PIP, **environment},
        )

    def shell(self, line):
        """Run a line that a message told the user to type."""
        return subprocess.run(line, shell=True, capture_output=True, text=True, timeout=240, env=PIP)  # noqa: S602

    def install(self, *files):
        """Install wheels with pip."""
        done = self.run("python", "-m", "pip", "install", "--no-compile", *files)
        assert done.returncode == 0, done.stderr


def build(folder, tree=ROOT):
    """Build the sdist and the wheel of a tree, and return them."""
    done = subprocess.run(
        [sys.executable, "-m", "hatchling", "build", "-d", folder], cwd=tree, capture_output=True, text=True, env=QUIET
    )
    assert done.returncode == 0, done.stderr
    (sdist,), (wheel,) = folder.glob("*.tar.gz"), folder.glob("*.whl")
    return sdist, wheel


def foreign_wheel(folder, files, name="syft", version="0.9.5"):
    """Make a wheel of another project: path -> text."""
    info = f"{name}-{version}.dist-info"
    files = {
        **files,
        f"{info}/METADATA": f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n",
        f"{info}/WHEEL": "Wheel-Version: 1.0\nGenerator: tests\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
    }
    record = ""
    for path, text in files.items():
        digest = base64.urlsafe_b64encode(hashlib.sha256(text.encode()).digest()).rstrip(b"=").decode()
        record += f"{path},sha256={digest},{len(text)}\n"
    wheel = folder / f"{name}-{version}-py3-none-any.whl"
    with zipfile.ZipFile(wheel, "w") as made:
        for path, text in {**files, f"{info}/RECORD": f"{record}{info}/RECORD,,\n"}.items():
            made.writestr(path, text)
    return wheel
