"""The entry point of program processes."""

from __future__ import annotations

import logging
import os
import socket
from typing import Any

from syft.grid.isolation.processes.channel import Channel
from syft.grid.isolation.processes.progress import ProgressPage
from syft.grid.isolation.programs import jobs as jobs  # fills JOBS
from syft.grid.isolation.programs.process import NO_LIMIT, ProgramProcess

logger = logging.getLogger("syft.node")


def main(fds: list[int], settings: dict[str, Any]) -> None:
    """Serve the supervisor until it closes the channel."""
    channel, page = fds
    code = 1
    try:
        ProgramProcess(Channel(socket.socket(fileno=channel), NO_LIMIT), ProgressPage(page), settings).run()
        code = 0
    except Exception:
        logger.exception("A program process ends")
    finally:
        os._exit(code)


def prepare() -> None:
    """Load in the template what programs need."""
    import syft.dp.queries.handler  # noqa: F401
