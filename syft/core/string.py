"""String: a `str` that can be sent to a worker, with every method of `str`."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from syft.core.labels import check_labels
from syft.core.object import AbstractObject
from syft.core.trees import map_tensors
from syft.exceptions import CommandNotAllowedError

if TYPE_CHECKING:
    from syft.workers.abstract import AbstractWorker

# The methods that a String forwards to the str inside it, by name: a worker accepts exactly these.
METHODS = tuple(
    name for name in dir(str) if not name.startswith("_") and name not in ("maketrans", "format", "format_map")
)
OPERATORS = ("__add__", "__mul__", "__rmul__", "__mod__", "__getitem__", "__contains__")
COMPARISONS = ("__lt__", "__le__", "__gt__", "__ge__")
# Bounds of results for peers: a few bytes of a message must not become gigabytes.
MAX_CHARS = 2**26
MAX_PARTS = 65_536
# Others are rarely meant, and some (punycode, idna) take quadratic time.
ENCODINGS = frozenset("utf8 utf16 utf16le utf16be utf32 utf32le utf32be ascii latin1 iso88591 cp1252".split())
_NUMBER = re.compile(r"\d+")
_PADDING = frozenset({"center", "ljust", "rjust", "zfill"})
_SPLITTING = frozenset({"split", "rsplit", "splitlines"})


class String(AbstractObject):
    """A text that can be sent.

    Args:
        object: the text, or bytes to decode.
        encoding: how to decode bytes.
        errors: what to do with bytes that can't be decoded.
        id: its id.
        owner: the worker it belongs to.
        tags: words it can be found by.
        description: a text it can be found by.
    """

    child: str

    def __init__(
        self,
        object: object = None,
        encoding: str | None = None,
        errors: str | None = None,
        id: int | str | None = None,
        owner: object = None,
        tags: object = None,
        description: str | None = None,
    ) -> None:
        if encoding is not None or errors is not None:
            raw: Any = object
            text = str(raw, encoding or "utf-8", errors or "strict")
        else:
            text = "" if object is None else str(object)
        super().__init__(id=id, owner=owner, tags=tags, description=description, child=text)

    def send(self, location: AbstractWorker, **kwargs: object) -> Any:
        """Send the text to a worker and return a pointer to it."""
        return self.owner.send(self, location, **kwargs)

    def get_class_attributes(self) -> dict[str, Any]:
        """Return the constructor arguments that results must inherit."""
        return {"owner": self._owner}

    def on(self, object: str, wrap: bool = False) -> String:
        """Set the text inside."""
        self.child = str(object)
        return self

    def add_string(self, other: String | str) -> String:
        """Return both texts joined."""
        return String(self.child + str(other), owner=self._owner)

    def format(self, *args: object, **kwargs: object) -> String:
        """Run `str.format` on the text; only here, never for a peer."""
        return String(self.child.format(*args, **kwargs), owner=self._owner)

    def format_map(self, mapping: Any) -> String:
        """Run `str.format_map` on the text; only here, never for a peer."""
        return String(self.child.format_map(mapping), owner=self._owner)

    maketrans = staticmethod(str.maketrans)

    def __format__(self, spec: str) -> str:
        return format(self.child, spec)

    def __radd__(self, other: object) -> Any:
        return String(other + self.child, owner=self._owner) if isinstance(other, str) else NotImplemented

    def __str__(self) -> str:
        return self.child

    def __repr__(self) -> str:
        return f"String({self.child!r})"

    def __len__(self) -> int:
        return len(self.child)

    def __eq__(self, other: object) -> bool:
        if isinstance(other, str | String):
            return self.child == str(other)
        return NotImplemented

    def __hash__(self) -> int:
        return hash(self.child)

    @staticmethod
    def simplify(worker: AbstractWorker, string: String) -> tuple[Any, ...]:
        """Return text, id, tags and description."""
        return (string.child, string.id, string.tags, string.description)

    @staticmethod
    def detail(worker: AbstractWorker, simple_obj: tuple[Any, ...]) -> String:
        """Rebuild a String."""
        text, obj_id, tags, description = simple_obj
        if not isinstance(text, str):
            raise TypeError("a String holds a text")
        check_labels(obj_id, tags, description)
        return String(text, id=obj_id, owner=worker, tags=tags, description=description)


def call_string_method(name: str, string: object, *args: object, **kwargs: object) -> Any:
    """Run one of the allowed methods of `str`; texts come back as String, other values as they are."""
    plain_args, plain_kwargs = map_tensors(plain_text, ((string, *args), kwargs))
    result = getattr(str, name)(*plain_args, **plain_kwargs)
    owner = string._owner if isinstance(string, String) else None
    if isinstance(result, str):
        return String(result, owner=owner)
    if isinstance(result, list | tuple):
        return type(result)(String(item, owner=owner) if isinstance(item, str) else item for item in result)
    return result


def plain_text(value: object) -> Any:
    """Return the text inside a String, and anything else as it is."""
    return value.child if isinstance(value, String) else value


def _forwarder(name: str) -> Callable[..., Any]:
    def forward(self: String, *args: object, **kwargs: object) -> Any:
        return call_string_method(name, self, *args, **kwargs)

    forward.__name__ = name
    forward.__doc__ = f"Run `str.{name}` on the text."
    return with_string_signature(forward)


def with_string_signature(method: Callable[..., Any]) -> Callable[..., Any]:
    """Let `inspect.signature` show the signature of the method of `str` that has its name, without computing it now."""
    original = getattr(str, method.__name__)
    # Python knows no signature of str.find and the like.
    method.__wrapped__ = _search if original.__text_signature__ is None else original  # type: ignore[attr-defined]
    return method


def _search(self: String, sub: str, start: int | None = None, end: int | None = None, /) -> Any:
    """Has the signature of find, index, count, startswith, and their counterparts from the right."""


for _name in (*METHODS, *OPERATORS, *COMPARISONS):
    setattr(String, _name, _forwarder(_name))


def run_for_peer(name: str, string: object, *args: object, **kwargs: object) -> Any:
    """Run one of the allowed methods of `str` for a peer, within bounds."""
    texts = [plain_text(value) for value in (string, *args, *kwargs.values())]
    if _largest(name, texts) > MAX_CHARS:
        raise CommandNotAllowedError(f"str.{name} with a result of more than {MAX_CHARS} characters")
    if name in _SPLITTING and _parts(name, *texts) > MAX_PARTS:
        raise CommandNotAllowedError(f"str.{name} into more than {MAX_PARTS} parts")
    if name == "encode" and _encoding(*texts[1 : 1 + len(args)], **kwargs) not in ENCODINGS:
        raise CommandNotAllowedError(
            "str.encode with this encoding", f"the known ones are {', '.join(sorted(ENCODINGS))}."
        )
    return call_string_method(name, string, *args, **kwargs)


def _encoding(encoding: object = "utf-8", errors: object = "strict") -> str:
    return re.sub(r"[-_ ]", "", str(plain_text(encoding))[:40]).lower()


def _length(value: object) -> int:
    return len(value) if isinstance(value, str) else 0


def _number(value: object) -> int:
    return abs(value) if isinstance(value, int) else 0


def _largest(name: str, texts: list[Any]) -> int:
    """Return a bound on the number of characters of the result."""
    own = _length(texts[0])
    numbers = max(map(_number, texts[1:]), default=0)
    longest = max(map(_length, texts[1:]), default=0)
    if name in ("__mul__", "__rmul__"):
        return own * numbers
    if name in _PADDING:
        return own + numbers
    if name == "expandtabs":
        return own + str(texts[0]).count("\t") * max(numbers, 8)
    if name == "replace":
        old = str(texts[1]) if len(texts) > 1 else ""
        return own + (str(texts[0]).count(old) if old else own + 1) * longest
    if name == "__mod__":
        return own + _formatted(texts)
    if name == "join":
        return sum(_length(plain_text(item)) + own for item in _items(texts[1:]))
    if name == "translate":
        return own * max([1, *(_length(plain_text(item)) for item in _items(texts[1:]))])
    return own + longest


def _items(values: list[Any]) -> list[Any]:
    """Return the items of containers among values; anything else a method would iterate over is refused."""
    found: list[Any] = []
    for value in values:
        if isinstance(value, dict):
            found.extend(value.values())
        elif isinstance(value, list | tuple | set | frozenset):
            found.extend(value)
        elif isinstance(value, str):
            found.extend(("x" * bool(value),) * len(value))
        elif not isinstance(value, int | float | None):
            raise CommandNotAllowedError(f"A text method with a {type(value).__name__}")
    return found


def _formatted(texts: list[Any]) -> int:
    """Bound what %-formatting adds: each directive gives at most its width or its longest argument."""
    pattern = str(texts[0])
    values = [plain_text(item) for item in (_items(texts[1:]) if not isinstance(texts[-1], str) else texts[1:])]
    values += [value for value in texts[1:] if isinstance(value, int | float)]
    for value in values:
        if not isinstance(value, str | int | float | None):
            raise CommandNotAllowedError(
                f"Formatting a {type(value).__name__}", "only texts and numbers are formatted."
            )
    widths = [int(digits[:20]) for digits in _NUMBER.findall(pattern)]
    stars = [_number(value) for value in values] if "*" in pattern else []
    return pattern.count("%") * max([400, *widths, *stars, *map(_length, values)])


def _parts(name: str, text: object, separator: object = None, *rest: object) -> int:
    """Return a bound on the number of parts, counting no further than needed."""
    if not isinstance(text, str) or len(text) <= MAX_PARTS:
        return 0
    if name == "splitlines":
        return sum(text.count(end) for end in "\n\r\v\f\x1c\x1d\x1e\x85\u2028\u2029") + 1
    if isinstance(separator, str) and separator:
        return text.count(separator) + 1
    return len(text.split(None, MAX_PARTS + 1))
