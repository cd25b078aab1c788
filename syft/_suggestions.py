"""Suggestions for misspelt names: attributes, options, keywords, ids and tags."""

from __future__ import annotations

import difflib
import functools
import inspect
from collections.abc import Callable, Iterable
from typing import Any, ParamSpec, TypeVar

P = ParamSpec("P")
T = TypeVar("T")
# Maximum number of names that are compared, and the length of a name that is: the names may come from a peer.
_MAX_NAMES = 20_000
_MAX_LENGTH = 100
# Maximum number of valid names that an error lists.
_SHOWN = 20
_UNEXPECTED = "got an unexpected keyword argument "


def closest(name: object, known: Iterable[object], cutoff: float = 0.66) -> str | None:
    """Return the known name that is most similar to a misspelt one; None if none is."""
    word = name if isinstance(name, str) else str(name)
    if not word or len(word) > _MAX_LENGTH:
        return None
    names: dict[str, str] = {}
    for text in (str(one) for one, _ in zip(known, range(_MAX_NAMES), strict=False)):
        if text != word and len(text) <= _MAX_LENGTH:
            names.setdefault(text.lower(), text)
    lower = word.lower()
    found = difflib.get_close_matches(lower, names, n=3, cutoff=cutoff)
    # Swapped letters are more likely than missing ones: adma is Adam, not Adamax.
    found.sort(key=lambda one: sorted(one) != sorted(lower))
    return names[found[0]] if found else None


def did_you_mean(name: object, known: Iterable[object]) -> str:
    """Return the sentence " Did you mean 'send'?"; empty if no known name is similar."""
    found = closest(name, known)
    return "" if found is None else f" Did you mean {found!r}?"


def one_of(name: object, known: Iterable[object]) -> str:
    """Return sentences that suggest the most similar option and list all of them, for the end of an error."""
    options = [str(one) for one in known]
    listed = ", ".join(options[:_SHOWN]) + (f", and {len(options) - _SHOWN} more" if len(options) > _SHOWN else "")
    return f"{did_you_mean(name, options)} Use one of {listed}.".lstrip()


class LazyText:
    """The text of an error, made when somebody reads it: `hasattr` raises errors that nobody reads."""

    def __init__(self, make: Callable[[], str]) -> None:
        self._make = make

    def __str__(self) -> str:
        return self._make()

    def __repr__(self) -> str:
        return repr(str(self))

    def __reduce__(self) -> tuple[type[str], tuple[str]]:
        return str, (str(self),)


def no_attribute(obj: object, name: str, also: type | None = None) -> AttributeError:
    """Return the error for an attribute that an object does not have, with a suggestion.

    The error has no `obj`: with it Python would print a suggestion of its own.

    Args:
        obj: the object.
        name: the attribute.
        also: a type whose attributes the object has too.
    """
    kind, names = type(obj), tuple(getattr(obj, "__dict__", ()))
    text = f"{kind.__name__!r} object has no attribute {name!r}."
    hidden = name.startswith("_")

    def full() -> str:
        listed = (*names, *dir(kind), *(() if also is None else dir(also)))
        known = sorted({one for one in listed if hidden or not one.startswith(("_", "native_"))})
        return (text + did_you_mean(name, known)).removesuffix(".")

    return AttributeError(LazyText(full), name=name)


def missing_attribute(obj: object, name: str) -> Any:
    """Serve as `__getattr__`: raise the error of a property that failed, or that for an unknown attribute."""
    if any(name in vars(kind) for kind in type(obj).__mro__):
        return object.__getattribute__(obj, name)
    raise no_attribute(obj, name)


def no_name(module: str, name: str, known: Iterable[str]) -> AttributeError:
    """Return the error for a name that a module does not have, with a suggestion."""
    text = f"module {module!r} has no attribute {name!r}."
    return AttributeError((text + did_you_mean(name, known)).removesuffix("."), name=name)


def add_suggestion(error: TypeError, function: Callable[..., Any], args: tuple[Any, ...]) -> None:
    """Add a suggestion, and the accepted keywords, to Python's error for a keyword that a function does not have."""
    text = str(error)
    if _UNEXPECTED not in text or (error.__traceback__ is not None and error.__traceback__.tb_next is not None):
        return  # another error, or that of a call further down
    wrong = text.partition(_UNEXPECTED)[2].split("'")[1]
    named = [
        one.name
        for one in inspect.signature(function).parameters.values()
        if one.kind in (one.KEYWORD_ONLY, one.POSITIONAL_OR_KEYWORD) and one.name not in ("self", "cls")
    ]
    name = function.__name__
    called = type(args[0]).__name__ if name == "__init__" else args[0].__name__ if name == "__new__" else name
    hint = f"{did_you_mean(wrong, named)} It takes {', '.join(named) or 'no keywords'}."
    error.args = (f"{called}() {_UNEXPECTED}{wrong!r}.{hint}",)


def suggests_keywords(function: Callable[P, T]) -> Callable[P, T]:
    """Decorate a public function: a misspelt keyword is answered with the one that was meant."""

    @functools.wraps(function)
    def call(*args: P.args, **kwargs: P.kwargs) -> T:
        try:
            return function(*args, **kwargs)
        except TypeError as error:
            add_suggestion(error, function, args)
            raise

    return call


def suggest_in_constructor(kind: type) -> None:
    """Answer a misspelt keyword of a public class with the one that was meant."""
    if issubclass(kind, BaseException):
        return
    for base in kind.__bases__:
        if base.__name__.startswith("_"):
            suggest_in_constructor(base)
    own, new = kind.__dict__.get("__init__"), kind.__dict__.get("__new__")
    if inspect.isfunction(own) and not hasattr(own, "__wrapped__"):
        kind.__init__ = suggests_keywords(own)  # type: ignore[method-assign]
    if isinstance(new, staticmethod) and not hasattr(new.__func__, "__wrapped__"):
        kind.__new__ = staticmethod(suggests_keywords(new.__func__))  # type: ignore[method-assign]
