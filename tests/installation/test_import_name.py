"""Another package with the import name syft, installed before ours, after it, or elsewhere."""

import re
import shutil

import pytest

from tests.helpers.environments import Environment, closure, foreign_wheel

# As in a release of the other product: files that we have, files that we have not, a package where we have a module.
THEIRS = {
    "syft/__init__.py": "from syft.client import NAME\n",
    "syft/client.py": "NAME = 'another product'\n",
    "syft/display/__init__.py": "",
    "syft/core/__init__.py": "raise RuntimeError('their core')\n",
}
COMMAND = re.compile(r"To use resyft: (.*)")


@pytest.fixture(scope="module")
def other(tmp_path_factory):
    return foreign_wheel(tmp_path_factory.mktemp("other"), THEIRS)


@pytest.fixture
def environment(tmp_path):
    return Environment(tmp_path / "env", closure("resyft"))


def repaired(environment, text):
    """Type the command that a text names, and return whether all is well then."""
    ran = environment.shell(COMMAND.search(text)[1])
    assert ran.returncode == 0, ran.stderr
    assert not (environment.site / "syft" / "client.py").exists()
    shown = environment.run("resyft", "doctor")
    return shown.returncode == 0 and "Isolation" in shown.stdout


def test_ours_over_theirs(environment, wheel, other):
    environment.install(other)
    environment.install(wheel)
    ran = environment.run("python", "-c", "import syft")
    (error,) = re.findall(r"^ImportError: (.*)", ran.stderr, re.MULTILINE)
    assert error.startswith(
        "The package syft 0.9.5 is installed in the folder of resyft, and the files of both are mixed"
    )
    python = environment.bin / "python"
    assert f"To use resyft: {python} -m pip uninstall -y syft resyft && {python} -m pip install {wheel}" in error
    for command in (("resyft",), ("python", "-m", "resyft")):
        shown = environment.run(*command, "doctor")
        assert (shown.returncode, shown.stderr) == (1, f"{error}\n")
    assert repaired(environment, error)


def test_theirs_over_ours(environment, wheel, other):
    environment.install(wheel)
    environment.install(other)
    # Nothing of ours runs on import here.
    assert environment.run("python", "-c", "import syft; print(syft.NAME)").stdout == "another product\n"
    shown = environment.run("resyft", "doctor")
    assert shown.returncode == 1 and "The package syft 0.9.5 is installed in the folder of resyft" in shown.stderr
    assert environment.run("python", "-m", "syft", "doctor").stderr == shown.stderr
    assert repaired(environment, shown.stderr)


def test_files_that_went_with_the_other_package(environment, wheel, other):
    environment.install(other)
    environment.install(wheel)
    environment.run("python", "-m", "pip", "uninstall", "-y", "syft")
    assert not (environment.site / "syft" / "__init__.py").exists()
    shown = environment.run("resyft", "doctor")
    assert shown.returncode == 1 and re.search(r"^[23] files of resyft in", shown.stderr)
    assert "missing or changed, such as syft/__init__.py. To use resyft: " in shown.stderr
    assert repaired(environment, shown.stderr)


def test_a_folder_or_a_package_that_is_found_first(environment, wheel, other, tmp_path):
    environment.install(wheel)
    (tmp_path / "work" / "syft").mkdir(parents=True)
    (tmp_path / "work" / "syft" / "__init__.py").touch()
    shown = environment.run("resyft", "doctor", PYTHONPATH=str(tmp_path / "work"))
    assert shown.returncode == 1 and f"import syft finds {tmp_path / 'work' / 'syft' / '__init__.py'}" in shown.stderr
    assert "Rename or move it" in shown.stderr
    shutil.unpack_archive(other, tmp_path / "first", "zip")
    shown = environment.run("resyft", "doctor", PYTHONPATH=str(tmp_path / "first"))
    assert shown.returncode == 1 and "import syft finds another package" in shown.stderr
    assert COMMAND.search(shown.stderr)


def test_a_distribution_without_files_in_the_folder_is_no_error(environment, wheel, tmp_path):
    environment.install(
        foreign_wheel(tmp_path, {"others.py": ""}), foreign_wheel(tmp_path, {"tools.py": ""}, name="syft_tools")
    )
    environment.install(wheel)
    shown = environment.run("python", "-c", "import resyft.guard; print('fine')")
    assert shown.stdout == "fine\n", shown.stderr
    with pytest.raises(AttributeError, match="import syft as sy"):
        __import__("resyft").TorchHook
