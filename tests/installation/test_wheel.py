"""The wheel and the sdist: what they contain, and that they work in environments of their own."""

import re
import subprocess
import tarfile
import zipfile
from email.parser import Parser

import pytest

import syft as sy
from tests.helpers.environments import ROOT, Environment, build, closure


@pytest.fixture(scope="module")
def installed(wheel, tmp_path_factory):
    """Return an environment with the wheel and all packages."""
    made = Environment(tmp_path_factory.mktemp("full") / "env")
    made.install(wheel)
    return made


@pytest.fixture(scope="module")
def base(wheel, tmp_path_factory):
    """Return an environment with the wheel and what it needs, without extras."""
    made = Environment(tmp_path_factory.mktemp("base") / "env", closure("resyft"))
    made.install(wheel)
    return made


def tracked(*folders):
    """Return the files of some folders that belong to the project."""
    found = subprocess.run(
        ["git", "ls-files", "--cached", "--others", "--exclude-standard", *folders],
        cwd=ROOT,
        capture_output=True,
        text=True,
    )
    if found.returncode:
        pytest.skip("this tree is no clone")
    return {name for name in found.stdout.splitlines() if (ROOT / name).exists()}


def test_the_wheel_has_all_files_of_the_packages_and_no_others(wheel):
    names = set(zipfile.ZipFile(wheel).namelist())
    info = f"resyft-{sy.__version__}.dist-info"
    ours = {name.removeprefix("stubs/") for name in tracked("resyft", "syft", "stubs")} | {"syft/exceptions/errors.md"}
    assert {name for name in names if not name.startswith(info)} == ours
    assert {f"{info}/licenses/LICENSE", f"{info}/entry_points.txt", f"{info}/METADATA"} <= names
    assert {"syft/py.typed", "syft/serde/protobuf/schema/syft.proto"} <= names
    assert any(name.startswith("syft-stubs/") and name.endswith(".pyi") for name in names)
    assert not [name for name in names if "test" in name.split("/")[0]]


def test_the_metadata_is_complete(wheel):
    metadata = zipfile.ZipFile(wheel).read(f"resyft-{sy.__version__}.dist-info/METADATA").decode()
    fields = Parser().parsestr(metadata)
    assert fields["Description-Content-Type"] == "text/markdown"
    assert fields.get_payload().startswith((ROOT / "README.md").read_text()[:100])
    assert {line.partition(",")[0] for line in fields.get_all("Project-URL")} == {
        "Homepage", "Documentation", "Changelog", "Issues",
    }  # fmt: skip
    assert fields["License-Expression"] == "Apache-2.0" and fields["Author"] == "resyft maintainers"
    assert "Operating System :: POSIX :: Linux" in fields.get_all("Classifier")


def test_the_sdist_builds_the_same_wheel(built, tmp_path):
    sdist, wheel = built
    with tarfile.open(sdist) as packed:
        packed.extractall(tmp_path, filter="data")
    (tree,) = tmp_path.iterdir()
    for name in ("README.md", "LICENSE", "CHANGELOG.md", "constraints.txt", "tests/conftest.py", "scripts/setup"):
        assert (tree / name).exists(), name
    (tmp_path / "again").mkdir()
    again = build(tmp_path / "again", tree)[1]
    assert sorted(zipfile.ZipFile(again).namelist()) == sorted(zipfile.ZipFile(wheel).namelist())


def test_the_ten_lines_of_the_readme_run(base):
    (block,) = re.findall(
        r"```python\n(import torch\nimport syft as sy\n.*?)```", (ROOT / "README.md").read_text(), re.DOTALL
    )
    ran = base.run("python", "-W", "error", "-c", f"{block}\nprint(sy.__file__)")
    assert ran.returncode == 0, ran.stderr
    assert "tensor(" in ran.stdout and str(base.site / "syft") in ran.stdout


@pytest.mark.parametrize("command", [("resyft",), ("python", "-m", "syft"), ("python", "-m", "resyft")])
def test_doctor_runs_with_the_base_packages_alone(base, command):
    shown = base.run(*command, "doctor")
    assert shown.returncode == 0, shown.stderr
    assert (
        re.search(rf"^resyft +{re.escape(sy.__version__)} ", shown.stdout, re.MULTILINE) and "seccomp" in shown.stdout
    )
    line = "pip install 'argon2-cffi>=25' 'fastapi>=0.130' 'pyjwt>=2.10' 'sqlalchemy>=2.0.45' 'typer>=0.20' 'uvicorn>=0.40'"
    assert (
        f"Missing for running nodes: fastapi, uvicorn, pyjwt, argon2-cffi, sqlalchemy, typer. Install: {line}"
        in shown.stdout
    )
    assert base.run(*command, "--version").stdout == f"resyft {sy.__version__}\n"


def test_other_commands_name_the_missing_packages(base):
    refused = base.run("resyft", "node", "start")
    assert refused.returncode == 1 and "extra 'node'" in refused.stderr and "'typer>=0.20'" in refused.stderr


def test_commands_have_the_name_that_was_typed(installed):
    assert installed.run("resyft", "--help").stdout.startswith("Usage: resyft [OPTIONS]")
    assert installed.run("python", "-m", "syft", "--version").stdout == f"resyft {sy.__version__}\n"
    assert installed.run("python", "-m", "syft", "node", "--help").stdout.startswith("Usage: python -m syft node")
    missing = [line for line in installed.run("resyft", "doctor").stdout.splitlines() if line.startswith("Missing")]
    assert all("MLflow" in line for line in missing)  # the only optional package that the tests do without
