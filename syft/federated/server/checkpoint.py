"""Checkpoint: the state after the last completed round, in one file that is written atomically; identity of a run."""

from __future__ import annotations

import contextlib
import hashlib
import os
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import torch

from syft.exceptions import FederatedError, SerdeError
from syft.federated.server.model import SharedModel
from syft.federated.server.settings import RunSettings
from syft.federated.strategies.strategy import Strategy
from syft.serde import deserialize, serialize

FILE, LOCK = "checkpoint.syft", "lock"
FORMAT = 1
_DIGEST = 32
# Property of a run -> its name in error texts, if different.
_CALLED = {"layout": "model", "settings": "setting of its strategy", "secure": "secure setting"}


class Checkpoint:
    """The file of a run in a folder."""

    def __init__(self, folder: str | os.PathLike[str]) -> None:
        self.folder = Path(folder)
        self.path = self.folder / FILE

    @contextlib.contextmanager
    def held(self) -> Iterator[None]:
        """Lock the folder against other writers."""
        try:
            self.folder.mkdir(parents=True, exist_ok=True)
            file = open(self.folder / LOCK, "a")  # noqa: PTH123  (held open)
        except OSError as error:
            raise FederatedError(f"The checkpoint can't be written to {self.folder}: {error.strerror}.") from None
        with file:
            _lock(file, self.folder)
            yield

    def load(self) -> dict[str, Any] | None:
        """Return the last state written; None if there is none. Raises for a damaged file."""
        try:
            content = self.path.read_bytes()
        except FileNotFoundError:
            return None
        digest, body = content[:_DIGEST], content[_DIGEST:]
        if hashlib.blake2b(body, digest_size=_DIGEST).digest() != digest:
            raise FederatedError(f"The checkpoint {self.path} is damaged. Remove it to start over.")
        try:
            found = deserialize(body, None)
        except SerdeError as error:
            raise FederatedError(f"The checkpoint {self.path} can't be read: {error}") from None
        if type(found) is not dict or found.get("format") != FORMAT:
            raise FederatedError(f"The checkpoint {self.path} is from another release. Remove it to start over.")
        return found

    def save(self, contents: dict[str, Any]) -> None:
        """Write the state atomically: after a crash, the file has the previous or the new state."""
        body = serialize({"format": FORMAT, **contents}, None)
        fresh = self.folder / f"{FILE}.new"
        with open(fresh, "wb") as file:  # noqa: PTH123  (its descriptor is needed)
            file.write(hashlib.blake2b(body, digest_size=_DIGEST).digest())
            file.write(body)
            file.flush()
            os.fsync(file.fileno())
        fresh.replace(self.path)
        with contextlib.suppress(OSError):  # some systems can't open folders
            folder = os.open(self.folder, os.O_RDONLY)
            try:
                os.fsync(folder)
            finally:
                os.close(folder)


def run_identity(
    model: SharedModel, strategy: Strategy, settings: RunSettings, is_secure: bool, privacies: Mapping[str, Any]
) -> dict[str, Any]:
    """Return the properties that distinguish this run from another one."""
    plans = (model.plan.code + model.loss.code).encode()
    return {
        "strategy": strategy.name or type(strategy).__name__,
        "settings": strategy.settings(),
        "layout": model.layout.fingerprint(),
        "model": hashlib.blake2b(plans, digest_size=16).hexdigest(),
        "training": settings.payload(),
        "secure": is_secure,
        **{name: None if privacy is None else privacy.settings() for name, privacy in privacies.items()},
    }


def client_seed(seed: int, round: int, attempt: int, name: str) -> int:
    """Return a number below 2^63 that is specific to a client in an attempt at a round."""
    digest = hashlib.blake2b(f"{seed}:{round}:{attempt}:{name}".encode(), digest_size=8).digest()
    return int.from_bytes(digest, "little") >> 1


def check_same(folder: object, mine: dict[str, Any], theirs: dict[str, Any]) -> None:
    """Raise if a checkpoint belongs to another run, by the results of `run_identity`."""
    for name, value in mine.items():
        if _plain(theirs.get(name)) != _plain(value):
            raise FederatedError(
                f"The checkpoint in {folder} belongs to a run with another {_CALLED.get(name, name)}. "
                "Choose another folder, or remove it to start over."
            )


def _plain(value: object) -> Any:
    """Return nested values with lists for tuples, as read from a file."""
    if isinstance(value, dict):
        return {key: _plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(item) for item in value]
    if isinstance(value, torch.Tensor):
        return value.tolist()
    return value


def _lock(file: Any, folder: Path) -> None:
    try:
        import fcntl
    except ImportError:  # not available on this system: no locking
        return
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        raise FederatedError(f"Another run is writing to {folder}. Choose another checkpoint folder.") from None
