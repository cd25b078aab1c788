"""Values of encoded and encrypted tensors: which can be encoded, and that none is read without fetching."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from syft.exceptions import SyftError
from tests.helpers.mpc.protocols import decoded

pytestmark = pytest.mark.usefixtures("hook")


def test_large_unsigned_numbers_are_refused_in_62_bits():
    large = torch.tensor([2**64 - 5], dtype=torch.uint64)
    with pytest.raises(SyftError, match="can't be encoded"):
        large.fix_precision(field=2**62)
    assert large.fix_precision().child.reconstruct().tolist() == [1000 * (2**64 - 5)]
    assert decoded(torch.tensor([5], dtype=torch.uint64).fix_precision()).item() == 5


READING = {
    "tolist": lambda x: x.tolist(),
    "numpy": lambda x: x.numpy(),
    "item": lambda x: x.item(),
    "bool": bool,
    "float": float,
    "int": int,
    "complex": complex,
    "array": lambda x: np.asarray(x),
    "index": lambda x: [1, 2, 3][x],
    "in": lambda x: 1.0 in x,
}


# Reads of one number, which a tensor that is not shared allows; "in" reduces to one number first.
OF_ONE = {"item": 1.0, "bool": True, "float": 1.0, "int": 1, "complex": 1 + 0j}


@pytest.mark.parametrize("shape", [(), (1,), (2, 2)])
@pytest.mark.parametrize("name", READING)
def test_private_values_are_never_read(name, shape, fix, share):
    encoded = fix(torch.ones(shape))
    if name in OF_ONE and encoded.numel() == 1 and not encoded.child.is_shared:
        assert READING[name](encoded) == OF_ONE[name]
    elif name != "in" or not shape or encoded.child.is_shared:
        with pytest.raises((ValueError, TypeError), match=r"can't be converted to boolean values|of a 0-d tensor"):
            READING[name](encoded)
    with pytest.raises(ValueError, match="can't be converted to boolean values or Python numbers"):
        READING[name](share(torch.ones(shape, dtype=torch.int64)))


def test_public_values_can_be_fetched_too(fix):
    assert torch.equal(decoded(fix(torch.ones(2)).fill_(3.0)), torch.full((2,), 3.0))
    x = fix(torch.ones(2)).requires_grad_()
    x.sum().backward()
    assert torch.equal(decoded(x.grad), torch.ones(2))
    plain = torch.ones(1).fix_precision()
    assert plain.child.get() is plain.child
