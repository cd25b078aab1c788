"""The entry point of program processes."""

from __future__ import annotations

import socket
from typing import Any

from syft.grid.isolation.children.worker import NO_LIMIT, run_to_exit
from syft.grid.isolation.processes.channel import Channel
from syft.grid.isolation.processes.progress import ProgressPage
from syft.grid.isolation.programs import jobs as jobs  # registers jobs
from syft.grid.isolation.programs.process import ProgramProcess


def main(fds: list[int], settings: dict[str, Any]) -> None:
    """Serve the supervisor until it closes the channel."""
    channel, page = fds

    def run() -> None:
        ProgramProcess(Channel(socket.socket(fileno=channel), NO_LIMIT), ProgressPage(page), settings).run()

    run_to_exit(run, "program")


def prepare() -> None:
    """Load the modules of programs in the template."""
    import syft.dp.queries.handler  # noqa: F401
