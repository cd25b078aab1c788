"""Remote against local: every call of the table of allowed functions, right on pointers or refused.

Value, dtype and gradient (where torch gives one) must be those of local torch. The counts are kept in
docs/reference/remote-functions.md; regenerate it with: python -m tests.helpers.remote.page
"""

from __future__ import annotations

import warnings
from pathlib import Path

import pytest
import torch

from syft.core.trees import map_tensors
from syft.exceptions import CommandNotAllowedError, UnsupportedOperationError
from syft.hook.allowed_functions import allowed, function_of, name_of, overridable
from syft.hook.denylist import REFUSED
from tests.helpers.remote import page
from tests.helpers.remote.sample import Sample, replaced, tensors, transform
from tests.helpers.remote.samples import samples, unlisted_samples

SHARDS = 24
# torch does not let the bare function be seen, so only the method of a pointer works.
BY_METHOD = {"torch.Tensor.set_": lambda tensor, *args: tensor.set_(*args)}


def everything():
    return {**samples(), **unlisted_samples()}


def fetched(result):
    """Fetch every pointer of a result (copies: a result may be an argument)."""

    def fetch(t):
        return t.detach().copy().get() if hasattr(t, "child") else t.detach()

    return map_tensors(fetch, result)


def compare(got, expected, note):
    """Same structure, same kinds, same values."""
    assert type(got) is type(expected) or isinstance(expected, torch.Tensor), note
    if isinstance(expected, torch.Tensor):
        assert got.dtype == expected.dtype and got.shape == expected.shape, note
        torch.testing.assert_close(got.detach(), expected.detach(), equal_nan=True, check_stride=False, msg=str(note))
    elif isinstance(expected, list | tuple):
        assert len(got) == len(expected), note
        for a, b in zip(got, expected, strict=True):
            compare(a, b, note)
    elif isinstance(expected, dict):
        assert got.keys() == expected.keys(), note
        for key in expected:
            compare(got[key], expected[key], note)
    elif isinstance(expected, float | complex):
        torch.testing.assert_close(got, expected, equal_nan=True)
    elif type(expected).__name__ == "ndarray":
        assert got.dtype == expected.dtype and (got == expected).all(), note
    elif not callable(expected):
        assert got == expected, note


def prepare(sample: Sample, place, with_grad: bool):
    """Give fresh arguments, local (place None) or at a worker, and the tensors in order."""
    wanted = {id(tensors(sample)[i]) for i in sample.wrt} if with_grad else set()
    made = []

    def change(tensor):
        proxy = tensor.detach().clone()
        if id(tensor) in wanted or (sample.needs_grad and proxy.is_floating_point()):
            proxy.requires_grad_()
        if place is not None:
            proxy = proxy.send(place)
        made.append(proxy)
        return proxy

    args, kwargs = replaced(sample, change)
    return args, kwargs, made


def call(function, args, kwargs):
    torch.default_generator.manual_seed(0)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        result = function(*args, **kwargs)
        return list(result) if hasattr(result, "__next__") else result


def check_values(function, sample, bob, note):
    args, kwargs, given = prepare(sample, None, False)
    expected = call(function, args, kwargs)
    r_args, r_kwargs, r_given = prepare(sample, bob, False)
    got = call(function, r_args, r_kwargs)
    if sample.uninitialised:
        compare(map_tensors(torch.zeros_like, fetched(got)), map_tensors(torch.zeros_like, expected), note)
        return
    compare(fetched(got), expected, note)
    if sample.mutates:
        compare([fetched(t) for t in r_given], [t.detach() for t in given], note)


def check_gradients(function, sample, bob, note):
    results = []
    for place in (None, bob):
        args, kwargs, made = prepare(sample, place, True)
        if sample.mutates:  # leaves may not be changed in place
            args, kwargs = transform((args, kwargs), lambda t: t.clone())
        outputs = [t for t in tensors(call(function, args, kwargs)) if t.requires_grad]
        if not outputs:
            return
        total = sum(
            (torch.view_as_real(t.resolve_conj()) if t.is_complex() else t).double().square().sum() for t in outputs
        )
        total.backward()
        grads = [made[i].grad for i in sample.wrt]
        results.append([None if g is None else fetched(g) for g in grads])
    compare(results[1], results[0], (note, "gradient"))


@pytest.mark.timeout(300)
@pytest.mark.parametrize("shard", range(SHARDS))
def test_every_allowed_call_is_right(shard, bob, nothing_left):
    failures = []
    table = everything()
    for name in sorted(table)[shard::SHARDS]:
        function = BY_METHOD.get(name) or allowed().get(name)
        if function is None:
            continue
        assert table[name], f"{name} has no sample"
        for position, sample in enumerate(table[name]):
            note = (name, position, sample.note)
            try:
                check_values(function, sample, bob, note)
                if sample.grad:
                    check_gradients(function, sample, bob, note)
            except Exception as error:
                failures.append(f"{name} [{position}] {type(error).__name__}: {str(error)[:300]}")
    assert not failures, "\n".join(failures)
    nothing_left(bob)


def test_every_allowed_call_has_samples():
    missing = [name for name in allowed() if not everything().get(name)]
    assert missing == page.WITHOUT_SAMPLES


def test_every_refused_call_is_refused(bob):
    x = torch.ones(2, 2).send(bob)
    table = overridable()
    for name in REFUSED:
        with pytest.raises(CommandNotAllowedError, match="can't be run on a worker"):
            function_of(name)
        if name in table:
            with pytest.raises(CommandNotAllowedError, match="can't be run on a worker"):
                name_of(table[name])
    for name in ("torch.Tensor.data_ptr", "torch.Tensor.apply_", "torch.Tensor.to_sparse"):
        with pytest.raises((CommandNotAllowedError, UnsupportedOperationError)):
            table[name](x, *[1] * (name == "torch.Tensor.apply_"))


def test_the_page_is_up_to_date():
    written = Path(__file__).resolve().parents[2] / "docs" / "reference" / "remote-functions.md"
    assert written.read_text() == page.render(), "run: python -m tests.helpers.remote.page"
