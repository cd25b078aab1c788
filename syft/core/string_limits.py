"""Bounds on what a peer may have a worker do with texts: a few bytes of a message must not become gigabytes.

Every bound is computed from the arguments before the method runs.
"""

from __future__ import annotations

import re
from typing import Any

from syft.core.string import call_string_method, plain_text
from syft.exceptions import CommandNotAllowedError

MAX_CHARS = 2**26
MAX_PARTS = 65_536
# Others are rarely meant, and some (punycode, idna) take quadratic time.
ENCODINGS = frozenset("utf8 utf16 utf16le utf16be utf32 utf32le utf32be ascii latin1 iso88591 cp1252".split())
_NUMBER = re.compile(r"\d+")
_PADDING = frozenset({"center", "ljust", "rjust", "zfill"})
_SPLITTING = frozenset({"split", "rsplit", "splitlines"})


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
