"""What all commands that serve have in common: they run until told to stop, and say where they are."""

from __future__ import annotations

import contextlib
import json
import logging
import signal
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import typer

from syft.cli.output import fail, give

LEVELS = ("debug", "info", "warning", "error")
OWNER_TOKEN = "owner.token"  # noqa: S105  (the name of a file)
_OWNER_SECONDS = 90 * 86400.0
_POLL = 0.5
_SIGNALS = (signal.SIGINT, signal.SIGTERM)


def check_level(level: str) -> None:
    """Refuse what is no level of a log."""
    if level not in LEVELS:
        raise typer.BadParameter(f"log level is one of {', '.join(LEVELS)}")


def start_log(level: str) -> None:
    """Write what happens to standard error: who came and why somebody was refused; never values."""
    logging.basicConfig(level=logging.WARNING, format="%(asctime)s %(levelname)s %(name)s: %(message)s")
    logging.getLogger("syft").setLevel(level.upper())


class Stopping(threading.Event):
    """Whether it is time to stop. Who is told so before it serves breaks off."""

    is_serving = False

    def hear(self, number: int, frame: object = None) -> None:
        """Take note of a signal."""
        self.set()  # whatever becomes of what is raised here
        if not self.is_serving:
            fail("It was stopped before it had started.", code=128 + number)


@contextlib.contextmanager
def told_to_stop() -> Iterator[Stopping]:
    """Give an event that is set by Ctrl-C or SIGTERM; who can't wait may say so again."""
    stopping = Stopping()
    before = {number: signal.signal(number, stopping.hear) for number in _SIGNALS}
    try:
        yield stopping
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def wait_for(stopping: threading.Event, server: Any) -> None:
    """Wait until it is time to stop."""
    while not stopping.wait(_POLL):
        if not server.is_serving:
            fail("The server has ended; its log says why.")


@contextlib.contextmanager
def announced(facts: dict[str, Any], ready_file: Path | None, as_json: bool) -> Iterator[None]:
    """Tell scripts where a server is, for as long as it is there.

    Args:
        facts: what they are told.
        ready_file: the file to write, if any.
        as_json: whether one line of JSON is printed.
    """
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
    """Return the file of a token for the owner; it is written at the first start, and when it is not good any more."""
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
