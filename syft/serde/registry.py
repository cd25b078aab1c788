"""The table of types that can travel, and the wire code of each.

A row says how one level of a type is taken apart (`simplify`) and put back together (`detail`):

    simplify(worker, obj)    -> tuple of plain parts; the engine takes each part apart in turn
    detail(worker, payload)  -> the object, from a tuple of parts that are already rebuilt

The protobuf strategy uses the same rows. A type with a message of its own in serde/protobuf/schema/syft.proto has the
parts there under names, in the order of its `simplify`; the parts of any other type travel as they are.

The codes of this library's own types are in wire_codes.py. Choose a code of 1000 or more for a type of your own: lower
ones are not refused, but a later version of the library may need them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, NamedTuple, TypeVar

from syft.exceptions import SerdeError

Simplifier = Callable[[Any, Any], tuple[Any, ...]]
Detailer = Callable[[Any, tuple[Any, ...]], Any]
Screen = Callable[[tuple[Any, ...]], None]
C = TypeVar("C", bound=type)

FIRST_USER_CODE = 1000
MAX_CODE = 2**31 - 1


class RegisteredType(NamedTuple):
    """One type's entry. `exact` rows never stand in for a subclass of their type."""

    code: int
    cls: type
    simplify: Simplifier
    detail: Detailer
    exact: bool = False
    screen: Screen | None = None


class TypeCodec(NamedTuple):
    """How a type that has no `simplify` and `detail` of its own travels; the fields are arguments of `register`."""

    simplify: Simplifier
    detail: Detailer
    exact: bool = True
    aliases: tuple[type, ...] = ()


# Read directly by the engine on every object, hence plain module-level dicts.
BY_TYPE: dict[type, RegisteredType] = {}
BY_CODE: dict[int, RegisteredType] = {}
FORCED: dict[type, RegisteredType] = {}
REFUSED: dict[type, str] = {}


def register(
    cls: type,
    *,
    code: int,
    simplify: Simplifier | None = None,
    detail: Detailer | None = None,
    exact: bool = False,
    aliases: Iterable[type] = (),
    forced_code: int | None = None,
    force_simplify: Simplifier | None = None,
    force_detail: Detailer | None = None,
    screen: Screen | None = None,
) -> None:
    """Let objects of a class travel.

    Args:
        cls: the class.
        code: its number on the wire, the same in every process that talks.
        simplify: takes one level of an object apart; the class's own static `simplify` when None.
        detail: the opposite; the class's own static `detail` when None.
        exact: refuse unregistered subclasses instead of sending them as `cls`.
        aliases: other classes that share this row.
        forced_code: second code, for the form used when a full copy is asked for.
        force_simplify: takes the object apart for that full copy.
        force_detail: rebuilds that full copy.
        screen: looks at the received parts, code first, before any of them is rebuilt, and raises if they are too many.
    """
    row = RegisteredType(code, cls, _own(cls, "simplify", simplify), _own(cls, "detail", detail), exact, screen)
    classes = (cls, *aliases)
    for each in classes:
        _refuse_known_class(each)
    _refuse_used_code(code, cls)
    if forced_code is not None:
        _refuse_used_code(forced_code, cls)
        if forced_code == code:
            raise SerdeError(f"{_name(cls)} needs two different numbers for code and forced_code.")
        forced = RegisteredType(
            forced_code,
            cls,
            _own(cls, "force_simplify", force_simplify),
            _own(cls, "force_detail", force_detail),
            exact,
        )
        FORCED[cls] = BY_CODE[forced_code] = forced
    BY_CODE[code] = row
    for each in classes:
        BY_TYPE[each] = row


def unregister(cls: type) -> None:
    """Forget a class, its aliases and its codes."""
    row = BY_TYPE.get(cls)
    if row is None:
        raise SerdeError(f"{_name(cls)} is not registered, so it can't be unregistered.")
    for each in [known for known, other in BY_TYPE.items() if other is row]:
        del BY_TYPE[each]
    del BY_CODE[row.code]
    forced = FORCED.pop(row.cls, None)
    if forced is not None:
        del BY_CODE[forced.code]


def serializes(cls: type, *, code: int, exact: bool = False) -> Callable[[C], C]:
    """Decorate a class holding static `simplify` and `detail` functions for another class."""

    def decorate(functions: C) -> C:
        register(
            cls,
            code=code,
            simplify=_own(functions, "simplify", None),
            detail=_own(functions, "detail", None),
            exact=exact,
        )
        return functions

    return decorate


def refuse(cls: type, reason: str) -> None:
    """Give the sentence shown to whoever tries to send an object of this class or a subclass."""
    REFUSED[cls] = reason


def row_for(cls: type) -> RegisteredType:
    """Find the row of a class: its own, else that of the nearest registered base class."""
    for base in cls.__mro__:
        row = BY_TYPE.get(base)
        if row is not None:
            if row.exact and base is not cls:
                break
            return row
        reason = REFUSED.get(base)
        if reason is not None:
            raise SerdeError(f"{_name(cls)} can't be serialized: {reason}")
    raise SerdeError(
        f"{_name(cls)} has no wire form; give it one with "
        f"syft.serde.register({cls.__name__}, code=<{FIRST_USER_CODE} or more>, simplify=..., detail=...)."
    )


def table() -> list[tuple[int, str]]:
    """List (code, full class name) of every row, sorted by code."""
    return sorted((code, _name(row.cls)) for code, row in BY_CODE.items())


def _own(cls: type, name: str, given: Callable[..., Any] | None) -> Callable[..., Any]:
    function = given if given is not None else getattr(cls, name, None)
    if not callable(function):
        raise SerdeError(f"{_name(cls)} needs a {name} function: pass {name}=... or define it on the class.")
    return function


def _refuse_known_class(cls: type) -> None:
    known = BY_TYPE.get(cls)
    if known is not None:
        raise SerdeError(f"{_name(cls)} is already registered with code {known.code}; unregister it first.")


def _refuse_used_code(code: int, cls: type) -> None:
    if type(code) is not int or not 0 < code <= MAX_CODE:
        raise SerdeError(f"The code of {_name(cls)} must be an int between 1 and {MAX_CODE}, not {code!r}.")
    known = BY_CODE.get(code)
    if known is not None:
        raise SerdeError(f"Code {code} of {_name(cls)} belongs to {_name(known.cls)}; choose another.")


def _name(cls: type) -> str:
    return f"{cls.__module__}.{cls.__qualname__}"
