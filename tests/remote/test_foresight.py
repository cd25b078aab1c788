"""The specs that a call on fake tensors gives are those that torch gives, for every sample of every remote call."""

from __future__ import annotations

import pytest
import torch

from syft.core.trees import iter_tensors
from syft.workers.access.fake_execution import foresee
from syft.workers.access.tensor_spec import TensorSpec, leaves_of, spec_of
from tests.helpers.depth import deep
from tests.helpers.remote.sample import replaced
from tests.helpers.remote.samples import allowed, samples

# The strides of these results differ from those on fake tensors. So do those of more calls, such as batch norm, if
# their arguments are not contiguous.
LAID_OUT = {"torch.nn.functional.unfold"}


def pairs(outline, result):
    """The forms of an outline, each with the tensor of the result at its place."""
    if isinstance(outline, TensorSpec):
        yield outline, result
    elif isinstance(outline, dict):
        for key, item in outline.items():
            yield from pairs(item, result[key])
    elif isinstance(outline, tuple | list):
        for item, part in zip(outline, result, strict=True):
            yield from pairs(item, part)


def reached(tensor, given):
    """The positions of given leaves that gradients of a tensor reach."""
    leaves = {id(leaf) for leaf in leaves_of([tensor])}
    return [place for place, one in enumerate(given) if id(one) in leaves]


def turned(tensor):
    """The same values, in another order in memory."""
    return tensor.transpose(0, -1).contiguous().transpose(0, -1) if tensor.dim() > 1 else tensor


# Kinds of argument tensors: plain, leaves that need gradients, results of calls, or laid out in another way.
KINDS = {
    "plain": lambda tensor: tensor,
    "leaves": lambda tensor: tensor.requires_grad_(),
    "results": lambda tensor: tensor.requires_grad_() * 1,
    "turned": turned,
    "turned results": lambda tensor: turned(tensor.requires_grad_()) * 1,
}


def compare(name, function, sample, kind):
    """Compare a result with what fake tensors gave; returns whether there was one."""
    args, kwargs = replaced(
        sample,
        lambda tensor: (
            KINDS[kind](tensor.detach().clone())
            if tensor.layout is torch.strided and (tensor.is_floating_point() or tensor.is_complex())
            else tensor.detach().clone()
        ),
    )
    given = [*iter_tensors((args, kwargs))]
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
    for form, tensor in pairs(found.result, result):
        now = spec_of(tensor)
        assert (form.shape, form.dtype, form.requires_grad) == (now.shape, now.dtype, now.requires_grad), name
        assert (form.position is None) == all(tensor is not one for one in given), name
        if form.requires_grad and form.position is None:
            assert {place for place in form.reaches if given[place].is_leaf} == set(reached(tensor, given)), name
    if name not in LAID_OUT and not kind.startswith("turned"):
        for form, tensor in pairs(found.result, result):
            assert form.strides == tensor.stride(), name
    return True


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("kind", deep(["plain", "turned results"], list(KINDS)))
def test_results_have_the_specs_of_fake_ones(kind):
    """Of the other kinds, one sample a call; tests/grid/isolation/proxies/test_proxies.py has all of them."""
    most = None if kind == "plain" else deep(1, None)
    compared = sum(
        compare(name, function, sample, kind)
        for name, function in allowed().items()
        for sample in samples()[name][:most]
    )
    assert compared > (1500 if most is None else 400)
