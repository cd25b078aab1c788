"""Validation: compare every encrypted operation with its plaintext, to find the first that drifts. For toy data only.

THIS DECRYPTS EVERYTHING: all arguments and results of all operations come to this process in clear, and the errors
and reports show some of them. Use it on synthetic data to debug a model, never on real secrets.

Example:
    >>> import torch
    >>> import syft as sy
    >>> hook = sy.TorchHook(torch)
    >>> x = torch.tensor([0.5, 2.0]).fix_precision()
    >>> with sy.mpc.validate() as v:
    ...     y = x * x + 1
    >>> v
    <2 operations checked, none drifted; the largest difference is 0 in mul>
"""

from __future__ import annotations

import contextlib
import dataclasses
import weakref
from collections.abc import Callable
from typing import Any

import torch

from syft._suggestions import suggests_keywords
from syft.core.observers import unwatched, watching
from syft.core.trees import iter_tensors
from syft.display import grid_html, grid_text
from syft.exceptions import DriftError, SyftError
from syft.mpc.rules.public_scaling import PRODUCT_BITS
from syft.mpc.rules.types import Link, Operation
from syft.mpc.runtime import recording
from syft.mpc.tools import plaintext_reference as reference
from syft.mpc.tools.op_origin import OpOrigin, OriginTracker
from syft.tensors.additive_shared import AdditiveSharingTensor
from syft.tensors.precision import FixedPrecisionTensor

# The default tolerance: this, or a few units in the last place, for values up to one; relative for larger values. Whole
# numbers are exact.
TOLERANCE = 1e-2
UNITS = 8
# The maximum of rows in a text.
SHOWN = 20


@dataclasses.dataclass(frozen=True)
class Check:
    """The comparison of one encrypted operation with its plaintext.

    Attributes:
        number: the one-based index of the operation.
        place: the origin of the operation.
        kind: "" if the result is correct; "drift", "range" (does not fit the format), "undefined" (the plaintext is not
            finite) or "accumulated".
        shapes: of the encrypted arguments, and of the result after an arrow.
        note: an additional explanation.
        where: the index of the largest difference.
        difference: the largest difference from the plaintext of the operation on its own decrypted arguments.
        allowed: the tolerance at that element.
        found: the decrypted value there.
        meant: the expected value.
        carried: the error of the arguments, relative to float64 computed since the start of the block.
        accumulated: the error of the result relative to that.
    """

    number: int
    place: OpOrigin
    kind: str
    shapes: str
    note: str
    where: tuple[int, ...]
    difference: float
    allowed: float
    found: float
    meant: float
    carried: float
    accumulated: float

    def __str__(self) -> str:
        inside = f" in {self.place.module}" if self.place.module else ""
        text = (
            f"Operation {self.number}, {self.place.name} (aten.{self.place.operation}){inside}, {self.shapes}: "
            f"{_KINDS[self.kind]}. At {list(self.where)} it gave {self.found:.6g}, float64 gives {self.meant:.6g}: "
            f"off by {self.difference:.3g}, allowed is {self.allowed:.3g}."
        )
        if self.note:
            text += f" {self.note}"
        if self.carried > self.allowed:
            text += f" Its arguments were already off by {self.carried:.3g} since the start of the block."
        return text


_KINDS = {
    "": "correct",
    "drift": "it drifts",
    "range": "no room in the format",
    "undefined": "its plaintext is not a finite number",
    "accumulated": "errors have added up",
}


class Validation:
    """The results of a `with sy.mpc.validate()` block.

    Attributes:
        checks: one for each compared result of an operation.
        report: the checks that failed, in order.
        unchecked: names of operations without a plaintext, with their numbers of calls.
    """

    def __init__(self, tolerance: float | None, accumulated: float | None, raises: bool) -> None:
        self.tolerance = tolerance
        self.accumulated = accumulated
        self.raises = raises
        self.checks: list[Check] = []
        self.unchecked: dict[str, int] = {}
        self._number = 0
        self._origins = OriginTracker()
        # link -> float64 values computed since the link first occurred.
        self._carried: weakref.WeakKeyDictionary[Any, torch.Tensor] = weakref.WeakKeyDictionary()
        self._stack = contextlib.ExitStack()

    def __enter__(self) -> Validation:
        self._stack.enter_context(self._origins)
        self._stack.enter_context(watching(self._watch))
        return self

    def __exit__(self, *exception: object) -> None:
        self._stack.close()
        self._carried.clear()

    @property
    def report(self) -> list[Check]:
        """The operations that drifted, in order."""
        return [check for check in self.checks if check.kind]

    def _watch(self, function: Operation, args: tuple[Any, ...], kwargs: dict[str, Any], run: Callable[[], Any]) -> Any:
        """Run an operation, and compare it with its plaintext."""
        links = [leaf for leaf in iter_tensors((args, kwargs)) if isinstance(leaf, torch.Tensor) is False]
        if recording.current.recording is not None or not all(map(_is_encoded, links)):
            return run()
        self._number += 1
        number, place = self._number, self._origins.here(function)
        with unwatched():
            inputs = {id(link): reference.reveal(link) for link in links}
            carried = max((self._off(link, inputs[id(link)]) for link in links), default=0.0)
            alone = reference.plain((args, kwargs), lambda link: inputs[id(link)])
        shapes = ", ".join(_shape(link.shape) for link in links)
        result = run()
        if function.overloadpacket.__name__ in reference.UNKNOWN:
            return self._skip(place, result)
        with unwatched():
            found = reference.plain(result, reference.reveal)
            meant = self._compute(function, alone, found)
            since = self._compute(function, reference.plain((args, kwargs), self._carried.__getitem__), found)
            if meant is None:
                return self._skip(place, result)
            factor = max((reference.scale_of(link) for link in links), default=1)
            rescaled = function.overloadpacket.__name__ in reference.PRODUCTS and len(links) > 1
            for (link, right), (_, long), (_, value) in zip(
                reference.pairs(result, meant),
                reference.pairs(result, since),
                reference.pairs(result, found),
                strict=True,
            ):
                if value is None:
                    continue
                self._carried[link] = long if long is not None and _goes_on(long, value) else value
                if right is not None:
                    arrow = f"{shapes} -> {_shape(link.shape)}"
                    self._compare(number, place, arrow, link, value, right, carried, factor if rescaled else 1)
        return result

    def _compute(self, function: Operation, plain: tuple[tuple[Any, ...], dict[str, Any]], found: object) -> Any:
        """Return the expected result of an operation on plain arguments; None if torch can't compute it."""
        try:
            return reference.compute(function, plain[0], plain[1], found)
        except (RuntimeError, TypeError, IndexError, ValueError, NotImplementedError):
            return None

    def _skip(self, place: OpOrigin, result: object) -> object:
        """Continue without a comparison: later results are compared relative to this one."""
        self.unchecked[place.operation] = self.unchecked.get(place.operation, 0) + 1
        for link, _ in reference.pairs(result, None):
            self._carried.pop(link, None)
        return result

    def _off(self, link: Link, value: torch.Tensor) -> float:
        """Return the accumulated error of a link; 0 if it occurs for the first time."""
        known = self._carried.get(link)
        if known is None or known.shape != value.shape:
            self._carried[link] = value.clone()
            return 0.0
        return _largest((value.double() - known.double()).abs())

    def _compare(
        self, number: int, place: OpOrigin, shapes: str, link: Link, value: torch.Tensor, right: torch.Tensor,
        carried: float, factor: int,
    ) -> None:  # fmt: skip
        """Compare one result with its expected value, and record the check."""
        value, right, long = value.double(), right.double(), self._carried[link].double()
        if value.shape != right.shape:
            raise DriftError(f"Operation {number}, {place.name}, {shapes}: float64 gives shape {_shape(right.shape)}.")
        errors = (value - long).abs()
        accumulated, allowed = _largest(errors), self._allowed(link, right)
        kind, note, badness = _judge(link, value, right, long, allowed, factor)
        limit = self.accumulated
        if not kind and limit is not None and accumulated > limit * max(1.0, _largest(long.abs())):
            kind, badness, right, allowed = "accumulated", errors, long, torch.full_like(long, limit)
        where: tuple[int, ...] = ()
        numbers = (0.0, 0.0, 0.0, 0.0)
        if badness.numel():
            if badness.dim():
                where = tuple(int(i) for i in torch.unravel_index(badness.argmax(), badness.shape))
            off = (value - right).abs()
            numbers = float(off[where]), float(allowed[where]), float(value[where]), float(right[where])
        check = Check(number, place, kind, shapes, note, where, *numbers, carried, accumulated)
        self.checks.append(check)
        if kind and self.raises:
            raise DriftError(str(check))

    def _allowed(self, link: Link, right: torch.Tensor) -> torch.Tensor:
        """Return the tolerance of each element."""
        if self.tolerance is not None:
            tolerance = self.tolerance
        elif isinstance(link, FixedPrecisionTensor):
            tolerance = max(TOLERANCE, UNITS / link.scale)
        else:
            return torch.full_like(right, 0.5)  # whole numbers are exact
        return right.abs().clamp(min=1.0) * tolerance

    def _rows(self) -> list[list[str]]:
        return [_row(check) for check in (self.report or self.checks)[:SHOWN]]

    def table(self) -> str:
        """Return the failed checks as a table; all checks if none failed."""
        return grid_text(_COLUMNS, self._rows())

    def __repr__(self) -> str:
        count = len({check.number for check in self.checks})
        if self.report:
            return f"<{count} operations checked, {len(self.report)} drifted>\n{self.table()}"
        worst = max(self.checks, key=lambda check: check.difference, default=None)
        largest = (
            f"; the largest difference is {worst.difference:.3g} in {worst.place.name}" if worst is not None else ""
        )
        return f"<{count} operations checked, none drifted{largest}>"

    def _repr_html_(self) -> str:
        return grid_html(repr(self).partition("\n")[0].strip("<>"), _COLUMNS, self._rows())


_COLUMNS = (
    "",
    "operation",
    "module",
    "shapes",
    "off by",
    "allowed",
    "at",
    "found",
    "float64",
    "since the start",
    "why",
)


def _row(check: Check) -> list[str]:
    place = check.place
    return [
        str(check.number), place.name, place.module, check.shapes, f"{check.difference:.3g}", f"{check.allowed:.3g}",
        str(list(check.where)), f"{check.found:.6g}", f"{check.meant:.6g}", f"{check.accumulated:.3g}", check.kind,
    ]  # fmt: skip


def _is_encoded(link: object) -> bool:
    """Return whether a link has numbers that can be decrypted."""
    if isinstance(link, FixedPrecisionTensor):
        below = link.child
        return isinstance(below, AdditiveSharingTensor) or not below.is_floating_point()
    return isinstance(link, AdditiveSharingTensor)


def _goes_on(long: torch.Tensor, value: torch.Tensor) -> bool:
    """Return whether accumulated values can be compared with later results."""
    return long.shape == value.shape and bool(torch.isfinite(long).all())


def _shape(shape: torch.Size) -> str:
    return "x".join(map(str, shape)) or "scalar"


def _largest(values: torch.Tensor) -> float:
    return float(values.max()) if values.numel() else 0.0


def _judge(
    link: Link, value: torch.Tensor, right: torch.Tensor, long: torch.Tensor, allowed: torch.Tensor, factor: int
) -> tuple[str, str, torch.Tensor]:
    """Return the kind of a failure, a note, and the badness of each element."""
    room = reference.room_of(link)
    limit = min(room, 2.0**62 / (reference.scale_of(link) * factor))
    infinite = ~torch.isfinite(right)
    if bool(infinite.any()):
        return "undefined", "", infinite.double()
    size = torch.maximum(right.abs() / limit, long.abs() / room)
    badness = (value - right).abs() / allowed
    # Fine formats lose digits before a product (see `public_scaling.with_room`), so a result that fits may be off.
    coarse = reference.scale_of(link) * factor <= 1 << PRODUCT_BITS
    if _largest(size) >= 1 and (coarse or _largest(badness) > 1 or _largest(size) >= room / limit):
        return "range", _no_room(limit, factor), size
    return "drift" if _largest(badness) > 1 else "", "", badness


def _no_room(limit: float, factor: int) -> str:
    before = "A product has no room before it is rescaled" if factor > 1 else "The value has no room"
    return f"{before}: with this format it must stay below {limit:.4g}. Use fewer digits, or scale the values down."


@suggests_keywords
def validate(tolerance: float | None = None, accumulated: float | None = None, raises: bool = True) -> Validation:
    """Compare each encrypted operation with its plaintext, and report the first that drifts.

    THIS DECRYPTS EVERYTHING that is computed inside the `with` block, at the client. It is for toy data.
    A worker whose policy does not release its shares refuses, as it refuses `get()`.

    Each ATen operation on encrypted tensors, of a forward or a backward pass, in place or not, is computed in float64
    from its own decrypted arguments, and compared with its decrypted result. So a check reports the error of one
    operation only. The report also has the error accumulated since the start of the block.

    Args:
        tolerance: the maximum error of an element, times its magnitude if that is above one. By default 0.01 or 8
            units in the last place, whichever is more; whole numbers are exact.
        accumulated: the maximum error of a result since the start of the block; not limited by default. Comparisons of
            nearly equal numbers may differ, so a larger error need not mean a mistake.
        raises: whether the first operation that drifts raises `DriftError`; if not, `report` lists all.

    Returns:
        A context manager that returns a `Validation`.
    """
    if tolerance is not None and not tolerance > 0:
        raise SyftError(f"The tolerance of sy.mpc.validate must be positive, got {tolerance}.")
    return Validation(tolerance, accumulated, raises)
