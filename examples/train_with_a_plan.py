"""Train on a hospital's records with one message a round: `python examples/train_with_a_plan.py`.

The training loop itself travels: five steps of forward, loss, backward and Adam are one plan.
"""

from __future__ import annotations

import torch
from sklearn.datasets import load_breast_cancer
from torch import nn

import syft as sy


def records() -> tuple[torch.Tensor, torch.Tensor]:
    """Return the standardized measurements of 569 tumours, and whether each was benign."""
    data, target = load_breast_cancer(return_X_y=True)
    x = torch.tensor(data, dtype=torch.float32)
    return (x - x.mean(dim=0)) / x.std(dim=0), torch.tensor(target, dtype=torch.float32).unsqueeze(1)


def main(rounds: int = 20) -> dict[str, float]:
    """Train, print what happens, and return the figures."""
    torch.manual_seed(0)
    hook = sy.TorchHook(torch)
    hospital = sy.VirtualWorker(hook, id="hospital", serialize=True)
    x, y = records()
    x_there, y_there = x[:400].send(hospital), y[:400].send(hospital)

    model = nn.Sequential(nn.Linear(30, 16), nn.ReLU(), nn.Linear(16, 1))
    optimizer = torch.optim.Adam(model.parameters(), lr=0.01)

    @sy.func2plan()
    def five_steps(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        losses = []
        for _ in range(5):
            optimizer.zero_grad()
            loss = nn.functional.binary_cross_entropy_with_logits(model(x), y)
            loss.backward()
            optimizer.step()
            losses.append(loss)
        return losses[-1]

    five_steps.build(x[:2], y[:2])  # two examples of our own are enough: sizes are not frozen
    print(five_steps.summary())
    remote = five_steps.send(hospital)
    with sy.count_messages() as counted:
        loss = remote(x_there, y_there)
        for _ in range(rounds - 1):
            loss = remote(x_there, y_there)
    print(f"{rounds * 5} steps in {counted.messages} messages, {counted.bytes} bytes; loss {loss.get().item():.3f}")

    trained = remote.get()  # the plan comes back with what it learned
    with torch.no_grad():
        for mine, learned in zip(model.parameters(), trained.parameters(), strict=True):
            mine.copy_(learned)
        accuracy = ((model(x[400:]) > 0) == y[400:].bool()).float().mean().item()
    print(f"accuracy on 169 other records: {accuracy:.3f}")
    return {"messages": counted.messages, "accuracy": accuracy}


if __name__ == "__main__":
    main()
