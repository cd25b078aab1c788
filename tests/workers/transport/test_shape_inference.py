"""Shape inference: the spec of the real call, for every call, dtype and layout, or none."""

from __future__ import annotations

import warnings

import pytest
import torch

from syft.core.references import SameAs, TensorMeta
from syft.core.trees import map_tensors
from syft.hook.allowed_functions import allowed, function_of
from syft.pointers.pointer_tensor import PointerTensor
from syft.workers.transport import shape_inference
from tests.helpers.depth import IS_DEEP
from tests.helpers.remote.sample import Sample, replaced
from tests.helpers.remote.samples import samples, unlisted_samples

SHARDS = 8
DTYPES = (torch.float32, torch.float64, torch.float16, torch.complex64, torch.int64, torch.uint8, torch.bool)


def transposed(t):
    """The same values, with strides the other way round."""
    return (
        t.permute(*reversed(range(t.dim())))
        .clone(memory_format=torch.contiguous_format)
        .permute(*reversed(range(t.dim())))
    )


def spread(t):
    """The same values, with room between them."""
    wide = torch.zeros(*t.shape, 2, dtype=t.dtype)
    wide[..., 0] = t
    return wide[..., 0]


def expanded(t):
    """One value, many times."""
    return t.flatten()[:1].expand(t.numel()).reshape(t.shape) if t.dim() == 1 else t[:1].expand(t.shape)


def conjugated(t):
    """The same values, kept as their conjugates."""
    return t.conj().resolve_conj().conj()


def negated(t):
    """The same values, kept with their signs turned."""
    return torch.complex(torch.zeros_like(t), -t).conj().imag


def of_numbers(t):
    return t.is_floating_point() and t.dtype in (torch.float32, torch.float64)


# name -> (which tensors it is for, what it does to them)
LAYOUTS = {
    "plain": (lambda t: True, torch.clone),
    "transposed": (lambda t: t.dim() > 1, transposed),
    "spread": (lambda t: t.dim() > 0, spread),
    "expanded": (lambda t: t.numel() > 1 and t.dim() > 0, expanded),
    "conjugated": (lambda t: t.is_complex(), conjugated),
    "negated": (of_numbers, negated),
    "channels last": (lambda t: t.dim() == 4, lambda t: t.clone(memory_format=torch.channels_last)),
}


def variants(sample):
    """Give ways to lay the tensors of a sample out, and dtypes to give them."""
    for name, (fits, change) in LAYOUTS.items():
        yield name, lambda t, fits=fits, change=change: change(t) if fits(t) else t.clone()
    for dtype in DTYPES:
        yield dtype, lambda t, dtype=dtype: t.to(dtype) if t.is_floating_point() else t.clone()
    yield "all bool", torch.Tensor.bool
    yield "grad", lambda t: t.clone().requires_grad_() if t.is_floating_point() or t.is_complex() else t.clone()
    yield (
        "result with grad",
        lambda t: t.clone().requires_grad_() * 1 if t.is_floating_point() or t.is_complex() else t.clone(),
    )


def chosen(number, ways):
    """All ways for the first sample of a call, and a third of them for the others; all of them in a deep run."""
    return ways[number % 3 :: 3] if number and not IS_DEEP else ways


def pointer(t):
    """A pointer that knows the form of a tensor and nothing else."""
    made = PointerTensor.__new__(PointerTensor)
    made._meta = TensorMeta.of(t)
    return made


def form_of(result, given):
    """Describe a real result as a worker does."""
    if isinstance(result, torch.Tensor):
        same = next((SameAs(place, TensorMeta.of(result)) for place, arg in enumerate(given) if arg is result), None)
        return TensorMeta.of(result) if same is None else same
    if isinstance(result, tuple | list):
        return [form_of(item, given) for item in result]
    return result


def listed(form, given):
    """The same form, in lists; an argument that was given twice counts as the first of the two."""
    if isinstance(form, SameAs):
        return SameAs(given.index(given[form.position]), form.meta)
    return [listed(item, given) for item in form] if isinstance(form, tuple | list) else form


def wrong_forms(name, sample, change):
    """Say what is wrong with the form that is worked out for a call, if anything is."""
    try:
        args, kwargs = replaced(sample, lambda t: change(t.detach()))
        before = map_tensors(pointer, (args, kwargs))
    except Exception:
        return None
    known, form = shape_inference.infer(name, *before)
    if not known or form is None:
        return None
    try:
        real = form_of(function_of(name)(*args, **kwargs), (*args, *kwargs.values()))
    except Exception:  # what a pointer says afterwards must still be true
        if isinstance(form, SameAs) and form.meta != (*before[0], *before[1].values())[form.position]._meta:
            return f"the call fails, and leaves {form}"
        return None
    given = [id(arg) for arg in (*args, *kwargs.values())]
    return None if listed(form, given) == listed(real, given) else f"{form} and not {real}"


@pytest.mark.parametrize("shard", range(SHARDS))
def test_inferred_specs_equal_those_of_the_real_call(shard):
    wrong = []
    table = {**samples(), **unlisted_samples()}
    for name in sorted(table)[shard::SHARDS]:
        if name not in allowed():
            continue
        for number, sample in enumerate(table[name]):
            for note, change in chosen(number, list(variants(sample))):
                with warnings.catch_warnings():
                    warnings.simplefilter("ignore")
                    found = wrong_forms(name, sample, change)
                if found is not None:
                    wrong.append(f"{name} [{number}] {note}: {found}")
    assert not wrong, "\n".join(wrong)


def pairs():
    """Give arguments for calls of one or two operands: all kinds of numbers, and shapes that fit or do not."""
    for dtype in DTYPES:
        one = torch.ones(2, dtype=dtype)
        yield Sample((one,))
        for number in (True, 2, 0.5, 1j):
            yield Sample((one, number))
        for other in DTYPES:
            yield Sample((one, torch.ones(() if other.is_floating_point else 2, dtype=other)))
        yield Sample((one, torch.ones(2, dtype=torch.float64)))
        yield Sample((torch.ones(1, 2, dtype=dtype), torch.ones(2, 2, dtype=dtype)))
        yield Sample((one.bool(), one, one))
        yield Sample((one.bool().byte(), one, one))


@pytest.mark.parametrize("shard", range(SHARDS))
def test_inferred_specs_for_operands_of_all_kinds(shard):
    wrong = []
    for name in sorted(allowed())[shard::SHARDS]:
        for sample in pairs():
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                found = wrong_forms(name, sample, torch.clone)
            if found is not None:
                wrong.append(f"{name} {sample.args}: {found}")
    assert not wrong, "\n".join(wrong)


# --- the same with pointers -----------------------------------------------------------------------------------


@pytest.fixture
def remote(make_worker):
    return make_worker("bob", "thread")


@pytest.mark.parametrize("change", [torch.Tensor.contiguous, torch.Tensor.clone])
def test_a_copy_is_not_the_original(remote, change):
    x = torch.arange(4.0).reshape(2, 2).send(remote)
    y = change(x.t())
    y.zero_()
    assert torch.equal(x.get(), torch.arange(4.0).reshape(2, 2)) and torch.equal(y.get(), torch.zeros(2, 2))


def test_resolving_a_lazy_conjugate_copies_it(remote):
    k = torch.tensor([1 + 2j]).send(remote)
    k.conj().resolve_conj().zero_()
    k.conj().imag.resolve_neg().zero_()
    assert k.get().tolist() == [1 + 2j]


def test_memory_formats(remote):
    local = torch.ones(1, 2, 3, 4).to(memory_format=torch.channels_last)
    x = torch.ones(1, 2, 3, 4).send(remote).to(memory_format=torch.channels_last)
    for memory_format in (torch.channels_last, torch.contiguous_format, torch.preserve_format):
        same = local.to(memory_format=memory_format) is local
        assert (x.to(memory_format=memory_format).child is x.child) is same


def test_results_that_are_arguments_keep_their_pointer(remote):
    x = torch.ones(2, 3).send(remote).t()
    assert x.float().child is x.child and x.add_(1).child is x.child and x.double().child is not x.child
    assert torch.ones(2).send(remote).contiguous().get().tolist() == [1, 1]


def test_a_failed_in_place_call_keeps_the_spec(remote):
    x, y = torch.ones(1, 2).send(remote), torch.ones(2, 2).send(remote)
    i, f = torch.ones(2, dtype=torch.int8).send(remote), torch.ones(2, requires_grad=True).send(remote)
    for call in (lambda: x.pow_(y), lambda: i.mul_(f), lambda: f.requires_grad_().detach_().resize_(3).t_().add_(y[0])):
        with pytest.raises(RuntimeError):
            call()
            remote.synchronize()
    assert x.shape == x.copy().get().shape == (1, 2)
    assert (i.dtype, i.requires_grad) == (torch.int8, False) and torch.equal(i.relu().get(), torch.ones(2).char())
    assert f.shape == f.copy().get().shape


def test_in_place_calls_that_change_the_spec(remote):
    x = torch.ones(1, 2).send(remote)
    assert x.t_().shape == x.shape == (2, 1) and x.requires_grad_().requires_grad
    total, loss = torch.zeros(2).send(remote), torch.ones(2, requires_grad=True).send(remote)
    total += loss
    assert total.requires_grad and total.shape == (2,)


@pytest.mark.filterwarnings("ignore:where received a uint8")
def test_meta_kernels_that_differ(remote):
    yes = torch.tensor([True]).send(remote)
    assert (yes**True).dtype == (yes**True).get().dtype == torch.bool
    assert yes.pow_(True).get().tolist() == [True]
    x = torch.ones(2).send(remote)
    assert torch.where(torch.ones(2, dtype=torch.uint8).send(remote), x, x).get().tolist() == [1, 1]


def test_numbers_that_are_sizes_are_part_of_the_cache_key(remote):
    x = torch.arange(6.0).send(remote)
    for size in (2, 4):
        y = x[torch.tensor(0) : torch.tensor(size)]
        assert y.shape == y.get().shape == (size,)


def test_inferred_specs_under_another_default_dtype(remote):
    x = torch.tensor([1, 2]).send(remote)
    torch.set_default_dtype(torch.float64)
    try:
        changed = x / 2
        assert changed.dtype == changed.get().dtype
    finally:
        torch.set_default_dtype(torch.float32)
    after = x / 2
    assert after.dtype == after.get().dtype == torch.float32
