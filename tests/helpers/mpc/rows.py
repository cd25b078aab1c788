"""The rows of the operation matrix: calls on encrypted tensors, each compared with float64 torch.

A row is a function of a (2, 3), b (2, 3) and p, a plain (2, 3) tensor; or of what `inputs` makes for it.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable
from typing import Any

import torch
import torch.nn.functional as F
from torch import nn

import syft as sy

Call = Callable[..., Any]
A = [[1.5, -0.75, 2.0], [-3.0, 0.5, -1.25]]
B = [[0.5, 2.0, -1.5], [1.25, -2.5, 3.0]]
P = [[2.0, -0.5, 0.25], [1.0, 3.0, -1.75]]


@dataclasses.dataclass(frozen=True)
class Row:
    """One row.

    Attributes:
        call: the function.
        units: how many units of the last place the result may be off, for values of magnitude one; times the
            largest value of the result.
        inputs: the tensors it takes, as nested lists or shapes of random ones.
        plain: which of them stay plain tensors.
        meant: the function on float64, where torch would need another one.
    """

    call: Call
    units: float = 3
    inputs: tuple[Any, ...] = (A, B, P)
    plain: tuple[int, ...] = (2,)
    meant: Call | None = None


def set_item(x: Any, key: Any, value: Any) -> Any:
    x = x.clone()
    x[key] = value
    return x


def in_place(method: str, *numbers: Any) -> Call:
    def call(a: Any, b: Any, p: Any) -> Any:
        x = a.clone()
        same = getattr(x, method)(*(b if number == "b" else number for number in numbers))
        assert same is x
        return x

    return call


def through_view(a: Any, b: Any, p: Any) -> Any:
    """Views see what is written to their base, and the base what is written to a view."""
    x = a.clone()
    row, turned = x[0], x.t()
    row += 1
    turned[2] = b[:, 0]
    x.mul_(2)
    x.view(-1)[1:3].zero_()
    return torch.cat([x.reshape(-1), row, turned.reshape(-1)])


def places(a: Any) -> Any:
    """Make indices that are as private as a tensor is: the place of the largest element of each row."""
    return a.argmax(1)


IMAGE = ((1, 2, 6, 6), (3, 2, 3, 3), (3,))
RNN, QKV = ((2, 1, 2), (1, 1, 2), (2, 2), (2, 2)), ((1, 3, 2),) * 3
ONE_LAYER = (False, 1, 0.0, False, False, False)  # no biases, one layer, no dropout, not training, one way, time first
MATRIX: dict[str, Row] = {
    "a+b": Row(lambda a, b, p: a + b),
    "a-b": Row(lambda a, b, p: a - b),
    "a+2": Row(lambda a, b, p: a + 2),
    "2+a": Row(lambda a, b, p: 2 + a),
    "1-a": Row(lambda a, b, p: 1 - a),
    "a+1.5": Row(lambda a, b, p: a + 1.5),
    "a+plain": Row(lambda a, b, p: a + p),
    "plain+a": Row(lambda a, b, p: p + a),
    "a-plain": Row(lambda a, b, p: a - p),
    "plain-a": Row(lambda a, b, p: p - a),
    "a*b": Row(lambda a, b, p: a * b),
    "a*3": Row(lambda a, b, p: a * 3),
    "a*0.5": Row(lambda a, b, p: a * 0.5),
    "0.5*a": Row(lambda a, b, p: 0.5 * a),
    "a*0.0004": Row(lambda a, b, p: a * 0.0004),
    "a*plain": Row(lambda a, b, p: a * p),
    "plain*a": Row(lambda a, b, p: p * a),
    "a*(1/3)": Row(lambda a, b, p: a * (1 / 3)),
    "a*small and large": Row(lambda a, b, p: a * torch.tensor([1.0, 1 / 3000, 300.0], dtype=p.dtype)),
    "large*0.5": Row(lambda a, b, p: (a * 2**20) * 0.5),
    "a*mask": Row(lambda a, b, p: a * (p > 0)),
    "a/2": Row(lambda a, b, p: a / 2),
    "a/-4": Row(lambda a, b, p: a / -4),
    "a/2.5": Row(lambda a, b, p: a / 2.5),
    "a/0.3": Row(lambda a, b, p: a / 0.3),
    "a/whole": Row(lambda a, b, p: a / torch.tensor([3.0, -7.0, 4.0], dtype=p.dtype)),
    "a/small and large": Row(lambda a, b, p: a / torch.tensor([0.01, 3.0, 3000.0], dtype=p.dtype)),
    "a/plain": Row(lambda a, b, p: a / p),
    "plain/a": Row(lambda a, b, p: p / a, units=12),
    "a/b": Row(lambda a, b, p: a / b, units=12),
    "2/a": Row(lambda a, b, p: 2 / a, units=20),
    "sum/2": Row(lambda a, b, p: a.sum() / 2),
    "a@b": Row(lambda a, b, p: a @ b.t(), units=5),
    "torch.matmul": Row(lambda a, b, p: torch.matmul(a, b.t()), units=5),
    "a@plain": Row(lambda a, b, p: a @ p.t(), units=5),
    "a@(plain/7)": Row(lambda a, b, p: a @ (p.t() / 7), units=5),
    "plain@a": Row(lambda a, b, p: p @ a.t(), units=5),
    "a**2": Row(lambda a, b, p: a**2),
    "a**3": Row(lambda a, b, p: a.pow(3), units=8),
    "a**5": Row(lambda a, b, p: a**5, units=16),
    "a**0": Row(lambda a, b, p: a**0),
    "square": Row(lambda a, b, p: a.square()),
    "-a": Row(lambda a, b, p: -a),
    "a>b": Row(lambda a, b, p: a > b),
    "a>=b": Row(lambda a, b, p: a >= b),
    "a<b": Row(lambda a, b, p: a < b),
    "a<=b": Row(lambda a, b, p: a <= b),
    "a==a": Row(lambda a, b, p: a == a),
    "a==b": Row(lambda a, b, p: a == b),
    "a!=b": Row(lambda a, b, p: a != b),
    "a>1": Row(lambda a, b, p: a > 1),
    "1>a": Row(lambda a, b, p: 1 > a),
    "a<=0.5": Row(lambda a, b, p: a <= 0.5),
    "a>plain": Row(lambda a, b, p: a > p),
    "plain>a": Row(lambda a, b, p: p > a),
    "a.eq(plain)": Row(lambda a, b, p: a.eq(p)),
    "F.relu": Row(lambda a, b, p: F.relu(a)),
    "torch.relu": Row(lambda a, b, p: torch.relu(a)),
    "nn.ReLU": Row(lambda a, b, p: nn.ReLU()(a)),
    "nn.ReLU(inplace)": Row(lambda a, b, p: nn.ReLU(inplace=True)(a.clone())),
    "leaky_relu": Row(lambda a, b, p: F.leaky_relu(a, 0.1)),
    "relu6": Row(lambda a, b, p: F.relu6(a * 4)),
    "sum": Row(lambda a, b, p: a.sum()),
    "sum(0)": Row(lambda a, b, p: a.sum(0)),
    "sum(dim=0)": Row(lambda a, b, p: a.sum(dim=0)),
    "sum(keepdim)": Row(lambda a, b, p: a.sum(dim=1, keepdim=True)),
    "mean": Row(lambda a, b, p: a.mean()),
    "torch.mean": Row(lambda a, b, p: torch.mean(a)),
    "mean(1)": Row(lambda a, b, p: a.mean(1, keepdim=True)),
    "cumsum": Row(lambda a, b, p: a.cumsum(1)),
    "prod": Row(lambda a, b, p: a.prod(), units=12),
    "prod(1)": Row(lambda a, b, p: a.prod(1, keepdim=True), units=8),
    "cumprod": Row(lambda a, b, p: a.cumprod(1), units=8),
    "var": Row(lambda a, b, p: a.var(), units=8),
    "var(0)": Row(lambda a, b, p: a.var(0, unbiased=False), units=8),
    "trace": Row(lambda a, b, p: (a @ b.t()).trace(), units=8),
    "max": Row(lambda a, b, p: a.max()),
    "min": Row(lambda a, b, p: a.min()),
    "max(dim).values": Row(lambda a, b, p: a.max(dim=1).values),
    "max(dim).indices": Row(lambda a, b, p: a.max(dim=0, keepdim=True).indices),
    "min(dim)": Row(lambda a, b, p: torch.cat([x.reshape(-1) for x in a.min(1)])),
    "argmax": Row(lambda a, b, p: a.argmax()),
    "argmax(dim=1)": Row(lambda a, b, p: a.argmax(dim=1)),
    "argmin(dim=0)": Row(lambda a, b, p: a.argmin(dim=0, keepdim=True)),
    "amax": Row(lambda a, b, p: a.amax((0, 1))),
    "amin": Row(lambda a, b, p: a.amin(1, keepdim=True)),
    "torch.maximum": Row(lambda a, b, p: torch.maximum(a, b)),
    "torch.min(a,b)": Row(lambda a, b, p: torch.min(a, b)),
    "maximum(a,plain)": Row(lambda a, b, p: torch.maximum(a, p)),
    "abs": Row(lambda a, b, p: a.abs()),
    "sign": Row(lambda a, b, p: (a * (p > 0)).sign()),
    "clamp": Row(lambda a, b, p: a.clamp(-1, 1)),
    "hardtanh": Row(lambda a, b, p: F.hardtanh(a)),
    "hardtanh_": Row(lambda a, b, p: F.hardtanh_(a.clone())),
    "clamp(min=)": Row(lambda a, b, p: a.clamp(min=0.25)),
    "clamp(max=b)": Row(lambda a, b, p: a.clamp(max=b)),
    "where": Row(lambda a, b, p: torch.where(a > 0, a, b)),
    "where(number)": Row(lambda a, b, p: torch.where(a > 0, a, 0.5)),
    "where(public)": Row(lambda a, b, p: torch.where(p > 0, a, b)),
    "masked_fill": Row(lambda a, b, p: a.masked_fill(p > 0, 7.5)),
    "masked_fill(private)": Row(lambda a, b, p: a.masked_fill(a > b, 7.5)),
    "any": Row(lambda a, b, p: (a > 1.9).any()),
    "all": Row(lambda a, b, p: (a > 1.9).all()),
    "~(a>0)": Row(lambda a, b, p: ~(a > 0)),
    "and/or/not": Row(lambda a, b, p: ((a > 0).logical_and(b > 0)).logical_or((a > 1).logical_not())),
    "view": Row(lambda a, b, p: a.view(3, 2)),
    "reshape": Row(lambda a, b, p: a.t().reshape(-1)),
    "flatten": Row(lambda a, b, p: a.flatten()),
    "t": Row(lambda a, b, p: a.t()),
    "T": Row(lambda a, b, p: a.T),
    "transpose": Row(lambda a, b, p: a.transpose(0, 1)),
    "permute": Row(lambda a, b, p: a.permute(1, 0)),
    "index": Row(lambda a, b, p: a[0]),
    "slice": Row(lambda a, b, p: a[:, 1:]),
    "slice step": Row(lambda a, b, p: a[:, ::2]),
    "index list": Row(lambda a, b, p: a[:, torch.tensor([2, 0, 2])]),
    "index mask": Row(lambda a, b, p: a[p > 0]),
    "index None ...": Row(lambda a, b, p: a[None, ..., 1]),
    "index_select": Row(lambda a, b, p: a.index_select(1, torch.tensor([2, 1]))),
    "gather": Row(lambda a, b, p: a.gather(1, torch.tensor([[2], [0]]))),
    "index private": Row(lambda a, b, p: a[:, places(a)], meant=lambda a, b, p: a[:, places(a).long()]),
    "index plain by private": Row(lambda a, b, p: p[:, places(a)], meant=lambda a, b, p: p[:, places(a).long()]),
    "index_select private": Row(
        lambda a, b, p: a.index_select(1, places(a)), meant=lambda a, b, p: a.index_select(1, places(a).long())
    ),
    "gather private": Row(
        lambda a, b, p: a.gather(1, places(a)[:, None]), meant=lambda a, b, p: a.gather(1, places(a).long()[:, None])
    ),
    "put repeated": Row(lambda a, b, p: a.index_put((torch.tensor([1, 0, 1]),), torch.stack([b[0], b[1], a[0]]))),
    "scatter repeated": Row(lambda a, b, p: a.scatter(1, torch.tensor([[2, 2], [0, 0]]), b)),
    "scatter fewer rows": Row(lambda a, b, p: a.scatter(1, torch.tensor([[2]]), b)),
    "index_copy": Row(lambda a, b, p: a.index_copy(1, torch.tensor([2, 2, 0]), b)),
    "take": Row(lambda a, b, p: a.take(torch.tensor([5, 0, 3]))),
    "cat": Row(lambda a, b, p: torch.cat([a, b])),
    "cat dim kw": Row(lambda a, b, p: torch.cat([a, b], dim=1)),
    "cat plain": Row(lambda a, b, p: torch.cat([p, a])),
    "stack": Row(lambda a, b, p: torch.stack([a, b], dim=1)),
    "split": Row(lambda a, b, p: torch.cat(a.split(2, dim=1)[::-1], 1)),
    "chunk": Row(lambda a, b, p: a.chunk(2)[1]),
    "unbind": Row(lambda a, b, p: a.unbind(1)[2]),
    "iter": Row(lambda a, b, p: torch.stack(list(a))),
    "squeeze": Row(lambda a, b, p: a[None, :, None].squeeze()),
    "squeeze(0)": Row(lambda a, b, p: a[None, :, None].squeeze(0)),
    "unsqueeze": Row(lambda a, b, p: a.unsqueeze(1)),
    "expand": Row(lambda a, b, p: a[:1].expand(4, 3)),
    "repeat": Row(lambda a, b, p: a.repeat(2, 2)),
    "repeat_interleave": Row(lambda a, b, p: a.repeat_interleave(2, 0)),
    "roll": Row(lambda a, b, p: a.roll(1, 1)),
    "flip": Row(lambda a, b, p: a.flip(0, 1)),
    "pad": Row(lambda a, b, p: F.pad(a, (1, 2))),
    "pad value": Row(lambda a, b, p: F.pad(a, (1, 2), value=1.5)),
    "pad reflect": Row(lambda a, b, p: F.pad(a[None], (1, 1), mode="reflect")),
    "tril": Row(lambda a, b, p: a.tril()),
    "triu": Row(lambda a, b, p: a.triu(1)),
    "diagonal": Row(lambda a, b, p: a.diagonal()),
    "diag": Row(lambda a, b, p: torch.diag(a[0])),
    "movedim": Row(lambda a, b, p: a.movedim(0, 1)),
    "broadcast": Row(lambda a, b, p: a * b[0] + b[:, :1]),
    "broadcast 0-dim": Row(lambda a, b, p: a + b.sum()),
    "bmm": Row(lambda a, b, p: torch.bmm(a[None], b.t()[None]), units=5),
    "batched @": Row(lambda a, b, p: a.expand(4, 2, 3) @ b.t(), units=5),
    "mv": Row(lambda a, b, p: a.mv(b[0]), units=5),
    "dot": Row(lambda a, b, p: a[0].dot(b[1]), units=5),
    "ger": Row(lambda a, b, p: torch.ger(a[0], b[1])),
    "outer": Row(lambda a, b, p: torch.outer(a[0], b[1])),
    "addmm": Row(lambda a, b, p: torch.addmm(a[:, :2], a, b.t(), beta=2, alpha=0.5), units=8),
    "addr": Row(lambda a, b, p: torch.addr(a, b[:, 0], a[0])),
    "inverse": Row(lambda m: torch.linalg.inv(m), 8, ([[2.0, -1.0], [0.5, 3.0]],), ()),
    "inv_sym": Row(lambda m: sy.linalg.inv_sym(m), 8, ([[2.0, -1.0], [-1.0, -3.0]],), ()),
    "qr": Row(lambda m: torch.cat(list(torch.linalg.qr(m))), 8, ([[2.0, -1.0], [0.5, 3.0], [1.0, 0.0]],), ()),
    "einsum": Row(lambda a, b, p: torch.einsum("ij,kj->ik", a, b), units=5),
    "einsum outer": Row(lambda a, b, p: torch.einsum("i,j->ij", a[0], b[0])),
    "tensordot": Row(lambda a, b, p: torch.tensordot(a, b, ([0, 1], [0, 1])), units=8),
    "kron": Row(lambda a, b, p: torch.kron(a, b)),
    "linear": Row(lambda a, b, p: F.linear(a, b, a[:, 0]), units=5),
    "linear no bias": Row(lambda a, b, p: F.linear(a[None], b), units=5),
    "linear plain": Row(lambda a, b, p: F.linear(a, p, p[:, 0]), units=5),
    "lerp": Row(lambda a, b, p: torch.lerp(a, b, 0.25), units=5),
    "addcmul": Row(lambda a, b, p: torch.addcmul(a, a, b, value=0.5), units=5),
    "mse_loss": Row(lambda a, b, p: F.mse_loss(a, b), units=5),
    "mse_loss plain": Row(lambda a, b, p: F.mse_loss(a, p, reduction="sum"), units=8),
    "l1_loss": Row(lambda a, b, p: F.l1_loss(a, b)),
    "smooth_l1_loss": Row(lambda a, b, p: F.smooth_l1_loss(a, b, beta=0.5), units=5),
    "huber_loss": Row(lambda a, b, p: F.huber_loss(a, p, delta=2), units=5),
    "nll_loss": Row(lambda a, b, p: F.nll_loss(a, torch.tensor([0, 2]))),
    "nll_loss private": Row(lambda a, b, p: F.nll_loss(a, places(a).view(2))),
    "bce": Row(lambda a, b, p: F.binary_cross_entropy(a.sigmoid(), (p > 0).to(p.dtype)), units=16),
    "bce_with_logits": Row(lambda a, b, p: F.binary_cross_entropy_with_logits(a, (p > 0).to(p.dtype)), units=20),
    "kl_div": Row(lambda a, b, p: F.kl_div(a, p.softmax(1), reduction="batchmean"), units=8),
    "multi_margin_loss": Row(lambda a, b, p: F.multi_margin_loss(a, torch.tensor([0, 2])), units=5),
    "soft_margin_loss": Row(lambda a, b, p: F.soft_margin_loss(a, p.sign()), units=20),
    "cosine_similarity": Row(lambda a, b, p: F.cosine_similarity(a, b), units=16),
    "addcdiv": Row(lambda a, b, p: torch.addcdiv(a, b, a, value=0.5), units=16),
    "dropout eval": Row(lambda a, b, p: F.dropout(a, 0.5, training=False)),
    "a%2": Row(lambda a, b, p: a % 2),
    "a//2": Row(lambda a, b, p: a // 2),
    "exp": Row(lambda a, b, p: a.exp(), units=5),
    "expm1": Row(lambda a, b, p: a.expm1(), units=5),
    "log": Row(lambda a, b, p: a.abs().log(), units=5),
    "log1p": Row(lambda a, b, p: torch.log1p(a * a), units=5),
    "log2": Row(lambda a, b, p: a.abs().log2(), units=8),
    "sqrt": Row(lambda a, b, p: a.abs().sqrt()),
    "rsqrt": Row(lambda a, b, p: a.abs().rsqrt()),
    "reciprocal": Row(lambda a, b, p: a.reciprocal(), units=5),
    "a**-2": Row(lambda a, b, p: a**-2, units=16),
    "a**0.5": Row(lambda a, b, p: a.abs() ** 0.5),
    "a**1.7": Row(lambda a, b, p: a.abs() ** 1.7, units=12),
    "a**plain": Row(lambda a, b, p: a.abs() ** p, units=12),
    "a**b": Row(lambda a, b, p: a.abs() ** b, units=16),
    "2**a": Row(lambda a, b, p: 2**a, units=5),
    "sigmoid": Row(lambda a, b, p: a.sigmoid(), units=10),
    "tanh": Row(lambda a, b, p: a.tanh(), units=16),
    "erf": Row(lambda a, b, p: a.erf(), units=16),
    "gelu": Row(lambda a, b, p: F.gelu(a), units=16),
    "gelu(tanh)": Row(lambda a, b, p: F.gelu(a, approximate="tanh"), units=16),
    "silu": Row(lambda a, b, p: F.silu(a), units=16),
    "mish": Row(lambda a, b, p: F.mish(a), units=16),
    "softplus": Row(lambda a, b, p: F.softplus(a), units=20),
    "softplus(beta)": Row(lambda a, b, p: F.softplus(a, beta=2.5), units=12),
    "logaddexp": Row(lambda a, b, p: torch.logaddexp(a, b), units=20),
    "logaddexp plain": Row(lambda a, b, p: torch.logaddexp(p, a), units=20),
    "nan_to_num": Row(lambda a, b, p: torch.nan_to_num(a, nan=3.0)),
    "logsigmoid": Row(lambda a, b, p: F.logsigmoid(a), units=20),
    "elu": Row(lambda a, b, p: F.elu(a), units=5),
    "sin": Row(lambda a, b, p: a.sin(), units=6),
    "cos": Row(lambda a, b, p: a.cos(), units=6),
    "tan": Row(lambda a, b, p: (a / 3).tan(), units=12),
    "sinh": Row(lambda a, b, p: a.sinh(), units=5),
    "asin": Row(lambda a, b, p: (a / 8).asin(), units=8),
    "acos": Row(lambda a, b, p: (a / 8).acos(), units=8),
    "softmax": Row(lambda a, b, p: a.softmax(1), units=10),
    "log_softmax": Row(lambda a, b, p: F.log_softmax(a, 1), units=8),
    "logsumexp": Row(lambda a, b, p: a.logsumexp(1), units=5),
    "std": Row(lambda a, b, p: a.std()),
    "std(1)": Row(lambda a, b, p: a.std(1, keepdim=True)),
    "norm": Row(lambda a, b, p: a.norm()),
    "norm(1)": Row(lambda a, b, p: a.norm(1, dim=1)),
    "norm(3)": Row(lambda a, b, p: a.norm(3, dim=1), units=12),
    "norm(inf)": Row(lambda a, b, p: a.norm(math.inf)),
    "normalize": Row(lambda a, b, p: F.normalize(a), units=5),
    "exp_": Row(in_place("exp_"), units=5),
    "sigmoid_": Row(in_place("sigmoid_"), units=10),
    "layer_norm": Row(lambda a, b, p: F.layer_norm(a, (3,)), units=8),
    "cross_entropy": Row(lambda a, b, p: F.cross_entropy(a, torch.tensor([0, 2])), units=8),
    "zeros_like": Row(lambda a, b, p: torch.zeros_like(a) + torch.ones_like(b)),
    "a+=b": Row(in_place("add_", "b")),
    "a-=1": Row(in_place("sub_", 1)),
    "a*=b": Row(in_place("mul_", "b")),
    "a*=0": Row(in_place("mul_", 0)),
    "a/=2": Row(in_place("div_", 2)),
    "a//=2": Row(in_place("floor_divide_", 2)),
    "a**=2": Row(in_place("pow_", 2)),
    "relu_": Row(in_place("relu_")),
    "zero_": Row(in_place("zero_")),
    "fill_": Row(in_place("fill_", 2.5)),
    "copy_": Row(in_place("copy_", "b")),
    "clamp_": Row(in_place("clamp_", -1, 1)),
    "setitem number": Row(lambda a, b, p: set_item(a, 0, 2.5)),
    "setitem row": Row(lambda a, b, p: set_item(a, 1, b[0])),
    "setitem column": Row(lambda a, b, p: set_item(a, (slice(None), 1), b[:, 0])),
    "setitem plain": Row(lambda a, b, p: set_item(a, (slice(None), slice(0, 2)), p[:, 1:])),
    "setitem mask": Row(lambda a, b, p: set_item(a, p > 0, 4.5)),
    "setitem list": Row(lambda a, b, p: set_item(a, (torch.tensor([0, 1]), torch.tensor([2, 0])), b[:, 0])),
    "setitem element": Row(lambda a, b, p: set_item(a, (0, 1), b[1, 1])),
    "through views": Row(through_view, units=4),
    "conv2d": Row(lambda x, w, c: F.conv2d(x, w, c), 8, IMAGE, ()),
    "conv2d no bias": Row(lambda x, w, c: F.conv2d(x, w), 8, IMAGE, ()),
    "conv2d options": Row(lambda x, w, c: F.conv2d(x, w, c, stride=2, padding=(1, 2), dilation=(1, 2)), 8, IMAGE, ()),
    "conv2d plain weight": Row(lambda x, w, c: F.conv2d(x, w, c, padding=1), 8, IMAGE, (1, 2)),
    "conv2d plain image": Row(lambda x, w, c: F.conv2d(x, w, c, padding=1), 8, IMAGE, (0,)),
    "conv2d groups": Row(lambda x, w: F.conv2d(x, w, groups=2), 8, ((2, 4, 5, 5), (6, 2, 3, 3)), ()),
    "conv1d": Row(lambda x, w: F.conv1d(x, w, stride=2, padding=1), 8, ((2, 3, 8), (4, 3, 3)), ()),
    "max_pool2d": Row(lambda x: F.max_pool2d(x, 2), 2, ((1, 2, 6, 6),), ()),
    "max_pool2d options": Row(lambda x: F.max_pool2d(x, 3, stride=2, padding=1), 2, ((2, 1, 6, 5),), ()),
    "max_pool2d ceil": Row(lambda x: F.max_pool2d(x, 2, ceil_mode=True), 2, ((1, 1, 5, 5),), ()),
    "max_pool1d": Row(lambda x: F.max_pool1d(x, 2), 2, ((1, 2, 6),), ()),
    "avg_pool2d": Row(lambda x: F.avg_pool2d(x, 2), 3, ((1, 2, 6, 6),), ()),
    "avg_pool2d options": Row(lambda x: F.avg_pool2d(x, 3, 2, 1, count_include_pad=False), 3, ((2, 1, 6, 6),), ()),
    "adaptive_avg_pool2d": Row(lambda x: F.adaptive_avg_pool2d(x, 1), 3, ((2, 3, 4, 4),), ()),
    "batch_norm eval": Row(
        lambda x: F.batch_norm(x, torch.tensor([0.5, -1.0]), torch.tensor([2.0, 0.5])),
        8,
        ((2, 2, 3, 3),),
        (),
        lambda x: F.batch_norm(x, torch.tensor([0.5, -1.0]).double(), torch.tensor([2.0, 0.5]).double()),
    ),
    "embedding": Row(lambda w: F.embedding(torch.tensor([[0, 2], [1, 1]]), w), 2, ((3, 4),), ()),
    "rnn_tanh": Row(lambda x, h, w, v: torch.rnn_tanh(x, h, [w, v], *ONE_LAYER)[0], 8, RNN, ()),
    "gru": Row(lambda x, h, w, v: torch.gru(x, h, [w.repeat(3, 1), v.repeat(3, 1)], *ONE_LAYER)[0], 12, RNN, ()),
    "lstm": Row(lambda x, h, w, v: torch.lstm(x, (h, h), [w.repeat(4, 1), v.repeat(4, 1)], *ONE_LAYER)[0], 12, RNN, ()),
    "attention": Row(F.scaled_dot_product_attention, 12, QKV, ()),
    "attention causal": Row(lambda q, k, v: F.scaled_dot_product_attention(q, k, v, is_causal=True), 12, QKV, ()),
    "masked_fill(-inf)": Row(lambda a, b, p: a.masked_fill(p > 2, -math.inf).softmax(1), 6),
}
# Calls that have no rule yet, or never will: each must say so.
REFUSED: dict[str, Call] = {
    "sort": lambda a: a.sort(),
    "median": lambda a: a.median(),
    "topk": lambda a: a.topk(1),
    "long": lambda a: a.long(),
    "a[a>0]": lambda a: a[a > 0],
    "nonzero": lambda a: a.nonzero(),
    "equal": lambda a: torch.equal(a, a),
    "allclose": lambda a: torch.allclose(a, a),
    "(-2)**a": lambda a: (-2) ** a,
    "atan": lambda a: a.atan(),
    "unique": lambda a: a.unique(),
    "svd": lambda a: torch.linalg.svd(a),
    "x[private, private]": lambda a: a[a.argmax(0), a.argmax(0)],
    "x[private] = y": lambda a: set_item(a, a.argmax(0), 1.0),
    "t_": lambda a: a.clone().t_(),
    "sum(dtype=int64)": lambda a: a.sum(dtype=torch.int64),
    "round": lambda a: a.round(),
    "floor": lambda a: a.floor(),
    "multinomial": lambda a: a.abs().multinomial(1),
    "histc": lambda a: a.histc(),
}


FORMATS = {"10^-3": (10, 3), "2^-16": (2, 16)}


def tensors_of(row: Row) -> list[torch.Tensor]:
    """Make the tensors that a row takes: multiples of 1/8, which every format holds exactly."""
    torch.manual_seed(1)
    made = [
        torch.tensor(given, dtype=torch.float64) if isinstance(given, list) else torch.randn(given).double() * 2
        for given in row.inputs
    ]
    return [(tensor * 8).round() / 8 for tensor in made]


def encrypted(
    tensor: torch.Tensor, parties: Any = (), provider: Any = None, form: str = "10^-3", **options: Any
) -> Any:
    """Encode a tensor, and share it if there are parties."""
    base, precision = FORMATS[form]
    encoded: Any = tensor.float().fix_precision(base=base, precision_fractional=precision)
    return encoded.share(*parties, crypto_provider=provider, **options) if parties else encoded


def decrypted(result: Any) -> torch.Tensor:
    """Bring a result back."""
    fetched = result.get() if result.child.is_shared else result
    return fetched.float_precision().double()


def run_row(name: str, parties: Any = (), provider: Any = None, form: str = "10^-3", **options: Any) -> tuple[Any, Any]:
    """Run a row on encrypted tensors and on float64; returns both results."""
    row = MATRIX[name]
    tensors = tensors_of(row)
    meant = (row.meant or row.call)(*tensors).double()
    given = [
        tensor.float() if position in row.plain else encrypted(tensor, parties, provider, form, **options)
        for position, tensor in enumerate(tensors)
    ]
    return decrypted(row.call(*given)), meant


def check_row(name: str, parties: Any = (), provider: Any = None, form: str = "10^-3", **options: Any) -> None:
    """Assert that a row is right, within the precision of its format."""
    found, meant = run_row(name, parties, provider, form, **options)
    base, precision = FORMATS[form]
    assert found.shape == meant.shape
    largest = max(1.0, meant.abs().max().item())
    assert (found - meant).abs().max().item() <= MATRIX[name].units * largest / base**precision
