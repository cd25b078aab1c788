"""The registry of serializable types and their wire codes.

An entry says how one level of a type is split into parts (`simplify`) and rebuilt (`detail`):

    simplify(worker, obj)    -> tuple of parts, which the engine simplifies in turn
    detail(worker, payload)  -> the object, from a tuple of parts that are rebuilt already

The protobuf strategy uses the same entries. A type with its own message in serde/protobuf/schema/syft.proto has named
fields there, in the order of its `simplify`; any other type is a list of parts.

The codes of this library's own types are in wire_codes.py. Choose a code of 1000 or more for a type of your own: lower
ones are not refused, but a later version of the library may need them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, NamedTuple, TypeVar

from syft.core.redefinition import is_redefinition
from syft.exceptions import SerdeError

Simplifier = Callable[[Any, Any], tuple[Any, ...]]
Detailer = Callable[[Any, tuple[Any, ...]], Any]
Screen = Callable[[tuple[Any, ...]], None]
C = TypeVar("C", bound=type)

FIRST_USER_CODE = 1000
MAX_CODE = 2**31 - 1


class RegisteredType(NamedTuple):
    """One type's entry. An `exact` entry does not apply to subclasses of its type."""

    code: int
    cls: type
    simplify: Simplifier
    detail: Detailer
    exact: bool = False
    screen: Screen | None = None


class TypeCodec(NamedTuple):
    """The codec of a type without its own `simplify` and `detail`; the fields are arguments of `register`."""

    simplify: Simplifier
    detail: Detailer
    exact: bool = True
    aliases: tuple[type, ...] = ()


# Read directly by the engine on every object, hence plain module-level dicts.
BY_TYPE: dict[type, RegisteredType] = {}
BY_CODE: dict[int, RegisteredType] = {}
FORCED: dict[type, RegisteredType] = {}
REFUSED: dict[type | str, str] = {}
# Full name of a class of an optional package -> its entry; the package need not be imported.
BY_NAME: dict[str, RegisteredType] = {}


K = TypeVar("K")
V = TypeVar("V")


class RegistryView(Mapping[K, V]):
    """A live, read-only view of a table of entries: `make(entry)` under each key, and further pairs.

    A class of an optional package is found, too, though it is not listed.
    """

    def __init__(
        self, rows: Mapping[K, RegisteredType], make: Callable[[RegisteredType], V], more: Mapping[K, V] | None = None
    ) -> None:
        self._rows, self._make, self._more = rows, make, dict(more or {})

    def __getitem__(self, key: K) -> V:
        if key in self._more:
            return self._more[key]
        foreign = BY_NAME.get(_name(key)) if self._rows is BY_TYPE and isinstance(key, type) else None
        return self._make(foreign or self._rows[key])

    def __iter__(self) -> Iterator[K]:
        return iter([*self._more, *self._rows])

    def __len__(self) -> int:
        return len(self._more) + len(self._rows)

    def __repr__(self) -> str:
        return f"<{type(self).__name__} of {len(self)} entries>"


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
    foreign: str | None = None,
) -> None:
    """Make objects of a class serializable.

    A class that is defined again, as when a notebook cell runs twice, replaces the earlier one.

    Args:
        cls: the class.
        code: its number on the wire, the same in every process.
        simplify: splits one level of an object; the class's own static `simplify` if None.
        detail: the inverse; the class's own static `detail` if None.
        exact: refuse unregistered subclasses instead of sending them as `cls`.
        aliases: other classes that share this entry.
        forced_code: second code, for full copies (`force_full_simplification`).
        force_simplify: splits an object for a full copy.
        force_detail: rebuilds a full copy.
        screen: checks the received parts, code first, before any of them is rebuilt.
        foreign: full name of a class of an optional package that shares this entry.
    """
    row = RegisteredType(code, cls, _own(cls, "simplify", simplify), _own(cls, "detail", detail), exact, screen)
    classes = (cls, *aliases)
    earlier = BY_CODE.get(code)
    if earlier is not None and earlier.cls is not cls and is_redefinition(earlier.cls, cls):
        unregister(earlier.cls)
    for each in classes:
        if each in BY_TYPE:
            raise SerdeError(
                f"{_name(each)} is already registered with code {BY_TYPE[each].code}; unregister it first."
            )
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
    if foreign is not None:
        BY_NAME[foreign] = row


def unregister(cls: type) -> None:
    """Remove a class, its aliases and its codes."""
    row = BY_TYPE.get(cls)
    if row is None:
        raise SerdeError(f"{_name(cls)} is not registered, so it can't be unregistered.")
    for each in [alias for alias, other in BY_TYPE.items() if other is row]:
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


def refuse(cls: type | str, reason: str) -> None:
    """Set the reason of the error for objects of this class, or of this full name, or a subclass."""
    REFUSED[cls] = reason


def row_for(cls: type) -> RegisteredType:
    """Return the entry of a class, or of its nearest registered base class."""
    for base in cls.__mro__:
        row = BY_TYPE.get(base) or BY_NAME.get(_name(base))
        if row is not None:
            if row.exact and base is not cls:
                break
            return row
        reason = REFUSED.get(base) or REFUSED.get(_name(base))
        if reason is not None:
            raise SerdeError(f"{_name(cls)} can't be serialized: {reason}")
    raise SerdeError(
        f"{_name(cls)} can't be serialized. Register it: "
        f"syft.serde.register({cls.__name__}, code=<{FIRST_USER_CODE} or more>, simplify=..., detail=...)."
    )


def table() -> list[tuple[int, str]]:
    """List (code, full class name) of every entry, sorted by code."""
    return sorted((code, _name(row.cls)) for code, row in BY_CODE.items())


def _own(cls: type, name: str, passed: Callable[..., Any] | None) -> Callable[..., Any]:
    function = passed if passed is not None else getattr(cls, name, None)
    if not callable(function):
        raise SerdeError(f"{_name(cls)} needs a {name} function: pass {name}=... or define it on the class.")
    return function


def _refuse_used_code(code: int, cls: type) -> None:
    if type(code) is not int or not 0 < code <= MAX_CODE:
        raise SerdeError(f"The code of {_name(cls)} must be an int between 1 and {MAX_CODE}, not {code!r}.")
    other = BY_CODE.get(code)
    if other is not None:
        raise SerdeError(f"Code {code} of {_name(cls)} belongs to {_name(other.cls)}; choose another.")


def _name(cls: type) -> str:
    return f"{cls.__module__}.{cls.__qualname__}"
