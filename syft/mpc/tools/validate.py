"""Validation: every encrypted operation beside its plaintext, to find the first that drifts. For toy data only.

THIS DECRYPTS EVERYTHING: all arguments and results of all operations come to this process in clear, and the errors
and reports show some of them. Use it on made-up data to find what is wrong with a model, never on anybody's secrets.

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

from syft.core.observers import unwatched, watching
from syft.core.trees import iter_tensors
from syft.display import grid_html, grid_text
from syft.exceptions import DriftError, SyftError
from syft.mpc.program.cache import op_by_op
from syft.mpc.rules.operands import Link, Operation
from syft.mpc.rules.public_scaling import PRODUCT_BITS
from syft.mpc.runtime import recording
from syft.mpc.tools import plaintext_reference
from syft.mpc.tools.op_origin import OpOrigin, OriginTracker
from syft.tensors.additive_shared import AdditiveSharingTensor
from syft.tensors.precision import FixedPrecisionTensor

# How far an operation may be off by default: this, or a few units of the last place, for values up to one; and the
# same part of larger ones. Whole numbers are exact.
TOLERANCE = 1e-2
UNITS = 8
# How many rows a text shows.
SHOWN = 20


@dataclasses.dataclass(frozen=True)
class Check:
    """One encrypted operation beside its plaintext.

    Attributes:
        number: the how-manieth operation it was, from 1.
        place: what was called, and where.
        kind: "" if all is well; "drift", "range" (no room in the format), "undefined" (the plaintext is no finite
            number) or "accumulated".
        shapes: of the encrypted arguments, and of the result after an arrow.
        difference: the largest difference from what the operation should give for its own arguments.
        allowed: how much it may be at that place.
        where: the index of the largest difference.
        found: the decrypted value there.
        meant: the value it should be.
        carried: how far arguments were off already, against float64 carried along from the beginning.
        accumulated: how far the result is off against that.
        note: what else there is to know.
    """

    number: int
    place: OpOrigin
    kind: str
    shapes: str
    difference: float
    allowed: float
    where: tuple[int, ...]
    found: float
    meant: float
    carried: float
    accumulated: float
    note: str = ""

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
            text += f" Its arguments were off by {self.carried:.3g} already, since the beginning."
        return text


_KINDS = {
    "": "as it should be",
    "drift": "it drifts",
    "range": "no room in the format",
    "undefined": "its plaintext is not a finite number",
    "accumulated": "errors have added up",
}


class Validation:
    """What was checked inside a `with sy.mpc.validate()` block.

    Attributes:
        checks: one for each result of an operation that was compared.
        report: those that drifted, in order.
        unchecked: names of operations that have no plaintext to compare with, and how often they were met.
    """

    def __init__(self, tolerance: float | None, accumulated: float | None, raises: bool) -> None:
        self.tolerance = tolerance
        self.accumulated = accumulated
        self.raises = raises
        self.checks: list[Check] = []
        self.unchecked: dict[str, int] = {}
        self._number = 0
        self._whereabouts = OriginTracker()
        # float64 carried along from where each link was first met.
        self._carried: weakref.WeakKeyDictionary[Any, torch.Tensor] = weakref.WeakKeyDictionary()
        self._stack = contextlib.ExitStack()

    def __enter__(self) -> Validation:
        self._stack.enter_context(op_by_op())
        self._stack.enter_context(self._whereabouts)
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
        """Run an operation, and its plaintext beside it."""
        links = [leaf for leaf in iter_tensors((args, kwargs)) if isinstance(leaf, torch.Tensor) is False]
        if recording.current.recording is not None or not all(map(_is_encoded, links)):
            return run()
        self._number += 1
        number, place = self._number, self._whereabouts.here(function)
        with unwatched():
            inputs = {id(link): plaintext_reference.reveal(link) for link in links}
            carried = max((self._off(link, inputs[id(link)]) for link in links), default=0.0)
            alone = plaintext_reference.plain((args, kwargs), lambda link: inputs[id(link)])
        shapes = ", ".join(_shape(link.shape) for link in links)
        result = run()
        if function.overloadpacket.__name__ in plaintext_reference.UNKNOWN:
            return self._skip(place, result)
        with unwatched():
            found = plaintext_reference.plain(result, plaintext_reference.reveal)
            meant = self._compute(function, alone, found)
            since = self._compute(function, plaintext_reference.plain((args, kwargs), self._carried.__getitem__), found)
            if meant is None:
                return self._skip(place, result)
            factor = max((plaintext_reference.scale_of(link) for link in links), default=1)
            rescaled = function.overloadpacket.__name__ in plaintext_reference.PRODUCTS and len(links) > 1
            for (link, right), (_, long), value in zip(
                plaintext_reference.pairs(result, meant),
                plaintext_reference.pairs(result, since),
                _tensors(result, found),
                strict=True,
            ):
                self._carried[link] = long if long is not None and _goes_on(long, value) else value
                if right is not None:
                    arrow = f"{shapes} -> {_shape(link.shape)}"
                    self._compare(number, place, arrow, link, value, right, carried, factor if rescaled else 1)
        return result

    def _compute(self, function: Operation, plain: tuple[tuple[Any, ...], dict[str, Any]], found: object) -> Any:
        """Return what an operation should give for plain arguments; None if torch can't say."""
        try:
            return plaintext_reference.compute(function, plain[0], plain[1], found)
        except (RuntimeError, TypeError, IndexError, ValueError, NotImplementedError):
            return None

    def _skip(self, place: OpOrigin, result: object) -> object:
        """Go on without a comparison: what comes is compared with what is found here."""
        self.unchecked[place.operation] = self.unchecked.get(place.operation, 0) + 1
        for link, _ in plaintext_reference.pairs(result, None):
            self._carried.pop(link, None)
        return result

    def _off(self, link: Link, value: torch.Tensor) -> float:
        """Return how far a link is off against what is carried along; what is met for the first time is right."""
        known = self._carried.get(link)
        if known is None or known.shape != value.shape:
            self._carried[link] = value.clone()
            return 0.0
        return _largest((value.double() - known.double()).abs())

    def _compare(
        self, number: int, place: OpOrigin, shapes: str, link: Link, value: torch.Tensor, right: torch.Tensor,
        carried: float, factor: int,
    ) -> None:  # fmt: skip
        """Compare one result with what it should be, and write it down."""
        value, right, long = value.double(), right.double(), self._carried[link].double()
        if value.shape != right.shape:
            raise DriftError(f"Operation {number}, {place.name}, {shapes}: float64 gives shape {_shape(right.shape)}.")
        accumulated = _largest((value - long).abs())
        allowed = self._allowed(link, right)
        kind, note, badness = _judge(link, value, right, long, allowed, factor)
        if (
            not kind
            and self.accumulated is not None
            and accumulated > self.accumulated * max(1.0, _largest(long.abs()))
        ):
            kind, badness, right, allowed = (
                "accumulated",
                (value - long).abs(),
                long,
                torch.full_like(long, self.accumulated),
            )
        at = int(badness.reshape(-1).argmax()) if badness.numel() else None
        where = () if at is None else _index(at, badness.shape)
        numbers = [_at(tensor, at) for tensor in ((value - right).abs(), allowed, value, right)]
        check = Check(
            number,
            place,
            kind,
            shapes,
            numbers[0],
            numbers[1],
            where,
            numbers[2],
            numbers[3],
            carried,
            accumulated,
            note,
        )
        self.checks.append(check)
        if kind and self.raises:
            raise DriftError(str(check))

    def _allowed(self, link: Link, right: torch.Tensor) -> torch.Tensor:
        """Return how far each element may be off."""
        if self.tolerance is not None:
            tolerance = self.tolerance
        elif isinstance(link, FixedPrecisionTensor):
            tolerance = max(TOLERANCE, UNITS / link.scale)
        else:
            return torch.full_like(right, 0.5)  # whole numbers are exact
        return right.abs().clamp(min=1.0) * tolerance

    def table(self) -> str:
        """Return the operations that drifted as a table; all of them if none did."""
        return grid_text(_COLUMNS, [_row(check) for check in (self.report or self.checks)[:SHOWN]])

    def __repr__(self) -> str:
        count = len({check.number for check in self.checks})
        if self.report:
            return f"<{count} operations checked, {len(self.report)} drifted>\n{self.table()}"
        worst = max(self.checks, key=lambda check: check.difference, default=None)
        most = f"; the largest difference is {worst.difference:.3g} in {worst.place.name}" if worst is not None else ""
        return f"<{count} operations checked, none drifted{most}>"

    def _repr_html_(self) -> str:
        rows = (self.report or self.checks)[:SHOWN]
        return grid_html(repr(self).partition("\n")[0].strip("<>"), _COLUMNS, [_row(check) for check in rows])


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
    """Return whether a link is one that has numbers which can be decrypted."""
    if isinstance(link, FixedPrecisionTensor):
        below = link.child
        return isinstance(below, AdditiveSharingTensor) or not below.is_floating_point()
    return isinstance(link, AdditiveSharingTensor)


def _goes_on(long: torch.Tensor, value: torch.Tensor) -> bool:
    """Return whether what is carried along can be compared with what comes after."""
    return long.shape == value.shape and bool(torch.isfinite(long).all())


def _shape(shape: torch.Size) -> str:
    return "x".join(map(str, shape)) or "scalar"


def _largest(values: torch.Tensor) -> float:
    return float(values.max()) if values.numel() else 0.0


def _judge(
    link: Link, value: torch.Tensor, right: torch.Tensor, long: torch.Tensor, allowed: torch.Tensor, factor: int
) -> tuple[str, str, torch.Tensor]:
    """Say what is wrong with a result, what there is to know of it, and how bad each element is."""
    room = plaintext_reference.room_of(link)
    limit = min(room, 2.0**62 / (plaintext_reference.scale_of(link) * factor))
    infinite = ~torch.isfinite(right)
    if bool(infinite.any()):
        return "undefined", "", infinite.double()
    size = torch.maximum(right.abs() / limit, long.abs() / room)
    badness = (value - right).abs() / allowed
    # Fine formats lose digits before a product (see `public_scaling.with_room`), so a result that fits may be off.
    coarse = plaintext_reference.scale_of(link) * factor <= 1 << PRODUCT_BITS
    if _largest(size) >= 1 and (coarse or _largest(badness) > 1 or _largest(size) >= room / limit):
        return "range", _no_room(limit, factor), size
    return "drift" if _largest(badness) > 1 else "", "", badness


def _at(values: torch.Tensor, position: int | None) -> float:
    return 0.0 if position is None else float(values.reshape(-1)[position])


def _index(position: int, shape: torch.Size) -> tuple[int, ...]:
    return tuple(int(i) for i in torch.unravel_index(torch.tensor(position), shape)) if len(shape) else ()


def _no_room(limit: float, factor: int) -> str:
    before = "A product has no room before it is rescaled" if factor > 1 else "The value has no room"
    return f"{before}: with this format it must stay below {limit:.4g}. Use fewer digits, or scale the values down."


def _tensors(result: object, found: object) -> list[torch.Tensor]:
    """Return the decrypted tensors of a result's links, in their order."""
    return [value for _, value in plaintext_reference.pairs(result, found) if value is not None]


def validate(tolerance: float | None = None, accumulated: float | None = None, raises: bool = True) -> Validation:
    """Run each encrypted operation beside its plaintext, and report the first that drifts.

    THIS DECRYPTS EVERYTHING that is computed inside the `with` block, here at the client. It is for toy data.
    A worker whose policy keeps its shares refuses, as it refuses `get()`.

    Each ATen operation on encrypted tensors, of a forward or a backward pass, in place or not, is computed in float64
    from its own decrypted arguments; then its decrypted result is compared. So an operation is blamed for its own
    error only. How far results are from float64 carried along since the beginning is told too.

    Args:
        tolerance: how far an element may be off, times its magnitude where that is above one. By default 0.01 or 8
            units of the last place, whichever is more; whole numbers are exact.
        accumulated: how far a result may be off since the beginning; not limited by default. Comparisons of nearly
            equal numbers may turn out otherwise, so that it says less than it seems to.
        raises: whether the first operation that drifts raises `DriftError`; if not, `report` lists all.

    Returns:
        A context manager that gives a `Validation`.
    """
    if tolerance is not None and not tolerance > 0:
        raise SyftError("The tolerance of sy.mpc.validate is a positive number.")
    return Validation(tolerance, accumulated, raises)
