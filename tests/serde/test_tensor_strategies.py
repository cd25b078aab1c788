"""Each strategy of serializing tensors keeps gradients, dtypes, devices and buffers."""

import pytest
import torch
from torch import nn

import syft as sy


@pytest.mark.parametrize("strategy", ["raw", "torch", "numpy", "all"])
def test_serialized_tensors_keep_everything(make_worker, strategy):
    """In 0.2 numpy arrays were unreadable, gradients and device indices were lost, parameters with gradients failed."""
    bob = make_worker("bob", "bytes")
    me = sy.local_worker
    before, me.serializer, bob.serializer = me.serializer, strategy, strategy
    try:
        parameter = nn.Parameter(torch.randn(2, 3))
        parameter.grad = torch.randn(2, 3)
        back = sy.deserialize(sy.serialize(parameter, me), me)
        assert (
            isinstance(back, nn.Parameter) and torch.equal(back, parameter) and torch.equal(back.grad, parameter.grad)
        )
        x = torch.randn(3, 4, requires_grad=True)
        assert torch.equal(x.send(bob).get(), x)
        for dtype in (torch.bool, torch.bfloat16, torch.complex64, torch.uint8, torch.float16, torch.int64):
            t = torch.ones(2, 2).to(dtype)
            got = t.send(bob).get()
            assert got.dtype is dtype and torch.equal(got, t)
        assert sy.deserialize(sy.serialize(torch.device("cuda:3"), me), me) == torch.device("cuda:3")
        model = nn.BatchNorm1d(3).send(bob)
        model(torch.randn(4, 3).send(bob))
        assert model.get().num_batches_tracked.item() == 1
    finally:
        me.serializer = before
