"""Layers on encoded and encrypted tensors: biases, windows, reductions, and their gradients."""

from __future__ import annotations

import pytest
import torch
import torch.nn.functional as F

from syft.exceptions import UnsupportedOperationError
from tests.helpers.mpc.protocols import decoded, gradients

pytestmark = pytest.mark.usefixtures("hook")


def test_a_bias_of_finer_precision(fix):
    x, w, c = torch.tensor([[[1.5, 2.25, -3.0]]]), torch.tensor([[[0.5, -1.25]]]), torch.tensor([0.123456])
    found = F.conv1d(fix(x, precision_fractional=2), fix(w, precision_fractional=2), fix(c, precision_fractional=6))
    assert torch.allclose(decoded(found), F.conv1d(x, w, c), atol=2e-5)
    found = F.conv1d(fix(x, precision_fractional=2), w / 3, fix(c, precision_fractional=6))
    assert torch.allclose(decoded(found), F.conv1d(x, w / 3, c), atol=2e-2)


def test_windows_that_do_not_fit_are_refused(fix):
    x = torch.ones(1, 1, 3, 3)
    for call in (
        lambda x: F.max_pool2d(x, 5),
        lambda x: F.avg_pool2d(x, 4),
        lambda x: F.max_pool2d(x, 2, padding=2),
        lambda x: F.avg_pool2d(x, 2, padding=2),
    ):
        with pytest.raises(RuntimeError, match="pad|small"):
            call(x)
        with pytest.raises(RuntimeError, match="pad|small"):
            call(fix(x))


def _check_gradients(call, fix, *tensors):
    meant = gradients(call, *[tensor.clone() for tensor in tensors])
    found = gradients(call, *[fix(tensor, base=2, precision_fractional=16) for tensor in tensors])
    for one, other in zip(found, meant, strict=True):
        assert torch.allclose(decoded(one), other, atol=1e-3)


def test_gradient_of_equal_elements_goes_to_the_first(fix):
    weights = torch.arange(1.0, 10.0).view(1, 1, 3, 3)
    _check_gradients(lambda x: (F.max_pool2d(x, 3, 2, 1) * weights).sum(), fix, torch.zeros(1, 1, 6, 5))


def test_gradient_of_a_convolution_without_padding(fix):
    x, w = torch.arange(16.0).view(1, 1, 4, 4) / 8, torch.arange(-4.0, 5.0).view(1, 1, 3, 3) / 4
    _check_gradients(lambda x, w: F.conv2d(x, w, padding="valid").pow(2).mean(), fix, x, w)
    _check_gradients(lambda x, w: F.conv2d(x, w, padding="same").pow(2).mean(), fix, x, w)


def test_gradient_of_an_embedding(fix):
    at, w = torch.tensor([[0, 2], [1, 2]]), torch.arange(6.0).view(3, 2)
    scales = torch.arange(1.0, 9.0).view(2, 2, 2)
    _check_gradients(lambda w: (F.embedding(at, w) * scales).sum(), fix, w)
    _check_gradients(lambda w: (F.embedding(at, w, padding_idx=0) * scales).sum(), fix, w)
    _check_gradients(lambda w: (F.embedding(at, w, padding_idx=-1) * scales).sum(), fix, w)
    _check_gradients(lambda w: (F.embedding(at, w, scale_grad_by_freq=True) * scales).sum(), fix, w)


def test_reductions_refuse_dtypes_that_they_would_ignore(fix, share):
    x = fix(torch.tensor([[1.0, -0.5], [3.0, 2.0]]))
    for call in (lambda: x.sum(0, dtype=torch.int64), lambda: x.prod(0, dtype=torch.int64), lambda: x.cumsum(0, dtype=torch.int32)):  # fmt: skip
        with pytest.raises(UnsupportedOperationError, match="reduction to torch.int"):
            call()
    with pytest.raises(UnsupportedOperationError, match="reduction to torch.float64"):
        share(torch.ones(2, dtype=torch.int64)).sum(dtype=torch.float64)
    with pytest.raises(RuntimeError, match="multiple times"):
        x.sum(dim=(0, 0))
    assert decoded(x.sum(0, dtype=torch.float64)).tolist() == [4.0, 1.5]
