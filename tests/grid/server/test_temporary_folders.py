"""Folders of nodes without a store: a killed node's are deleted by the next one, and no others."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from syft.grid.server.temporary_folders import passing_folder, remove_left

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="nodes need fork()")
PREFIX = "syft-node-"
HOLDER = """
import importlib.util, sys, time
spec = importlib.util.spec_from_file_location("folders", sys.argv[1])
folders = importlib.util.module_from_spec(spec)
spec.loader.exec_module(folders)
with folders.passing_folder(sys.argv[2], sys.argv[3]) as made:
    print(made, flush=True)
    time.sleep(60)
"""


@pytest.fixture
def holder(tmp_path):
    """A process that has a folder, and the folder."""
    import syft.grid.server.temporary_folders as module

    args = [sys.executable, "-c", HOLDER, module.__file__, PREFIX, str(tmp_path)]
    with subprocess.Popen(args, stdout=subprocess.PIPE, text=True) as process:
        folder = Path(process.stdout.readline().strip())
        (folder / "objects").mkdir()
        (folder / "objects" / "value").write_text("private")
        yield process, folder
        process.kill()


def test_the_folder_of_a_killed_process_is_deleted(holder, tmp_path):
    process, folder = holder
    with passing_folder(PREFIX, str(tmp_path)) as own:
        assert folder.is_dir()  # its process lives
        process.kill()
        process.wait(30)
        with passing_folder(PREFIX, str(tmp_path)) as other:
            assert not folder.exists()
            assert Path(own).is_dir() and Path(other).is_dir()
    assert list(tmp_path.iterdir()) == []


def test_a_link_is_not_followed(holder, tmp_path):
    process, folder = holder
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir(mode=0o700)
    (elsewhere / ".locked").touch()
    (elsewhere / "kept").touch()
    (tmp_path / f"{PREFIX}link").symlink_to(elsewhere)
    (folder / "link").symlink_to(elsewhere)
    process.kill()
    process.wait(30)
    remove_left(PREFIX, str(tmp_path))
    assert not folder.exists() and (elsewhere / "kept").exists()
    assert (tmp_path / f"{PREFIX}link").is_symlink()


def _unmarked(folder):
    (folder / ".locked").unlink()


def _readable(folder):
    folder.chmod(0o755)


def _owned_by_another(folder):
    if os.geteuid() != 0:
        pytest.skip("only root can give a folder away")
    os.chown(folder, 12345, 12345)


def _renamed(folder):
    folder.rename(folder.parent / "other-name")


@pytest.mark.parametrize("change", [_unmarked, _readable, _owned_by_another, _renamed])
def test_folders_of_other_processes_are_kept(holder, tmp_path, change):
    process, folder = holder
    process.kill()
    process.wait(30)
    change(folder)
    remove_left(PREFIX, str(tmp_path))
    assert len(list(tmp_path.rglob("value"))) == 1
