"""Nodes: remote calls, transfers and encrypted predictions, against bare websockets and CrypTen in the same run.

Nodes are processes started as an owner would, with tokens and a policy, on this machine and without TLS; so is the bare
websocket: the `websockets` library at both ends, nothing compressed. CrypTen takes part where it is installed.
"""

from __future__ import annotations

import contextlib
import json
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import torch
from websockets.sync.client import connect

import syft as sy
from benchmarks.learn import Class
from benchmarks.learn_rows import WORK
from benchmarks.measure import Row, pretty, ratio
from benchmarks.rival import crypten

SIZE = 10 * 2**20
CNN = "cnn batch 1"
_RAW = """
import asyncio
from websockets.asyncio.server import serve

async def answer(socket):
    async for message in socket:
        if message == "send":
            await socket.send(bytes({size}))
        else:
            await socket.send(message if len(message) < 1000 else b"ok")

async def main():
    async with serve(answer, "127.0.0.1", 0, compression=None, max_size=None) as server:
        print(server.sockets[0].getsockname()[1], flush=True)
        await asyncio.Event().wait()

asyncio.run(main())
"""


@contextlib.contextmanager
def _process(*arguments: str) -> Iterator[str]:
    """Run a program of Python, and yield the first line that it writes."""
    process = subprocess.Popen([sys.executable, *arguments], stdout=subprocess.PIPE, text=True)
    try:
        assert process.stdout is not None
        yield process.stdout.readline()
    finally:
        process.terminate()
        process.wait(20)


@contextlib.contextmanager
def node(hook: Any, name: str, folder: Path) -> Iterator[Any]:
    """Start a node with tokens, and yield it as a client sees it."""
    home = str(folder / name)
    start = ("-m", "syft", "node", "start", "--id", name, "--store", home, "--threads", "1", "--json")
    issue = ("-m", "syft", "node", "tokens", "issue", "--store", home, "--user", "alice", "--expires", "1h")
    with _process(*start) as line:
        said = json.loads(line)
        made = subprocess.run([sys.executable, *issue], capture_output=True, text=True, check=True)
        client = sy.connect(said["url"], token=made.stdout.split()[-1], hook=hook)
        try:
            yield client
        finally:
            client.close()


def rows() -> Iterator[Row]:
    """Measure everything."""
    hook = sy.TorchHook(torch)
    with tempfile.TemporaryDirectory() as folder:
        with node(hook, "bench-node", Path(folder)) as there, _process("-c", _RAW.format(size=SIZE)) as port:
            with connect(f"ws://127.0.0.1:{int(port)}", compression=None, max_size=None) as raw:
                yield _calls(there, raw)
                yield from _transfers(there, raw)
        yield from _predictions(hook, Path(folder))


def _calls(there: Any, raw: Any) -> Row:
    one: Any = torch.ones(10).send(there)  # type: ignore[attr-defined]
    zero: Any = torch.zeros(10).send(there)  # type: ignore[attr-defined]
    there.synchronize()

    def ours() -> None:
        x = zero
        for _ in range(1000):
            x = x + one
        there.synchronize()

    def theirs() -> None:
        for _ in range(100):
            raw.send(b"x" * 100)
            raw.recv()

    return ratio("1,000 chained remote adds / 100 echoes", 1.5, ours, theirs, 1, blocks=15)


def _transfers(there: Any, raw: Any) -> Iterator[Row]:
    tensor = torch.randn(SIZE // 4)
    contents = tensor.numpy().tobytes()
    sent: list[Any] = []

    def send() -> None:
        sent.append(tensor.send(there))  # type: ignore[attr-defined]
        there.synchronize()

    def let_go() -> None:
        sent.clear()
        there.synchronize()

    def raw_send() -> None:
        raw.send(contents)
        raw.recv()

    def prepare() -> None:
        if not sent:
            send()

    def get() -> None:
        sent.pop().get()

    def raw_get() -> None:
        raw.send("send")
        raw.recv()

    yield ratio("send of 10 MB / websocket", 1.3, send, raw_send, 1, blocks=21, before_ours=let_go)
    yield ratio("get of 10 MB / websocket", 1.3, get, raw_get, 1, blocks=21, before_ours=prepare)


def _predictions(hook: Any, folder: Path) -> Iterator[Row]:
    """Yield the encrypted prediction of a CNN over two nodes and a dealer, where CrypTen is there to compare with."""
    work = next(work for work in WORK if work.name == CNN)
    with contextlib.ExitStack() as stack:
        rival = stack.enter_context(crypten())
        if rival is None:
            return
        site = Class(lambda name: stack.enter_context(node(hook, name, folder)), "net")
        site.share(work)
        site.check(work)
        pairs = [(site.run(work), rival.run(work)) for _ in range(9)][2:]
        ours, theirs = (statistics.median(side) for side in zip(*pairs, strict=True))
        value = statistics.median(a / b for a, b in pairs)
        yield Row(
            "encrypted CNN, two nodes and a dealer / CrypTen", value, 0.5, "x", f"{pretty(ours)} / {pretty(theirs)}"
        )
