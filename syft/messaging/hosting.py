"""Messages about hosted models: keep one, list them, ask one, give one out, delete one."""

from __future__ import annotations

import dataclasses
import unicodedata
from typing import Any, ClassVar

from syft.core.id_provider import ObjectId
from syft.exceptions import ModelError
from syft.messaging.message import Message

MAX_NAME = 100


def check_name(name: object) -> str:
    """Return the name of a model, if it can be one: it is shown to people, and part of ids and addresses."""
    if type(name) is not str or not 0 < len(name) <= MAX_NAME or not name.isprintable():
        raise ModelError(f"The name of a model is a text of 1 to {MAX_NAME} printable characters.")
    if set(name) & set("/\\") or name != name.strip() or name.startswith("."):
        raise ModelError("The name of a model has no slashes, begins with no dot, and has no blanks around it.")
    if name != unicodedata.normalize("NFC", name):
        raise ModelError("The name of a model is written with composed characters (Unicode NFC).")
    return name


@dataclasses.dataclass(frozen=True, slots=True)
class HostModelMessage(Message):
    """Host this model: contents are a plan, or a wrapped script module.

    Attributes:
        name: what it is called.
        allow_download: whether others may have it.
        allow_remote_inference: whether others may ask it.
        inputs: the shapes that it was built with, to be told to who asks with others.
    """

    name: str = ""
    allow_download: bool = False
    allow_remote_inference: bool = False
    inputs: tuple[tuple[int, ...], ...] = ()
    schema: ClassVar[dict[str, Any]] = {
        "name": str, "allow_download": bool, "allow_remote_inference": bool, "inputs": tuple,
    }  # fmt: skip


@dataclasses.dataclass(frozen=True, slots=True)
class HostSharesMessage(Message):
    """Host your shares of an encrypted model: contents are what is run (see `syft.mpc.serving.server`).

    Attributes:
        name: what it is called.
        allow_remote_inference: whether others may ask it.
    """

    name: str = ""
    allow_remote_inference: bool = False
    schema: ClassVar[dict[str, Any]] = {"contents": tuple, "name": str, "allow_remote_inference": bool}


@dataclasses.dataclass(frozen=True, slots=True)
class ModelsMessage(Message):
    """Which models do you host, for me? Contents: the name of one, or None for all."""

    schema: ClassVar[dict[str, Any]] = {"contents": (str, type(None))}


@dataclasses.dataclass(frozen=True, slots=True)
class DownloadModelMessage(Message):
    """Give me a copy of this model."""

    schema: ClassVar[dict[str, Any]] = {"contents": str}


@dataclasses.dataclass(frozen=True, slots=True)
class DeleteModelMessage(Message):
    """Host this model no longer."""

    schema: ClassVar[dict[str, Any]] = {"contents": str}


@dataclasses.dataclass(frozen=True, slots=True)
class InferenceMessage(Message):
    """Ask a model: contents are the tensors it is asked with.

    Attributes:
        name: which model.
    """

    name: str = ""
    schema: ClassVar[dict[str, Any]] = {"contents": tuple, "name": str}


@dataclasses.dataclass(frozen=True, slots=True)
class SharedInferenceMessage(Message):
    """Ask an encrypted model, together with the other parties: contents are this party's shares.

    Attributes:
        name: which model.
        version: which version of it, the same at all parties.
        run_id: which run this is, the same for all parties.
        return_id: the id of the first share of the answer; the others follow it.
    """

    name: str = ""
    version: str = ""
    run_id: ObjectId = 0
    return_id: ObjectId = 0
    schema: ClassVar[dict[str, Any]] = {
        "contents": tuple, "name": str, "version": str, "run_id": (int, str), "return_id": (int, str),
    }  # fmt: skip
