"""The options of a launched node: settings of the node, passed on to its command."""

from __future__ import annotations

import dataclasses
import difflib
from collections.abc import Mapping
from pathlib import Path

from syft.exceptions import SyftError
from syft.grid.node.settings import Settings

# Settings that `launch` sets itself, and those that the command does not have.
_TAKEN = {"id", "home", "data", "host", "port", "store", "tokens", "certificate", "key", "ca"}
_NOT_OPTIONS = {"heartbeat", "stream_timeout"}
NAMES = tuple(sorted({field.name for field in dataclasses.fields(Settings)} - _TAKEN - _NOT_OPTIONS | {"log_level"}))
Setting = str | float | bool | Path | None


def command_words(options: Mapping[str, object]) -> list[str]:
    """Return the words of the command for options of a node.

    Raises:
        SyftError: an option is unknown.
    """
    words: list[str] = []
    for name, value in options.items():
        if name not in NAMES:
            raise SyftError(_unknown(name))
        option = f"--{name.replace('_', '-')}"
        if name == "peers":
            words += [part for peer in _texts(name, value) for part in ("--peer", peer)]
        elif isinstance(value, bool):
            words += [option] if value else []
        elif value is not None:
            words += [option, str(value)]
    return words


def _texts(name: str, value: object) -> list[str]:
    if not isinstance(value, list | tuple | set) or not all(isinstance(each, str) for each in value):
        raise SyftError(f"launch({name}=...) needs a list of texts, got {value!r}.")
    return list(value)


def _unknown(name: str) -> str:
    known = ("data", "users", "store", "port", *NAMES)
    close = difflib.get_close_matches(name, known, n=1, cutoff=0.5)
    hint = f"Did you mean {close[0]!r}?" if close else f"Options are: {', '.join(known)}."
    return f"launch() has no option {name!r}. {hint}"
