"""The folder of an owner's data: each file is published once, and again when it has changed.

`patients.csv` is found by `#patients`. `patients.json` or `patients.toml` beside it may say more: `tags`,
`description` and `allowed_users`. A file that can't be read, or of which it is not clear who may see it, is left out.
"""

from __future__ import annotations

import contextlib
import dataclasses
import hashlib
import json
import logging
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch

from syft.core.id_provider import ObjectId
from syft.core.labels import printable
from syft.exceptions import AccountError, QuotaExceededError, StorageError
from syft.grid.identity.names import user_name
from syft.grid.storage.admin import ObjectAdmin
from syft.grid.storage.file_errors import UnreadableFileError
from syft.grid.storage.readers import READERS, check_room, read_file

if TYPE_CHECKING:
    from syft.workers.base import BaseWorker

logger = logging.getLogger("syft.grid")
_SIDECARS = {".json": json.loads, ".toml": tomllib.loads}
_WORDS = ("tags", "allowed_users")
_MANY = 20
# Errors whose texts are of our own.
_TOLD = (UnreadableFileError, AccountError, QuotaExceededError)


@dataclasses.dataclass(slots=True)
class Loaded:
    """What became of the files of a folder.

    Attributes:
        new: the ids of what was published now.
        kept: the ids of what was there already, unchanged.
        skipped: files that were left out, by name, and why.
        missing: the ids of what came from files that are not there any more; it stays until it is deleted.
    """

    new: list[ObjectId] = dataclasses.field(default_factory=list)
    kept: list[ObjectId] = dataclasses.field(default_factory=list)
    skipped: dict[str, str] = dataclasses.field(default_factory=dict)
    missing: list[ObjectId] = dataclasses.field(default_factory=list)


def load_folder(worker: BaseWorker, folder: str | Path) -> Loaded:
    """Publish the files of a folder; what was published before, and is the same, stays as it is.

    Args:
        worker: the worker of a node, with an object manager.
        folder: the folder.

    Raises:
        StorageError: the folder can't be read, or there is no room on disk to store its files.
    """
    root = Path(folder)
    if not root.is_dir():
        raise StorageError(f"The folder of data {root} is not there, or is not a folder.")
    admin, report = ObjectAdmin(worker.object_store.object_manager), Loaded()
    known = {item.origin: item.id for item in admin.list() if item.origin.startswith("file:")}
    files = [path for path in sorted(root.iterdir()) if not path.name.startswith(".")]
    _note_others(files)
    for path in files:
        if path.suffix.lower() not in READERS or not path.is_file():
            continue
        try:
            _load_file(admin, path, known, report)
        except StorageError:
            raise
        except Exception as error:  # whatever is in the file, the node starts without it
            told = isinstance(error, _TOLD) or type(error) is ValueError
            why = str(error).partition("\n")[0][:300].rstrip(".") if told else "it can't be read"
            report.skipped[path.name] = why
            logger.warning("The file %s of the data folder is left out: %s.", path.name, why)
    report.missing = list(known.values())
    if report.missing:
        logger.warning("%d objects came from files that are gone; they stay until deleted.", len(report.missing))
    return report


def _note_others(files: list[Path]) -> None:
    """Say in one line which files are no data here, since one of them may have been meant to be."""
    known = {*READERS, *_SIDECARS}
    others = [path.name + ("" if path.is_file() else "/") for path in files if path.suffix.lower() not in known]
    if others:
        more = f" and {len(others) - _MANY} more" if len(others) > _MANY else ""
        names = printable(", ".join(others[:_MANY]))
        kinds = ", ".join(sorted(READERS))
        logger.info("Not read from the data folder: %s%s. What is read: %s.", names, more, kinds)


def _load_file(admin: ObjectAdmin, path: Path, known: dict[str, ObjectId], report: Loaded) -> None:
    sidecar = _sidecar(path)
    earlier = {origin: obj_id for origin, obj_id in known.items() if origin.startswith(f"file:{path.name}:")}
    room = admin.room(earlier.values())
    check_room(path, room)  # before all of it is looked at, which takes long
    mark = f"{_digest(path)}{'' if sidecar is None else _digest(sidecar)}"
    begin = f"file:{path.name}:"
    same = [origin for origin in earlier if origin.startswith(f"{begin}{mark}:")]
    if same and len(same) == len(earlier):
        report.kept += [known.pop(origin) for origin in same]
        return
    settings = {} if sidecar is None else _settings(sidecar)
    tensors, about = read_file(path, room)
    description = settings.get("description", about)
    names = {origin.split(":", 3)[3]: (origin, obj_id) for origin, obj_id in earlier.items()}
    for name, tensor in tensors.items():
        # A file that has changed keeps the ids of its tensors, so that whoever works with them goes on.
        origin, obj_id = names.get(name, (None, None))
        if origin is not None:
            del known[origin]
        tags = {f"#{path.stem}", *([f"#{name}"] if name else []), *settings.get("tags", ())}
        allowed = settings.get("allowed_users")
        report.new.append(
            admin.publish(
                _plain(tensor),
                tags,
                description,
                None if allowed is None else [user_name(user) for user in allowed],
                obj_id=obj_id,
                origin=f"{begin}{mark}:{name}",
                replace=origin is not None,
            )
        )


def _plain(tensor: torch.Tensor) -> torch.Tensor:
    """Return a tensor as it can be kept: with memory of its own, and without what it was part of."""
    return tensor.detach().clone().contiguous()


def _digest(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _candidates(path: Path) -> Iterator[Path]:
    for ending in _SIDECARS:
        yield path.with_suffix(ending)
        yield path.with_name(path.name + ending)


def _sidecar(path: Path) -> Path | None:
    found = [candidate for candidate in _candidates(path) if candidate.is_file()]
    if len(found) > 1:
        raise ValueError(f"{found[0].name} and {found[1].name} both describe it")
    return found[0] if found else None


def _settings(path: Path) -> dict[str, Any]:
    """Read what is said of a file: anything unknown is refused, since it may have been meant to protect it."""
    found: Any = None
    with contextlib.suppress(ValueError):
        found = _SIDECARS[path.suffix](path.read_text(encoding="utf-8"))
    if not isinstance(found, dict):
        raise ValueError(f"{path.name} can't be read")
    unknown = set(found) - {*_WORDS, "description"}
    if unknown:
        raise ValueError(f"{path.name} says {sorted(unknown)[0]!r}; it takes tags, description and allowed_users")
    for name in _WORDS:
        words = found.get(name, [])
        if not isinstance(words, list) or not all(isinstance(word, str) for word in words):
            raise ValueError(f"{name} in {path.name} is not a list of words")
    if not isinstance(found.get("description", ""), str):
        raise ValueError(f"the description in {path.name} is not a text")
    return found
