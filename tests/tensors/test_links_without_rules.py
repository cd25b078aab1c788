"""Links in a chain without a rule for a call refuse it."""

import pytest
import torch
from torch import nn

from syft.core.tensor import AbstractTensor, Level
from syft.exceptions import UnsupportedOperationError


class Strict(AbstractTensor):
    """A link with one rule, at the API level."""


class StrictBelow(AbstractTensor):
    """A link with one rule, below autograd."""

    level = Level.ATEN


@Strict.implements(torch.Tensor.add)
def strict_add(x, y):
    return Strict().on(x.child + y.child, wrap=False)


@StrictBelow.implements(torch.ops.aten.add.Tensor)
def strict_add_below(x, y):
    return StrictBelow().on(x.child + y.child, wrap=False)


@pytest.mark.parametrize("link", [Strict, StrictBelow])
def test_calls_without_a_rule_are_refused(hook, link):
    """In 0.2 a layer without a rule applied the call to each share and returned wrong results."""
    x = link().on(torch.tensor([-1.0, 2.0]))
    assert torch.equal((x + x).child.child, torch.tensor([-2.0, 4.0]))
    for call in (
        lambda: x.abs(),
        lambda: torch.relu(x),
        lambda: nn.functional.relu(x),
        lambda: x.clamp(min=0),
        lambda: x * x,
        lambda: x.prod(),
        lambda: x.sort(),
        lambda: torch.cat([x, x]),
        lambda: x @ x,
        lambda: x.long(),
    ):
        with pytest.raises(UnsupportedOperationError, match=rf"is not supported on {link.__name__}.*(nearest|rules)"):
            call()
