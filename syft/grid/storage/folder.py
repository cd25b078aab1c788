"""Publish the files of a data folder; a changed file is published again.

`patients.csv` gets the tag `#patients`. A sidecar `patients.json` or `patients.toml` may set `tags`, `description` and
`allowed_users`. A file that can't be read, or whose readers are unclear, is skipped.
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
from syft.grid.storage.csv_reader import UnreadableFileError
from syft.grid.storage.readers import READERS, check_room, read_file

if TYPE_CHECKING:
    from syft.workers.base import BaseWorker

logger = logging.getLogger("syft.grid")
_SIDECARS = {".json": json.loads, ".toml": tomllib.loads}
_LIST_KEYS = ("tags", "allowed_users")
_MAX_LISTED = 20
# Errors whose texts are safe to log.
_SAFE_ERRORS = (UnreadableFileError, AccountError, QuotaExceededError)


@dataclasses.dataclass(slots=True)
class Loaded:
    """The outcome of loading a folder.

    Attributes:
        new: the ids of newly published objects.
        kept: the ids of unchanged objects.
        skipped: the reasons of skipped files, by name.
        missing: the ids of objects whose files were removed; they stay until they are deleted.
    """

    new: list[ObjectId] = dataclasses.field(default_factory=list)
    kept: list[ObjectId] = dataclasses.field(default_factory=list)
    skipped: dict[str, str] = dataclasses.field(default_factory=dict)
    missing: list[ObjectId] = dataclasses.field(default_factory=list)


def load_folder(worker: BaseWorker, folder: str | Path) -> Loaded:
    """Publish the new and changed files of a folder.

    Args:
        worker: the worker of a node, with an object manager.
        folder: the folder.

    Raises:
        StorageError: the folder can't be read, or the disk is full.
    """
    root = Path(folder)
    if not root.is_dir():
        raise StorageError(f"The data folder {root} does not exist or is not a folder.")
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
        except Exception as error:  # a bad file must not keep the node from starting
            is_safe = isinstance(error, _SAFE_ERRORS) or type(error) is ValueError
            why = str(error).partition("\n")[0][:300].rstrip(".") if is_safe else "it can't be read"
            report.skipped[path.name] = why
            logger.warning("Skipped the file %s of the data folder: %s.", path.name, why)
    report.missing = list(known.values())
    if report.missing:
        logger.warning(
            "%d objects stay published although their files were removed.",
            len(report.missing),
        )
    return report


def _note_others(files: list[Path]) -> None:
    """Log the files that are not data files, in case one of them was meant to be."""
    known = {*READERS, *_SIDECARS}
    others = [path.name + ("" if path.is_file() else "/") for path in files if path.suffix.lower() not in known]
    if others:
        more = f" and {len(others) - _MAX_LISTED} more" if len(others) > _MAX_LISTED else ""
        names = printable(", ".join(others[:_MAX_LISTED]))
        kinds = ", ".join(sorted(READERS))
        logger.info("Ignored in the data folder: %s%s. Supported file types: %s.", names, more, kinds)


def _load_file(admin: ObjectAdmin, path: Path, known: dict[str, ObjectId], report: Loaded) -> None:
    sidecar = sidecar_of(path)
    earlier = {origin: obj_id for origin, obj_id in known.items() if origin.startswith(f"file:{path.name}:")}
    room = admin.room(earlier.values())
    check_room(path, room)  # before hashing all of it, which is slow
    mark = f"{_digest(path)}{'' if sidecar is None else _digest(sidecar)}"
    begin = f"file:{path.name}:"
    same = [origin for origin in earlier if origin.startswith(f"{begin}{mark}:")]
    if same and len(same) == len(earlier):
        report.kept += [known.pop(origin) for origin in same]
        return
    settings = {} if sidecar is None else read_settings(sidecar)
    tensors, about = read_file(path, room)
    description = settings.get("description", about)
    names = {origin.split(":", 3)[3]: (origin, obj_id) for origin, obj_id in earlier.items()}
    for name, tensor in tensors.items():
        # A changed file keeps the ids of its tensors, so that existing pointers stay valid.
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
    """Return a contiguous copy of a tensor, detached from its graph and its storage."""
    return tensor.detach().clone().contiguous()


def _digest(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _candidates(path: Path) -> Iterator[Path]:
    for ending in _SIDECARS:
        yield path.with_suffix(ending)
        yield path.with_name(path.name + ending)


def sidecar_of(path: Path) -> Path | None:
    """Return the file next to a data file that describes it, or None."""
    found = [candidate for candidate in _candidates(path) if candidate.is_file()]
    if len(found) > 1:
        raise ValueError(f"{found[0].name} and {found[1].name} both describe it")
    return found[0] if found else None


def read_settings(path: Path) -> dict[str, Any]:
    """Read a sidecar file. Unknown keys are refused, since they may have been meant to restrict access."""
    found: Any = None
    with contextlib.suppress(ValueError):
        found = _SIDECARS[path.suffix](path.read_text(encoding="utf-8"))
    if not isinstance(found, dict):
        raise ValueError(f"{path.name} can't be read")
    unknown = set(found) - {*_LIST_KEYS, "description"}
    if unknown:
        raise ValueError(
            f"{path.name} has the unknown key {sorted(unknown)[0]!r}; use tags, description, allowed_users"
        )
    for name in _LIST_KEYS:
        values = found.get(name, [])
        if not isinstance(values, list) or not all(isinstance(value, str) for value in values):
            raise ValueError(f"{name} in {path.name} must be a list of texts")
    if not isinstance(found.get("description", ""), str):
        raise ValueError(f"the description in {path.name} must be a text")
    return found
