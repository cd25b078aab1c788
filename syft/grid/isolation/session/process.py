"""The session process: serves the requests of one user, with calls to the supervisor for everything else."""

from __future__ import annotations

import socket
import threading
from collections.abc import Callable
from typing import Any

import torch

from syft.config import configure
from syft.core.byte_budget import ByteBudget
from syft.exceptions import ByteBudgetError
from syft.grid.isolation.children.services import Services
from syft.grid.isolation.children.worker import (
    NO_LIMIT,
    SessionObjectManager,
    SessionWorker,
    SupervisedStorage,
)
from syft.grid.isolation.processes.channel import Channel, FrameKind
from syft.grid.isolation.processes.progress import ProgressPage
from syft.grid.isolation.session import commands
from syft.grid.isolation.session import models as models  # registers handlers
from syft.grid.isolation.session.party_routes import hold_model, party_routes
from syft.grid.isolation.session.peering import SupervisedDelegations
from syft.grid.isolation.session.routes import routes
from syft.grid.isolation.session.vault_calls import VaultCalls
from syft.grid.storage.quotas import Quota
from syft.hook.torch_hook import TorchHook
from syft.workers.execution.router import put_back
from syft.workers.execution.session import Session
from syft.workers.transport.framing import RefusedBody
from syft.workers.transport.pipelined import pass_on_releases
from syft.workers.transport.request_codec import let_go, respond

_MAX_ORDER = 1 << 16


class SessionProcess:
    """A session process."""

    def __init__(self, services: Services, progress: ProgressPage, settings: dict[str, Any]) -> None:
        configure(stream_timeout=settings["stream_timeout"], heartbeat=settings["heartbeat"])
        self._services = services
        # The supervisor bounds the bytes that the user sends; this bounds the bytes after decompression.
        self.budget = ByteBudget(settings["max_user_in_flight_bytes"], name="your session")
        self.worker = SessionWorker(settings["id"], services, settings["trust_script_modules"])
        self.worker.routes = party_routes() if settings["purpose"] else routes()
        TorchHook(torch, local_worker=self.worker)
        self.worker.vault = VaultCalls(self.worker, services)
        self.worker.delegations = SupervisedDelegations(self.worker, services, settings)
        self.worker.progress = progress
        self.worker.requires_secure = settings["requires_secure"]
        commands.install()
        quota = Quota(settings["max_user_objects"], settings["max_user_bytes"])
        SessionObjectManager(self.worker, storage=SupervisedStorage(services), quota=quota, node_quota=quota)
        self._orders: dict[str, Callable[[tuple[Any, ...], list[int]], None]] = {
            "open": self._open,
            "forget": lambda args, fds: self.worker.forget(*args),
            "peer": lambda args, fds: self.worker.delegations.serve(args[0], fds[0]),
            "model": lambda args, fds: hold_model(self.worker, args[0], fds[0]),
        }

    def run(self, control: Channel) -> None:
        """Run orders until the supervisor closes the channel."""
        while (frame := control.receive()) is not None:
            name, args = frame.header
            self._orders[name](args, frame.fds)

    def _open(self, facts: tuple[Any, ...], fds: list[int]) -> None:
        user, role, limit = facts
        session = self.worker.open_session(user)
        session.role, session.may_wait, session.max_message_bytes = role, True, limit
        session.sends_tracebacks = False
        session.byte_budget = self.budget
        channel = Channel(socket.socket(fileno=fds[0]), (limit or 1 << 30) + (1 << 20))
        threading.Thread(target=self._serve, args=(session, channel), daemon=True).start()

    def _serve(self, session: Session, channel: Channel) -> None:
        leaving: dict[int, Any] = {}
        while (frame := channel.receive()) is not None:
            if frame.kind is FrameKind.REQUEST:
                number, refused = frame.header
                request = frame.body if refused is None else RefusedBody(ByteBudgetError(refused))
                self._respond(session, channel, leaving, number, request)
            elif frame.kind is FrameKind.ORDER:
                name, number = frame.header
                (let_go if name == "seen" else put_back)(leaving.pop(number, None))
        for left in leaving.values():
            put_back(left)
        session.close()

    def _respond(
        self, session: Session, channel: Channel, leaving: dict[int, Any], number: int, request: bytearray
    ) -> None:
        self.worker.progress.write("")
        # The supervisor reads this channel only until it has the answer.
        with self._services.over(channel):
            written, left = respond(self.worker, session, request)
        if left is not None:
            leaving[number] = left
        channel.send(FrameKind.ANSWER, (left is not None, self.worker.vault.pop_moved()), written)
        pass_on_releases(self.worker)


def main(fds: list[int], settings: dict[str, Any]) -> None:
    """Serve one user until the supervisor closes the control channel."""
    control, shared, page = fds
    services = Services(Channel(socket.socket(fileno=shared), NO_LIMIT))
    process = SessionProcess(services, ProgressPage(page), settings)
    process.run(Channel(socket.socket(fileno=control), _MAX_ORDER))


def prepare() -> None:
    """Load and initialize the modules of sessions in the template, so that all sessions share them."""
    from syft.workers.access.fake_execution import warm_up

    warm_up()
