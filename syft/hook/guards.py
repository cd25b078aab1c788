"""Checks before calls that torch itself does not check well enough for arguments from a stranger.

Each was found by probing: a malformed argument reads memory beyond a tensor, or crashes or hangs the process.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Any

import torch

from syft.core.tensor import AbstractTensor
from syft.core.trees import iter_tensors, map_tensors
from syft.exceptions import CommandNotAllowed
from syft.hook.syft_tensor import SyftTensor

Guard = Callable[[tuple[Any, ...], dict[str, Any]], None]
GUARDS: dict[str, Guard] = {}
# Those of them that look at values: where these may not leave, nobody may be told of what such a guard says.
BY_VALUES: set[str] = set()
_LINKED = (torch.Tensor, AbstractTensor)


def guard_call(name: str, args: tuple[Any, ...], kwargs: dict[str, Any], by_values: bool | None = None) -> None:
    """Check a call, if it needs it, on the plain tensors below its links; a remote tensor is checked where it is.

    Args:
        name: the wire name of the call.
        args: its arguments.
        kwargs: its keyword arguments.
        by_values: True for a guard that looks at values only, False for one that does not, None for any.
    """
    guard = GUARDS.get(name)
    if guard is None or (by_values is not None and by_values is not (name in BY_VALUES)):
        return
    if any(isinstance(leaf, SyftTensor | AbstractTensor) for leaf in iter_tensors((args, kwargs))):
        args, kwargs = map_tensors(_bottom, (args, kwargs))
        if not all(isinstance(leaf, torch.Tensor) for leaf in iter_tensors((args, kwargs))):
            return
    guard(args, kwargs)


def _bottom(leaf: Any) -> Any:
    while isinstance(leaf, SyftTensor | AbstractTensor) and isinstance(leaf.__dict__.get("child"), _LINKED):
        leaf = leaf.child
    return leaf


def guards(*names: str, by_values: bool = False) -> Callable[[Guard], Guard]:
    """Register a check for some calls.

    Args:
        *names: the calls.
        by_values: whether it looks at the values of tensors.
    """

    def register(guard: Guard) -> Guard:
        GUARDS.update(dict.fromkeys(names, guard))
        if by_values:
            BY_VALUES.update(names)
        return guard

    return register


_GATES = {"torch.lstm": 4, "torch.gru": 3, "torch.rnn_tanh": 1, "torch.rnn_relu": 1}


def _recurrent(name: str) -> Guard:
    """Check the weights of a recurrent layer: torch reads past the end of ones that are too small."""

    def guard(args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        if kwargs or len(args) != 9:
            raise CommandNotAllowed(name, "it takes nine positional arguments.")
        packed = isinstance(args[3], list | tuple)
        hx, weights, has_biases, layers = (args[2:6]) if packed else (args[1:5])
        bidirectional = args[8] if packed else args[7]
        batch = _packed_batch(args[0], args[1]) if packed else _padded_batch(args[0], bool(args[8]))
        states = tuple(hx) if isinstance(hx, list | tuple) else (hx,)
        if batch is None or len(states) != (2 if name == "torch.lstm" else 1) or any(s.dim() != 3 for s in states):
            raise CommandNotAllowed(name, "the shapes of its input or states do not fit.")
        directions = 2 if bidirectional else 1
        if type(layers) is not int or not 0 < layers <= len(weights):  # before anything is made of that number
            raise CommandNotAllowed(name, "the number of its layers does not fit its weights.")
        hidden, width = states[0].shape[-1], states[-1].shape[-1]
        rows, features = _GATES[name] * width, args[0].shape[-1]
        expected = _weight_shapes(rows, hidden, width, features, int(layers), directions, bool(has_biases))
        state_shapes = [(layers * directions, batch, size) for size in (hidden, width)[: len(states)]]
        if [tuple(w.shape) for w in weights] != expected or [tuple(s.shape) for s in states] != state_shapes:
            raise CommandNotAllowed(name, "the shapes of its weights or states do not fit its input.")

    return guard


def is_packed(name: str, args: tuple[Any, ...]) -> bool:
    """Say whether a call is of a recurrent layer on a packed sequence, whose guard looks at the lengths in it."""
    return name in _GATES and len(args) == 9 and isinstance(args[3], list | tuple)


def _padded_batch(x: torch.Tensor, batch_first: bool) -> int | None:
    """Return the batch size of a padded batch, or None if it is not one."""
    return None if x.dim() != 3 else x.shape[0] if batch_first else x.shape[1]


def _packed_batch(data: torch.Tensor, sizes: torch.Tensor) -> int | None:
    """Return the batch size of a packed sequence, or None if its parts do not fit together."""
    if data.dim() != 2 or sizes.dim() != 1 or sizes.dtype is not torch.int64 or not sizes.numel():
        return None
    counts = sizes.tolist()
    falling = all(a >= b for a, b in itertools.pairwise(counts))
    return counts[0] if falling and counts[-1] > 0 and sum(counts) == data.shape[0] else None


def _weight_shapes(
    rows: int, hidden: int, width: int, features: int, layers: int, directions: int, biases: bool
) -> list[tuple[int, ...]]:
    """Return the shapes of all weights, in torch's order; `hidden` differs from `width` in projected LSTMs."""
    shapes: list[tuple[int, ...]] = []
    for layer in range(layers):
        columns = features if layer == 0 else hidden * directions
        for _ in range(directions):
            shapes += [(rows, columns), (rows, hidden)]
            shapes += [(rows,), (rows,)] if biases else []
            shapes += [(hidden, width)] if hidden != width else []
    return shapes


for _name in _GATES:
    GUARDS[_name] = _recurrent(_name)


@guards("torch.Tensor.set_")
def only_from_a_tensor(args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
    """Take the place of a whole tensor: sizes and offsets of one's own would reach beyond it."""
    if kwargs or len(args) != 2 or not isinstance(args[1], torch.Tensor):
        raise CommandNotAllowed("torch.Tensor.set_", "it takes one tensor and nothing else.")


@guards(
    *(f"torch.{name}" for name in ("div", "divide")),
    *(f"torch.Tensor.{name}" for name in ("div", "div_", "divide", "divide_")),
    by_values=True,
)
def no_overflowing_division(args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
    """Refuse the one integer quotient that does not exist: the smallest number by -1 ends the process."""
    if kwargs.get("rounding_mode") != "trunc":
        return
    values = [*args, *(kwargs[k] for k in ("input", "other") if k in kwargs)]
    whole = [v for v in values if isinstance(v, int) or (isinstance(v, torch.Tensor) and not v.is_floating_point())]
    if len(whole) == len(values) and any(_has(v, -1) for v in values[1:]) and _has_smallest(values[0]):
        raise CommandNotAllowed("torch.div", "the smallest integer has no quotient by -1.")


def _has(value: Any, number: int) -> bool:
    return bool((value == number).any()) if isinstance(value, torch.Tensor) else value == number


def _has_smallest(value: Any) -> bool:
    if not isinstance(value, torch.Tensor):
        return bool(value <= -(2**31))
    return value.dtype is not torch.bool and _has(value, torch.iinfo(value.dtype).min)


@guards("torch.linalg.eigvals", "torch.linalg.eig", by_values=True)
def finite_only(args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
    """Refuse infinite and undefined entries: they end the process."""
    for value in (*args, *kwargs.values()):
        if isinstance(value, torch.Tensor) and not bool(torch.isfinite(value).all()):
            raise CommandNotAllowed("torch.linalg.eig", "it takes finite entries only.")


@guards("torch.binomial", by_values=True)
def numbers_only(args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
    """Refuse undefined entries: drawing with them never ends."""
    for value in (*args, *kwargs.values()):
        if isinstance(value, torch.Tensor) and bool(torch.isnan(value).any()):
            raise CommandNotAllowed("torch.binomial", "it takes numbers only, no NaN.")
