"""The first display of a plan is quick: it imports nothing that takes long."""

from __future__ import annotations

import subprocess
import sys

import pytest

PROGRAM = """
import sys
import torch
import torch.nn.functional as F
import syft as sy

hook = sy.TorchHook(torch)
bob = sy.VirtualWorker(hook, id="bob")


class Net(sy.Plan):
    def __init__(self):
        super().__init__()
        self.conv = torch.nn.Conv2d(1, 2, 3)
        self.fc = torch.nn.Linear(18, 2)

    def forward(self, x):
        x = F.dropout(F.max_pool2d(F.relu(self.conv(x)), 2))
        return F.log_softmax(self.fc(x.view(x.shape[0], -1)), dim=1)


net = Net().build(torch.rand(2, 1, 8, 8))
pointer = net.send(bob)
before, weight, state = set(sys.modules), net.conv.weight.clone(), torch.get_rng_state()
SHOW
print(*sorted(set(sys.modules) - before))
assert torch.equal(net.conv.weight, weight) and torch.equal(torch.get_rng_state(), state)
"""
SHOWN = {
    "text": "assert str(net) and repr(net) and f'{net}' and net.code",
    "html": "assert net._repr_html_()",
    "summary": "assert '(2*, 2, 6, 6) float32' in str(net.summary()) and net.summary()._repr_html_()",
    "pointer": "assert str(pointer) and pointer._repr_html_()",
    "notebook": """
from IPython.core.formatters import DisplayFormatter
formatter = DisplayFormatter()
before = set(sys.modules)
assert "text/html" in formatter.format(net)[0]
""",
}


@pytest.mark.parametrize("way", SHOWN)
def test_t13_the_first_display_imports_no_modules(way):
    if way == "notebook":
        pytest.importorskip("IPython")
    code = PROGRAM.replace("SHOW", SHOWN[way])
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    assert len(done.stdout.split()) < 20, done.stdout
