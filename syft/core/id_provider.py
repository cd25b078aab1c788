"""Ids of objects: 96 bits of the operating system's randomness and a mark of this process, so nobody can guess one.

The mark is 32 bits that only this process can compute: it knows its own ids, and others see 128 random bits.
"""

from __future__ import annotations

import hashlib
import os
import re
from collections.abc import Collection, Iterable
from typing import TypeAlias, TypeGuard

from syft.exceptions import IdNotUniqueError, NotPermittedError

ObjectId: TypeAlias = int | str

_BATCH = 256
# Bounds of ids from outside: larger than our own 128 bits, small enough to store one for every failed call.
MAX_ID_BITS = 256
MAX_ID_CHARS = 256


def is_id(value: object) -> TypeGuard[ObjectId]:
    """Say whether a value from outside is an id of bounded size."""
    if isinstance(value, int):
        return value.bit_length() <= MAX_ID_BITS
    return isinstance(value, str) and len(value) <= MAX_ID_CHARS


DATASET_PREFIX = "dataset:"
MODEL_PREFIX = "model:"
SEALED_PREFIX = "sealed:"
SLICE_PREFIX = "slice:"
TAG_PREFIX = "#"
# Ids with these prefixes are given by a worker itself: to data sets of its owner, to models that it hosts, and to what
# is stored with a request for a release. Tags begin with the last one, so that no id is taken for a tag.
RESERVED_PREFIXES = (DATASET_PREFIX, MODEL_PREFIX, SEALED_PREFIX, SLICE_PREFIX, TAG_PREFIX)
_NUMBER = re.compile(r"-?(0|[1-9][0-9]*)", re.ASCII)


SHOWN_DIGITS = 11


def short_id(obj_id: ObjectId) -> str:
    """Return an id as texts show it: the first digits of a drawn one, which `names_id` accepts.

    Example:
        >>> short_id(7), short_id("patients"), short_id(310478954504835150747920189478819968762)
        ('7', 'patients', '31047895450')
    """
    text = str(obj_id)
    return text[:SHOWN_DIGITS] if isinstance(obj_id, int) and len(text) > 2 * SHOWN_DIGITS else text


def names_id(word: object, obj_id: ObjectId) -> bool:
    """Say whether a word names an id: it is the id, or the digits of it that texts show, or more of them.

    Example:
        >>> names_id(31047895450, 310478954504835150747920189478819968762)
        True
    """
    if word == obj_id:
        return True
    if not isinstance(obj_id, int) or not isinstance(word, int | str) or isinstance(word, bool):
        return False
    digits = str(word)
    whole = str(obj_id)
    return len(whole) > 2 * SHOWN_DIGITS <= 2 * len(digits) and digits.isdecimal() and whole.startswith(digits)


def find_named(word: ObjectId, ids: Collection[ObjectId]) -> ObjectId | None:
    """Return the id that a word names: itself, or the only one with these first digits; None if there is none."""
    if word in ids:
        return word
    found = [obj_id for obj_id in list(ids) if names_id(word, obj_id)]
    return found[0] if len(found) == 1 else None


def all_named(word: ObjectId, ids: Collection[ObjectId]) -> list[ObjectId]:
    """Return all ids that a word names: itself, and those with these first digits. Decisions need exactly one."""
    others = [obj_id for obj_id in list(ids) if obj_id != word and names_id(word, obj_id)]
    return [word, *others] if word in ids else others


def parse_id(text: str) -> ObjectId:
    """Return the id that a text stands for: a number if it is written as one, else the text itself.

    Example:
        >>> parse_id("12"), parse_id("patients"), parse_id("007")
        (12, 'patients', '007')
    """
    return int(text) if _NUMBER.fullmatch(text) else text


def check_user_id(obj_id: ObjectId) -> None:
    """Refuse an id of a user's choice that is the text of a number, has a reserved prefix, or can't be printed."""
    if not isinstance(obj_id, str):
        return
    if not obj_id.isprintable() or obj_id != obj_id.strip() or not obj_id:
        raise NotPermittedError(f"The id {obj_id!r:.80} is empty, or has surrounding spaces or unprintable characters.")
    if obj_id.startswith(RESERVED_PREFIXES):
        raise NotPermittedError(
            f"The id {obj_id!r:.80} begins with a prefix that is reserved for the node "
            f"({', '.join(RESERVED_PREFIXES)}). Choose another id."
        )
    try:
        int(obj_id)
    except ValueError:
        return
    raise NotPermittedError(f"The id {obj_id!r:.80} is the text of a number. Use the number itself, or another id.")


_RANDOM_BYTES, _MARK_BYTES = 12, 4
_key = os.urandom(32)


def _new_key() -> None:
    global _key
    _key = os.urandom(32)


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_new_key)  # ids of the parent are not ids of the child


def _mark(random: bytes) -> bytes:
    return hashlib.blake2b(random, key=_key, digest_size=_MARK_BYTES).digest()


def _draw(count: int) -> list[int]:
    """Draw `count` ids with one system call."""
    raw = os.urandom(_RANDOM_BYTES * count)
    parts = [raw[at : at + _RANDOM_BYTES] for at in range(0, len(raw), _RANDOM_BYTES)]
    return [int.from_bytes(part + _mark(part), "big") for part in parts]


def is_drawn_here(obj_id: ObjectId) -> bool:
    """Say whether this process drew an id: no other worker has an object of this id unless it got it from here."""
    if type(obj_id) is not int or not 0 <= obj_id < 1 << 128:
        return False
    written = obj_id.to_bytes(_RANDOM_BYTES + _MARK_BYTES, "big")
    return _mark(written[:_RANDOM_BYTES]) == written[_RANDOM_BYTES:]


class IdProvider:
    """A source of fresh ids, optionally preset by the caller.

    It remembers no id it made: 96 random bits do not repeat, and a memory of them would grow for ever.

    Args:
        given_ids: ids to hand out first, last one first (as `set_next_ids`).
    """

    def __init__(self, given_ids: Iterable[ObjectId] | None = None) -> None:
        self._ready: list[int] = []
        self._preset: list[ObjectId] = []
        self._preset_ever: set[ObjectId] = set()
        self._recording: list[ObjectId] | None = None
        if given_ids is not None:
            self.set_next_ids(list(given_ids))
        if hasattr(os, "register_at_fork"):
            # A forked child must not hand out the ids its parent is about to hand out.
            os.register_at_fork(after_in_child=self._ready.clear)

    def pop(self, *args: object) -> ObjectId:
        """Return the next id: a preset one if there is any, else a fresh one."""
        if self._preset or self._recording is not None:
            return self._pop_recorded()
        try:
            return self._ready.pop()
        except IndexError:
            fresh = _draw(_BATCH)
            first = fresh.pop()
            self._ready.extend(fresh)
            return first

    def _pop_recorded(self) -> ObjectId:
        new_id = self._preset.pop() if self._preset else _draw(1)[0]
        if self._recording is not None:
            self._recording.append(new_id)
        return new_id

    def set_next_ids(self, given_ids: list[ObjectId], check_ids: bool = True) -> None:
        """Queue ids to be handed out next, the last of the list first.

        Args:
            given_ids: the ids.
            check_ids: refuse ids that were already preset once.

        Raises:
            IdNotUniqueError: if an id was given before.
        """
        if check_ids:
            repeated = {value for value in given_ids if value in self._preset_ever}
            if len(set(given_ids)) != len(given_ids) or repeated:
                raise IdNotUniqueError(
                    f"Provided IDs {repeated or set(given_ids)} are contained in already generated IDs"
                )
        self._preset_ever.update(given_ids)
        self._preset += given_ids

    def start_recording_ids(self) -> None:
        """Begin to note every id handed out."""
        self._recording = []

    def get_recorded_ids(self, continue_recording: bool = False) -> list[ObjectId]:
        """Return the ids handed out since the recording began."""
        recorded = self._recording or []
        self._recording = list(recorded) if continue_recording else None
        return recorded


ID_PROVIDER = IdProvider()


def create_random_id() -> int:
    """Return one fresh id."""
    return _draw(1)[0]
