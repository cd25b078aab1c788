"""Hospitals compare their queues without telling them: `python examples/compute_on_shares.py`.

Every worker is a process of its own. Each hospital splits its numbers into shares, there, for two parties that compute;
a third one deals the randomness they need. Results go to the client, and nobody learns more.
"""

from __future__ import annotations

import torch

import syft as sy

QUEUES = {"north": [12.0, 3.5, 7.0], "south": [4.0, 9.25, 1.0]}


def main() -> dict[str, float | str]:
    """Share, compute, print what was asked for, and return it."""
    hook = sy.TorchHook(torch)
    names = ("anna", "carl", "dealer", *QUEUES)
    workers = {name: sy.ProcessWorker(hook, id=name) for name in names}
    try:
        # The data of the hospitals; real hospitals would hold it already, and worker.search("#queue") would find it.
        held = {name: torch.tensor(queue).send(workers[name]) for name, queue in QUEUES.items()}
        parties = (workers["anna"], workers["carl"])
        shares = [
            queue.fix_precision().share(*parties, crypto_provider=workers["dealer"]).get() for queue in held.values()
        ]
        weeks = torch.stack(shares)
        total, longest, above = weeks.sum(), weeks.sum(dim=1).argmax(), (weeks > 5).sum()
        found: dict[str, float | str] = {
            "waiting": round(float(total.get().float_precision()), 2),
            "above five": float(above.get().float_precision()),
            "longest": list(QUEUES)[int(longest.get().float_precision())],
        }
        print(f"patients waiting, all together: {found['waiting']}")
        print(f"queues of more than five: {found['above five']:.0f}")
        print(f"longest queue: {found['longest']}")
        return found
    finally:
        for worker in workers.values():
            worker.stop()


if __name__ == "__main__":
    main()
