"""The process of a worker imports modules of the user: types and protocols of their own run there."""

import importlib
import sys

import pytest
import torch

import syft as sy
from syft.exceptions import SyftError, UnsupportedOperationError, WorkerLostError
from syft.mpc.runtime.client import run
from syft.mpc.runtime.protocol_registry import PROTOCOLS

OWN = """
from syft.mpc.runtime.protocol_registry import protocol


@protocol("sum of a user", deals=False)
async def sum_of_a_user(party, x, y):
    return x + y
"""


@pytest.fixture
def folder(tmp_path, monkeypatch):
    (tmp_path / "own_protocols_of_a_test.py").write_text(OWN)
    (tmp_path / "broken_module_of_a_test.py").write_text("raise RuntimeError('this module is broken')")
    monkeypatch.setattr(sys, "path", [*sys.path, str(tmp_path)])
    importlib.invalidate_caches()
    yield tmp_path
    sys.modules.pop("own_protocols_of_a_test", None)
    PROTOCOLS.pop("sum of a user", None)


def start(hook, *names, modules=()):
    return [sy.ProcessWorker(hook, id=name, modules=modules) for name in names]


def test_a_protocol_of_the_user_runs_in_processes_that_import_it(hook, folder):
    importlib.import_module("own_protocols_of_a_test")
    parties = start(hook, "modules-1", "modules-2", modules=["own_protocols_of_a_test"])
    try:
        x, y = (torch.tensor(values).share(*parties) for values in ([1, 2], [30, 40]))
        assert run("sum of a user", x.child, y.child).wrap().get().tolist() == [31, 42]
    finally:
        for party in parties:
            party.stop()


def test_a_process_without_the_module_refuses_and_says_what_to_do(hook, folder):
    importlib.import_module("own_protocols_of_a_test")
    parties = start(hook, "without-1", "without-2")
    try:
        x = torch.tensor([1, 2]).share(*parties)
        with pytest.raises(UnsupportedOperationError, match=r"not registered in this process.*modules="):
            run("sum of a user", x.child, x.child).wrap().get()
    finally:
        for party in parties:
            party.stop()


@pytest.mark.parametrize(
    "modules, says",
    [
        (["no_such_module_of_a_test"], "There is no module 'no_such_module_of_a_test' on sys.path"),
        (["no_such.package"], "There is no module"),
        (["__main__"], "can't name __main__"),
        ("json", r"Write modules=\['json'\]"),
        ([torch], "names of modules, got a module"),
    ],
)
def test_bad_modules_are_refused_before_a_process_starts(hook, modules, says):
    with pytest.raises(SyftError, match=says):
        sy.ProcessWorker(hook, id="bad-modules", modules=modules)
    assert hook.local_worker.known("bad-modules") is None


def test_a_module_that_fails_ends_the_process(hook, folder, capfd):
    (worker,) = start(hook, "broken-module", modules=["broken_module_of_a_test"])
    try:
        with pytest.raises(WorkerLostError, match="ended with exit code 1"):
            torch.ones(2).send(worker)
    finally:
        worker.stop()
    assert "this module is broken" in capfd.readouterr().err
