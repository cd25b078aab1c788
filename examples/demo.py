"""The main job in a minute: two hospitals hold halves of a data set, a model learns from both, no record leaves.

Each hospital is a node: a process of its own, started from the command line, with its own data, key, certificate and
users. A researcher with a token finds the data by tag and trains where it is. What she may take home, the owners decide.

The data is scikit-learn's breast cancer set (569 real biopsies, 30 measurements each). Run it with: scripts/demo
"""

from __future__ import annotations

import contextlib
import json
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
import torch
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn
from rich.table import Table
from sklearn.datasets import load_breast_cancer
from torch import nn, optim

import syft as sy
from syft.exceptions import GetNotPermittedError
from syft.grid import certificates
from syft.workers.node_client import parse_address
from syft.workers.transport.http import ask
from syft.workers.websocket_client import where_of

EPOCHS = 6
BATCH = 32
NAMES = ("hospital-north", "hospital-south")


def load_data():
    """Return training and test parts, standardised, in a fixed random order."""
    features, labels = load_breast_cancer(return_X_y=True)
    order = torch.randperm(len(features), generator=torch.Generator().manual_seed(0))
    x = torch.tensor(features, dtype=torch.float32)[order]
    y = torch.tensor(labels, dtype=torch.float32)[order].unsqueeze(1)
    x = (x - x[:469].mean(0)) / x[:469].std(0)
    return x[:469], y[:469], x[469:], y[469:]


# --- what the hospitals do -----------------------------------------------------------------------------------


class Hospital:
    """An owner: a folder of data, and the command line. It sees no code of the researcher, and she sees no file of his."""

    def __init__(self, name, folder, x, y):
        self.name = name
        self.folder = folder / name
        self.data = self.folder / "data"
        self.data.mkdir(parents=True)
        for label, values, text in (("measurements", x, "30 measurements a biopsy"), ("diagnosis", y, "1 is benign")):
            np.save(self.data / f"{label}.npy", values.numpy())
            (self.data / f"{label}.json").write_text(json.dumps({"tags": ["#biopsies"], "description": text}))

    def start(self, authority):
        """Start the node; it goes on by itself while others do something."""
        pair = certificates.issue(authority, ["localhost", "127.0.0.1"], self.folder)
        options = {
            "--id": self.name,
            "--data": self.data,
            "--store": self.folder / "store",
            "--cert": pair.certificate,
            "--key": pair.key,
            "--owner": f"{self.name}@example.org",
            "--threads": 1,
            "--log-level": "warning",
        }
        command = [str(part) for option in options.items() for part in option]
        with (self.folder / "log").open("w") as log:
            self.process = subprocess.Popen(
                [sys.executable, "-m", "syft", "node", "start", "--json", *command],
                stdout=subprocess.PIPE,
                stderr=log,
                text=True,
            )

    def wait(self):
        """Wait until clients can come, and note where."""
        assert self.process.stdout is not None
        line = self.process.stdout.readline()
        if not line:
            raise RuntimeError(f"{self.name} did not start:\n{(self.folder / 'log').read_text()}")
        told = json.loads(line)
        self.url, self.owner_token = told["url"], Path(told["owner_token_file"]).read_text().strip()

    def token_for(self, user, authority):
        """Make a token, over the HTTP API of the node; `python -m syft node tokens issue` does the same."""
        where = where_of(*parse_address(self.url), self.owner_token, authority)
        return ask(where, "POST", "/v1/tokens", {"user": user, "seconds": 3600})["token"]

    def command(self, *words):
        """Begin one of the owner's commands."""
        return subprocess.Popen(
            [sys.executable, "-m", "syft", "node", *words, "--store", str(self.folder / "store")],
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
        )

    def stop(self):
        """End the node, as Ctrl-C would."""
        self.process.terminate()
        self.process.wait(30)
        if self.process.stdout is not None:
            self.process.stdout.close()


def said(commands):
    """Return what commands print, once all of them have ended."""
    texts = [command.communicate(timeout=60)[0].strip() for command in commands]
    if any(command.returncode for command in commands):
        raise RuntimeError(f"a command of an owner failed: {texts}")
    return texts


@contextlib.contextmanager
def open_hospitals(x, y):
    """Two nodes, with a certificate authority that the team shares. Everything is gone afterwards."""
    half = len(x) // 2
    with tempfile.TemporaryDirectory(prefix="resyft-demo-") as folder, contextlib.ExitStack() as ending:
        authority = certificates.make_authority(Path(folder) / "authority", "Two hospitals")
        hospitals = []
        for name, part in zip(NAMES, (slice(None, half), slice(half, None)), strict=True):
            hospital = Hospital(name, Path(folder), x[part], y[part])
            hospital.start(authority)
            ending.callback(hospital.stop)
            hospitals.append(hospital)
        for hospital in hospitals:
            hospital.wait()
        yield hospitals, authority.certificate


# --- what the researcher does --------------------------------------------------------------------------------


def make_model():
    """A small network, the same one every time."""
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(30, 16), nn.ReLU(), nn.Linear(16, 1))


def make_optimizer(model):
    """Momentum: its state lives where the model is."""
    return optim.SGD(model.parameters(), lr=0.05, momentum=0.9)


def batches(x, y):
    """Cut data, local or remote, into batches."""
    return [(x[i : i + BATCH], y[i : i + BATCH]) for i in range(0, len(x), BATCH)]


def train_on(model, optimizer, x, y):
    """One pass over one owner's data; the same lines for local and remote data."""
    for data, target in batches(x, y):
        optimizer.zero_grad()
        loss = nn.functional.binary_cross_entropy_with_logits(model(data), target)
        loss.backward()
        optimizer.step()


def accuracy(model, x, y):
    """Share of right answers on test data that everybody may see."""
    with torch.no_grad():
        return ((model(x) > 0) == y.bool()).float().mean().item()


def train_central(x, y):
    """What training would give if all records were pooled."""
    model = make_model()
    optimizer = make_optimizer(model)
    half = len(x) // 2
    for _ in range(EPOCHS):
        train_on(model, optimizer, x[:half], y[:half])
        train_on(model, optimizer, x[half:], y[half:])
    return model


def find(node):
    """Find a hospital's records by their tags: what comes back are pointers."""
    (x,), (y,) = (node.search(["#biopsies", tag]) for tag in ("#measurements", "#diagnosis"))
    return x, y


def train_remote(nodes, console):
    """Train a model at each hospital, both at the same time; returns each one's parameters, as one pointer."""
    work = []
    for node in nodes:
        model = make_model().send(node)
        work.append((node, model, make_optimizer(model), *find(node)))
    columns = (
        TextColumn("[bold]training at both"),
        BarColumn(),
        MofNCompleteColumn(),
        TextColumn("passes over the data"),
        TimeElapsedColumn(),
    )
    with Progress(*columns, console=console) as progress:
        task = progress.add_task("training", total=EPOCHS * len(nodes))
        for _ in range(EPOCHS):
            for _, model, optimizer, x, y in work:
                train_on(model, optimizer, x, y)
            for node, *_ in work:
                node.synchronize()
                progress.advance(task)
    with torch.no_grad():
        return [torch.cat([p.reshape(-1) for p in model.parameters()]) for _, model, *_ in work]


def average(vectors):
    """Return the model whose parameters are the mean of those that were trained."""
    model = make_model()
    nn.utils.vector_to_parameters(torch.stack(vectors).mean(0), model.parameters())
    return model


def refusal(pointer):
    """Try to take something home that nobody released."""
    try:
        pointer.get()
    except GetNotPermittedError as error:
        return str(error)
    raise AssertionError("the node let go of something that is private")


def shortened(lines):
    """Return the first and the last lines of a request: its code has a line for each call."""
    return lines if len(lines) <= 24 else [*lines[:19], f"    ... {len(lines) - 23} more lines of code", *lines[-4:]]


# --- the story -----------------------------------------------------------------------------------------------


def main() -> dict[str, float]:
    """Run the demo and return its figures."""
    console = Console(file=sys.stdout)
    torch.set_num_threads(1)
    hook = sy.TorchHook(torch)
    x, y, test_x, test_y = load_data()
    console.print("Two hospitals hold 234 and 235 biopsies. Each starts a node, with TLS and tokens ...")
    with open_hospitals(x, y) as (hospitals, authority), contextlib.ExitStack() as ending:
        nodes = [
            sy.connect(hospital.url, token=hospital.token_for("rosa", authority), ca=authority, hook=hook)
            for hospital in hospitals
        ]
        for node in nodes:
            ending.callback(node.close)
        figures = research(console, hospitals, nodes, (x, y, test_x, test_y))
    console.print("The nodes were stopped, and their folders are gone.", style="dim")
    return figures


def research(console, hospitals, nodes, data):
    """Find, be refused, train, ask, be granted, and take the model home."""
    x, y, test_x, test_y = data
    console.print("A researcher has a token of each, and finds the data by tag:\n")
    for node in nodes:
        records, _ = find(node)
        console.print(
            f"  {node.id} at {node.url}: {records.description}, shape {tuple(records.shape)}",
            style="dim",
            soft_wrap=True,
        )
    text = refusal(find(nodes[0])[0][0])
    console.print(f"\nShe tries to fetch one record, and is refused:\n\n  [dim]{text}[/dim]\n")
    started = time.perf_counter()
    with sy.count_messages() as count:
        trained = train_remote(nodes, console)
        for node in nodes:
            node.synchronize()
    seconds = time.perf_counter() - started
    text = refusal(trained[0])
    console.print(
        f"\nThe trained parameters were computed from the records, so they stay too:\n\n  [dim]{text}[/dim]\n"
    )
    requests = [pointer.request(reason="parameters of the trained model, 513 numbers") for pointer in trained]
    (shown,) = said([hospitals[0].command("requests", "show", requests[0].id, "--verify")])
    console.print("She asks the owners. Each of them sees how the result was computed, and has that checked:\n")
    console.print(
        f"  {hospitals[0].name} $ python -m syft node requests show {requests[0].id} --verify", soft_wrap=True
    )
    for line in shortened(shown.splitlines()):
        console.print(f"  {line[:100]}", style="dim", markup=False, highlight=False, soft_wrap=True)
    console.print()
    approvals = said(
        [
            hospital.command("requests", "approve", request.id, "--expires", "1h")
            for hospital, request in zip(hospitals, requests, strict=True)
        ]
    )
    for hospital, request, approval in zip(hospitals, requests, approvals, strict=True):
        console.print(
            f"  {hospital.name} $ python -m syft node requests approve {request.id} --expires 1h", soft_wrap=True
        )
        console.print(f"  {approval}", style="dim")
        assert request.wait(30) == "approved"
    model = average([pointer.get() for pointer in trained])
    figures = {
        "federated": accuracy(model, test_x, test_y),
        "central": accuracy(train_central(x, y), test_x, test_y),
        "messages": count.messages,
        "bytes": count.bytes,
        "seconds": seconds,
    }
    report(console, figures, count, nodes, x)
    return figures


def report(console, figures, count, nodes, x):
    """Print what it gave and what it cost, and who saw what."""
    table = Table(title="\nResult", title_justify="left")
    for name in ("", "trained where the data is", "all data in one place"):
        table.add_column(name)
    table.add_row("accuracy on 100 unseen biopsies", f"{figures['federated']:.1%}", f"{figures['central']:.1%}")
    table.add_row("records that left their owner", "0", "469")
    table.add_row("messages, those waited for", f"{count.messages:,}, {count.rounds:,}", "-")
    table.add_row("bytes, both ways", f"{count.bytes:,}", f"{x.nbytes:,} of records")
    table.add_row("seconds of training", f"{figures['seconds']:.1f}", "-")
    console.print(table)
    seen = Table(title="\nWho saw what", title_justify="left")
    for name in ("party", "holds", "saw"):
        seen.add_column(name)
    for node in nodes:
        seen.add_row(str(node.id), "its own records", "its own records, the model that was trained there")
    seen.add_row(
        "researcher (me)", "the mean of two models", "shapes and tags of the data, and what the owners approved"
    )
    console.print(seen)
    console.print(
        "\nTrained parameters can still say something about the records: see docs/explanation/threat-model.md for what this "
        "protects against and what it does not.",
        style="dim",
    )


if __name__ == "__main__":
    main()
