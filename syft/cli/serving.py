"""Shared code of commands that run servers: logging, signals, and the ready file."""

from __future__ import annotations

import contextlib
import dataclasses
import json
import logging
import signal
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import typer

from syft._suggestions import did_you_mean
from syft.cli.options import size
from syft.cli.output import fail, give

if TYPE_CHECKING:
    from syft.grid.server.settings import ServerSettings

LEVELS = ("debug", "info", "warning", "error")
OWNER_TOKEN = "owner.token"  # noqa: S105  (the name of a file)
_OWNER_SECONDS = 90 * 86400.0
_POLL = 0.5
# Settings that are written as sizes: 500M, 4G.
_SIZES = {
    "max_user_bytes",
    "max_bytes",
    "max_message_bytes",
    "max_in_flight_bytes",
    "max_user_in_flight_bytes",
    "max_memory",
    "max_process_memory",
}
_SIGNALS = (signal.SIGINT, signal.SIGTERM)


def check_level(level: str) -> None:
    """Refuse an unknown log level."""
    if level not in LEVELS:
        hint = did_you_mean(level, LEVELS)
        raise typer.BadParameter(f"the log level must be one of {', '.join(LEVELS)}, got {level!r:.40}.{hint}")


S = TypeVar("S", bound="ServerSettings")


def settings_of(kind: type[S], given: dict[str, Any]) -> S:
    """Return the settings of a server from the parameters of its command, which have the names of the fields."""
    fields = {field.name: given[field.name] for field in dataclasses.fields(kind) if field.name in given}
    for name in _SIZES & fields.keys():
        if fields[name] is not None:
            fields[name] = size(fields[name])
    if fields["host"] == "localhost":
        fields["host"] = "127.0.0.1"
    return kind(**fields)


def start_log(level: str) -> None:
    """Log events to standard error: connections and refusals, never values."""
    logging.basicConfig(level=logging.WARNING, format="%(asctime)s %(levelname)s %(name)s: %(message)s")
    logging.getLogger("syft").setLevel(level.upper())


class Stopping(threading.Event):
    """Set when the server has to stop. If set before serving starts, startup aborts."""

    is_serving = False

    def hear(self, number: int, frame: object = None) -> None:
        """Handle a signal."""
        self.set()  # even if the exception raised here is swallowed
        if not self.is_serving:
            fail("The server was stopped before it had started.", code=128 + number)


@contextlib.contextmanager
def told_to_stop() -> Iterator[Stopping]:
    """Yield an event that is set by Ctrl-C or SIGTERM; a second signal ends the process at once."""
    stopping = Stopping()
    before = {number: signal.signal(number, stopping.hear) for number in _SIGNALS}
    try:
        yield stopping
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def wait_for(stopping: threading.Event, server: Any) -> None:
    """Wait until the server has to stop."""
    while not stopping.wait(_POLL):
        if not server.is_serving:
            fail("The server has ended; its log says why.")


@contextlib.contextmanager
def announced(facts: dict[str, Any], ready_file: Path | None, as_json: bool) -> Iterator[None]:
    """Publish a server's address for scripts while it runs."""
    from syft.grid.private_files import replace_file

    if ready_file is not None:
        replace_file(ready_file, json.dumps(facts).encode())
    if as_json:
        give(facts)
    try:
        yield
    finally:
        if ready_file is not None:
            ready_file.unlink(missing_ok=True)


def owner_token(identity: Any, owner: str, folder: Path) -> Path:
    """Return the file of the owner's token, written at the first start and when the token is no longer valid."""
    from syft.cli.api_client import owner_name, read_token
    from syft.exceptions import AuthenticationError
    from syft.grid.private_files import replace_file

    path = folder / OWNER_TOKEN
    if path.exists():
        with contextlib.suppress(AuthenticationError):
            identity.tokens.read(read_token(path))
            return path
    token = identity.tokens.issue(owner_name(owner), "owner", _OWNER_SECONDS)
    replace_file(path, f"{token}\n".encode())
    return path
