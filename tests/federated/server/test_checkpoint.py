"""Checkpoints whose write is interrupted: the last complete one survives, and no partial file is ever read."""

from __future__ import annotations

import errno
import os
import stat
from pathlib import Path

import pytest
import torch

from syft.exceptions import FederatedError
from syft.federated.server.checkpoint import FILE, Checkpoint
from tests.federated.server.test_run import named, parts, state, train
from tests.helpers import warm_processes as warm

OLD = {"round": 1, "state": torch.arange(5.0)}
NEW = {"round": 2, "state": torch.arange(5000.0)}

# In a process of its own, which ends in the middle of a write.
WRITER = """
import os, resource, sys
from pathlib import Path
import torch
from syft.federated.server.checkpoint import Checkpoint

folder, where = sys.argv[1:]

def end(*args, **kwargs):
    os._exit(7)

if where == "before the file is on disk":
    os.fsync = end
elif where == "before it replaces the old one":
    os.replace = os.rename = Path.replace = Path.rename = end
elif where == "after it replaced the old one":
    replace = Path.replace
    Path.replace = lambda self, target: (replace(self, target), end())
else:  # the disk takes that many bytes of a file
    resource.setrlimit(resource.RLIMIT_FSIZE, (int(where), resource.getrlimit(resource.RLIMIT_FSIZE)[1]))
try:
    Checkpoint(folder).save({"round": 2, "state": torch.arange(5000.0)})
except OSError:
    os._exit(7)
"""


def same(found, expected):
    return found["round"] == expected["round"] and torch.equal(found["state"], expected["state"])


@pytest.mark.parametrize(
    "where", ["0", "1", "31", "32", "33", "10000", "before the file is on disk", "before it replaces the old one"]
)
def test_the_last_checkpoint_survives_a_process_that_ends_while_it_writes(where, tmp_path):
    checkpoint = Checkpoint(tmp_path)
    checkpoint.save(OLD)
    assert warm.run(WRITER, str(tmp_path), where, timeout=60).returncode == 7
    assert same(checkpoint.load(), OLD)
    checkpoint.save(NEW)  # what is left of the broken write is in nobody's way
    assert same(checkpoint.load(), NEW)


@pytest.mark.parametrize("where", ["0", "40", "before it replaces the old one"])
def test_there_is_no_checkpoint_after_a_first_write_that_was_interrupted(where, tmp_path):
    assert warm.run(WRITER, str(tmp_path), where, timeout=60).returncode == 7
    assert Checkpoint(tmp_path).load() is None


def test_the_new_checkpoint_counts_once_it_has_replaced_the_old_one(tmp_path):
    Checkpoint(tmp_path).save(OLD)
    assert warm.run(WRITER, str(tmp_path), "after it replaced the old one", timeout=60).returncode == 7
    assert same(Checkpoint(tmp_path).load(), NEW)


def test_a_checkpoint_is_on_disk_before_it_replaces_the_old_one(tmp_path, monkeypatch):
    """If the name changed first, a power cut could leave the new name with no contents."""
    seen, fsync, replace = [], os.fsync, Path.replace

    def noted_fsync(handle):
        is_folder = stat.S_ISDIR(os.fstat(handle).st_mode)
        seen.append("folder" if is_folder else f"file of {os.fstat(handle).st_size} bytes")
        fsync(handle)

    def noted_replace(self, target):
        seen.append("replace")
        return replace(self, target)

    monkeypatch.setattr(os, "fsync", noted_fsync)
    monkeypatch.setattr(Path, "replace", noted_replace)
    Checkpoint(tmp_path).save(OLD)
    assert seen == [f"file of {(tmp_path / FILE).stat().st_size} bytes", "replace", "folder"]


def test_a_file_that_ends_too_early_is_refused(tmp_path):
    checkpoint = Checkpoint(tmp_path)
    checkpoint.save(OLD)
    content = checkpoint.path.read_bytes()
    for length in {0, 1, 31, 32, 33, len(content) // 2, len(content) - 1}:
        checkpoint.path.write_bytes(content[:length])
        with pytest.raises(FederatedError, match="is damaged"):
            checkpoint.load()
    checkpoint.path.write_bytes(content)
    assert same(checkpoint.load(), OLD)


def test_a_run_goes_on_from_the_last_complete_round_after_a_full_disk(tmp_path, monkeypatch):
    whole = train(named(parts()), rounds=3)
    train(named(parts()), rounds=1, checkpoint=tmp_path)

    def full(handle):
        raise OSError(errno.ENOSPC, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(os, "fsync", full)
        with pytest.raises(OSError, match="No space left"):
            train(named(parts()), rounds=3, checkpoint=tmp_path)
    assert Checkpoint(tmp_path).load()["round"] == 1
    found = train(named(parts()), rounds=3, checkpoint=tmp_path)
    assert found.rounds == 3 and torch.equal(state(found.model), state(whole.model))
