"""Launched nodes in a real Jupyter kernel: they end with it, and a cell can be run again."""

from __future__ import annotations

import asyncio
import os
import signal

import nbformat
import pytest
from nbclient import NotebookClient
from nbclient.exceptions import CellExecutionError

from tests.grid.launch.test_launch import is_there
from tests.helpers.nodes import soon
from tests.notebooks.kernel import ROOT

LAUNCH = """
import asyncio, os, torch, syft as sy
hook = sy.TorchHook(torch)
assert asyncio.get_running_loop().is_running()
node = sy.launch("kernel-hospital", data={"ages": torch.arange(200.0)}, users=["sam"])
print(os.getpid(), node.pid)
"""
USE = """
owner, sam = node
request = sam.search("#ages")[0].sum().request(reason="the sum")
owner.requests[-1].approve()
print(request.get().item())
node
"""
# An interrupt arrives while the node starts: KeyboardInterrupt in the cell, and no process stays.
INTERRUPTED = """
import os, signal, threading
from syft.grid.launch.process import LaunchedProcess
started = []
was = LaunchedProcess.is_ready
def is_ready(process):
    if not started:
        started.append(process.process.pid)
        os.kill(os.getpid(), signal.SIGINT)
    return was(process)
LaunchedProcess.is_ready = is_ready
try:
    sy.launch("kernel-interrupted")
except KeyboardInterrupt:
    print("interrupted", *started)
finally:
    LaunchedProcess.is_ready = was
"""


class Kernel:
    """A kernel that runs cells one by one."""

    def __init__(self):
        self.client = NotebookClient(
            nbformat.v4.new_notebook(), timeout=300, kernel_name="python3", resources={"metadata": {"path": str(ROOT)}}
        )

    async def __aenter__(self):
        self.client.create_kernel_manager()
        await self.client.async_start_new_kernel(env={**os.environ, "OMP_NUM_THREADS": "1", "PYTHONPATH": str(ROOT)})
        await self.client.async_start_new_kernel_client()
        return self

    async def __aexit__(self, *error):
        self.client.kc.stop_channels()
        await self.client.km.shutdown_kernel(now=True)

    async def run(self, code):
        """Run a cell; returns what it printed, and all of its outputs."""
        self.client.nb.cells.append(nbformat.v4.new_code_cell(code))
        index = len(self.client.nb.cells) - 1
        cell = await self.client.async_execute_cell(self.client.nb.cells[index], index)
        return "".join(output.get("text", "") for output in cell.outputs), cell.outputs

    async def launch(self):
        """Launch the node; returns the ids of the kernel's process and of the node's."""
        text, _ = await self.run(LAUNCH)
        return [int(word) for word in text.split()[-2:]]


def gone(pid):
    return soon(lambda: not is_there(pid))


def test_cells_run_again_and_the_node_ends_with_a_restarted_or_killed_kernel():
    asyncio.run(_use())


async def _use():
    async with Kernel() as kernel:
        own, first = await kernel.launch()
        text, outputs = await kernel.run(USE)
        assert "19900.0" in text and "<table" in outputs[-1]["data"]["text/html"]
        assert await kernel.launch() == [own, first], "a rerun of the cell keeps the node"
        assert "19900.0" in (await kernel.run(USE))[0]

        text, _ = await kernel.run(INTERRUPTED)
        assert gone(int(text.split("interrupted")[1].split()[0]))
        assert is_there(first), "an interrupt keeps the nodes that run"

        await kernel.client.km.interrupt_kernel()  # Ctrl-C while no cell runs
        assert "True" in (await kernel.run("print(node.is_running)"))[0]

        await kernel.client.km.restart_kernel(now=False)
        assert gone(first)
        await kernel.client.kc.wait_for_ready(timeout=100)
        own, second = await kernel.launch()
        assert second != first
        os.kill(own, signal.SIGKILL)
        assert gone(second)


def test_errors_of_a_launch_are_short_in_a_notebook():
    asyncio.run(_fail())


async def _fail():
    async with Kernel() as kernel:
        with pytest.raises(CellExecutionError) as error:
            await kernel.run("import syft as sy\nsy.launch('a', thread=2)")
        assert "no option 'thread'. Did you mean 'threads'?" in str(error.value)
