"""Random and hostile calls: the process that runs them survives, and none takes longer than a few seconds."""

from __future__ import annotations

import itertools
import random
from pathlib import Path

import pytest
import torch

from tests.helpers.attacks.call_fuzzing import random_call, shown
from tests.helpers.attacks.fuzzed_process import Fuzzed, fuzz
from tests.helpers.depth import deep

pytestmark = [
    pytest.mark.skipif(not Path("/proc/self/statm").exists(), reason="limits the memory of another process"),
    pytest.mark.timeout(1200),
    pytest.mark.xdist_group("processes"),
]
CALLS = deep(1_000, 30_000)
LARGE = 2**31 - 1
F = "torch.nn.functional"

HOSTILE = {
    "pooling that overflows": ("torch.max_pool1d", torch.ones(1, 3, 1), 5, 2**62 - 2, 0, 2**62),
    "pooling with a huge kernel": (f"{F}.max_pool1d", torch.ones(1, 500, 1), LARGE - 1, 1, LARGE // 2),
    "pooling in two dimensions": (f"{F}.max_pool2d", torch.ones(1, 9, 1, 1), LARGE - 1, 1, LARGE // 2),
    "pooling in three dimensions": (f"{F}.max_pool3d", torch.ones(1, 5, 1, 1, 1), LARGE - 1, 1, LARGE // 2),
    "a stride that is a tensor": ("torch.max_pool1d", torch.ones(1, 3, 1), 5, torch.tensor(2**62 - 2), 0, 2**62),
    "pooling with a negative kernel": (f"{F}.fractional_max_pool2d", torch.ones(1, 1, 8, 8), -(2**31), 2),
    "unfold with a huge kernel": (f"{F}.unfold", torch.ones(1, 1, 3, 3), 2**63 - 1, 3, 2**62),
    "unfold with a product that overflows": (f"{F}.unfold", torch.ones(1, 16, 3, 3), 2**30, 1, 2**30),
    "fold with a product that overflows": (f"{F}.fold", torch.ones(1, 16, 1), (2**30, 2**30), 2**30, 1, 2**30),
    "least common multiple": ("torch.lcm", torch.tensor(-(2**63)), torch.tensor(5)),
    "least common multiple in place": ("torch.Tensor.lcm_", torch.tensor([-(2**31)], dtype=torch.int32), torch.tensor(5)),
    "quotient": ("torch.div", torch.tensor(-(2**63)), -1, {"rounding_mode": "trunc"}),
    "power of a matrix": ("torch.linalg.matrix_power", torch.eye(2), -(2**63)),
    "combinations": ("torch.combinations", torch.ones(3), 10**5),
    "eigenvectors without end": ("torch.lobpcg", torch.rand(9, 9), 1, {"niter": -1, "tol": 0.0}),
    "low rank without end": ("torch.functional.svd_lowrank", torch.rand(3, 3), 2, LARGE),
    "principal components without end": ("torch.functional.pca_lowrank", torch.rand(3, 3), 2, True, LARGE),
    "dimensions without end": ("torch.functional.tensordot", torch.ones(3), torch.ones(3), LARGE),
    "parts without end": ("torch.tensor_split", torch.rand(3), LARGE),
}  # fmt: skip


@pytest.fixture(scope="module")
def fuzzed():
    made = Fuzzed()
    made.start()
    yield made
    made.stop()


@pytest.mark.parametrize("name", HOSTILE)
def test_hostile_calls_are_refused(name, fuzzed):
    called, *args = HOSTILE[name]
    kwargs = args.pop() if isinstance(args[-1], dict) else {}
    fuzzed.crashes, fuzzed.hangs, fuzzed.outcomes = [], [], {}
    fuzzed.run((called, tuple(args), kwargs))
    assert (fuzzed.crashes, fuzzed.hangs, fuzzed.outcomes) == ([], [], {"CommandNotAllowedError": 1})


KINDS = {
    "floor_divide": lambda a, b: ("torch.floor_divide", (a, b), {}),
    "floor_divide_": lambda a, b: ("torch.Tensor.floor_divide_", (a, b), {}),
    "//": lambda a, b: ("torch.Tensor.__floordiv__", (a, b), {}),
    "reflected //": lambda a, b: ("torch.Tensor.__rfloordiv__", (b, a), {}),
    "%": lambda a, b: ("torch.Tensor.__mod__", (a, b), {}),
    "reflected %": lambda a, b: ("torch.Tensor.__rmod__", (b, a), {}),
    "remainder": lambda a, b: ("torch.remainder", (a, b), {}),
    "remainder_": lambda a, b: ("torch.Tensor.remainder_", (a, b), {}),
    "fmod": lambda a, b: ("torch.fmod", (a, b), {}),
    "fmod_": lambda a, b: ("torch.Tensor.fmod_", (a, b), {}),
    "gcd": lambda a, b: ("torch.gcd", (a, b), {}),
    "lcm": lambda a, b: ("torch.lcm", (a, b), {}),
    "lcm_": lambda a, b: ("torch.Tensor.lcm_", (a, b), {}),
    "div": lambda a, b: ("torch.div", (a, b), {"rounding_mode": "trunc"}),
    "div by floor": lambda a, b: ("torch.div", (a, b), {"rounding_mode": "floor"}),
    "div_": lambda a, b: ("torch.Tensor.div_", (a, b), {"rounding_mode": "trunc"}),
}


@pytest.mark.parametrize("kind", KINDS)
def test_no_integer_division_ends_the_process(kind, fuzzed):
    fuzzed.crashes, fuzzed.hangs = [], []
    for dtype in (torch.int64, torch.int32, torch.int16, torch.int8):
        limits = torch.iinfo(dtype)
        for a, b in itertools.product((limits.min, limits.max, -1, 0, 5), repeat=2):
            fuzzed.run(KINDS[kind](torch.full((9,), a, dtype=dtype), torch.full((9,), b, dtype=dtype)))
            fuzzed.run(KINDS[kind](torch.tensor(a, dtype=dtype), torch.tensor(b)))
    assert (fuzzed.crashes, fuzzed.hangs) == ([], [])


def test_the_process_survives_random_calls():
    found = fuzz(4711, CALLS)
    assert found.crashes == []
    assert found.hangs == []
    # The calls must reach the kernels, or this test proves nothing.
    assert found.outcomes[""] > CALLS // 4
    assert CALLS // 50 < found.outcomes["CommandNotAllowedError"] < CALLS // 4


def test_a_seed_gives_the_same_calls():
    def draw():
        rng = random.Random(5)
        return [shown(random_call(rng)) for _ in range(200)]

    assert draw() == draw()
