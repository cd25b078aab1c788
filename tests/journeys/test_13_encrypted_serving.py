"""Parts 13b and 13c on torch: a model is encrypted once, and three private predictions go to a client elsewhere."""

import os
import textwrap
from pathlib import Path

import pytest
import torch
import torch.nn.functional as F
from sklearn.datasets import load_digits
from torch import nn, optim

import syft as sy
from syft.exceptions import SyftError
from tests.helpers import warm_processes as warm
from tests.helpers.processes import end, start

ROOT = Path(__file__).resolve().parent.parent.parent
FIRST = 1500


def make_data():
    digits = load_digits()
    return torch.tensor(digits.images, dtype=torch.float32).unsqueeze(1) / 16, torch.tensor(digits.target)


def make_model(data, target):
    """The first part, in clear: convolution, average pooling, dense."""
    torch.manual_seed(0)
    model = nn.Sequential(nn.Conv2d(1, 4, 3), nn.ReLU(), nn.AvgPool2d(2), nn.Flatten(), nn.Linear(36, 10))
    optimizer = optim.Adam(model.parameters(), lr=0.01)
    for _ in range(3):
        for x, y in zip(data[:FIRST].split(64), target[:FIRST].split(64), strict=True):
            optimizer.zero_grad()
            F.cross_entropy(model(x), y).backward()
            optimizer.step()
    with torch.no_grad():
        return model, model(data[FIRST : FIRST + 3])


def test_in_one_process(make_worker, kind, nothing_left):
    alice, bob, carol, laptop = (make_worker(name, kind) for name in ("alice", "bob", "carol", "laptop"))
    data, target = make_data()
    model, expected = make_model(data, target)
    model.fix_precision(base=2, precision_fractional=16).share(alice, bob, crypto_provider=carol)
    served = model.serve(in_shape=(1, 1, 8, 8), num_requests=3)
    client = sy.mpc.ModelClient(laptop)
    client.connect_to_model(served.invite(), in_shape=(1, 1, 8, 8), out_shape=(1, 10))
    for number in range(3):
        scores = client.query_model(data[FIRST + number].unsqueeze(0))
        assert torch.allclose(scores, expected[number : number + 1], atol=1e-2)
    with pytest.raises(SyftError, match="All requests"):
        client.query_model(data[:1])
    served.stop()
    client.close()
    model.get()
    for worker in (alice, bob, carol):
        worker.synchronize()
    nothing_left(alice, bob, carol, laptop)


CLIENT = """
    import sys
    import torch
    import syft as sy
    from sklearn.datasets import load_digits

    data = torch.tensor(load_digits().images, dtype=torch.float32).unsqueeze(1) / 16
    client = sy.mpc.ModelClient()
    client.connect_to_model(sys.stdin.readline(), in_shape=(1, 1, 8, 8), out_shape=(1, 10))
    for number in range(3):
        print(*client.query_model(data[1500 + number].unsqueeze(0)).flatten().tolist())
    try:
        client.query_model(data[:1])
    except sy.exceptions.SyftError as error:
        print(error)
"""


@pytest.mark.xdist_group("processes")
@pytest.mark.timeout(300)
def test_in_five_processes(hook):
    """The owner, three servers and the client are different processes; after the invitation the owner does nothing."""
    cluster = [start(name) for name in ("alice", "bob", "carol")]
    try:
        alice, bob, carol = cluster
        data, target = make_data()
        model, expected = make_model(data, target)
        model.fix_precision(base=2, precision_fractional=16).share(alice, bob, crypto_provider=carol)
        served = model.serve(in_shape=(1, 1, 8, 8), num_requests=3)
        with sy.count_messages() as sent:
            done = warm.run(
                textwrap.dedent(CLIENT),
                input=served.invite().to_text() + "\n",
                env={**os.environ, "PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1"},
                timeout=240,
            )
        *rows, refusal = done.stdout.splitlines()
        assert torch.allclose(torch.tensor([list(map(float, row.split())) for row in rows]), expected, atol=1e-2)
        assert "All requests of this invitation were used" in refusal and not done.stderr
        assert sent.messages == 2, "one to each party, to invite the client"
        assert served.requests_left == 0
        served.stop()
    finally:
        end(*cluster)
