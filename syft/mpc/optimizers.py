"""Optimizers on encrypted parameters: torch's own code, with state that has the digits it needs.

Adam's second moment begins as a thousandth of a squared gradient, far below a unit of a parameter. So before each step
the state of encrypted parameters is brought into finer forms: means of gradients get some bits more than the parameters
have, means of their squares get 38. The finest form wins in what torch computes, and a parameter keeps its own.

* **A second moment is not zero where there was a gradient.** Squares below a unit may be rounded to zero, and a small
  step divided by zero, or by eps, would be a large one. So one unit (2^-38, or 10^-11) is added before each step. With
  a decay of 0.999 that is as if every gradient had an error of 6e-5: where gradients are as small as that, steps are
  smaller than torch's as a rule; an eps that is smaller makes no difference.
* **x / 0 is 0.** Where a divisor is zero nonetheless (Adamax and Adagrad, for gradients that were always zero) there is
  no step, as there is none in torch.
* **Room.** Each element of a gradient must stay below 1000 (NAdam: 150), for its square has to fit. Clip what may be
  larger.

Where a model has been decrypted, or encrypted in the middle of training, the state follows before the next step: that
of plain parameters is fetched and decoded, that of encrypted ones is encoded, and is public until it meets a gradient.
"""

from __future__ import annotations

import inspect
import weakref
from collections.abc import Iterator
from typing import Any

import torch
from torch import optim
from torch.optim.optimizer import register_optimizer_step_pre_hook

from syft.exceptions import UnsupportedOperation
from syft.hook import base
from syft.hook.optimizers import followers
from syft.hook.syft_tensor import SyftTensor
from syft.mpc.rules.gradients import with_digits
from syft.mpc.rules.operands import FixedPointFormat
from syft.mpc.rules.operands import content as content_of
from syft.mpc.values import ring_ops
from syft.tensors.precision import FixedPrecisionTensor

# Bits behind the point that a state has: so many more than the parameter, and so many at most.
MEAN, SQUARE, SUM = (12, 34), (38, 38), (32, 32)
# How the state of an optimizer is kept; what is not named here stays as torch makes it.
STATES: dict[type, dict[str, tuple[int, int]]] = {
    optim.SGD: {"momentum_buffer": MEAN},
    optim.Adam: {"exp_avg": MEAN, "exp_avg_sq": SQUARE, "max_exp_avg_sq": SQUARE},
    optim.NAdam: {"exp_avg": MEAN, "exp_avg_sq": SQUARE},
    optim.RAdam: {"exp_avg": MEAN, "exp_avg_sq": SQUARE},
    optim.RMSprop: {"square_avg": SQUARE, "grad_avg": MEAN, "momentum_buffer": MEAN},
    optim.Adagrad: {"sum": SUM},
    optim.Adadelta: {"square_avg": SQUARE, "acc_delta": SQUARE},
    optim.Adamax: {"exp_avg": MEAN, "exp_inf": MEAN},
    optim.ASGD: {"ax": MEAN},
}
# Means of squares, to which a unit is added before each step.
RAISED = frozenset({"exp_avg_sq", "square_avg"})
# What can't run, and what to use in its place.
REFUSED: dict[type, str] = {
    optim.LBFGS: "It looks at losses and gradients to decide how to go on; use SGD, Adam or RMSprop.",
    optim.Rprop: "It writes where gradients change their sign, and where is private; use Adam or Adamax.",
    optim.SparseAdam: "It needs to see where gradients are zero; use Adam.",
    optim.Adafactor: "Its factors have no room in fixed precision; use Adam.",
    optim.Muon: "It multiplies large matrices many times over, beyond what fixed precision holds; use Adam.",
}
REFUSED_OPTIONS = {
    "foreach": "Leave foreach out: parameters take their steps one by one.",
    "fused": "Leave fused out: there is no such kernel for encrypted numbers.",
    "capturable": "Leave capturable out: it is for graphs of a GPU.",
    "differentiable": "Leave differentiable out: steps are not followed by autograd.",
}
# Optimizers that have encrypted state, which has to follow when parameters are decrypted.
_encrypted: weakref.WeakSet[optim.Optimizer] = weakref.WeakSet()


def _concerns(optimizer: optim.Optimizer) -> bool:
    """Say whether an optimizer has encrypted parameters, or state from when it had."""
    return optimizer in _encrypted or any(_is_encrypted(one) for one in _parameters(optimizer))


def follow(optimizer: optim.Optimizer, args: Any, kwargs: Any) -> None:
    """Bring the state that there is to where the parameters are, without a step."""
    if _concerns(optimizer):
        _bring(optimizer, stepping=False)


def prepare(optimizer: optim.Optimizer, args: Any, kwargs: Any) -> Any:
    """Bring the state of an optimizer into the forms that its parameters ask for, before a step."""
    if not _concerns(optimizer):
        return None
    _check(optimizer)
    closure = kwargs.get("closure") if len(args) < 2 else args[1]
    if closure is None:
        _bring(optimizer)
        return None

    def closed() -> Any:  # gradients, and so the state, are there after it only
        loss = closure()
        with torch.no_grad():
            _bring(optimizer)
        return loss

    return (args[0], closed), {}


def _parameters(optimizer: optim.Optimizer) -> Iterator[Any]:
    for group in optimizer.param_groups:
        yield from group["params"]


def _is_encrypted(tensor: Any) -> bool:
    return type(tensor) is SyftTensor and isinstance(tensor.child, FixedPrecisionTensor)


def _named(table: dict[type, Any], optimizer: optim.Optimizer) -> Any:
    """Return what a table says of an optimizer, or of what it is derived from."""
    return next((table[kind] for kind in type(optimizer).__mro__ if kind in table), None)


def _check(optimizer: optim.Optimizer) -> None:
    """Raise if an optimizer, or an option of it, is not for encrypted parameters."""
    name = type(optimizer).__name__
    hint = _named(REFUSED, optimizer)
    if hint is not None:
        raise UnsupportedOperation(f"torch.optim.{name}", "encrypted parameters", hint)
    for group in optimizer.param_groups:
        if any(_is_encrypted(one) for one in group["params"]):
            for option, advice in REFUSED_OPTIONS.items():
                if group.get(option):
                    raise UnsupportedOperation(f"{name}({option}=True)", "encrypted parameters", advice)


def _bring(optimizer: optim.Optimizer, stepping: bool = True) -> None:
    """Bring all state into the right forms; before a step, make what is not there yet, and raise means of squares."""
    forms = _named(STATES, optimizer)
    if forms is None:
        return
    _encrypted.add(optimizer)
    if stepping:
        _start(optimizer)
    for parameter, state in optimizer.state.items():
        for name, bits in forms.items():
            if isinstance(state.get(name), torch.Tensor):
                state[name] = _brought(state[name], parameter, bits)
                if stepping and name in RAISED and _is_encrypted(state[name]) and parameter.grad is not None:
                    _raise(state[name].child)
    if not any(_is_encrypted(one) for one in _parameters(optimizer)):
        _encrypted.discard(optimizer)


def _start(optimizer: optim.Optimizer) -> None:
    """Let torch make the state of parameters that have none: it would do so in the step, when it is too late."""
    make = getattr(optimizer, "_init_group", None)
    if make is None:
        return
    names = list(inspect.signature(make).parameters)[1:]
    for group in optimizer.param_groups:
        if any(one.grad is not None and not optimizer.state.get(one) for one in group["params"]):
            make(group, *([] for _ in names))


def _brought(value: Any, parameter: Any, bits: tuple[int, int]) -> Any:
    """Return a state where its parameter is, in a form of so many bits."""
    link = parameter.child if _is_encrypted(parameter) else None
    if _is_encrypted(value):
        if value.child.is_shared and not (link is not None and link.is_shared):
            value = value.get()
        if link is None:
            return value.float_precision()
    elif link is None:
        return value
    form = finer(link, bits)
    if not _is_encrypted(value):
        return value.detach().fix_precision(**form.model.format())  # type: ignore[union-attr]
    found = value.child
    if found.scale < form.scale and found.base == link.base:
        value.child = form.link(ring_ops.scale(content_of(found), form.scale // found.scale))
    return value


def finer(link: FixedPrecisionTensor, bits: tuple[int, int]) -> FixedPointFormat:
    """Return a form of the base of a link with some bits more, up to a number of them, but no fewer than it has."""
    more, most = bits
    digits = link.precision_fractional
    wanted = min(link.scale << more, 1 << most)
    while link.base ** (digits + 1) <= wanted:
        digits += 1
    return with_digits(link, digits)


def _raise(link: FixedPrecisionTensor) -> None:
    link.child = ring_ops.add(content_of(link), 1)


followers.append(follow)
base.optimizer_hooks.append(lambda: register_optimizer_step_pre_hook(prepare))
