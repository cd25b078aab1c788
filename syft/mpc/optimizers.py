"""Optimizers on encrypted parameters: torch's own code, with optimizer state that has enough digits.

Adam's second moment starts as a thousandth of a squared gradient, far below one unit of a parameter. So before each
step the state of encrypted parameters is converted to finer formats: means of gradients get some bits more than the
parameters have, means of their squares get 38. Operations keep the finest format of their operands, and parameters keep
their own.

* **A second moment is never zero where there was a gradient.** Squares below a unit may be rounded to zero, and a small
  step divided by zero, or by eps, would become large. So one unit (2^-38, or 10^-11) is added before each step. With a
  decay of 0.999 this equals an error of 6e-5 in every gradient: for gradients of that size, steps are usually smaller
  than torch's; a smaller eps makes no difference.
* **x / 0 is 0.** Where a divisor is zero nonetheless (Adamax and Adagrad, for gradients that were always zero) there is
  no step, as in torch.
* **Range.** Each element of a gradient must stay below 1000 (NAdam: 150), because its square has to fit. Clip larger
  gradients.

If a model is decrypted or encrypted during training, its state is converted before the next step: the state of plain
parameters is fetched and decoded; the state of encrypted ones is encoded, and stays public until a gradient is added.
"""

from __future__ import annotations

import inspect
import weakref
from collections.abc import Iterator
from typing import Any

import torch
from torch import optim
from torch.optim.optimizer import register_optimizer_step_pre_hook

from syft.exceptions import UnsupportedOperationError
from syft.hook import base
from syft.hook.optimizers import followers
from syft.hook.syft_tensor import SyftTensor
from syft.mpc.rules.gradients import with_digits
from syft.mpc.rules.operands import FixedPointFormat, content
from syft.mpc.values import ring_ops
from syft.tensors.precision import FixedPrecisionTensor

# Bits behind the point of a state: (bits more than the parameter has, maximum).
MEAN, SQUARE, SUM = (12, 34), (38, 38), (32, 32)
# Formats of optimizer states; states that are not listed stay as torch makes them.
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
NEVER_ZERO = frozenset({"exp_avg_sq", "square_avg"})
# Unsupported optimizers, and what to use instead.
REFUSED: dict[type, str] = {
    optim.LBFGS: "It branches on values of losses and gradients; use SGD, Adam or RMSprop.",
    optim.Rprop: "It writes to elements whose gradients change sign, and these are private; use Adam or Adamax.",
    optim.SparseAdam: "It reads the positions of zero gradients; use Adam.",
    optim.Adafactor: "Its factors exceed the range of fixed precision; use Adam.",
    optim.Muon: "Its repeated products of large matrices exceed the range of fixed precision; use Adam.",
}
REFUSED_OPTIONS = {
    "foreach": "Leave foreach out: parameters are updated one by one.",
    "fused": "Leave fused out: there is no fused kernel for encrypted numbers.",
    "capturable": "Leave capturable out: it is for CUDA graphs.",
    "differentiable": "Leave differentiable out: autograd does not record steps.",
}
# Optimizers with encrypted state, which must be decrypted together with the parameters.
_encrypted: weakref.WeakSet[optim.Optimizer] = weakref.WeakSet()


def _has_encrypted(optimizer: optim.Optimizer) -> bool:
    """Return whether an optimizer has encrypted parameters, or state of parameters that were encrypted."""
    return optimizer in _encrypted or any(_is_encrypted(one) for one in _parameters(optimizer))


def convert_state(optimizer: optim.Optimizer, args: object, kwargs: object) -> None:
    """Convert existing state to the kind and format of the parameters, without a step."""
    if _has_encrypted(optimizer):
        _convert_all(optimizer, stepping=False)


def prepare(optimizer: optim.Optimizer, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """Convert the state of an optimizer to the formats that its parameters need, before a step."""
    if not _has_encrypted(optimizer):
        return None
    _check(optimizer)
    closure = kwargs.get("closure") if len(args) < 2 else args[1]
    if closure is None:
        _convert_all(optimizer)
        return None

    def closed() -> Any:  # gradients, and so the state, exist only after it
        loss = closure()
        with torch.no_grad():
            _convert_all(optimizer)
        return loss

    return (args[0], closed), {}


def _parameters(optimizer: optim.Optimizer) -> Iterator[torch.Tensor]:
    for group in optimizer.param_groups:
        yield from group["params"]


def _link(tensor: object) -> FixedPrecisionTensor | None:
    link = tensor.__dict__["child"] if type(tensor) is SyftTensor else None
    return link if isinstance(link, FixedPrecisionTensor) else None


def _is_encrypted(tensor: object) -> bool:
    return _link(tensor) is not None


def _lookup(table: dict[type, Any], optimizer: optim.Optimizer) -> Any:
    """Return the entry of a table for the class of an optimizer, or for its nearest base class."""
    return next((table[kind] for kind in type(optimizer).__mro__ if kind in table), None)


def _check(optimizer: optim.Optimizer) -> None:
    """Raise if an optimizer, or one of its options, does not support encrypted parameters."""
    name = type(optimizer).__name__
    hint = _lookup(REFUSED, optimizer)
    if hint is not None:
        raise UnsupportedOperationError(f"torch.optim.{name}", "encrypted parameters", hint)
    for group in optimizer.param_groups:
        if any(_is_encrypted(one) for one in group["params"]):
            for option, advice in REFUSED_OPTIONS.items():
                if group.get(option):
                    raise UnsupportedOperationError(f"{name}({option}=True)", "encrypted parameters", advice)


def _convert_all(optimizer: optim.Optimizer, stepping: bool = True) -> None:
    """Convert all state; before a step, also create missing state and add a unit to means of squares."""
    formats = _lookup(STATES, optimizer)
    if formats is None:
        return
    _encrypted.add(optimizer)
    if stepping:
        _create_state(optimizer)
    for parameter, state in optimizer.state.items():
        for name, bits in formats.items():
            if isinstance(state.get(name), torch.Tensor):
                state[name] = _converted(state[name], parameter, bits)
                if stepping and name in NEVER_ZERO and _is_encrypted(state[name]) and parameter.grad is not None:
                    _add_unit(state[name].__dict__["child"])
    if not any(_is_encrypted(one) for one in _parameters(optimizer)):
        _encrypted.discard(optimizer)


def _create_state(optimizer: optim.Optimizer) -> None:
    """Let torch create missing state now: it would do so inside the step, which is too late to convert it."""
    make = getattr(optimizer, "_init_group", None)
    if make is None:
        return
    names = list(inspect.signature(make).parameters)[1:]
    for group in optimizer.param_groups:
        if any(one.grad is not None and not optimizer.state.get(one) for one in group["params"]):
            make(group, *([] for _ in names))


def _converted(value: Any, parameter: torch.Tensor, bits: tuple[int, int]) -> Any:
    """Return a state in the kind of its parameter, with a number of bits behind the point."""
    link, current = _link(parameter), _link(value)
    if current is not None:
        if current.is_shared and not (link is not None and link.is_shared):
            value = value.get()
            current = _link(value)
        if link is None:
            return value.float_precision()
    elif link is None:
        return value
    fmt = finer(link, bits)
    if current is None:
        return value.detach().fix_precision(**fmt.model.format())  # type: ignore[union-attr]
    if current.scale < fmt.scale and current.base == link.base:
        value.child = fmt.link(ring_ops.scale(content(current), fmt.scale // current.scale))
    return value


def finer(link: FixedPrecisionTensor, bits: tuple[int, int]) -> FixedPointFormat:
    """Return a format with more bits than a link has, up to a maximum, and never fewer than it has."""
    extra, maximum = bits
    digits = link.precision_fractional
    wanted = min(link.scale << extra, 1 << maximum)
    while link.base ** (digits + 1) <= wanted:
        digits += 1
    return with_digits(link, digits)


def _add_unit(link: FixedPrecisionTensor) -> None:
    link.child = ring_ops.add(content(link), 1)


followers.append(convert_state)
base.optimizer_hooks.append(lambda: register_optimizer_step_pre_hook(prepare))
