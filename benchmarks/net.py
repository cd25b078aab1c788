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
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import torch
from websockets.sync.client import connect

import syft as sy
from benchmarks.learn import Class
from benchmarks.learn_rows import WORK
from benchmarks.measure import Row, pretty, ratio
from benchmarks.rival import crypten
from syft.workers.node_client import parse_address
from syft.workers.transport.http import ask
from syft.workers.websocket_client import where_of

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


class Started:
    """A node that was started as an owner would, with tokens.

    Args:
        said: what it printed when it was ready.
    """

    def __init__(self, said: dict[str, Any]) -> None:
        self.url, self.pid = said["url"], int(said["pid"])
        self._owner = Path(said["owner_token_file"]).read_text().strip()

    def token(self, user: str) -> str:
        """Make a token for a user."""
        where = where_of(*parse_address(self.url), self._owner, None)
        return str(ask(where, "POST", "/v1/tokens", {"user": user, "seconds": 3600})["token"])

    def connect(self, hook: Any, user: str) -> Any:
        """Return the node as a user sees it."""
        return sy.connect(self.url, token=self.token(user), hook=hook)


@contextlib.contextmanager
def started(name: str, folder: Path, data: Path | None = None) -> Iterator[Started]:
    """Start a node."""
    more = () if data is None else ("--data", str(data))
    home = str(folder / name)
    with _process(
        "-m", "syft", "node", "start", "--id", name, "--store", home, "--threads", "1", "--json", *more
    ) as line:
        yield Started(json.loads(line))


@contextlib.contextmanager
def node(hook: Any, name: str, folder: Path) -> Iterator[Any]:
    """Start a node, and yield it as a client sees it."""
    with started(name, folder) as made:
        client = made.connect(hook, "alice")
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
        yield from _isolation(hook, Path(folder))
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

    yield ratio("send of 10 MB / websocket", 1.5, send, raw_send, 1, blocks=21, before_ours=let_go)
    yield ratio("get of 10 MB / websocket", 1.5, get, raw_get, 1, blocks=21, before_ours=prepare)


def _isolation(hook: Any, folder: Path) -> Iterator[Row]:
    """Yield what the processes of users cost."""
    data = folder / "data"
    data.mkdir()
    generator = np.random.default_rng(0)
    np.save(data / "x.npy", generator.standard_normal((512, 784), dtype=np.float32))
    np.save(data / "y.npy", generator.integers(0, 10, 512))
    with started("bench-data", folder, data) as made:
        yield _first_answer(hook, made)
        there = made.connect(hook, "anna")
        torch.ones(10).send(there).get()  # type: ignore[attr-defined]
        yield Row("memory of a session process beyond shared pages", _private_mb(made.pid), 60, "MB", "largest of all")
        yield _private_step(there)
        there.close()


def _first_answer(hook: Any, made: Started) -> Row:
    """Measure how much longer a first answer takes for a user whose session process has to be started."""
    tokens = [made.token(f"user{number}") for number in range(12)]

    def answer(token: str) -> float:
        began = time.perf_counter()
        client = sy.connect(made.url, token=token, hook=hook)
        client.search("#nothing")
        took = time.perf_counter() - began
        hook.local_worker._known_workers.pop(client.id, None)
        client.close()
        return took

    answer(tokens.pop())
    pairs = [(answer(token), answer(token)) for token in tokens]
    value = statistics.median(first - second for first, second in pairs) * 1e3
    return Row("new session process until its first answer", value, 100, "ms", "beyond a second connection")


def _private_mb(pid: int) -> float:
    """Return the most private memory of the processes below a node's template, in MB."""
    parents = {}
    for entry in Path("/proc").iterdir():
        with contextlib.suppress(OSError, ValueError, IndexError):
            parents[int(entry.name)] = int((entry / "stat").read_text().rpartition(")")[2].split()[1])
    templates = [child for child, parent in parents.items() if parent == pid]
    sizes = [0.0]
    for child in [child for child, parent in parents.items() if parent in templates]:
        with contextlib.suppress(OSError):
            lines = Path(f"/proc/{child}/smaps_rollup").read_text().splitlines()
            sizes.append(sum(int(line.split()[1]) for line in lines if line.startswith("Private_")) / 1024)
    return max(sizes)


def _private_step(there: Any) -> Row:
    """Measure a training step on private data against the same step on one's own data at the node."""
    (x,), (y,) = there.search("#x"), there.search("#y")
    batches = {
        "private": (x[:32], y[:32]),
        "own": (torch.randn(32, 784).send(there), torch.randint(0, 10, (32,)).send(there)),  # type: ignore[attr-defined]
    }
    work = {}
    for kind, batch in batches.items():
        layers = [torch.nn.Linear(784, 128), torch.nn.ReLU(), torch.nn.Linear(128, 10)]
        model = torch.nn.Sequential(*layers).send(there)  # type: ignore[operator]
        work[kind] = (model, torch.optim.SGD(model.parameters(), lr=0.01), *batch)

    def step(kind: str) -> None:
        model, optimizer, data, target = work[kind]
        optimizer.zero_grad()
        torch.nn.functional.cross_entropy(model(data), target).backward()
        optimizer.step()
        there.synchronize()

    name = "training step of an MLP on private data / on one's own"
    return ratio(name, 3.0, lambda: step("private"), lambda: step("own"), 1, blocks=31)


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
            "encrypted CNN, two nodes and a dealer / CrypTen", value, 0.2, "x", f"{pretty(ours)} / {pretty(theirs)}"
        )
