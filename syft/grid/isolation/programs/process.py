"""The program process: runs jobs of the library on data sets from the supervisor, and sends outputs to it only."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable
from typing import Any

import torch

from syft.core.byte_budget import ByteBudget, spending
from syft.core.id_provider import ObjectId
from syft.exceptions import SerdeError, SyftError
from syft.federated.client.secure_aggregation.client_policy import Identity, require_secure
from syft.grid.isolation.children.services import Services
from syft.grid.isolation.children.worker import load_object
from syft.grid.isolation.processes.channel import Channel, Frame, FrameKind
from syft.grid.isolation.processes.progress import ProgressPage
from syft.grid.isolation.records.replay import ConfinedWorker
from syft.hook.torch_hook import TorchHook
from syft.workers.access.policy import Release

logger = logging.getLogger("syft.node")
# Name of a job -> its function(process, body, *args) -> bytes.
JOBS: dict[str, Callable[..., bytes]] = {}


def job(name: str) -> Callable[[Callable[..., bytes]], Callable[..., bytes]]:
    """Register a job."""

    def register(function: Callable[..., bytes]) -> Callable[..., bytes]:
        JOBS[name] = function
        return function

    return register


class PaidPolicy:
    """Releases results that are charged to the owner's budget, and all results if the user may read all data.

    Args:
        services: the supervisor.
        step_seconds: the planned duration of one step of private training; None: measured with synthetic samples.
    """

    def __init__(self, services: Services, step_seconds: float | None) -> None:
        self._services = services
        self.step_seconds = step_seconds
        # Whether the user may read all data sets of this process.
        self.is_open = False

    def allows(self, release: Release) -> bool:
        """Return whether results may be released: only if all data is readable."""
        return self.is_open

    def charge_program(self, event: dict[str, Any], what: str) -> None:
        """Charge the budgets of the data sets that the user may not read, at the supervisor."""
        if not self.is_open:
            self._services.call("charge", event, what)


class ProgramProcess:
    """A program process."""

    def __init__(self, channel: Channel, progress: ProgressPage, settings: dict[str, Any]) -> None:
        self._channel = channel
        self._progress = progress
        self._budget = ByteBudget(settings["max_user_in_flight_bytes"], name="a program")
        self.worker = ConfinedWorker(settings["id"], settings["trust_script_modules"])
        self.worker.policy = PaidPolicy(Services(channel), settings["step_seconds"])
        TorchHook(torch, local_worker=self.worker)
        self.session = self.worker.open_session(settings["user"])
        # Data sets by id.
        self.data: dict[ObjectId, Any] = {}
        if settings["guard"] is not None:
            min_clients, secret, known, threshold = settings["guard"]
            identity = None if secret is None else Identity(bytes.fromhex(secret))
            require_secure(self.worker, min_clients, identity, [bytes.fromhex(one) for one in known], threshold)

    def run(self) -> None:
        """Run orders and jobs until the supervisor closes the channel."""
        while (frame := self._channel.receive()) is not None:
            if frame.kind is FrameKind.ORDER:
                self._load(frame)
            elif frame.kind is FrameKind.REQUEST:
                self._work(frame)

    def _load(self, frame: Frame) -> None:
        obj_id, obj = load_object(self.worker, frame)
        self.data[obj_id] = obj

    def note_readable(self, ids: Iterable[ObjectId]) -> None:
        """Record the data sets that the user may read: nothing is charged if those are all."""
        policy = self.worker.policy
        if isinstance(policy, PaidPolicy):
            policy.is_open = self.data.keys() <= set(ids)

    def _work(self, frame: Frame) -> None:
        name, args = frame.header
        self._progress.write(name)
        try:
            with spending(self._budget):
                if name not in JOBS:
                    raise SerdeError(f"There is no program {name!r}.")
                output = JOBS[name](self, frame.body, *args)
        except SyftError as error:
            self._channel.send(FrameKind.FAILED, (type(error).__name__, str(error)))
        except Exception as error:
            # The text of any other error may contain values.
            logger.debug("A program failed: %s", type(error).__name__)
            self._channel.send(FrameKind.FAILED, ("SyftError", f"The program failed with a {type(error).__name__}."))
        else:
            self._channel.send(FrameKind.ANSWER, None, output)
        self._progress.write("")
