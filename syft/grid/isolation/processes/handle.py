"""ProcessHandle: the supervisor's side of a confined process and its progress page."""

from __future__ import annotations

import contextlib
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from syft.grid.isolation.processes.child import ConfinedProcess
from syft.grid.isolation.processes.progress import ProgressPage

if TYPE_CHECKING:
    from syft.grid.isolation.confinement.limits import Limits
    from syft.grid.isolation.processes.template import Template


class ProcessHandle:
    """A confined process with a progress page, which it gets as its last descriptor."""

    child: ConfinedProcess

    def __init__(self) -> None:
        self.progress = ProgressPage()

    def start(
        self, template: Template, role: str, fds: Sequence[int], settings: Mapping[str, Any], limits: Limits
    ) -> None:
        """Fork the process; see `Template.fork`."""
        self.child = template.fork(role, [*fds, self.progress.fileno()], settings, limits)
        self.progress.close_descriptor()

    def end_reason(self) -> str:
        """Return how the process ended, after a short wait for its end, and the call that it ran."""
        with contextlib.suppress(TimeoutError):
            self.child.wait(2.0)
        call = self.progress.read()
        return f"{self.child.end_reason()}{f', while it ran {call}' if call else ''}"
