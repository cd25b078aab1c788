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
from tests.remote.sample import replaced
from tests.remote.samples import allowed, samples

# Torch lays these out in another way than it says beforehand: they are laid out anew. So are results of more calls, such as
# batch norm, if what they are given is not contiguous.
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


def turned(tensor):
    """The same values, in another order in memory."""
    return tensor.transpose(0, -1).contiguous().transpose(0, -1) if tensor.dim() > 1 else tensor


# What the tensors of a call are: plain, leaves that need gradients, results of calls, or laid out in another way.
KINDS = {
    "plain": lambda tensor: tensor,
    "leaves": lambda tensor: tensor.requires_grad_(),
    "results": lambda tensor: tensor.requires_grad_() * 1,
    "turned": turned,
    "turned results": lambda tensor: turned(tensor.requires_grad_()) * 1,
}


def compare(name, function, sample, kind):
    """Compare what is foreseen, what comes, and what would stand in for it; returns whether there was something."""
    args, kwargs = replaced(
        sample,
        lambda tensor: (
            KINDS[kind](tensor.detach().clone())
            if tensor.layout is torch.strided and (tensor.is_floating_point() or tensor.is_complex())
            else tensor.detach().clone()
        ),
    )
    given = tensors_in((args, kwargs))
    if kind != "plain" and not any(tensor.requires_grad or not tensor.is_contiguous() for tensor in given):
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
    if name not in LAID_OUT and not kind.startswith("turned"):
        for form, tensor in pairs(found.result, result):
            assert form.strides == tensor.stride(), name
    return True


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("kind", KINDS)
def test_stand_ins_look_like_results(kind):
    compared = sum(
        compare(name, function, sample, kind) for name, function in allowed().items() for sample in samples()[name]
    )
    assert compared > 1500
