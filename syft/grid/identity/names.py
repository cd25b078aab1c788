"""Validate and normalize the names of users.

Names occur in tokens, logs, lists of allowed users and on the owner's screen, so each has one canonical form, and none
may look like a path or contain invisible characters.
"""

from __future__ import annotations

import functools
import unicodedata

from syft.exceptions import AccountError

MAX_NAME = 64
# Letters, marks and digits.
_CATEGORIES = frozenset({"Lu", "Ll", "Lt", "Lm", "Lo", "Mn", "Mc", "Nd"})
_SIGNS = frozenset(" ._-@+")
# Invisible letters and marks, by which two names that look alike could differ.
_INVISIBLE = (
    (0x034F, 0x034F),
    (0x115F, 0x1160),
    (0x17B4, 0x17B5),
    (0x180B, 0x180F),
    (0x3164, 0x3164),
    (0xFE00, 0xFE0F),
    (0xFFA0, 0xFFA0),
    (0x16FE4, 0x16FE4),
    (0x1D159, 0x1D159),
    (0xE0000, 0xE0FFF),
)
_RULE = (
    f"A user name has 1 to {MAX_NAME} letters and digits, with single spaces or the signs . _ - @ + between them. "
    "Upper and lower case are the same."
)


def user_name(name: object) -> str:
    """Return the canonical form of a user's name: composed (NFC), in lower case.

    Args:
        name: the name as typed, or as sent by a peer.

    Raises:
        AccountError: the name is invalid; the message does not repeat it.

    Example:
        >>> user_name("Alice@Hospital-A.example")
        'alice@hospital-a.example'
    """
    # The cost of normalization grows with the length, so that is checked first; a letter may be several characters.
    if not isinstance(name, str) or not 0 < len(name) <= 4 * MAX_NAME:
        raise AccountError(_RULE)
    folded = _fold(str(name))
    if len(folded) > MAX_NAME or not all(map(_is_allowed, folded)):
        raise AccountError(_RULE)
    ends = unicodedata.category(folded[0])[0] + unicodedata.category(folded[-1])[0]
    if ends[0] not in "LN" or ends[1] not in "LNM" or "  " in folded or ".." in folded:
        raise AccountError(_RULE)
    return folded


@functools.lru_cache(maxsize=4096)
def canonical(name: object) -> object:
    """Return the canonical form of a user's name, for access checks; an invalid name is returned unchanged."""
    try:
        return user_name(name)
    except AccountError:
        return name


def _fold(name: str) -> str:
    """Normalize and fold until nothing changes: each of the two may undo the other."""
    for _ in range(4):
        folded = unicodedata.normalize("NFC", unicodedata.normalize("NFC", name).casefold())
        if folded == name:
            return folded
        name = folded
    raise AccountError(_RULE)


def _is_allowed(character: str) -> bool:
    if character.isascii():
        return character.isalnum() or character in _SIGNS
    return (
        unicodedata.category(character) in _CATEGORIES
        and not any(first <= ord(character) <= last for first, last in _INVISIBLE)
        # Compatibility forms (wide, bold, ligatures) of ASCII letters look like them.
        and not unicodedata.normalize("NFKC", character).isascii()
    )
