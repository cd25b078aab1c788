"""Programs for the tests of noninterference: known leaks of values, and single calls to combine."""

from __future__ import annotations

import torch

import syft as sy


def _step(w, *params, lr=0.1):
    torch.optim.SGD(params, lr=lr, momentum=0.5).step()


# Programs that would leak private values, one for each known leak.
WAYS = {
    "a result": lambda w: w.add(lambda: w.matrix + w.own[0]),
    "a keyword": lambda w: w.add(lambda: torch.sub(w.own[0], other=w.matrix)),
    "nested": lambda w: w.add(lambda: torch.cat([w.own[0], w.matrix])),
    "an index": lambda w: w.add(lambda: w.own[1][w.vector.abs().long() % 3]),
    "a choice": lambda w: w.add(lambda: torch.where(w.matrix > 2, w.own[0], w.own[0] * 2)),
    "in place": lambda w: w.own[0].add_(w.matrix),
    "in place through a view": lambda w: (w.add(lambda: w.own[0].view(-1)), w.own[0].t().copy_(w.matrix)),
    "into a view made before": lambda w: (w.add(lambda: w.own[0][0]), w.own[0].copy_(w.matrix)),
    "into the whole by a part": lambda w: w.own[0][1].copy_(w.vector),
    "setitem": lambda w: w.own[0].__setitem__(0, w.vector),
    "out": lambda w: torch.add(w.matrix, 1.0, out=w.own[0]),
    "data": lambda w: setattr(w.own[0], "data", w.matrix),
    "into data": lambda w: w.own[0].data.copy_(w.matrix),
    "a gradient that is set": lambda w: setattr(w.own[2], "grad", w.matrix),
    "running statistics": lambda w: w.note(
        lambda: torch.nn.functional.batch_norm(w.matrix, w.own[1], w.own[1].copy(), training=True)
    ),
    "backward": lambda w: (w.matrix @ w.own[2]).sum().backward(),
    "backward twice": lambda w: (w.own[2].sum().backward(), (w.matrix * w.own[2]).sum().backward()),
    "into a view of a gradient": lambda w: (
        w.own[2].sum().backward(), w.add(lambda: w.own[2].grad.view(-1)), (w.matrix * w.own[2]).sum().backward(),
    ),
    "a gradient that comes back": lambda w: (w.own[2] * 1).backward(w.matrix),
    "a kept gradient": lambda w: _kept_gradient(w),
    "autograd.grad": lambda w: w.add(lambda: torch.autograd.grad((w.matrix * w.own[2]).sum(), w.own[2])),
    "written into what autograd kept": lambda w: _late(w),
    "the same by a plan": lambda w: _late(w, plan=True),
    "an optimizer step": lambda w: ((w.matrix * w.own[2]).sum().backward(), _step(w, w.own[2])),
    "a plan": lambda w: w.add(lambda: w.plans[0](w.own[0], w.matrix)),
    "a plan that writes": lambda w: w.plans[1](w.own[0], w.matrix),
    "a plan that trains": lambda w: w.note(lambda: w.plans[2](w.matrix)),
    "a plan that remembers": lambda w: w.note(lambda: w.plans[3](w.vector)),
    "a plan that remembers, asked later": lambda w: (w.plans[3](w.vector), w.add(lambda: w.plans[3](w.own[1]))),
    "the state of a plan": lambda w: (w.add(w.plans[2].parameters), w.note(lambda: w.plans[2](w.matrix))),
    "written into the state of a plan": lambda w: _write_state(w),
    "a form": lambda w: w.add(lambda: w.matrix.nonzero()),
    "a form by a mask": lambda w: w.add(lambda: w.own[0][w.matrix > 2]),
    "a size": lambda w: w.add(lambda: w.own[1][:1].expand(w.vector[0].abs().long())),
    "where a view begins": lambda w: _offset(w),
    "how many parts": lambda w: w.add(lambda: torch.tensor_split(w.own[1], w.vector.long())),
    "a number": lambda w: w.note(lambda: w.matrix.sum().item()),
    "a comparison": lambda w: w.note(lambda: bool((w.matrix > 2).any())),
    "equality": lambda w: w.note(lambda: torch.equal(w.matrix, w.own[0])),
    "a text": lambda w: w.note(lambda: f"{w.vector.sum():.3f}"),
    "an error text": lambda w: w.note(lambda: w.own[1].index_select(0, w.vector.abs().long() + 40)),
    "whether it fails": lambda w: w.add(lambda: w.own[1].index_select(0, w.vector.abs().long())),
    "whether a write fails": lambda w: w.note(
        lambda: w.own[1].index_add_(0, w.vector.abs().long(), w.own[1].copy())
    ),
    "whether a plan fails": lambda w: _failing_plan(w),
    "how a result lies in memory": lambda w: w.add(lambda: torch.linalg.cholesky(torch.diag(w.vector + 1))),
    "whether something is contiguous": lambda w: _same_when_contiguous(w),
    "whether a result has a graph": lambda w: w.add(lambda: w.own[3].index_select(0, w.vector.abs().long())),
    "whether a gradient comes": lambda w: w.note(
        lambda: w.own[3].index_select(0, w.vector.abs().long()).sum().backward()
    ),
    "whether a gradient comes, further back": lambda w: w.note(
        lambda: (w.own[3] * 2).index_select(0, w.vector.abs().long()).exp().sum().backward()
    ),
    "whether a write connects": lambda w: _connecting_write(w),
    "whether a write to what has a graph connects": lambda w: _connecting_write(w, begun=True),
    "whether a plan gives gradients": lambda w: _training_plan(w),
    "whether a plan turns what it gets": lambda w: _turning_plan(w),
    "whether a plan gives back what it got": lambda w: _turning_plan(w, back=True),
    "a guard of divisions": lambda w: w.add(
        lambda: torch.div(_smallest(w), (w.vector[1] > 1).long() * -4 + 3, rounding_mode="trunc")
    ),
    "a guard of eigenvalues": lambda w: w.add(lambda: torch.linalg.eigvals(torch.diag((w.vector + 1).log()))),
    "a guard of draws": lambda w: w.add(lambda: torch.binomial((w.vector + 1).log() * 0 + 1, w.vector * 0 + 0.5)),
    "a guard in a plan": lambda w: _guarded_plan(w),
    "whether numbers fit": lambda w: w.note(lambda: ((w.vector[1] > 1).float() * 1e30).fix_precision()),
    "whether a backward pass fails": lambda w: _failing_backward(w),
    "whether a backward pass by a list fails": lambda w: _failing_backward(w, by_list=True),
    "whether autograd.grad fails": lambda w: _failing_grad(w),
    "whether a kept gradient comes": lambda w: _failing_backward(w, keep=True),
    "how a gradient lies in memory": lambda w: w.add(
        lambda: torch.autograd.grad((w.own[2] * w.matrix).sum(), w.own[2])[0].contiguous()
    ),
    "what was written to before a backward pass": lambda w: _written_before_backward(w),
    "a graph of a gradient": lambda w: w.add(
        lambda: torch.autograd.grad((w.own[2] * w.matrix).sum(), w.own[2], create_graph=True)
    ),
    "a move": lambda w: w.note(lambda: (w.matrix + 0).move(sy.local_worker)),
    "labels": lambda w: (w.note(lambda: w.node.search(str(w.matrix.id))), w.own[0].copy_(w.matrix).tag("#mine")),
    "published": lambda w: (w.own[0].copy_(w.matrix).tag("#mine"), w.add(lambda: w.node.search("#mine"))),
}  # fmt: skip


def _kept_gradient(w):
    middle = w.own[2] * 2
    middle.retain_grad()
    w.pool.append(middle)
    (middle * w.matrix).sum().backward()


def _late(w, plan=False):
    """Autograd saves `factor` by reference; `.data` changes it without a version bump."""
    factor = torch.ones(3, 3).send(w.node)
    product = (w.own[2] * factor).sum()
    if plan:
        w.plans[1](factor.data, w.matrix)
    factor.data.copy_(w.matrix)
    del factor
    product.backward()


def _write_state(w):
    (weight, bias) = w.plans[2].parameters()
    with torch.no_grad():
        weight.copy_(w.vector.view(1, 3))
    del weight, bias
    w.add(lambda: w.plans[2](w.own[0]))


def _offset(w):
    part = w.note(lambda: w.own[1][w.vector[0].abs().long()])
    if part is not None:
        w.note(part.storage_offset)


def _failing_plan(w):
    @sy.func2plan(args_shape=[(3,), (3,)])
    def pick(x, y):
        return x.index_select(0, y.abs().long()) + 1

    w.add(lambda: pick.send(w.node)(w.own[1], w.vector))


def _same_when_contiguous(w):
    lower = torch.linalg.cholesky(torch.diag(w.vector + 1))
    w.note(lambda: lower.contiguous() is lower)
    w.add(lambda: lower.view(-1))


def _connecting_write(w, begun=False):
    target = w.own[3] * 1 if begun else w.own[1].copy()
    index = w.vector.abs().long()
    w.pool.append(target)
    w.note(lambda: target.index_add_(0, index, w.own[2][0]).requires_grad)
    w.note(lambda: target.sum().backward())


def _training_plan(w):
    @sy.func2plan(args_shape=[(3,), (3,)])
    def train(x, y):
        (x.requires_grad_() * 2).index_select(0, y.abs().long()).sum().backward()
        return x

    given = torch.ones(3).send(w.node)
    w.pool.append(given)
    w.note(lambda: train.send(w.node)(given, w.vector))


def _turning_plan(w, back=False):
    @sy.func2plan(args_shape=[(2, 3), (3,)])
    def turn(x, y):
        picked = x[0].index_select(0, y.abs().long())
        x.t_()
        return x if back else picked + 1

    given = torch.ones(2, 3).send(w.node)
    w.pool.append(given)
    w.note(lambda: turn.send(w.node)(given, w.vector))
    w.note(lambda: tuple(given.child.size()))


def _smallest(w):
    return torch.full((3,), torch.iinfo(torch.int64).min).send(w.node)


def _guarded_plan(w):
    @sy.func2plan(args_shape=[(3,)])
    def roots(x):
        return torch.linalg.eigvals(torch.diag((x + 1).log()))

    w.add(lambda: roots.send(w.node)(w.vector))


def _singular(w):
    """Vectors whose gradient is undefined for one set of private values: it depends on an arbitrary phase."""
    start = torch.eye(3, dtype=torch.complex128) + 0.5j * torch.arange(9.0, dtype=torch.float64).view(3, 3)
    matrix = start.requires_grad_().send(w.node)
    w.pool.append(matrix)
    vectors, _, _ = torch.linalg.svd(matrix)
    return matrix, (vectors.imag * (w.vector > 1).double()).sum()


def _failing_backward(w, by_list=False, keep=False):
    matrix, loss = _singular(w)
    if keep:
        loss = loss * 1
        loss.retain_grad()
        w.pool.append(loss)
    w.note(lambda: torch.autograd.backward([loss]) if by_list else loss.backward())
    w.note(lambda: matrix.grad)


def _failing_grad(w):
    matrix, loss = _singular(w)
    w.add(lambda: torch.autograd.grad(loss, (matrix, w.own[2]), allow_unused=True))
    w.note(lambda: torch.autograd.grad(loss, w.own[2]))


def _written_before_backward(w):
    """Autograd refuses tensors that were written to since; whether that happened depends on values."""
    kept = torch.ones(3).send(w.node)
    loss = (w.own[3] * kept).sum()
    w.note(lambda: kept.index_fill_(0, w.vector.abs().long(), 3.0))
    w.note(lambda: loss.backward())


# Calls that random programs are made of.
UNARY = {
    "copy": lambda x: x.copy(), "flat": lambda x: x.reshape(-1), "view": lambda x: x.view(x.shape), "first": lambda x: x[0],
    "turned": lambda x: x.t() if x.dim() == 2 else x, "sum": torch.sum, "relu": torch.relu, "double": lambda x: x * 2,
    "detached": lambda x: x.detach(), "data": lambda x: x.data, "grad": lambda x: x.grad.view(-1), "sorted": torch.sort,
    "nonzero": torch.nonzero, "item": lambda x: x.sum().item(), "truth": lambda x: bool((x > 1).all()), "split": torch.unbind,
    "positive": lambda x: x[x > 0], "requires": lambda x: x.requires_grad_() if x.is_leaf else x, "zero": lambda x: x.zero_(),
    "backward": lambda x: x.sum().backward(), "keep": lambda x: x.retain_grad(), "round": lambda x: x.round_(),
    "step": lambda x: torch.optim.SGD([x], lr=0.1).step(), "adam": lambda x: torch.optim.Adam([x], lr=0.1).step(),
}  # fmt: skip
BINARY = {
    "add": torch.add, "mul": torch.mul, "matmul": torch.matmul, "cat": lambda x, y: torch.cat([x, y]),
    "stack": lambda x, y: torch.stack((x, y)), "where": lambda x, y: torch.where(y > 1, x, x * 2), "larger": torch.maximum,
    "add_": lambda x, y: x.add_(y), "copy_": lambda x, y: x.copy_(y), "mul_": lambda x, y: x.mul_(y),
    "set": lambda x, y: x.__setitem__(0, y), "data": lambda x, y: setattr(x, "data", y), "into data": lambda x, y: x.data.copy_(y),
    "grad": lambda x, y: setattr(x, "grad", y), "out": lambda x, y: torch.neg(y, out=x), "equal": torch.equal,
    "pull": lambda x, y: torch.autograd.grad((x * y).sum(), x, allow_unused=True), "push": lambda x, y: (x * y).backward(y),
    "pick": lambda x, y: x.index_select(0, y.reshape(-1).abs().long()), "roots": lambda x, y: torch.linalg.cholesky(x @ y),
    "pile": lambda x, y: x.index_add_(0, y[:1].reshape(-1)[:1].abs().long(), x[:1] * 2),
    "gather": lambda x, y: x[y.long() % x.shape[0]], "take": lambda x, y: torch.take(x, y.long()),
}  # fmt: skip
UNARY.update({
    "draw": torch.rand_like, "bits": lambda x: torch.bernoulli(x.sigmoid()), "poisson": lambda x: torch.poisson(x.abs()),
    "dropout": lambda x: torch.nn.functional.dropout(x), "normal_": lambda x: x.normal_(), "shuffled": lambda x: x[torch.randperm(x.shape[0])],
    "expand": lambda x: x.unsqueeze(0).expand(2, *x.shape), "narrow": lambda x: x.narrow(0, 1, 1), "strided": lambda x: x.as_strided((2,), (1,), 1),
    "real": lambda x: torch.view_as_real(x.to(torch.complex64)), "unique": torch.unique, "sum to": lambda x: x.sum_to_size(1, 3),
    "far": lambda x: x[7], "index": lambda x: x.sum().long().item(),
})  # fmt: skip
BINARY.update({
    "view as": lambda x, y: x.view_as(y).add_(y), "expand as": lambda x, y: x.expand_as(y), "set_": lambda x, y: x.set_(y),
    "draw into": lambda x, y: x.bernoulli_(y.sigmoid()), "scatter": lambda x, y: x.scatter_add_(0, y.long(), y),
    "embed": lambda x, y: torch.nn.functional.embedding(y.long(), x), "loss": lambda x, y: torch.nn.functional.cross_entropy(x, y.long()),
    "lerp": lambda x, y: x.lerp_(y, 0.5), "weights": lambda x, y: torch.multinomial(x.abs(), 2, replacement=True), "swap": lambda x, y: x.swapaxes_(0, 1),
    "repeat": lambda x, y: x.repeat_interleave(y.long()), "masked": lambda x, y: x.masked_select(y > 0), "bins": lambda x, y: torch.bincount(y.reshape(-1).abs().long()),
})  # fmt: skip
RUNS = {"mix": 0, "write": 1, "train": 2, "remember": 3}
