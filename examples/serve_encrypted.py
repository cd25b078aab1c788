"""Predictions that nobody else sees, of a model that nobody sees: `python examples/serve_encrypted.py`.

Five processes: the owner of a model (this one), three servers (two parties and a dealer), and a client. The owner trains
a model of digits, encrypts it among the servers and lets them answer four requests. The client gets one line of text,
an invitation. It shares its pictures among the servers itself and adds up the answers; the owner has no part in that.
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import torch
from sklearn.datasets import load_digits
from torch import nn

import syft as sy

REQUESTS = 4


def digits() -> tuple[torch.Tensor, torch.Tensor]:
    """Return pictures of digits, and which digits they are."""
    pictures, labels = load_digits(return_X_y=True)
    return torch.tensor(pictures, dtype=torch.float32) / 16, torch.tensor(labels)


def train() -> nn.Module:
    """Train a small model, in clear."""
    data, target = digits()
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(64, 32), nn.ReLU(), nn.Linear(32, 10))
    optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
    for _ in range(6):
        for x, y in zip(data[:1500].split(64), target[:1500].split(64), strict=True):
            optimizer.zero_grad()
            nn.functional.cross_entropy(model(x), y).backward()
            optimizer.step()
    return model


def ask(invitation: str) -> None:
    """Act as the client: send one request more than the invitation allows, and print the answers."""
    data, target = digits()
    with sy.mpc.connect(invitation) as client:
        for number in range(1500, 1500 + REQUESTS):
            found = client.query_model(data[number : number + 1])
            assert isinstance(found, torch.Tensor)  # the model has one output
            digit = int(found)
            print(f"sent a {int(target[number])}, got a {digit}; {client.requests_left} requests left")
        try:
            client.query_model(data[:1])
        except sy.exceptions.SyftError as error:
            print(f"refused: {error}")


def main() -> list[str]:
    """Be the owner: train, encrypt, serve, and start a client; returns what the client printed."""
    hook = sy.TorchHook(torch)
    model = train()
    servers = [sy.ProcessWorker(hook, id=name) for name in ("server-1", "server-2", "server-3")]
    try:
        first, second, dealer = servers
        model.fix_precision(base=2, precision_fractional=16).share(first, second, crypto_provider=dealer)
        # Clients learn the digit alone, not the scores, which tell more about the model.
        with model.serve(in_shape=(1, 64), num_requests=REQUESTS, answer=lambda y: y.argmax(dim=1)) as served:
            client = subprocess.run(
                [sys.executable, str(Path(__file__).resolve()), "client"],
                input=served.invite().to_text(),
                capture_output=True,
                text=True,
                check=True,
            )
            print(client.stdout, end="")
            print(f"the servers count {served.requests_left} requests left")
        return client.stdout.splitlines()
    finally:
        for server in servers:
            server.stop()


if __name__ == "__main__":
    if sys.argv[1:] == ["client"]:
        ask(sys.stdin.readline())
    else:
        main()
