"""Torch itself stays as it is: plain tensors are not touched by the hook."""

import subprocess
import sys

import torch


def test_the_hook_leaves_torch_as_it_was(hook, bob):
    """In 0.2 the hook replaced about 970 functions of torch and never restored them."""
    code = (
        "import torch\n"
        "before = {n: getattr(torch, n) for n in dir(torch)}\n"
        "methods = {n: torch.Tensor.__dict__[n] for n in torch.Tensor.__dict__}\n"
        "import syft as sy\n"
        "assert {n: getattr(torch, n) for n in dir(torch)} == before\n"
        "hook = sy.TorchHook(torch)\n"
        "changed = [n for n in before if getattr(torch, n) is not before[n]]\n"
        "assert changed == ['tensor'], changed\n"
        "assert all(torch.Tensor.__dict__[n] is methods[n] for n in methods)\n"
        "hook.unhook()\n"
        "assert {n: getattr(torch, n) for n in dir(torch)} == before\n"
        "assert dict(torch.Tensor.__dict__) == methods\n"
    )
    subprocess.run([sys.executable, "-c", code], check=True)
    assert type(torch.ones(1) + 1) is torch.Tensor
    scripted = torch.jit.script(lambda_free)
    assert torch.equal(scripted(torch.ones(2)), torch.full((2,), 2.0))


def lambda_free(x: torch.Tensor) -> torch.Tensor:
    return x + 1
