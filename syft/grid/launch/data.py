"""Data of a launched node: values of a notebook as files of a data folder, which the node publishes at its start."""

from __future__ import annotations

import dataclasses
import difflib
import hashlib
import json
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch

from syft.core.tensor import AbstractTensor
from syft.exceptions import SyftError
from syft.federated.dataset import BaseDataset
from syft.grid.identity.names import user_name
from syft.grid.storage.csv_reader import described_columns
from syft.grid.storage.folder import read_settings, sidecar_of
from syft.grid.storage.readers import READERS

_NAME = re.compile(r"\w[\w.-]{0,99}")
_OPTIONS = ("tags", "description", "allowed_users", "epsilon", "delta")
_KINDS = "a tensor, a numpy array, a pandas DataFrame or Series, a sy.BaseDataset, or the path of a file or folder"
_NUMBERS = "biuf"


@dataclasses.dataclass(slots=True)
class DataOptions:
    """The metadata, readers and budget of a data set.

    Attributes:
        tags: more tags by which users find it.
        description: a public text about it.
        allowed_users: the users who may read it; None: nobody.
        epsilon: the privacy budget of all users together; None: queries with noise are refused.
        delta: the delta of this budget.
    """

    tags: list[str] = dataclasses.field(default_factory=list)
    description: str | None = None
    allowed_users: list[str] | None = None
    epsilon: float | None = None
    delta: float = 0.0

    @classmethod
    def of(cls, name: str, given: Mapping[str, Any]) -> DataOptions:
        """Check the options of a data set."""
        for option in given:
            if option not in _OPTIONS:
                close = difflib.get_close_matches(str(option), _OPTIONS, n=1)
                hint = f"Did you mean {close[0]!r}?" if close else f"Options are: {', '.join(_OPTIONS)}."
                raise SyftError(f"The data {name!r} has the unknown option {option!r}. {hint}")
        found = cls(**given)
        for option in ("tags", "allowed_users"):
            texts = getattr(found, option)
            if isinstance(texts, str):
                setattr(found, option, [texts])
            elif texts is not None and not all(isinstance(text, str) for text in texts):
                raise SyftError(f"The {option} of the data {name!r} must be a list of texts, got {texts!r}.")
        found.tags = [tag if tag.startswith("#") else f"#{tag}" for tag in found.tags]
        if found.allowed_users is not None:
            found.allowed_users = [user_name(user) for user in found.allowed_users]
        return found

    def sidecar(self) -> dict[str, Any]:
        """Return the contents of the file next to the data file."""
        known = {"tags": list(self.tags), "description": self.description, "allowed_users": self.allowed_users}
        return {key: value for key, value in known.items() if value is not None}


@dataclasses.dataclass(slots=True)
class Handover:
    """Data that is written for a node.

    Attributes:
        folder: its files.
        options: the options of each data set, by name.
        datasets: data sets that the owner's client adds when the node runs, by name.
        digest: a hash of all of it; equal data has equal hashes.
    """

    folder: Path
    options: dict[str, DataOptions] = dataclasses.field(default_factory=dict)
    datasets: dict[str, BaseDataset] = dataclasses.field(default_factory=dict)
    digest: str = ""


def hand_over(data: object, folder: Path) -> Handover:
    """Write data to a new folder.

    Args:
        data: a dictionary from names to values, or to tuples of a value and its options; the path of a folder; None.
        folder: the folder.

    Raises:
        SyftError: a name or a value is not supported.
    """
    folder.mkdir(mode=0o700)
    made = Handover(folder)
    if isinstance(data, str | Path):
        _link_all(_existing(data, "data"), folder, None)
    elif isinstance(data, Mapping):
        for name, given in data.items():
            _write_one(made, name, given)
    elif data is not None:
        raise SyftError(
            f"launch(data=...) needs a dictionary, such as {{'ages': tensor}}, or the path of a folder, got "
            f"{type(data).__name__}."
        )
    made.digest = _digest(made)
    return made


def _write_one(made: Handover, name: object, given: object) -> None:
    if not isinstance(name, str) or _NAME.fullmatch(name) is None:
        raise SyftError(f"{name!r} is no name of a data set. Use letters, digits, ., - and _, such as 'ages'.")
    value, settings = given if isinstance(given, tuple) and len(given) == 2 else (given, {})
    if isinstance(given, tuple) and (len(given) != 2 or not isinstance(settings, Mapping)):
        raise SyftError(
            f"The data {name!r} is a tuple, which must be a value and a dictionary of options: "
            f"(tensor, {{'description': '...'}})."
        )
    options = made.options[name] = DataOptions.of(name, settings)
    if isinstance(value, BaseDataset):
        if options.tags or options.description is not None:
            raise SyftError(f"The data set {name!r} has no tags and no description; users name it by its key {name!r}.")
        made.datasets[name] = value
        return
    if isinstance(value, str | Path):
        _link(name, Path(value), made.folder, options)
        return
    file, columns = _write_value(name, value, made.folder)
    if options.description is None:
        options.description = columns
    _describe(file, options.sidecar())


def _write_value(name: str, value: Any, folder: Path) -> tuple[Path, str | None]:
    """Write numbers to a file; returns the file, and the names of their columns as a description."""
    if isinstance(value, torch.Tensor):
        if isinstance(getattr(value, "child", None), AbstractTensor):
            raise SyftError(f"The data {name!r} is not a plain tensor. Fetch its values first: x = x.get()")
        file = folder / f"{name}.pt"
        torch.save(value.detach().cpu().clone().contiguous(), file)
        return file, None
    array, about = (value, None) if isinstance(value, np.ndarray) else _of_table(name, value)
    if array.dtype.kind not in f"{_NUMBERS}c":
        raise SyftError(f"The data {name!r} holds values of type {array.dtype}, not numbers. Encode them as numbers.")
    file = folder / f"{name}.npy"
    np.save(file, array, allow_pickle=False)
    return file, about


def _of_table(name: str, value: Any) -> tuple[np.ndarray[Any, Any], str | None]:
    """Return the numbers of a pandas object and the names of its columns: int64, or float64 for all columns."""
    kind = f"{type(value).__module__}.{type(value).__qualname__}"
    if not (kind.startswith("pandas.") and kind.endswith((".DataFrame", ".Series"))):
        raise SyftError(f"The data {name!r} is of type {type(value).__name__}. It can be {_KINDS}.")
    frame = value.to_frame() if kind.endswith(".Series") else value
    other = [str(column) for column, dtype in frame.dtypes.items() if getattr(dtype, "kind", "O") not in _NUMBERS]
    if other:
        raise SyftError(
            f"The columns {', '.join(other[:5])} of the data {name!r} hold no numbers. Leave them out, or encode them."
        )
    is_whole = all(dtype.kind in "biu" for dtype in frame.dtypes) and not frame.isna().to_numpy().any()
    array = value.to_numpy(dtype="int64" if is_whole else "float64", **({} if is_whole else {"na_value": np.nan}))
    return array, described_columns([str(column) for column in frame.columns]) if array.ndim == 2 else None


def _existing(path: str | Path, name: str) -> Path:
    found = Path(path).expanduser().absolute()
    if not found.is_dir():
        raise SyftError(f"launch({name}=...): the data folder {str(path)!r} does not exist or is not a folder.")
    return found


def _link(name: str, path: Path, folder: Path, options: DataOptions) -> None:
    """Link a file under a name, or all files of a folder with the name as another tag."""
    found = path.expanduser().absolute()
    if found.is_dir():
        _link_all(found, folder, dataclasses.replace(options, tags=[f"#{name}", *options.tags]))
        return
    if not found.is_file():
        raise SyftError(f"The data {name!r}: there is no file or folder {str(path)!r}.")
    if found.suffix.lower() not in READERS:
        raise SyftError(
            f"The data {name!r}: {found.name} has an unsupported file type. Supported types: "
            f"{', '.join(sorted(READERS))}."
        )
    _link_file(found, folder / f"{name}{found.suffix}", options)


def _link_all(source: Path, folder: Path, options: DataOptions | None) -> None:
    for path in sorted(source.iterdir()):
        if path.is_file() and path.suffix.lower() in READERS and not path.name.startswith("."):
            _link_file(path, folder / path.name, options)


def _link_file(source: Path, target: Path, options: DataOptions | None) -> None:
    """Link a file, and write its sidecar: the options, after those of the file's own sidecar."""
    if target.exists():
        raise SyftError(f"Two files of the data have the name {target.name!r}. Rename one of them.")
    target.symlink_to(source)
    try:
        own = sidecar_of(source)
        settings = {} if own is None else read_settings(own)
    except ValueError as error:
        raise SyftError(f"The file {source} can't be published: {error}.") from None
    more = {} if options is None else options.sidecar()
    more["tags"] = [*settings.get("tags", []), *more.get("tags", [])]
    _describe(target, {**settings, **more})


def _describe(file: Path, sidecar: Mapping[str, Any]) -> None:
    """Write the file that describes a data file."""
    file.with_name(f"{file.name}.json").write_text(json.dumps(sidecar))


def _digest(made: Handover) -> str:
    """Return a hash of the data: of the contents of copies, and of path, size and time of links."""
    found = hashlib.sha256()
    for path in sorted(made.folder.iterdir()):
        facts = path.stat()
        link = f"{path.resolve()} {facts.st_size} {facts.st_mtime_ns}".encode() if path.is_symlink() else None
        found.update(f"{path.name}\0".encode() + hashlib.sha256(path.read_bytes() if link is None else link).digest())
    for name, dataset in sorted(made.datasets.items()):
        for part in (dataset.data, dataset.targets):
            found.update(f"{name} {part.dtype} {tuple(part.shape)}\0".encode() + _bytes_of(part))
    found.update(repr(sorted(made.options.items(), key=lambda row: row[0])).encode())
    return found.hexdigest()


def _bytes_of(part: torch.Tensor) -> bytes:
    return part.detach().cpu().contiguous().flatten().view(torch.uint8).numpy().tobytes()


def budgets_of(made: Handover) -> Sequence[tuple[str, float, float]]:
    """Return the budgets to set: the id or tag of a data set, epsilon and delta."""
    return [
        (f"dataset:{name}" if name in made.datasets else f"#{name}", options.epsilon, options.delta)
        for name, options in made.options.items()
        if options.epsilon is not None
    ]
