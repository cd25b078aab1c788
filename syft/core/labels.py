"""Tags and descriptions of anything a worker holds, plain tensors included.

A plain tensor keeps them in its `__dict__`, so they travel with it and cost nothing where there are none.
"""

from __future__ import annotations

import unicodedata
from collections.abc import Iterable
from typing import Any

import torch

from syft.core.id_provider import ID_PROVIDER, ObjectId, is_id

_CONTROL = frozenset({"Cc", "Zl", "Zp", "Cs"})
_REORDERING = frozenset("\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069")
ID, TAGS, DESCRIPTION, OWNER = "_syft_id", "_syft_tags", "_syft_description", "_syft_owner"
PRIVATE = "_syft_private"
# Whether a tensor of this process was ever made private; calls look for private arguments only then.
_any_private = [False]


def printable(text: object) -> str:
    """Return a text without the characters that would do something to a terminal."""
    return "".join(c if c.isprintable() or c == "\n" else "?" for c in str(text))


def one_line(text: object) -> str:
    """Return a text as one row of a list shows it, whatever is in it."""
    return printable(text).replace("\n", " ")


def check_tags(*tags: object) -> None:
    """Refuse tags with control characters or line separators: they must stay on one line where they are listed."""
    for tag in tags:
        if any(map(_is_control, str(tag))):
            raise ValueError(
                f"The tag {str(tag)!r:.80} has a control character or a line break. A tag is one line of text."
            )


def tag_set(tags: Iterable[str] | None) -> set[str]:
    """Return tags as a set; a text is one tag."""
    return {tags} if isinstance(tags, str) else set(tags or ())


def check_description(text: object) -> None:
    """Refuse a description with control characters; line breaks and tabs are fine."""
    if text is not None and any(map(_is_control, str(text).replace("\n", "").replace("\t", ""))):
        raise ValueError(f"The description {str(text)!r:.80} has a control character. Use plain text.")


def _is_control(character: str) -> bool:
    """Return whether a character controls a terminal, ends a line, or reorders the text around it."""
    return unicodedata.category(character) in _CONTROL or character in _REORDERING


def id_of(obj: Any) -> ObjectId:
    """Return the id of an object, drawing one when first asked for."""
    if not isinstance(obj, torch.Tensor):
        found: ObjectId = obj.id
        return found
    known: ObjectId | None = obj.__dict__.get(ID)
    if known is None:
        known = obj.__dict__[ID] = ID_PROVIDER.pop()
    return known


def set_id(obj: Any, obj_id: ObjectId) -> None:
    """Give an object an id."""
    _write(obj, ID, "id", obj_id)


def _write(obj: Any, key: str, name: str, value: object) -> None:
    """Set a label: in the `__dict__` of a tensor, or as an attribute of any other object."""
    if isinstance(obj, torch.Tensor):
        obj.__dict__[key] = value
    else:
        setattr(obj, name, value)


def _labelled_link(tensor: torch.Tensor) -> Any:
    """Return the link that carries the labels of a chain; those of a pointer are of what it points at."""
    link = tensor.__dict__.get("child")
    return link if getattr(link, "carries_labels", False) else None


def tags_of(obj: object) -> set[str]:
    """Return the tags of an object (an empty set where there are none)."""
    if isinstance(obj, torch.Tensor):
        return obj.__dict__.get(TAGS) or getattr(_labelled_link(obj), "tags", None) or set()
    return getattr(obj, "tags", None) or set()


def description_of(obj: object) -> str | None:
    """Return the description of an object."""
    if isinstance(obj, torch.Tensor):
        own: str | None = obj.__dict__.get(DESCRIPTION)
        return own if own is not None else getattr(_labelled_link(obj), "description", None)
    return getattr(obj, "description", None)


def add_tags(obj: Any, *tags: str) -> None:
    """Add tags to an object."""
    check_tags(*tags)
    _write(obj, TAGS, "tags", tags_of(obj) | {str(tag) for tag in tags})


def set_description(obj: Any, text: str) -> None:
    """Set the description of an object."""
    check_description(text)
    _write(obj, DESCRIPTION, "description", text)


def check_labels(obj_id: object, tags: object, description: object) -> None:
    """Refuse labels from outside that are not an id, words and a text: search shows labels to everybody."""
    if obj_id is not None and not is_id(obj_id):
        raise TypeError("an id is a number or a name")
    if tags is not None and (type(tags) is not set or not all(type(tag) is str for tag in tags)):
        raise TypeError("tags are a set of words")
    if description is not None and type(description) is not str:
        raise TypeError("a description is a text")


def copy_labels(source: object, target: object) -> None:
    """Give one tensor the id, tags and description of another."""
    for name in (ID, TAGS, DESCRIPTION, PRIVATE):
        if name in source.__dict__:
            value = source.__dict__[name]
            target.__dict__[name] = set(value) if name == TAGS else value


def set_private(tensor: torch.Tensor, value: bool) -> None:
    """Set whether the worker that holds a tensor keeps it from its clients."""
    if value:
        _any_private[0] = True
        tensor.__dict__[PRIVATE] = True
    else:
        tensor.__dict__.pop(PRIVATE, None)


def is_private(obj: object) -> bool:
    """Return whether the worker that holds an object keeps it from its clients."""
    return _any_private[0] and isinstance(obj, torch.Tensor) and PRIVATE in obj.__dict__


def any_private() -> bool:
    """Return whether a tensor of this process was ever made private."""
    return _any_private[0]
