"""Sample arguments written by hand, for the calls torch's own table does not know or covers too thinly."""

from __future__ import annotations

from collections import defaultdict
from typing import Any

import torch

from tests.helpers.remote.sample import Sample

_GETTERS = """
    H T mH mT data device dtype grad grad_dtype imag is_cpu is_cuda is_ipu is_leaf is_maia is_meta is_mkldnn
    is_mps is_mtia is_nested is_quantized is_sparse is_sparse_csr is_vulkan is_xla is_xpu itemsize layout
    nbytes ndim output_nr real requires_grad retains_grad shape
"""

_QUERIES = """
    dim dim_order element_size get_device is_complex is_conj is_contiguous is_distributed is_floating_point
    is_inference is_neg is_signed ndimension nelement numel size storage_offset
"""

_CONVERSIONS = "bfloat16 bool byte cdouble cfloat chalf char cpu double float half int long short"


class _Table:
    """The samples under construction."""

    def __init__(self) -> None:
        self.samples: dict[str, list[Sample]] = defaultdict(list)

    def add(self, names: str, *args: Any, **kwargs: Any) -> None:
        """Enter one call for each of the names, of which those starting with a dot are tensor methods."""
        for name in names.split():
            full = f"torch.Tensor{name}" if name.startswith(".") else f"torch.{name}"
            self.samples[full].append(Sample(args, dict(kwargs), note="by hand"))


def handwritten() -> dict[str, list[Sample]]:
    """Give the samples by wire name; flags that can be found out by running them are not set yet."""
    torch.manual_seed(0)
    table = _Table()
    for part in (
        _metadata, _values, _conversions, _operators, _indexing, _in_place, _random, _autograd, _shapes,
        _linear_algebra, _layers, _pooling, _recurrent,
    ):  # fmt: skip
        part(table)
    return dict(table.samples)


def unlisted() -> dict[str, list[Sample]]:
    """Give samples for the methods that torch's table leaves out."""
    torch.manual_seed(0)
    table = _Table()
    x = torch.randn(2, 6)
    table.add(".new_zeros .new_ones .new_empty", x, (2, 3))
    table.add(".new_zeros .new_ones .new_empty", x, 4, dtype=torch.int64)
    table.add(".new_full", x, (2, 3), 1.5)
    table.add(".new_tensor", x, [[1, 2], [3, 4]])
    table.add(".new_empty_strided", x, (2, 3), (3, 1))
    table.add(".stride", x)
    table.add(".stride", x, 0)
    table.add(".unflatten", x, 1, (2, 3))
    return dict(table.samples)


def _metadata(table: _Table) -> None:
    x = torch.randn(3, 3)
    c = torch.randn(2, 3, dtype=torch.complex64)
    for name in _GETTERS.split():
        table.add(f".{name}.__get__", c if name == "imag" else x)
    table.add(".real.__get__ .H.__get__ .mH.__get__", c)
    table.add(".dtype.__get__ .itemsize.__get__", torch.arange(3))
    for name in _QUERIES.split():
        table.add(f".{name}", x)
    table.add(".size", x, 1)
    table.add(".is_contiguous", x, memory_format=torch.contiguous_format)
    table.add(
        "get_device is_complex is_conj is_distributed is_floating_point is_inference is_neg is_signed numel",
        x,
    )
    table.add("is_complex is_floating_point .is_complex .is_floating_point", c)
    table.add(".is_same_size is_same_size", x, torch.randn(3, 3))
    table.add(".is_same_size is_same_size", x, torch.randn(3, 4))
    table.add(".is_set_to", x, x)
    table.add(".is_set_to", x, torch.randn(3, 3))
    table.add(".type", x)


def _values(table: _Table) -> None:
    x = torch.tensor([1.5, -2.0, 0.0])
    one = torch.tensor(2.5)
    whole = torch.tensor(7)
    for scalar in (one, whole):
        table.add(".item .tolist .__bool__ .__float__ .__complex__ .__int__ .__long__ .__nonzero__", scalar)
        table.add(".is_nonzero is_nonzero", scalar)
    table.add(".item .__bool__ .is_nonzero is_nonzero", torch.tensor([0]))
    table.add(".item .__complex__", torch.tensor(1 + 2j))
    table.add(".__index__", whole)
    table.add(".tolist .numpy .__len__", x)
    table.add(".numpy", torch.arange(6).reshape(2, 3))
    table.add(".tolist", torch.arange(6).reshape(2, 3))
    table.add(".tolist", torch.tensor([True, False]))
    table.add(".__contains__", x, 1.5)
    table.add(".__contains__", x, 7)
    table.add(".__contains__", x, torch.tensor(-2.0))
    table.add(".equal equal", x, x.clone())
    table.add(".equal equal", x, x + 1)
    table.add(".allclose allclose", x, x + 1e-9)
    table.add(".allclose allclose", x, x + 1, atol=0.5)
    table.add(".allclose allclose", x, x + 1e-3, rtol=1e-2, atol=1e-2)


def _conversions(table: _Table) -> None:
    x = torch.randn(2, 3)
    i = torch.arange(6).reshape(2, 3)
    for name in _CONVERSIONS.split():
        table.add(f".{name}", i)
        table.add(f".{name}", x.abs())
    table.add(".to", x, torch.float64)
    table.add(".to", x, "cpu")
    table.add(".to", x, torch.device("cpu"), torch.int64)
    table.add(".to", x, i)
    table.add(".to", i, dtype=torch.float32, copy=True)
    table.add(".type", x, torch.float64)
    table.add(".type", x, "torch.LongTensor")
    table.add(".type_as", x, i)
    table.add(".type_as", i, x)
    table.add(".detach detach detach_copy", x)
    table.add(".module_load", x, torch.randn(2, 3))
    table.add(".module_load", x, torch.randn(2, 3), assign=True)


def _operators(table: _Table) -> None:
    x, y = torch.rand(2, 3) + 0.5, torch.rand(2, 3) + 0.5
    i, j = torch.tensor([[1, 2, 3], [4, 5, 6]]), torch.tensor([[3, 1, 2], [1, 2, 3]])
    b, d = torch.tensor([True, False, True]), torch.tensor([True, True, False])
    for name in ["add", "sub", "mul", "div", "truediv", "floordiv", "mod", "pow"]:
        names = f".__{name}__" if name == "div" else f".__{name}__ .__i{name}__"
        table.add(names, x, y)
        table.add(names, x, 2)
    for name in ["add", "sub", "mul", "truediv", "floordiv", "mod", "pow"]:
        table.add(f".__r{name}__", x, 2)
        table.add(f".__r{name}__", x, y)
    table.add(".__add__ .__mul__ .__truediv__", x, y[0])
    table.add(".__add__ .__mul__", i, 1.5)
    for name in ["and", "or", "xor"]:
        names = f".__{name}__ .__i{name}__ .__r{name}__"
        table.add(names, i, j)
        table.add(names, b, d)
        table.add(names, i, 3)
    for name in ["lshift", "rshift"]:
        table.add(f".__{name}__ .__i{name}__ .__r{name}__", i, j)
        table.add(f".__{name}__ .__i{name}__", i, 2)
    table.add(".__rlshift__ .__rrshift__", i, 2)
    table.add(".__matmul__ .__rmatmul__", torch.randn(3, 3), torch.randn(3, 3))
    table.add(".__matmul__", x, torch.randn(3))
    for name in ["eq", "ne", "lt", "le", "gt", "ge"]:
        table.add(f".__{name}__", i, j)
        table.add(f".__{name}__", x, 1.0)
    table.add(".__invert__", i)
    table.add(".__invert__", b)
    table.add(".__reversed__", x)


def _indexing(table: _Table) -> None:
    x = torch.randn(3, 4, 5)
    rows = torch.tensor([2, 0])
    some = torch.tensor([True, False, True])
    indices: list[Any] = [
        0, -1, (1, 2), (0, -1, 3), True, None, (None, 0), ..., (..., 0), (0, ..., slice(1, 4)),
        slice(1, 3), slice(None, None, 2), (slice(None), 1), (slice(0, 2), slice(1, None)),
        (slice(None), None, 2), rows, (slice(None), rows), (rows, rows), (rows, 1, slice(2)),
        (rows[:, None], torch.tensor([0, 3])), rows.reshape(2, 1).int(), [0, 2], ([0, 2], [1, 3]),
        some, (slice(None), torch.tensor([True, False, True, True])), torch.tensor(1), (0, torch.tensor(2)),
    ]  # fmt: skip
    for index in [*indices, x > 0]:
        table.add(".__getitem__", x, index)
        table.add(".__setitem__", x, index, 1.5)
    for index in indices:
        table.add(".__setitem__", x, index, torch.randn(x[index].shape))
    table.add(".__setitem__", x, x > 0, torch.tensor(2.0))
    table.add(".__setitem__", x, slice(None), torch.randn(5))
    table.add(".__setitem__", torch.arange(4), 2, 7)
    table.add("where", x > 0, x, torch.randn(3, 4, 5))
    table.add("where", x > 0, x, 0.0)
    table.add("where", x > 0)
    table.add(".index_put index_put", x, (rows, torch.tensor([1, 3])), torch.randn(2, 5))
    table.add("select_copy", x, 1, 2)
    table.add("slice_copy", x, 1, 0, 4, 2)
    table.add(".slice_scatter slice_scatter", x, torch.randn(3, 2, 5), 1, 0, 4, 2)
    table.add(".slice_scatter slice_scatter", x, torch.randn(2, 4, 5), start=1)


def _in_place(table: _Table) -> None:
    x, y = torch.randn(2, 3), torch.randn(2, 3)
    table.add(".copy_", x, y)
    table.add(".copy_", x, torch.arange(3))
    table.add(".fill_diagonal_", torch.randn(3, 3), 2.0)
    table.add(".fill_diagonal_", torch.randn(6, 2), 2.0, wrap=True)
    table.add(".set_", x, torch.randn(4))
    table.add(".detach_", x)
    table.add(".requires_grad_", x)
    table.add(".requires_grad_", x, False)
    table.add(".data.__set__", x, torch.randn(4))
    table.add(".grad.__set__", x, y)
    table.add(".grad.__set__", x, None)
    table.add(".requires_grad.__set__", x, True)
    table.add(".requires_grad.__set__", x, False)
    table.add("nn.init.constant_", x, 0.5)


def _random(table: _Table) -> None:
    x = torch.rand(4, 5)
    image = torch.randn(2, 3, 4, 4)
    table.add(".random_", x)
    table.add(".random_", torch.zeros(6, dtype=torch.int64), 10)
    table.add(".random_", torch.zeros(6, dtype=torch.int64), 3, 10)
    table.add(".bernoulli_", x)
    table.add(".bernoulli_", x, 0.3)
    table.add(".bernoulli_", x, torch.rand(4, 5))
    table.add(".bernoulli bernoulli", x)
    table.add(".bernoulli bernoulli", x, 0.3)
    table.add(".normal_ nn.init.normal_", x, 1.0, 2.0)
    table.add(".uniform_ nn.init.uniform_", x, -1.0, 1.0)
    table.add(".cauchy_ .exponential_ .log_normal_ .normal_ .uniform_", x)
    table.add(".geometric_", x, 0.4)
    table.add("nn.init.kaiming_uniform_", x)
    table.add("nn.init.kaiming_uniform_", x, a=0.2, mode="fan_out", nonlinearity="leaky_relu")
    table.add("poisson", x * 4)
    table.add("binomial", torch.full((4,), 10.0), torch.rand(4))
    table.add(".multinomial multinomial", x, 3)
    table.add(".multinomial multinomial", x, 8, replacement=True)
    table.add("dropout alpha_dropout", x, 0.5, True)
    table.add("feature_dropout feature_alpha_dropout", image, 0.5, True)
    table.add("native_dropout", x, 0.5, True)
    table.add("nn.functional.dropout nn.functional.alpha_dropout", x, p=0.3)
    table.add("nn.functional.dropout", x, p=0.3, training=False)
    table.add("nn.functional.dropout2d nn.functional.feature_alpha_dropout", image, p=0.5, training=True)
    table.add("nn.functional.dropout1d", torch.randn(2, 3, 4), p=0.5)
    table.add("nn.functional.dropout3d", torch.randn(2, 3, 2, 2, 2), p=0.5)
    table.add("rrelu", x - 0.5, 0.1, 0.3, True)
    table.add("nn.functional.rrelu", x - 0.5, 0.1, 0.3, training=True)
    table.add("nn.functional.gumbel_softmax", x)
    table.add("nn.functional.gumbel_softmax", x, tau=0.5, hard=True, dim=0)
    table.add("functional.pca_lowrank", torch.randn(6, 4), q=2)
    table.add("functional.svd_lowrank", torch.randn(6, 4), q=2)


def _autograd(table: _Table) -> None:
    x, y = torch.tensor(2.0), torch.randn(3)
    table.add(".backward", x)
    table.add(".backward", y, torch.ones(3))
    table.add(".retain_grad", x)
    table.add(".requires_grad.__get__ .is_leaf.__get__ .retains_grad.__get__", x)
    table.add("autograd.backward", x)
    table.add("autograd.backward", [x, y], [None, torch.ones(3)])
    table.add("autograd.grad", x, x)
    table.add("autograd.grad", [y], [y], grad_outputs=[torch.ones(3)], allow_unused=True)
    names = ["Tensor.backward", "Tensor.retain_grad", "autograd.backward", "autograd.grad"]
    for sample in [sample for name in names for sample in table.samples[f"torch.{name}"]]:
        sample.needs_grad = True
    for name in ["requires_grad", "is_leaf", "retains_grad"]:
        table.samples[f"torch.Tensor.{name}.__get__"][-1].needs_grad = True


def _shapes(table: _Table) -> None:
    x = torch.randn(6, 4)
    table.add("split_copy", x, 2)
    table.add("split_copy", x, 3, dim=1)
    table.add(".unsafe_split_with_sizes unsafe_split_with_sizes", x, (2, 4))
    table.add(".unsafe_split_with_sizes unsafe_split_with_sizes", x, (1, 3), 1)
    table.add(".split functional.split", x, 4)
    table.add(".split functional.split", x, [1, 2, 3])
    table.add("view_as_real_copy", torch.randn(3, dtype=torch.complex64))
    table.add("view_as_complex_copy", torch.randn(3, 2))
    table.add(".view", x, 4, 6)
    table.add(".view", x, -1)
    table.add(".view", x, torch.int32)
    table.add("nn.functional.fold", torch.randn(1, 12, 4), (3, 3), (2, 2))
    table.add("nn.functional.native_channel_shuffle", torch.randn(1, 4, 2, 2), 2)
    table.add("nn.functional.pad", x, (1, 2), mode="constant", value=1.0)
    table.add("nn.functional.one_hot", torch.tensor([0, 2, 1]), 4)
    table.add("functional.meshgrid", torch.arange(2), torch.arange(3), indexing="ij")


def _linear_algebra(table: _Table) -> None:
    a, b = torch.randn(3, 4), torch.randn(4, 2)
    spd = torch.eye(9) * torch.arange(1, 10) + 0.1
    table.add("spmm .mm", a, b)
    table.add("functional.chain_matmul", a, b, torch.randn(2, 3))
    table.add("frobenius_norm", a, (0, 1))
    table.add("frobenius_norm", a, 1, keepdim=True)
    table.add("nuclear_norm", a)
    table.add("nuclear_norm", a, (0, 1), keepdim=True)
    table.add("norm_except_dim", a, 2, 0)
    table.add("lobpcg", spd, 2, X=torch.randn(9, 2))
    table.add("functional.einsum", "ij,jk->ik", a, b)
    table.add("functional.einsum", "ij->j", [a])
    table.add("functional.einsum", "bij,bjk->bik", torch.randn(2, 3, 4), torch.randn(2, 4, 2))
    table.add("polygamma special.polygamma", 1, a.abs() + 0.5)
    table.add(".polygamma", a.abs() + 0.5, 1)


def _layers(table: _Table) -> None:
    x = torch.randn(4, 3)
    line, image = torch.randn(2, 3, 8), torch.randn(2, 3, 6, 6)
    scale, zero = torch.tensor([0.1, 0.2, 0.3]), torch.zeros(3, dtype=torch.int32)
    weight = torch.randn(4, 3, 3, 3)
    table.add("nn.functional.affine_grid", torch.randn(2, 2, 3), (2, 1, 3, 3), align_corners=False)
    table.add("affine_grid_generator", torch.randn(2, 2, 3), (2, 1, 3, 3), False)
    table.add("convolution", image, weight, torch.randn(4), [1, 1], [0, 0], [1, 1], False, [0, 0], 1)
    table.add("nn.functional.conv2d", image, weight, torch.randn(4), padding=1, stride=2)
    table.add("nn.functional.conv1d", line, torch.randn(4, 3, 3), padding="same")
    table.add("nn.functional.conv_tbc", torch.randn(5, 2, 3), torch.randn(2, 3, 4), torch.randn(4))
    table.add("fake_quantize_per_tensor_affine", x, 0.1, 0, 0, 255)
    table.add("fake_quantize_per_channel_affine", x, scale, zero, 1, 0, 255)
    table.add("nn.functional.linear", x, torch.randn(5, 3), torch.randn(5))
    table.add("nn.functional.linear", x, torch.randn(5, 3))
    table.add("nn.functional.cross_entropy", x, torch.tensor([0, 2, 1, 1]), label_smoothing=0.1)
    table.add("nn.functional.mse_loss", x, torch.randn(4, 3), reduction="sum")
    running = (torch.zeros(3), torch.ones(3))
    affine = (torch.rand(3) + 0.5, torch.randn(3))
    for training in (True, False):
        table.add("nn.functional.batch_norm", image, *running, *affine, training)
        table.add("batch_norm instance_norm", image, *affine, *running, training, 0.1, 1e-5, False)
    table.add("batch_norm instance_norm", image, None, None, None, None, True, 0.1, 1e-5, False)
    words, vectors = torch.tensor([[0, 2, 1], [3, 3, 0]]), torch.randn(5, 4)
    table.add("nn.functional.embedding", words, vectors)
    table.add("nn.functional.embedding", words, vectors, padding_idx=3)
    table.add("embedding", vectors, words)
    _losses(table)


def _losses(table: _Table) -> None:
    x, y, z = torch.randn(4, 3), torch.randn(4, 3), torch.randn(4, 3)
    sign = torch.tensor([1.0, -1.0, 1.0, -1.0])
    for reduction in (1, 2):  # The functions below `torch` number the reductions: 1 is the mean, 2 the sum.
        table.add("cosine_embedding_loss", x, y, sign, 0.1, reduction)
        table.add("margin_ranking_loss", x[:, 0].clone(), y[:, 0].clone(), sign, 0.1, reduction)
        table.add("kl_div", x.log_softmax(1), y.softmax(1), reduction)
        table.add("poisson_nll_loss", x, y.abs(), True, False, 1e-8, reduction)
    table.add("nn.functional.triplet_margin_with_distance_loss", x, y, z)
    table.add("nn.functional.triplet_margin_with_distance_loss", x, y, z, margin=0.5, swap=True)


def _pooling(table: _Table) -> None:
    functional = "nn.functional."
    inputs = {1: torch.randn(2, 3, 8), 2: torch.randn(2, 3, 8, 8), 3: torch.randn(1, 2, 6, 6, 6)}
    for rank, x in inputs.items():
        table.add(f"{functional}lp_pool{rank}d", x.abs(), 2.0, 2)
        table.add(f"{functional}lp_pool{rank}d", x.abs(), 3.0, 3, stride=2, ceil_mode=True)
        table.add(f"{functional}max_pool{rank}d_with_indices", x, 2)
        table.add(f"{functional}max_pool{rank}d_with_indices", x, 3, stride=1, padding=1)
        table.add(f"{functional}max_pool{rank}d", x, 2, return_indices=True)
        table.add(f"{functional}adaptive_max_pool{rank}d_with_indices", x, 2)
        table.add(f"{functional}adaptive_max_pool{rank}d_with_indices", x, [3] * rank, return_indices=True)
        if rank > 1:
            table.add(f"{functional}fractional_max_pool{rank}d_with_indices", x, 2, output_size=[7 - rank] * rank)
            table.add(f"{functional}fractional_max_pool{rank}d_with_indices", x, 2, output_ratio=[0.7] * rank)
        table.add(f"max_pool{rank}d", x, 2)
        table.add(f"max_pool{rank}d", x, 3, stride=2, padding=1, ceil_mode=True)
    table.add("max_pool1d_with_indices", inputs[1], 2)
    table.add("adaptive_max_pool1d", inputs[1], 3)


def _recurrent(table: _Table) -> None:
    steps, batch, inputs, hidden = 4, 2, 3, 5
    x = torch.randn(steps, batch, inputs)
    packed, sizes = torch.randn(5, inputs), torch.tensor([2, 2, 1])
    for name, gates in {"lstm": 4, "gru": 3, "rnn_tanh": 1, "rnn_relu": 1}.items():
        state: Any = torch.randn(1, batch, hidden)
        if name == "lstm":
            state = (state, torch.randn(1, batch, hidden))
        rows = gates * hidden
        weights = [torch.randn(rows, inputs), torch.randn(rows, hidden), torch.randn(rows), torch.randn(rows)]
        table.add(name, x, state, weights, True, 1, 0.0, False, False, False)
        table.add(name, x.transpose(0, 1).contiguous(), state, weights[:2], False, 1, 0.0, True, False, True)
        table.add(name, packed, sizes, state, weights, True, 1, 0.0, False, False)
        cell: Any = torch.randn(batch, hidden)
        if name == "lstm":
            cell = (cell, torch.randn(batch, hidden))
        table.add(f"{name}_cell", x[0].clone(), cell, *weights)
        table.add(f"{name}_cell", x[1].clone(), cell, *weights[:2])
