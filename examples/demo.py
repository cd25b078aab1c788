"""The main job in a minute: two hospitals hold halves of a data set, a model learns from both, no record leaves.

The data is scikit-learn's breast cancer set (569 real biopsies, 30 measurements each). Run it with: scripts/demo
"""

from __future__ import annotations

import sys
import time

import torch
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn
from rich.table import Table
from sklearn.datasets import load_breast_cancer
from torch import nn, optim

import syft as sy

EPOCHS = 12
BATCH = 32


def load_data():
    """Return training and test parts, standardised, in a fixed random order."""
    features, labels = load_breast_cancer(return_X_y=True)
    order = torch.randperm(len(features), generator=torch.Generator().manual_seed(0))
    x = torch.tensor(features, dtype=torch.float32)[order]
    y = torch.tensor(labels, dtype=torch.float32)[order].unsqueeze(1)
    x = (x - x[:469].mean(0)) / x[:469].std(0)
    return x[:469], y[:469], x[469:], y[469:]


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
    return loss


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


def train_federated(owners, console):
    """Let the model visit each owner in turn; only parameters and the last loss come back."""
    model = make_model()
    optimizer = make_optimizer(model)
    columns = (
        TextColumn("[bold]training"),
        BarColumn(),
        MofNCompleteColumn(),
        TextColumn("visits, loss {task.fields[loss]}"),
        TimeElapsedColumn(),
    )
    with Progress(*columns, console=console) as progress:
        task = progress.add_task("training", total=EPOCHS * len(owners), loss="-")
        for _ in range(EPOCHS):
            for x, y in owners:
                model.send(x.location)
                loss = train_on(model, optimizer, x, y)
                model.get()
                progress.update(task, advance=1, loss=f"{loss.get().item():.3f}")
    return model


def main() -> dict[str, float]:
    """Run the demo and return its figures."""
    console = Console(file=sys.stdout)
    torch.set_num_threads(1)
    hook = sy.TorchHook(torch)
    north, south = (sy.VirtualWorker(hook, id=f"hospital-{name}") for name in ("north", "south"))
    x, y, test_x, test_y = load_data()
    half = len(x) // 2
    # Each hospital loads its own records and publishes what they are, not what they say.
    for worker, part in ((north, slice(None, half)), (south, slice(half, None))):
        worker.load_data(
            [
                x[part].clone().tag("#biopsies", "#measurements").describe("30 measurements a biopsy"),
                y[part].clone().tag("#biopsies", "#diagnosis").describe("1 is benign"),
            ]
        )
    console.print("Two hospitals hold 234 and 235 biopsies. A researcher finds them by tag and trains on both.\n")
    owners = []
    for worker in (north, south):
        (found_x,), (found_y,) = (worker.search(["#biopsies", tag]) for tag in ("#measurements", "#diagnosis"))
        owners.append((found_x, found_y))
        console.print(f"  {worker.id}: {found_x.description}, shape {tuple(found_x.shape)}", style="dim")
    console.print()
    started = time.perf_counter()
    with sy.count_messages() as count:
        model = train_federated(owners, console)
    seconds = time.perf_counter() - started
    central = train_central(x, y)
    figures = {
        "federated": accuracy(model, test_x, test_y),
        "central": accuracy(central, test_x, test_y),
        "messages": count.messages,
        "bytes": count.bytes,
        "seconds": seconds,
    }
    report(console, figures, count, (north, south), x)
    return figures


def report(console, figures, count, workers, x):
    """Print what it gave and what it cost, and who saw what."""
    table = Table(title="\nResult", title_justify="left")
    for name in ("", "trained where the data is", "all data in one place"):
        table.add_column(name)
    table.add_row("accuracy on 100 unseen biopsies", f"{figures['federated']:.1%}", f"{figures['central']:.1%}")
    table.add_row("records that left their owner", "0", "469")
    table.add_row("messages, those waited for", f"{count.messages:,}, {count.rounds:,}", "-")
    table.add_row("bytes, both ways", f"{count.bytes:,}", f"{x.nbytes:,} of records")
    table.add_row("seconds", f"{figures['seconds']:.1f}", "-")
    console.print(table)
    seen = Table(title="\nWho saw what", title_justify="left")
    for name in ("party", "holds", "saw"):
        seen.add_column(name)
    for worker in workers:
        shapes = ", ".join(str(tuple(tensor.shape)) for tensor in worker._objects.values())
        seen.add_row(worker.id, f"its own records {shapes}", "its own records, the model while it was visiting")
    seen.add_row("researcher (me)", "the model", "shapes and tags of the data, the model, one loss a visit")
    console.print(seen)
    console.print(
        "\nMost bytes are the commands of each step and the model, which travels 48 times; no record is among them.",
        style="dim",
    )
    console.print(
        "Trained parameters can still say something about the records: see docs/threat-model.md for what this "
        "protects against and what it does not.",
        style="dim",
    )


if __name__ == "__main__":
    main()
