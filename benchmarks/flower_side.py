"""Flower's simulation beside us: the same clients, model and local training, written as its documentation shows.

Run in the interpreter that RESYFT_FLOWER_PYTHON names, which has `flwr[simulation]` and scikit-learn and needs nothing
of this library. It does a round whenever it is asked for one by a line, and answers with the seconds.
"""

from __future__ import annotations

import contextlib
import functools
import json
import logging
import os
import sys
import time
from typing import Any

import numpy as np
import torch
from sklearn.datasets import load_digits

CLIENTS = 1000
SAMPLED = 100
ACTORS = 2
BATCH = 32
RATE = 0.1


def network() -> torch.nn.Module:
    """Return the model: an MLP for digits."""
    return torch.nn.Sequential(torch.nn.Linear(64, 32), torch.nn.ReLU(), torch.nn.Linear(32, 10))


def digits() -> tuple[torch.Tensor, torch.Tensor]:
    """Return scikit-learn's digits."""
    found = load_digits()
    return torch.tensor(found.data, dtype=torch.float32) / 16, torch.tensor(found.target)


@functools.cache
def _parts() -> list[tuple[torch.Tensor, torch.Tensor]]:
    """Return the data of each client; once in a process."""
    torch.set_num_threads(1)
    data, targets = digits()
    rows = np.array_split(np.random.default_rng(0).permutation(len(data)), CLIENTS)
    return [(data[some], targets[some]) for some in rows]


def train(message: Any, context: Any) -> Any:
    """Train at a client."""
    from flwr.app import ArrayRecord, Message, MetricRecord, RecordDict

    data, targets = _parts()[int(context.node_config["partition-id"])]
    model = network()
    model.load_state_dict(message.content["arrays"].to_torch_state_dict())
    optimizer = torch.optim.SGD(model.parameters(), lr=RATE)
    total = 0.0
    for rows in torch.randperm(len(data)).split(BATCH):
        optimizer.zero_grad()
        loss = torch.nn.functional.cross_entropy(model(data[rows]), targets[rows])
        loss.backward()  # type: ignore[no-untyped-call]
        optimizer.step()
        total += loss.item() * len(rows)
    metrics = MetricRecord({"loss": total / len(data), "num-examples": len(data)})
    content = RecordDict({"arrays": ArrayRecord(model.state_dict()), "metrics": metrics})
    return Message(content=content, reply_to=message)


def serve(grid: Any, context: Any) -> None:
    """Do rounds as long as somebody asks for them."""
    from flwr.app import ArrayRecord, MetricRecord
    from flwr.serverapp.strategy import FedAvg

    began: list[float] = []

    def between(number: int, arrays: Any) -> Any:
        """Called by Flower after each round, and before the first one."""
        if began:
            _say({"seconds": time.perf_counter() - began[-1]})
        if not sys.stdin.readline():
            raise EOFError("nobody asks for rounds any more")
        began.append(time.perf_counter())
        return MetricRecord({})

    strategy = FedAvg(fraction_train=SAMPLED / CLIENTS, fraction_evaluate=0.0, min_available_nodes=CLIENTS)
    strategy.start(grid, ArrayRecord(network().state_dict()), num_rounds=10**6, evaluate_fn=between)


def _say(what: dict[str, Any]) -> None:
    os.write(_OUT, (json.dumps(what) + "\n").encode())


_OUT = 1


def main() -> None:
    """Start Flower's simulation."""
    global _OUT
    _OUT = os.dup(1)  # whatever else is written to the standard output goes where errors go
    os.dup2(2, 1)
    import flwr
    from flwr.clientapp import ClientApp
    from flwr.serverapp import ServerApp
    from flwr.simulation import run_simulation

    logging.getLogger("flwr").setLevel(logging.CRITICAL)
    _say({"version": flwr.__version__})
    client, server = ClientApp(), ServerApp()
    client.train()(train)
    server.main()(serve)
    resources = {"address": "local", "num_cpus": ACTORS, "include_dashboard": False, "log_to_driver": False}
    backend = {"client_resources": {"num_cpus": 1}, "init_args": resources}
    with contextlib.suppress(RuntimeError):  # how it tells that the server's function ended with an error: above
        run_simulation(server, client, num_supernodes=CLIENTS, backend_config=backend)
