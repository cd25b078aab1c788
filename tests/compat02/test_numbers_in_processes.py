"""Large, residue and numpy tensors at workers in other processes (items L1, L2, L3 and N1)."""

from __future__ import annotations

import pytest
import torch

import syft as sy
from tests.helpers.processes import end, start

pytestmark = [pytest.mark.timeout(300), pytest.mark.xdist_group("processes")]


@pytest.fixture(scope="module")
def pair():
    workers = start("bob"), start("alice")
    yield workers
    end(*workers)


def test_l1_large_numbers_in_a_process(pair):
    bob, _ = pair
    x = torch.tensor([1.5, -9e16]).fix_precision(precision_fractional=128, field=2**4096)
    there = x.send(bob)
    assert there.shape == (2,)
    tripled = (there + there * 2).get().child.reconstruct()
    assert tripled.tolist() == (x.child.reconstruct() * 3).tolist()
    there.add_(1)
    assert (there > 0).get().float_precision().tolist() == [1.0, 0.0]
    assert there.get().float_precision().tolist() == [2.5, torch.tensor(-9e16).item()]


def test_l1_encoding_in_a_process(pair):
    bob, _ = pair
    options = {"precision_fractional": 128, "field": 2**1000, "internal_type": torch.int8}
    there = torch.tensor([2.5]).send(bob).fix_precision(**options)
    assert (there + there).float_precision().get().tolist() == [5.0]
    made = there.get().child
    assert type(made) is sy.LargePrecisionTensor
    assert (made.field, made.internal_type) == (2**1000, torch.int8)


def test_l2_shared_limbs_in_processes(pair):
    x = torch.tensor([1.5, -9e16]).fix_precision(storage="large", precision_fractional=64).share(*pair)
    assert (x + x - 1).get().float_precision().tolist() == [2.0, torch.tensor(-1.8e17).item()]


def test_l3_residues_in_processes(pair):
    bob, alice = pair
    x = torch.tensor([3, -4]).fix_precision(storage="crt")
    there = x.send(bob)
    assert (there * there + 1).get().float_precision().tolist() == [10.0, 17.0]
    encoded = torch.tensor([2.5]).send(bob).fix_precision(storage="crt", field_type="int64")
    assert len(encoded.get().child.moduli) == 8
    shared = x.share(bob, alice)
    assert (shared + shared).get().float_precision().tolist() == [6.0, -8.0]


def test_n1_arrays_in_a_process(pair):
    bob, _ = pair
    there = sy.NumpyTensor([[1.5, 2.0]]).send(bob)
    assert (there @ there.transpose(0, 1)).get().child.child.tolist() == [[6.25]]
    assert there.get().child.child.tolist() == [[1.5, 2.0]]
