"""NumpyTensor, and arrays in the rules of arguments (items N1 and N2)."""

from __future__ import annotations

import copy
import operator

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

import syft as sy
from syft.exceptions import SyftError, UnsupportedOperationError
from syft.frameworks.torch.tensors.interpreters.numpy import NumpyTensor, create_numpy_tensor
from syft.generic.frameworks.hook import hook_args

pytestmark = pytest.mark.usefixtures("hook")


def same(made, expected):
    """Assert that a tensor is wrapped around an array equal to another one, in values, shape and dtype."""
    assert isinstance(made, torch.Tensor) and type(made.child) is NumpyTensor
    array = made.child.child
    assert isinstance(array, np.ndarray) and (array.shape, array.dtype) == (
        np.shape(expected),
        np.asarray(expected).dtype,
    )
    np.testing.assert_array_equal(array, expected)


def test_n1_the_documented_example():
    m = sy.NumpyTensor(numpy_tensor=[[1, 2]])
    same(m @ m.transpose(), np.array([[5]]))
    assert sy.NumpyTensor is create_numpy_tensor


def test_n1_lists_and_arrays_are_wrapped():
    for given_ in ([[1, 2.5]], np.array([[1, 2.5]])):
        x = sy.NumpyTensor(given_)
        same(x, np.array([[1, 2.5]]))
        assert x.shape == (1, 2) and x.dtype is torch.float64 and x.dim() == 2
    link = NumpyTensor(numpy_tensor=[1, 2], tags={"#n"}, description="d", verbose=True)
    assert type(link) is NumpyTensor and link.child.tolist() == [1, 2] and link.tags == {"#n"}
    same(NumpyTensor().on(np.ones(2)), np.ones(2))


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.int64, torch.bool, torch.int8])
def test_n1_a_plain_tensor_becomes_one(dtype):
    x = torch.tensor([[1, 0], [0, 1]]).to(dtype)
    made = x.numpy_tensor()
    same(made, x.numpy())
    made.child.child[0, 0] = 0
    assert x[0, 0] == 1, "the array is a copy"
    assert torch.ones(1, requires_grad=True).numpy_tensor().child.child.tolist() == [1.0]


def test_n1_wrappers_are_refused(bob):
    for wrapper in (torch.ones(1).send(bob), torch.ones(1).fix_precision(), sy.NumpyTensor([1.0])):
        with pytest.raises(SyftError, match=r"numpy_tensor\(\) needs a plain tensor, and this is a "):
            wrapper.numpy_tensor()
    with pytest.raises(SyftError, match="numpy has no arrays of torch.bfloat16"):
        torch.ones(1, dtype=torch.bfloat16).numpy_tensor()


@pytest.mark.parametrize(
    "wrong", [["a"], [[1], [1, 2]], np.array([object()]), None, torch.ones(1), np.array(["2020"], "M8[Y]")]
)
def test_n1_other_values_are_refused(wrong):
    with pytest.raises(SyftError, match=r"NumpyTensor\(\) needs"):
        sy.NumpyTensor(wrong)


ARRAYS = st.sampled_from(
    [np.arange(6.0).reshape(2, 3) + 1, np.arange(3) - 1, np.array(2.5), np.ones((2, 1), np.float32)]
)


@given(left=ARRAYS, right=ARRAYS)
def test_n1_arithmetic_is_that_of_numpy(left, right):
    x, y = sy.NumpyTensor(left), sy.NumpyTensor(right)
    with np.errstate(all="ignore"):
        for function, name in (
            (operator.add, "add"),
            (operator.sub, "sub"),
            (operator.mul, "mul"),
            (operator.truediv, "div"),
        ):
            expected = function(left, right)
            same(function(x, y), expected)
            same(getattr(x, name)(y), expected)
            same(getattr(torch, name)(x, y), expected)
            same(function(x, 2), function(left, 2))
            same(function(3, x), function(3, left))
    for function in (operator.lt, operator.gt, operator.eq, operator.ne, operator.le, operator.ge):
        same(function(x, y), function(left, right))


@pytest.mark.parametrize(("left", "right"), [((2, 3), (3, 2)), ((3,), (3,)), ((2, 3), (3,)), ((1, 4), (4, 1))])
def test_n1_products_are_those_of_numpy(left, right):
    a, b = np.random.default_rng(0).normal(size=left), np.random.default_rng(1).normal(size=right)
    x, y = sy.NumpyTensor(a), sy.NumpyTensor(b)
    for made in (x.dot(y), x.mm(y), x @ y, torch.mm(x, y), torch.matmul(x, y)):
        same(made, a.dot(b))
    same(x.child.mm(y.child).wrap(), a.dot(b))


def test_n1_axes():
    array = np.arange(24).reshape(2, 3, 4)
    x = sy.NumpyTensor(array)
    same(x.transpose(), array.transpose())
    same(x.transpose(0, 1), array.swapaxes(0, 1))
    same(x.transpose(dim0=0, dim1=2), array.swapaxes(0, 2))
    same(x.transpose(-1, 0), array.swapaxes(-1, 0))
    same(x.child.transpose().wrap(), array.transpose())
    same(x.reshape(4, 6), array.reshape(4, 6))
    same(x[0, 1:], array[0, 1:])
    same(x.sum(), array.sum())
    same(x.sum(dim=1, keepdim=True), array.sum(axis=1, keepdims=True))
    same(x.mean(0), array.mean(0))
    same(-x, -array)
    same(x.T, array.T)
    with pytest.raises(SyftError, match="takes two axes or none, got 1"):
        x.child.transpose(0)


def test_n1_plain_tensors_still_need_two_axes(bob):
    with pytest.raises(TypeError):
        torch.ones(2, 2).transpose()
    with pytest.raises(TypeError):
        torch.ones(2, 2).fix_precision().transpose()
    pointer = torch.arange(4).reshape(2, 2).send(bob)
    assert pointer.transpose(0, 1).get().tolist() == [[0, 2], [1, 3]]
    with pytest.raises(Exception, match="transpose"):
        pointer.transpose()


def test_n1_in_place_forms():
    x = y = sy.NumpyTensor([1.0, 2.0])
    x += 1
    x *= y
    x.sub_(sy.NumpyTensor([1.0, 1.0]))
    assert x is y
    same(x, np.array([3.0, 8.0]))
    with pytest.raises(SyftError, match=r"div_\(\) can't change int64 numbers"):
        sy.NumpyTensor([1, 2]).div_(2)
    with pytest.raises(SyftError, match=r"add_\(\) can't change"):
        sy.NumpyTensor([1]).add_(sy.NumpyTensor([1, 2]))


def test_n1_values_can_be_read():
    x = sy.NumpyTensor([[1.0, 2.0]])
    assert x.tolist() == [[1.0, 2.0]] and x.sum().item() == 3.0 and bool(x.sum() > 2)
    assert torch.equal(x, sy.NumpyTensor([[1.0, 2.0]]))


def test_n1_wrong_operands_are_refused():
    x = sy.NumpyTensor([1.0, 2.0])
    with pytest.raises(SyftError, match="add failed on numpy arrays"):
        x + sy.NumpyTensor([1.0, 2.0, 3.0])
    for other in (torch.ones(2), torch.ones(2).fix_precision()):
        with pytest.raises(UnsupportedOperationError, match=r"Convert the other operand too: y\.numpy_tensor\(\)"):
            x + other
    with pytest.raises(UnsupportedOperationError, match="on NumpyTensor"):
        torch.nn.functional.softmax(x, dim=0)


def test_n1_text_html_and_copies():
    x = sy.NumpyTensor([[1, 2]])
    assert str(x) == "(Wrapper)>NumpyTensor>array([[1, 2]])"
    assert f"{x}" == str(x) and f"{x.sum():.1f}" == "3.0"
    assert "NumpyTensor" in x._repr_html_() and "(1, 2)" in x._repr_html_()
    for copied in (x.copy(), copy.deepcopy(x)):
        copied += 1
        assert x.tolist() == [[1, 2]] and copied.tolist() == [[2, 3]]


def test_n1_bytes():
    for array in (np.arange(6.0).reshape(2, 3), np.array(5), np.zeros((0, 2), np.float32), np.array([True, False])):
        x = sy.NumpyTensor(array).tag("#array")
        back = sy.deserialize(sy.serialize(x))
        same(back, array)
        assert back.tags == {"#array"}
    parts = NumpyTensor.simplify(None, x.child)
    for wrong in (None, [1], torch.ones(1), np.array(["a"])):
        with pytest.raises((SyftError, TypeError)):
            NumpyTensor.detail(None, (*parts[:3], wrong))


def test_n1_send_and_get(workers, nothing_left):
    bob, alice = workers
    x = sy.NumpyTensor([[1, 2]])
    pointer = x.send(bob)
    assert pointer.shape == (1, 2)
    same((pointer + pointer).get(), np.array([[2, 4]]))
    same((pointer @ pointer.transpose(0, 1)).get(), np.array([[5]]))
    same(pointer.send(alice).get().get(), np.array([[1, 2]]))
    del pointer
    nothing_left(bob, alice)


# --- rules of arguments -------------------------------------------------------------------------------------------------


def test_n2_arrays_count_as_tensors_in_rules():
    assert hook_args.build_rule([np.ones(2), 5]) == [1, 0]
    assert hook_args.build_rule(([np.ones(2), torch.ones(1)], {"a": np.ones(1), "b": "text"})) == (
        [1, 1],
        {"a": 1, "b": 0},
    )


def test_n2_rules_of_arrays_can_be_used():
    array = np.ones(2)
    args = (array, 5, [torch.ones(1)])
    unwrapped = hook_args.build_unwrap_args_from_function(args, return_tuple=True)(args)
    assert unwrapped[0] is array and unwrapped[1] == 5
    assert hook_args.build_register_response_function((array, 1))((array, 1), [1], sy.local_worker)[0] is array
    wrapped = hook_args.build_wrap_reponse_from_function(array, NumpyTensor, {})(array)
    assert type(wrapped) is NumpyTensor and wrapped.child is array
