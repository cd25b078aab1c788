"""Helpers of the tests of serving: a small model, workers in one process or in several, and a client process."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path
from typing import Any

import torch
from torch import nn

from tests.helpers import warm_processes as warm

ROOT = Path(__file__).parents[3]
DECIMALS: dict[str, int] = {}
BITS = {"base": 2, "precision_fractional": 16}

# Reads one request a line, ("connect", invitation) or ("ask", numbers), and answers each with a line.
CLIENT = """
import json, sys, torch
import syft as sy
client = None
for line in sys.stdin:
    what, given = json.loads(line)
    try:
        if what == "connect":
            client = sy.mpc.ModelClient().connect_to_model(given)
            answer = repr(client)
        else:
            answer = [client.query_model(torch.tensor(given)).tolist(), client.requests_left]
    except Exception as error:
        answer = [type(error).__name__, str(error)]
    print(json.dumps(answer), flush=True)
"""


def make_model(seed: int = 0) -> tuple[nn.Module, nn.Module]:
    """Return a model, and a copy that stays in clear."""
    torch.manual_seed(seed)
    models = [nn.Sequential(nn.Linear(8, 6), nn.ReLU(), nn.Linear(6, 3)) for _ in range(2)]
    models[1].load_state_dict(models[0].state_dict())
    return models[0], models[1]


def encrypted(model: Any, workers: Any, form: Any = None, **options: Any) -> Any:
    """Encrypt a model; the last worker deals."""
    *parties, dealer = workers
    return model.fix_precision(**(BITS if form is None else form)).share(*parties, crypto_provider=dealer, **options)


def close(found: Any, expected: Any, bound: float = 1e-3) -> bool:
    """Say whether an answer is what the model says in clear."""
    return torch.as_tensor(found).shape == expected.shape and bool(
        (torch.as_tensor(found) - expected).abs().max() < bound
    )


class ClientProcess:
    """A client in a process of its own."""

    def __init__(self) -> None:
        self.process = warm.popen(
            CLIENT,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env={**os.environ, "PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1"},
        )

    def send(self, what: str, given: Any) -> None:
        """Have it do something, without waiting."""
        assert self.process.stdin is not None
        self.process.stdin.write(json.dumps([what, given]) + "\n")
        self.process.stdin.flush()

    def read(self) -> Any:
        """Wait for its answer."""
        assert self.process.stdout is not None
        return json.loads(self.process.stdout.readline())

    def connect(self, text: str) -> Any:
        """Have it take an invitation."""
        self.send("connect", text)
        return self.read()

    def ask(self, numbers: torch.Tensor) -> Any:
        """Have it ask; returns the answer and the requests left, or the name and text of an error."""
        self.send("ask", numbers.tolist())
        return self.read()

    def end(self) -> None:
        """Kill it."""
        assert self.process.stdin is not None and self.process.stdout is not None
        self.process.kill()
        self.process.wait(timeout=60)
        self.process.stdin.close()
        self.process.stdout.close()
