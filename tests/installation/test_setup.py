"""scripts/setup: levels, interruptions, two at once, errors. pip runs against an index that never answers, or has nothing."""

import contextlib
import os
import shutil
import signal
import socket
import subprocess
import sys
import threading
from importlib.machinery import SourceFileLoader
from importlib.util import module_from_spec, spec_from_loader

import pytest

from tests.helpers.environments import QUIET, ROOT, closure, normal

NEEDED = ("scripts/setup", "scripts/install_packages", "pyproject.toml", "constraints.txt")


@pytest.fixture(scope="module")
def installer():
    """Return scripts/install_packages as a module."""
    loader = SourceFileLoader("install_packages", str(ROOT / "scripts" / "install_packages"))
    module = module_from_spec(spec_from_loader(loader.name, loader))
    loader.exec_module(module)
    return module


@pytest.fixture
def clone(tmp_path):
    """Return a folder with what the set-up reads."""
    for name in NEEDED:
        (tmp_path / name).parent.mkdir(exist_ok=True)
        shutil.copy(ROOT / name, tmp_path / name)
    return tmp_path


@contextlib.contextmanager
def silent_index():
    """An index that accepts connections and never answers; gives its address and an event for the first one."""
    called, kept = threading.Event(), []
    with socket.create_server(("127.0.0.1", 0)) as server:

        def accept():
            with contextlib.suppress(OSError):
                while True:
                    kept.append(server.accept()[0])
                    called.set()

        accepting = threading.Thread(target=accept)
        accepting.start()
        try:
            yield f"http://127.0.0.1:{server.getsockname()[1]}/simple", called
        finally:
            server.shutdown(socket.SHUT_RDWR)
            accepting.join()
            for connection in kept:
                connection.close()


def start(clone, *levels, **environment):
    """Start a set-up, as a terminal would: in a process group of its own."""
    return subprocess.Popen(
        [clone / "scripts" / "setup", *levels],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        process_group=0,
        env={**QUIET, "PYTHON": sys.executable, "PIP_CONFIG_FILE": os.devnull, **environment},
    )


def ended(process):
    out, err = process.communicate(timeout=240)
    return process.returncode, out, err


def test_a_set_up_that_pip_cannot_finish(clone):
    code, out, err = ended(start(clone, "demo", PIP_NO_INDEX="1"))
    assert code == 1 and "making .venv" in out and "packages for the demo into .venv. This takes about" in out
    assert "ERROR: " in err and "torch==2.13.0" in err and "All of its output is in .venv/setup.log" in err
    assert "torch==2.13.0" in (clone / ".venv" / "setup.log").read_text()
    made = {path.name for path in (clone / ".venv").glob(".setup-*")}
    assert made == set(), "neither done nor cut off"
    code, out, err = ended(start(clone, "demo", PIP_NO_INDEX="1"))
    assert code == 1 and "making .venv" not in out, "the environment is kept"


def test_an_interrupted_set_up_starts_over_and_two_wait_for_each_other(clone):
    with silent_index() as (address, called):
        first = start(clone, PIP_INDEX_URL=address)
        assert called.wait(120), "pip asks the index"
        second = start(clone, "demo", PIP_NO_INDEX="1")
        assert second.stdout.readline() == "setup: waiting for another set-up of this clone\n"
        assert second.poll() is None and first.poll() is None
        os.killpg(first.pid, signal.SIGINT)  # Ctrl-C reaches pip too, which ends with an ordinary exit code
        code, out, err = ended(first)
    assert code == 130 and err.endswith("setup: interrupted. Run it again: it starts over\n"), err
    assert "packages for the tests and all extras" in out and "Traceback" not in err
    code, out, err = ended(second)
    assert code == 1 and out.startswith("setup: making .venv"), "what the first one left is not trusted"
    assert "ERROR: " in err


def test_levels(clone):
    assert ended(start(clone, "everything")) == (
        2, "", "setup: everything is no level. Levels: demo, all (default: all)\n"
    )  # fmt: skip
    code, _, err = ended(start(clone, PYTHON="no-such-python"))
    assert code == 1 and "no-such-python is not there. Set PYTHON to the one to use" in err


def test_a_finished_level_is_not_installed_again(clone):
    """With stamps as the script writes them, for an environment that has the tools."""
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", clone / ".venv"], check=True, env=QUIET)
    for tool in ("resyft", "pytest", "ruff", "mypy", "lint-imports"):
        (clone / ".venv" / "bin" / tool).touch(0o755)
    text = (clone / "scripts" / "setup").read_text()
    (function,) = [part for part in text.split("\n\n") if part.startswith("# What the environment was made from")]
    version = ".".join(map(str, sys.version_info[:3]))
    script = f"digest() {{ sha256sum; }}; root=$(pwd -P)\n{function}\nfingerprint {version}"
    made = subprocess.run(["bash", "-c", script], cwd=clone, capture_output=True, text=True, check=True).stdout
    demo, everything = clone / ".venv" / ".setup-stamp-demo", clone / ".venv" / ".setup-stamp-all"
    demo.write_text(made)
    assert ended(start(clone, "demo")) == (0, "", "")
    code, out, _ = ended(start(clone, PIP_NO_INDEX="1"))
    assert code == 1 and "all extras" in out, "the demo's packages are not all"
    subprocess.run([sys.executable, "-m", "venv", "--clear", "--without-pip", clone / ".venv"], check=True, env=QUIET)
    for tool in ("resyft", "pytest", "ruff", "mypy", "lint-imports"):
        (clone / ".venv" / "bin" / tool).touch(0o755)
    everything.write_text(made)
    assert ended(start(clone, "demo")) == (0, "", "") and ended(start(clone)) == (0, "", "")
    (clone / "constraints.txt").write_text((clone / "constraints.txt").read_text() + "# changed\n")
    assert ended(start(clone, "demo", PIP_NO_INDEX="1"))[0] == 1, "the stamp is of other versions"


def test_the_number_of_packages_is_that_of_the_demo(installer):
    pinned = {normal(line.partition("==")[0]) for line in (ROOT / "constraints.txt").read_text().splitlines()}
    needed = (closure("resyft", {"demo"}) | closure("hatchling")) & pinned
    assert installer.LEVELS["demo"][2] == len(needed)
    assert not {"ray", "mypy", "hypothesis", "pytest"} & needed


def test_the_bar_counts_what_pip_finds(installer, capsys):
    progress = installer.Progress(10)
    for line in (
        "Looking in links: /wheels\n",
        "Collecting Typing_Extensions>=4 (from torch==2.13.0)\n",
        "  Downloading typing_extensions-4.16.0-py3-none-any.whl (43.1 MB)\n",
        "Requirement already satisfied: typing-extensions in ./.venv (from torch) (4.16.0)\n",
        "Processing /wheels/scikit_learn-1.9.1-cp311-cp311-manylinux_2_28_x86_64.whl (from resyft==0.1.0)\n",
        "Installing collected packages: scikit-learn, typing-extensions\n",
    ):
        progress.read(line)
    progress.end()
    assert progress.found == {"typing-extensions", "scikit-learn"}
    assert capsys.readouterr().out == "setup: 2 of 10 packages, unpacking 2 packages\n"
    progress.read("Collecting numpy>=1.26 (from resyft==0.1.0)\n")
    progress.read("  Using cached numpy-2.4.6-cp311-cp311-manylinux_2_28_x86_64.whl (16.9 MB)\n")
    assert progress.at == "numpy (16.9 MB)"
