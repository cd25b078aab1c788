"""Messages about hosted models: host, list, run, download, delete."""

from __future__ import annotations

import dataclasses
import unicodedata
from typing import Any

from syft.core.id_provider import ObjectId
from syft.exceptions import ModelError
from syft.messaging.message import Message

MAX_NAME = 100


def check_name(name: object) -> str:
    """Return the name of a model, or raise: it is shown to users, and part of ids and addresses."""
    if type(name) is not str or not 0 < len(name) <= MAX_NAME or not name.isprintable():
        raise ModelError(f"The name of a model must have 1 to {MAX_NAME} printable characters.")
    if set(name) & set("/\\") or name != name.strip() or name.startswith("."):
        raise ModelError("The name of a model must not contain slashes, begin with a dot, or have surrounding blanks.")
    if name != unicodedata.normalize("NFC", name):
        raise ModelError("The name of a model must be in Unicode NFC.")
    return name


@dataclasses.dataclass(frozen=True, slots=True)
class HostModelMessage(Message):
    """Host this model: contents are a plan, or a wrapped script module."""

    name: str = ""
    allow_download: bool = False  # whether other users may download it
    allow_remote_inference: bool = False  # whether other users may run it
    inputs: tuple[tuple[int, ...], ...] = ()  # the shapes that it was built with, for errors about other shapes


@dataclasses.dataclass(frozen=True, slots=True)
class HostSharesMessage(Message):
    """Host your shares of an encrypted model: contents are its program (see `syft.mpc.serving.server`)."""

    contents: tuple[Any, ...]
    name: str = ""
    allow_remote_inference: bool = False  # whether other users may run it


@dataclasses.dataclass(frozen=True, slots=True)
class ModelsMessage(Message):
    """List the models that the client may see: contents are the name of one, or None for all."""

    contents: str | None = None


@dataclasses.dataclass(frozen=True, slots=True)
class DownloadModelMessage(Message):
    """Return a copy of this model."""

    contents: str


@dataclasses.dataclass(frozen=True, slots=True)
class DeleteModelMessage(Message):
    """Stop hosting this model."""

    contents: str


@dataclasses.dataclass(frozen=True, slots=True)
class InferenceMessage(Message):
    """Run a model: contents are its input tensors."""

    contents: tuple[Any, ...]
    name: str = ""


@dataclasses.dataclass(frozen=True, slots=True)
class SharedInferenceMessage(Message):
    """Run an encrypted model together with the other parties: contents are this party's shares."""

    contents: tuple[Any, ...]
    name: str = ""
    version: str = ""  # its version, the same at all parties
    run_id: ObjectId = 0  # the id of the run, the same for all parties
    return_id: ObjectId = 0  # the id of the first share of the result; the others get the following ids
