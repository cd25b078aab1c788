"""Random programs: steps over a pool of tensors, each a few torch calls as a user would write them.

A step is chosen once, by looking at an example; from then on it is a plain Python function of the pool. Whatever it
reads of a tensor (sizes, above all) it reads again each time.
"""

from __future__ import annotations

import math
import operator
import random
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import torch
import torch.nn.functional as F

import syft as sy

MAX_NUMEL = 600
WIDTHS = (1, 2, 3, 4)
_seeded = torch.Generator().manual_seed(7)
CONSTANTS = {
    "weight": torch.randn(5, 3, generator=_seeded),
    "square": torch.randn(3, 3, generator=_seeded),
    "bias": torch.randn(3, generator=_seeded),
    "scalar": torch.tensor(1.5),
    "indices": torch.tensor([0, 2, 1]),
    "mask": torch.tensor([True, False, True]),
    "table": torch.randn(4, 3, generator=_seeded),
    "kernel": torch.randn(2, 1, 2, generator=_seeded),
    "kernel2": torch.randn(2, 1, 2, 2, generator=_seeded),
    "parameter": torch.nn.Parameter(torch.randn(3, generator=_seeded)),
}


def half_and_size(x):
    """Give something that depends on sizes, for a plan within a plan."""
    return x / x.shape[0], x.new_zeros(x.shape) + x.size(-1)


def quiet(x):
    """Switch gradients off, for a plan within a plan."""
    with torch.no_grad():
        y = x * CONSTANTS["scalar"]
    return {"y": y + x.reshape(-1).sum(), "none": None}


INNER = (half_and_size, quiet)
INNER_PLANS: list[Any] = []


def build_inner_plans() -> None:
    """Build the plans that programs call; once, after the hook is there."""
    if not INNER_PLANS:
        INNER_PLANS.extend(sy.func2plan(args_shape=[(-1, 3)])(function) for function in INNER)


class Skip(Exception):
    """This step can't be taken with these values."""


@dataclass
class Pool:
    """The values of a running program.

    Attributes:
        values: inputs first, then results.
        plans: call plans, not functions, where a program calls one within.
    """

    values: list[torch.Tensor]
    plans: bool = False

    def inner(self, number: int) -> Callable[..., Any]:
        return INNER_PLANS[number] if self.plans else INNER[number]


Step = Callable[[Pool], Any]


@dataclass
class Chooser:
    """Chooses, for one step, operands and settings that work for the example."""

    rng: random.Random
    pool: Pool
    fixes: bool = False  # the step makes Python use a size, so a plan of it may hold for that size only

    def pick(self, fits: Callable[[torch.Tensor], bool] = lambda t: True) -> int:
        found = [i for i, value in enumerate(self.pool.values) if fits(value)]
        if not found:
            raise Skip
        # Late values more often, so that programs are deep and not only broad.
        return max(self.rng.choice(found), self.rng.choice(found))

    def choice(self, options: Any) -> Any:
        return self.rng.choice(list(options))

    def dim(self, i: int) -> int:
        dims = self.pool.values[i].dim()
        if not dims:
            raise Skip
        return self.rng.randrange(-dims, dims)


def floating(t: torch.Tensor) -> bool:
    return t.is_floating_point()


def matrix(t: torch.Tensor) -> bool:
    return t.is_floating_point() and t.dim() >= 2


def dims(low: int, high: int = 5) -> Callable[[torch.Tensor], bool]:
    return lambda t: low <= t.dim() <= high and t.is_floating_point()


def wide(size: int, low: int = 1) -> Callable[[torch.Tensor], bool]:
    return lambda t: t.dim() >= low and t.shape[-1] == size and t.dtype is torch.float32


TEMPLATES: dict[str, Callable[[Chooser], Step]] = {}


def template(function: Callable[[Chooser], Step]) -> Callable[[Chooser], Step]:
    TEMPLATES[function.__name__] = function
    return function


@template
def start(c: Chooser) -> Step:
    i = c.pick(lambda t: t.requires_grad)
    return lambda p: p.values[i] * 2


UNARY = (
    "neg abs exp log1p sqrt rsqrt sigmoid tanh relu sin cos atan floor ceil round trunc sign square reciprocal erf "
    "isnan isfinite expm1 logit signbit frac nan_to_num deg2rad sinc exp2 asinh positive detach clone logical_not "
    "isinf lgamma softmax_last cumsum_last gelu silu log_softmax_last contiguous flatten ravel"
).split()


@template
def unary(c: Chooser) -> Step:
    i, name = c.pick(floating), c.choice(UNARY)
    special = {
        "softmax_last": lambda x: x.softmax(-1),
        "log_softmax_last": lambda x: F.log_softmax(x, dim=-1),
        "cumsum_last": lambda x: torch.cumsum(x, -1),
        "gelu": F.gelu,
        "silu": F.silu,
    }
    if name in special:
        return lambda p: special[name](p.values[i])
    if hasattr(torch, name) and c.choice([True, False]):
        return lambda p: getattr(torch, name)(p.values[i])
    return lambda p: getattr(p.values[i], name)()


OPERATORS = (operator.add, operator.sub, operator.mul, operator.truediv, operator.gt, operator.le, operator.eq)
BINARY = "add sub mul div maximum minimum atan2 eq lt ge ne fmod remainder hypot copysign logaddexp".split()


@template
def binary(c: Chooser) -> Step:
    i, j = c.pick(floating), c.pick(floating)
    if c.choice([True, False]):
        function = c.choice(OPERATORS)
        return lambda p: function(p.values[i], p.values[j])
    name = c.choice(BINARY)
    if c.choice([True, False]):
        return lambda p: getattr(torch, name)(p.values[i], p.values[j])
    return lambda p: getattr(p.values[i], name)(p.values[j])


@template
def scalar(c: Chooser) -> Step:
    i, number = c.pick(), c.choice([2.5, -1, 3, 0, True, 0.5])
    function = c.choice([*OPERATORS, operator.pow])
    if c.choice([True, False]):
        return lambda p: function(number, p.values[i])
    return lambda p: function(p.values[i], number)


@template
def fused(c: Chooser) -> Step:
    i, j, k = (c.pick(floating) for _ in range(3))
    options = [
        lambda p: torch.addcmul(p.values[i], p.values[j], p.values[k], value=0.5),
        lambda p: p.values[i].add(p.values[j], alpha=2),
        lambda p: torch.lerp(p.values[i], p.values[j], 0.3),
        lambda p: torch.clamp(p.values[i], min=-0.5, max=0.5),
        lambda p: torch.where(p.values[i] > 0, p.values[j], p.values[k]),
        lambda p: torch.where(p.values[i] > p.values[j], p.values[k], 0.0),
        lambda p: p.values[i].masked_fill(p.values[j] > 0, -1.0),
        lambda p: p.values[i].clamp(min=p.values[j]),
    ]
    return c.choice(options)


REDUCTIONS = "sum mean prod amax amin std var logsumexp norm any all argmax argmin nansum count_nonzero cumprod".split()


@template
def reduction(c: Chooser) -> Step:
    i, name = c.pick(floating), c.choice(REDUCTIONS)
    if name not in ("logsumexp", "cumprod") and c.choice([True, False, False]):
        return lambda p: getattr(p.values[i], name)()
    dim = c.dim(i)
    if name in ("cumprod", "count_nonzero"):
        return lambda p: getattr(torch, name)(p.values[i], dim)
    keep = c.choice([True, False])
    return lambda p: getattr(p.values[i], name)(dim=dim, keepdim=keep)


@template
def several(c: Chooser) -> Step:
    i = c.pick(dims(1))
    dim, keep = c.dim(i), c.choice([True, False])
    name = c.choice(["max", "min", "median", "sort", "topk", "kthvalue", "cummax", "var_mean", "aminmax", "frexp"])
    if name in ("max", "min", "median"):
        return lambda p: getattr(p.values[i], name)(dim, keepdim=keep)
    if name == "sort":
        return lambda p: p.values[i].sort(dim=dim, descending=keep, stable=True)
    if name == "topk":
        return lambda p: tuple(torch.topk(p.values[i], 1, dim=dim, largest=keep))
    if name == "kthvalue":
        return lambda p: p.values[i].kthvalue(1, dim).values
    if name == "cummax":
        return lambda p: torch.cummax(p.values[i], dim)[0]
    if name == "aminmax":
        return lambda p: torch.aminmax(p.values[i], dim=dim, keepdim=keep)
    if name == "frexp":
        return lambda p: torch.frexp(p.values[i]).mantissa
    return lambda p: torch.var_mean(p.values[i], dim, keepdim=keep)


@template
def parts(c: Chooser) -> Step:
    """Cut a tensor into pieces; how many may depend on a size, which a recording fixes."""
    i = c.pick(dims(1))
    dim = c.dim(i)
    c.fixes = True
    options = [
        lambda p: p.values[i].unbind(dim),
        lambda p: p.values[i].split(2, dim),
        lambda p: torch.chunk(p.values[i], 2, dim=dim),
        lambda p: torch.tensor_split(p.values[i], 3, dim=dim),
        lambda p: torch.split(p.values[i], [1, p.values[i].shape[dim] - 1], dim=dim),
        lambda p: [p.values[i].select(dim, n) * 2 for n in range(p.values[i].shape[dim])],
        lambda p: p.values[i] * len(p.values[i]),
        lambda p: p.values[i] if p.values[i].shape[dim] > 2 else -p.values[i],
        lambda p: p.values[i] / math.sqrt(p.values[i].size(dim)),
    ]
    return c.choice(options)


@template
def layer(c: Chooser) -> Step:
    i, k = c.pick(wide(3)), CONSTANTS
    options = [
        lambda p: F.linear(p.values[i], k["weight"]),
        lambda p: p.values[i] @ k["square"] + k["bias"],
        lambda p: torch.matmul(p.values[i], k["weight"].t()),
        lambda p: F.layer_norm(p.values[i], (3,), k["bias"]),
        lambda p: F.layer_norm(p.values[i], p.values[i].shape[-1:]),
        lambda p: torch.einsum("...i,ij->...j", p.values[i], k["square"]),
        lambda p: p.values[i] * k["parameter"],
        lambda p: F.embedding(p.values[i].nan_to_num().clamp(0, 3).long(), k["table"]),
        lambda p: F.one_hot(p.values[i].nan_to_num().clamp(0, 3).long(), num_classes=4),
        lambda p: F.cosine_similarity(p.values[i], k["bias"], dim=-1),
        lambda p: F.normalize(p.values[i], dim=-1),
        lambda p: p.values[i][..., k["indices"]],
        lambda p: p.values[i][..., k["mask"]],
        lambda p: p.values[i].index_select(-1, k["indices"]),
        lambda p: F.pad(p.values[i], (1, 0), value=2.0),
        lambda p: F.mse_loss(p.values[i], torch.zeros_like(p.values[i]), reduction="sum"),
        lambda p: F.scaled_dot_product_attention(p.values[i], p.values[i], p.values[i]),
    ]
    return c.choice(options)


@template
def image(c: Chooser) -> Step:
    i = c.pick(lambda t: t.dim() >= 2 and t.dtype is torch.float32)
    options = [
        lambda p: F.conv1d(p.values[i].reshape(p.values[i].shape[0], 1, -1), CONSTANTS["kernel"], padding=1),
        lambda p: F.conv2d(
            p.values[i].reshape(p.values[i].size(0), 1, 1, -1), CONSTANTS["kernel2"], stride=1, padding=(1, 1)
        ),
        lambda p: F.max_pool1d(p.values[i].flatten(1).unsqueeze(1), 1),
        lambda p: F.avg_pool1d(p.values[i].flatten(1).unsqueeze(1), kernel_size=2, padding=1),
        lambda p: F.adaptive_avg_pool1d(p.values[i].view(p.values[i].shape[0], 1, -1), 2),
        lambda p: F.batch_norm(p.values[i].flatten(1), None, None, training=True),
        lambda p: F.max_pool1d(p.values[i].flatten(1).unsqueeze(1), 1, return_indices=True)[0],
        lambda p: F.interpolate(p.values[i].reshape(p.values[i].shape[0], 1, -1), scale_factor=2.0),
        lambda p: F.group_norm(p.values[i].reshape(p.values[i].shape[0], 1, -1), 1),
        lambda p: torch.bmm(p.values[i].flatten(1).unsqueeze(2), p.values[i].flatten(1).unsqueeze(1)),
    ]
    return c.choice(options)


@template
def form(c: Chooser) -> Step:
    i = c.pick(dims(1, 4))
    d, e = c.dim(i), c.dim(i)
    order = c.rng.sample(range(c.pool.values[i].dim()), c.pool.values[i].dim())
    options = [
        lambda p: p.values[i].view(p.values[i].shape[0], -1),
        lambda p: p.values[i].reshape(-1, p.values[i].size(-1)),
        lambda p: p.values[i].reshape(p.values[i].numel()),
        lambda p: p.values[i].reshape(p.values[i].shape),
        lambda p: p.values[i].view(*p.values[i].shape, 1),
        lambda p: p.values[i].permute(order),
        lambda p: p.values[i].permute(*order),
        lambda p: p.values[i].transpose(d, e),
        lambda p: p.values[i].unsqueeze(d),
        lambda p: p.values[i].squeeze(d),
        lambda p: p.values[i].squeeze(),
        lambda p: p.values[i].flip(d),
        lambda p: torch.roll(p.values[i], 1, d),
        lambda p: p.values[i].repeat_interleave(2, dim=d),
        lambda p: p.values[i].unsqueeze(0).expand(2, *p.values[i].shape),
        lambda p: p.values[i].repeat(2, *[1] * p.values[i].dim()),
        lambda p: p.values[i].mT if p.values[i].dim() > 1 else p.values[i],
        lambda p: p.values[i].movedim(d, e),
        lambda p: torch.flatten(p.values[i], 0),
        lambda p: p.values[i].unflatten(0, (-1, 1)),
        lambda p: p.values[i].swapaxes(d, e).contiguous(),
        lambda p: torch.tril(p.values[i]) if p.values[i].dim() > 1 else p.values[i].diag(),
        lambda p: p.values[i].expand_as(p.values[i]),
    ]
    return c.choice(options)


@template
def joined(c: Chooser) -> Step:
    i, j = c.pick(dims(1)), c.pick(dims(1))
    d = c.dim(i)
    options = [
        lambda p: torch.cat([p.values[i], p.values[j]], dim=d),
        lambda p: torch.cat((p.values[i], p.values[i]), d),
        lambda p: torch.stack([p.values[i], p.values[j]]),
        lambda p: torch.hstack([p.values[i], p.values[j]]),
        lambda p: torch.broadcast_tensors(p.values[i], p.values[j])[1],
        lambda p: torch.outer(p.values[i].flatten()[:3], p.values[j].flatten()[:2]),
        lambda p: torch.matmul(p.values[i], p.values[j]),
        lambda p: torch.matmul(p.values[i], p.values[i].transpose(-1, -2)),
        lambda p: torch.meshgrid(p.values[i].flatten()[:2], p.values[j].flatten()[:3], indexing="ij"),
        lambda p: torch.cdist(p.values[i], p.values[j]),
    ]
    return c.choice(options)


@template
def indexing(c: Chooser) -> Step:
    i = c.pick(dims(1, 4))
    d = c.dim(i)
    options = [
        lambda p: p.values[i][0],
        lambda p: p.values[i][-1:],
        lambda p: p.values[i][..., -1],
        lambda p: p.values[i][::2],
        lambda p: p.values[i][None],
        lambda p: p.values[i][:, None] if p.values[i].dim() > 1 else p.values[i][:, None, None],
        lambda p: p.values[i][p.values[i] > 0],
        lambda p: p.values[i][: p.values[i].shape[0] // 2],
        lambda p: p.values[i][p.values[i].shape[0] - 1],
        lambda p: p.values[i][torch.arange(p.values[i].size(0))],
        lambda p: p.values[i][torch.tensor([0, 0])],
        lambda p: p.values[i][[0, 0]],
        lambda p: p.values[i].narrow(d, 0, 1),
        lambda p: p.values[i].select(d, 0),
        lambda p: torch.gather(p.values[i], d, torch.zeros_like(p.values[i], dtype=torch.int64)),
        lambda p: p.values[i].masked_select(p.values[i] < 0.5),
        lambda p: torch.take(p.values[i], torch.tensor([0, -1])),
        lambda p: p.values[i][p.values[i].argmax(0)[None].flatten()[:1] % p.values[i].shape[0]],
        lambda p: torch.nonzero(p.values[i]),
        lambda p: p.values[i].scatter(d, torch.zeros_like(p.values[i]).long(), 5.0),
        lambda p: p.values[i][0, ..., None] if p.values[i].dim() > 1 else p.values[i][...],
        lambda p: p.values[i][(slice(None), *[0] * (p.values[i].dim() - 1))],
    ]
    return c.choice(options)


@template
def sizes(c: Chooser) -> Step:
    i = c.pick(dims(1, 4))
    d = c.dim(i)
    options = [
        lambda p: p.values[i].sum() / p.values[i].shape[0],
        lambda p: p.values[i] * p.values[i].size(d),
        lambda p: p.values[i].size(d) - p.values[i],
        lambda p: torch.arange(p.values[i].size(0)),
        lambda p: torch.arange(1, p.values[i].shape[d] + 1, dtype=torch.float32),
        lambda p: torch.zeros(p.values[i].shape),
        lambda p: torch.ones(p.values[i].shape[0], 2),
        lambda p: torch.ones((2, p.values[i].shape[d]), dtype=torch.float64),
        lambda p: p.values[i].new_zeros(p.values[i].shape),
        lambda p: p.values[i].new_ones(p.values[i].shape[0], 3),
        lambda p: p.values[i].new_full((p.values[i].size(0),), 3.5),
        lambda p: torch.full((p.values[i].shape[0], 3), 1.5),
        lambda p: torch.full(p.values[i].shape[:1], p.values[i].shape[0]),
        lambda p: torch.eye(p.values[i].shape[0]),
        lambda p: torch.linspace(0, 1, p.values[i].shape[d]),
        lambda p: p.values[i].sum() / p.values[i].numel(),
        lambda p: p.values[i] / (p.values[i].shape[0] / 4),
        lambda p: p.values[i] + (p.values[i].shape[d] * 2 + 1) % 3,
        lambda p: p.values[i].reshape(p.values[i].shape.numel()),
        lambda p: p.values[i].reshape(math.prod(p.values[i].shape), 1),
        lambda p: p.values[i] * -p.values[i].shape[0],
        lambda p: torch.empty(p.values[i].shape).fill_(2.0),
        lambda p: torch.tensor([1.0, 2.0]).repeat(p.values[i].shape[0]),
        lambda p: torch.tensor(p.values[i].shape[0]) + p.values[i],
        lambda p: p.values[i].sum_to_size(p.values[i].shape),
        lambda p: torch.tril(torch.ones(p.values[i].shape[0], p.values[i].shape[0])),
        lambda p: torch.zeros(*p.values[i].shape, 1, dtype=p.values[i].dtype),
    ]
    return c.choice(options)


@template
def in_place(c: Chooser) -> Step:
    """Change a clone, or a view of a clone, and go on with the clone."""
    i, j = c.pick(floating), c.pick(floating)
    k = c.pick(dims(1, 4))
    changes: list[tuple[int, Callable[[Pool, torch.Tensor], Any]]] = [
        (i, lambda p, t: t.add_(p.values[j])),
        (i, lambda p, t: t.mul_(0.5).sub_(1)),
        (i, lambda p, t: t.relu_()),
        (i, lambda p, t: F.relu(t, inplace=True)),
        (i, lambda p, t: t.clamp_(min=0)),
        (i, lambda p, t: t.masked_fill_(t > 0.5, 9.0)),
        (i, lambda p, t: operator.iadd(t, 1)),
        (i, lambda p, t: operator.imul(t, p.values[j])),
        (k, lambda p, t: t.__setitem__(0, 1.0)),
        (k, lambda p, t: t.__setitem__((..., 0), t[..., -1] * 2)),
        (k, lambda p, t: t.__setitem__(t > 0, 0.25)),
        (k, lambda p, t: t.__setitem__(slice(None, None, 2), t[:1])),
        (k, lambda p, t: t[0].add_(3)),
        (k, lambda p, t: t.view(-1).mul_(2)),
        (k, lambda p, t: t.transpose(0, -1).neg_()),
        (k, lambda p, t: t.select(-1, 0).fill_(4)),
        (k, lambda p, t: t.zero_()),
        (k, lambda p, t: t.copy_(t.flip(0))),
        (k, lambda p, t: t.index_fill_(0, torch.tensor([0]), 7.0)),
        (k, lambda p, t: t.scatter_(0, torch.zeros_like(t).long(), 1.0)),
        (k, lambda p, t: torch.add(t.detach().clone(), 1, out=t)),
        (k, lambda p, t: t.unsqueeze_(0)),
        (k, lambda p, t: t.detach_().add_(1)),
        (k, lambda p, t: t.data.add_(1)),
    ]
    source, change = c.choice(changes)

    def step(p: Pool) -> Any:
        clone = p.values[source].clone()
        change(p, clone)
        return clone

    return step


@template
def in_place_here(c: Chooser) -> Step:
    """Change a value of the pool itself, which others in the pool may be views of."""
    i = c.pick(dims(1, 4))
    options = [
        lambda p: p.values[i].add_(1),
        lambda p: p.values[i].mul_(0.5),
        lambda p: p.values[i].__setitem__(0, 0.5),
        lambda p: p.values[i].relu_(),
        lambda p: p.values[i][..., :1].zero_(),
        lambda p: p.values[i].data.mul_(2),
        lambda p: p.values[i].detach().neg_(),
    ]
    return c.choice(options)


@template
def kinds(c: Chooser) -> Step:
    i, j = c.pick(), c.pick(floating)
    options = [
        lambda p: p.values[i].float(),
        lambda p: p.values[i].double(),
        lambda p: p.values[i].bool(),
        lambda p: p.values[j].nan_to_num().clamp(-99, 99).long(),
        lambda p: p.values[j].nan_to_num().clamp(-99, 99).to(torch.int32),
        lambda p: p.values[i].to(dtype=torch.float64),
        lambda p: p.values[i].type_as(p.values[j]),
        lambda p: p.values[i].to(p.values[j]),
        lambda p: p.values[i].to(torch.bfloat16).float(),
        lambda p: torch.complex(p.values[j].float(), p.values[j].float()).abs(),
        lambda p: torch.view_as_real(torch.complex(p.values[j].float(), p.values[j].float()).conj()),
        lambda p: p.values[i].to(p.values[j].dtype),
    ]
    return c.choice(options)


@template
def chance(c: Chooser) -> Step:
    i = c.pick(dims(1, 4))
    options = [
        lambda p: F.dropout(p.values[i], 0.5, training=True),
        lambda p: torch.bernoulli(torch.full_like(p.values[i], 0.5)),
        lambda p: torch.randn_like(p.values[i]),
        lambda p: torch.rand(p.values[i].shape),
        lambda p: torch.randn(p.values[i].shape[0], 2),
        lambda p: torch.rand_like(p.values[i]) + p.values[i],
        lambda p: torch.randint(0, 5, p.values[i].shape),
        lambda p: torch.randint_like(p.values[i], 3),
        lambda p: torch.randperm(p.values[i].size(0)),
        lambda p: p.values[i][torch.randperm(p.values[i].size(0))],
        lambda p: p.values[i].clone().uniform_(0, 2),
        lambda p: torch.empty(p.values[i].shape[0]).normal_(),
        lambda p: torch.normal(p.values[i], 1.0),
        lambda p: F.rrelu(p.values[i], training=True),
    ]
    return c.choice(options)


@torch.no_grad()
def _decorated(x):
    return x * 3


@template
def modes(c: Chooser) -> Step:
    i = c.pick(floating)
    kind = c.choice(["no_grad", "enable_grad", "set_grad_enabled", "decorated", "nested", "function"])

    def step(p: Pool) -> Any:
        x = p.values[i]
        if kind == "decorated":
            return _decorated(x)
        if kind == "set_grad_enabled":
            with torch.set_grad_enabled(False):
                y = x * 2
            return y, y + x
        if kind == "nested":
            with torch.no_grad():
                with torch.enable_grad():
                    y = x * 2
                z = x + 1
            return y, z, x - 1
        if kind == "function":
            before = torch.is_grad_enabled()
            torch.set_grad_enabled(False)
            y = x * 4
            torch.set_grad_enabled(before)
            return y, x * 5
        with getattr(torch, kind)():
            y = x * 2
        return y, y + x

    return step


@template
def gradients(c: Chooser) -> Step:
    i = c.pick(lambda t: t.requires_grad and t.grad_fn is not None)
    j = c.pick(lambda t: t.requires_grad and t.is_leaf)

    def backward(p: Pool) -> Any:
        p.values[i].sum().backward(retain_graph=True)
        return p.values[j].grad

    options = [
        lambda p: torch.autograd.grad(p.values[i].sum(), p.values[j], retain_graph=True)[0],
        lambda p: torch.autograd.grad(p.values[i].sum(), [p.values[j]], create_graph=True),
        backward,
        lambda p: p.values[i].detach() * 2,
        lambda p: p.values[i].data + 1,
        lambda p: p.values[i].detach().requires_grad_(),
    ]
    return c.choice(options)


@template
def within(c: Chooser) -> Step:
    i, number = c.pick(lambda t: t.dim() == 2 and t.dtype is torch.float32), c.rng.randrange(len(INNER))

    def step(p: Pool) -> Any:
        result = p.inner(number)(p.values[i])
        return list(result) if number == 0 else result["y"]

    return step


RETURNS = ("one", "tuple", "list", "dict", "deep")


@dataclass
class Program:
    """A function over tensors, as steps.

    Attributes:
        steps: what it does.
        names: the names of the steps, for messages.
        returns: how the results are packed.
        by_name: how many of its inputs, the last ones, are given by name.
        fixes: it may hold for one batch size only.
    """

    steps: list[Step] = field(default_factory=list)
    names: list[str] = field(default_factory=list)
    returns: str = "tuple"
    by_name: int = 0
    fixes: bool = False

    def __call__(self, pool: Pool, limit: int | None = None) -> Any:
        """Run it; results larger than a limit raise Skip."""
        for step in self.steps:
            extend(pool, step(pool), limit)
        found = pool.values[-6:]
        if self.returns == "one":
            return found[-1] if found else None
        if self.returns == "list":
            return list(found)
        if self.returns == "dict":
            return {f"value_{n}": value for n, value in enumerate(found)}
        if self.returns == "deep":
            return {"first": found[:2], "rest": (tuple(found[2:]), [None, 3, "text", {"x": found[-1:]}])}
        return tuple(found)


def extend(pool: Pool, result: Any, limit: int | None) -> None:
    """Add what a step gave to the pool."""
    for value in result if isinstance(result, tuple | list) else [result]:
        if value is None:
            continue
        if limit is not None and value.numel() > limit:
            raise Skip
        pool.values.append(value)


def make_inputs(kinds_of_inputs: list[str], batch: int, seed: int) -> list[torch.Tensor]:
    """Make inputs; most have the batch size as their first size."""
    generator = torch.Generator().manual_seed(seed)

    def normal(*shape: int) -> torch.Tensor:
        return torch.randn(shape, generator=generator)

    makers = {
        "rows": lambda: normal(batch, 3),
        "leaf": lambda: normal(batch, 3).requires_grad_(),
        "cube": lambda: normal(batch, 2, 3),
        "vector": lambda: normal(batch),
        "fixed": lambda: normal(3),
        "square": lambda: normal(3, 3).requires_grad_(),
        "number": lambda: normal(),
        "whole": lambda: torch.randint(0, 5, (batch, 2), generator=generator),
        "flags": lambda: normal(batch, 3) > 0,
        "double": lambda: normal(batch, 3).double(),
        "images": lambda: normal(batch, 1, 3, 4),
    }
    return [makers[kind]() for kind in kinds_of_inputs]


INPUT_KINDS = ("rows", "leaf", "cube", "vector", "fixed", "square", "number", "whole", "flags", "double", "images")


def make_program(
    kinds_of_inputs: list[str], choices: list[tuple[str, int]], batch: int, returns: str, by_name: int
) -> Program:
    """Choose steps that work for an example; those that do not are left out."""
    program = Program(returns=returns, by_name=min(by_name, len(kinds_of_inputs)))
    pool = Pool(make_inputs(kinds_of_inputs, batch, 0))
    torch.default_generator.manual_seed(0)
    for name, seed in choices:
        chooser = Chooser(random.Random(seed), pool)
        try:
            step = TEMPLATES[name](chooser)
            before = len(pool.values)
            extend(pool, step(pool), MAX_NUMEL)
            if any(value.dim() > 5 for value in pool.values[before:]):
                raise Skip
        except Exception:
            pool = Pool(make_inputs(kinds_of_inputs, batch, 0))
            torch.default_generator.manual_seed(0)
            for old in program.steps:
                extend(pool, old(pool), None)
            continue
        program.steps.append(step)
        program.names.append(name)
        program.fixes |= chooser.fixes
    return program
