"""What is foreseen of a call on fake tensors is what torch does, for every sample of every call that workers run.

What stands in for a result that a call could not give is made of what was foreseen; where that differs from what the
call gives, somebody could tell whether it failed.
"""

from __future__ import annotations

import pytest
import torch

from syft.workers.foresight import foresee
from syft.workers.losing import is_as_foreseen, laid_out, stand_in
from syft.workers.outlines import Form, form_of, leaves_of, tensors_in
from tests.remote.sample import fresh
from tests.remote.samples import allowed, samples

# Torch lays these out in another way than it says beforehand: they are laid out anew.
LAID_OUT = {"torch.nn.functional.unfold"}


def pairs(outline, result):
    """The forms of an outline, each with the tensor of the result at its place."""
    if isinstance(outline, Form):
        yield outline, result
    elif isinstance(outline, dict):
        for key, item in outline.items():
            yield from pairs(item, result[key])
    elif isinstance(outline, tuple | list):
        for item, part in zip(outline, result, strict=True):
            yield from pairs(item, part)


def told(tensor, given):
    """All that can be seen of a tensor without its values."""
    reached = {id(leaf) for leaf in leaves_of([tensor])} if tensor.requires_grad else set()
    return form_of(tensor), [place for place, one in enumerate(given) if id(one) in reached and one is not tensor]


def compare(name, function, sample, with_grad):
    """Compare what is foreseen, what comes, and what would stand in for it; returns whether there was something."""
    args, kwargs = fresh(sample)
    given = tensors_in((args, kwargs))
    if with_grad:
        for tensor in given:
            tensor.requires_grad_(tensor.is_floating_point() or tensor.is_complex())
        if not any(tensor.requires_grad for tensor in given):
            return False
    found = foresee(name, args, kwargs, True)
    if not found.is_known:
        return False
    try:
        torch.manual_seed(0)
        result = function(*args, **kwargs)
    except Exception:  # some samples have no gradients
        return False
    assert is_as_foreseen(found.result, result, given), name
    there = [tensor for _, tensor in pairs(found.result, laid_out(found.result, result))]
    instead = [tensor for _, tensor in pairs(found.result, stand_in(found.result, given))]
    assert [told(tensor, given) for tensor in there] == [told(tensor, given) for tensor in instead], name
    if name not in LAID_OUT:
        for form, tensor in pairs(found.result, result):
            assert form.strides == tensor.stride(), name
    return True


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("with_grad", [False, True])
def test_stand_ins_look_like_results(with_grad):
    compared = sum(
        compare(name, function, sample, with_grad) for name, function in allowed().items() for sample in samples()[name]
    )
    assert compared > 2000
