"""Supervisor: the node's side of its session processes.

It starts a process for each user, relays requests to it and answers from it, serves what the process asks for, and
ends it alone when it misbehaves. It runs no call of a user and parses no value.
"""

from __future__ import annotations

import contextlib
import dataclasses
import logging
import os
import threading
import time
from collections.abc import Callable
from concurrent.futures import FIRST_COMPLETED, Future, wait
from typing import Any

from syft.core.byte_budget import ByteBudget
from syft.exceptions import QuotaExceededError, SessionEndedError, SyftError
from syft.federated.client.secure_aggregation.client_policy import _guard
from syft.grid.isolation.confinement.limits import Limits
from syft.grid.isolation.processes.channel import Channel, Frame, FrameKind
from syft.grid.isolation.processes.template import IsolationError, Template
from syft.grid.isolation.processes.watchdog import Watchdog
from syft.grid.isolation.supervisor.call_table import Principal, Reply, call
from syft.grid.isolation.supervisor.connection_limits import MAX_NODE_RELAYS, ConnectionLimits
from syft.grid.isolation.supervisor.session_handle import Relay, SessionHandle
from syft.workers.delegation.peer import OutboundPolicy
from syft.workers.execution.session import Session
from syft.workers.transport.framed_pipe import RefusedBody

logger = logging.getLogger("syft.node")
_MAX_ERROR = 4000
# The user, the role and the purpose of a session process.
Key = tuple[Any, str, str]
# Seconds that a process without conversations is kept for its user to come back.
IDLE_SECONDS = 60.0
# Processes of one user that start at once; further ones wait, so that other users need not.
_MAX_STARTING = 2


class Supervisor:
    """Starts and ends the processes of a node, and serves their calls.

    Args:
        node: the node: its worker, store, policy and settings.
        template: the process that all others are forked from.
        limits: what one process may use.
        settings: the node's settings that session processes get: plain values.
        max_body: the largest body of a frame.
        rules: the other nodes that this one connects to.
    """

    def __init__(
        self,
        node: Any,
        template: Template,
        limits: Limits,
        settings: dict[str, Any],
        max_body: int,
        rules: OutboundPolicy,
    ) -> None:
        self.rules = rules
        self.node = node
        self.template = template
        self.limits = limits
        self.max_body = max_body
        self._settings = settings
        self.watchdog = Watchdog()
        # What other nodes show who come for a client: fingerprint -> (process, until when).
        self.expected: dict[bytes, tuple[SessionHandle, float]] = {}
        # The connections with other nodes that this process carries.
        self.relays = ConnectionLimits(MAX_NODE_RELAYS)
        # The processes of federated runs: (user, run, data sets) -> program.
        self.runs: dict[Any, Any] = {}
        self.run_lock = threading.Lock()
        self._processes: dict[Key, SessionHandle] = {}
        # Processes that are being started: all who want one wait for the same.
        self._starting: dict[Key, Future[SessionHandle]] = {}
        # Checks what a party process is for, and prepares it: function(supervisor, process).
        self.party_checks: Callable[[Supervisor, SessionHandle], None] | None = None
        self._lock = threading.RLock()
        # Session and party processes that one user may have at once.
        self.max_user_processes = 16

    def session_of(self, principal: Principal) -> Session:
        """Return a session that stands for a principal where the node's worker is asked."""
        session = Session(self.node.worker, principal.user)
        session.role = principal.role
        return session

    def child_settings(self) -> dict[str, Any]:
        """Return the settings of a child process."""
        return {
            **self._settings,
            "requires_secure": _guard(self.node.worker).required,
            "step_seconds": self.node.policy.step_seconds,
        }

    def budget_of(self, user: Any) -> ByteBudget:
        """Return the bytes that the supervisor may hold on behalf of a user."""
        budget: ByteBudget = self.node.desk.budgets.of(user)
        return budget

    def vault_limits(self) -> Limits:
        """Return the limits of a vault, which maps data sets: these count as address space."""
        mapped = sum(item.size for item in self.node.keeper.items())
        return dataclasses.replace(self.limits, memory=self.limits.memory + mapped)

    def forget_object(self, obj_id: Any) -> None:
        """Have session processes let go of a published object that was deleted."""
        for process in self.processes:
            process.order("forget", obj_id)

    def open(self, session: Session) -> Relay:
        """Open a conversation for a session, in the process of its user."""
        key = (session.client_id, session.role, session.purpose)
        process = self._running(key)
        try:
            return process.open(session)
        except SessionEndedError:  # it was closed a moment ago
            return self._running(key).open(session)

    def _running(self, key: Key) -> SessionHandle:
        """Return the process of a user. A new one starts outside the lock, so that other users do not wait."""
        while True:
            with self._lock:
                process, starting = self._processes.get(key), self._starting.get(key)
                if starting is None and process is not None and process.is_open:
                    return process
                turns = [future for (user, _, _), future in self._starting.items() if user == key[0]]
                if starting is None and len(turns) < _MAX_STARTING:
                    self._check_room(key[0])
                    own = self._starting[key] = Future()
                    break
            if starting is not None:
                return starting.result()
            wait(turns, return_when=FIRST_COMPLETED)
        self._start(key, own)
        return own.result()

    def _check_room(self, user: Any) -> None:
        """Raise if a user has as many processes as one user may have; the caller holds the lock."""
        keys = {key for key, process in self._processes.items() if process.is_open} | set(self._starting)
        taken = sum(key[0] == user for key in keys)
        if taken >= self.max_user_processes:
            raise QuotaExceededError(
                f"You have {taken} processes at this node, and a user may have {self.max_user_processes} "
                "(max_user_processes): one for the session, and one for each encrypted model or dealer. Close "
                "connections that are not needed."
            )

    def _start(self, key: Key, starting: Future[SessionHandle]) -> None:
        """Start the process of a user and resolve the future that its connections wait for."""
        try:
            process = self._fork(key)
            with self._lock:
                # A party process is listed before it gets its model: it also gets one that replaces it meanwhile.
                self._processes[key] = process
            if process.purpose:
                self._prepare_party(process)
            if process.is_over:
                self.forget(process)
        except BaseException as error:  # other connections wait for this future: it must always get a result
            self._started(key)
            starting.set_exception(error)
        else:
            self._started(key)
            starting.set_result(process)

    def _started(self, key: Key) -> None:
        with self._lock:
            del self._starting[key]

    def _fork(self, key: Key) -> SessionHandle:
        try:
            return SessionHandle(self, *key)
        except IsolationError as error:
            logger.warning("No process could be started for %r: %s", key[0], error)
            raise SessionEndedError("This node could not start a process for you. Connect again.") from error

    def _prepare_party(self, process: SessionHandle) -> None:
        try:
            if self.party_checks is None:
                raise SyftError("This node takes part in no computations.")
            self.party_checks(self, process)
        except Exception:
            process.end()
            raise

    def process_of(self, user: Any, role: str = "user") -> SessionHandle | None:
        """Return the session process of a user, if it runs."""
        return self._processes.get((user, role, ""))

    @property
    def processes(self) -> list[SessionHandle]:
        """The session processes that run."""
        with self._lock:
            return list(self._processes.values())

    def forget(self, process: SessionHandle) -> None:
        """Take note that a process has ended."""
        with self._lock:
            if self._processes.get((process.user, process.role, process.purpose)) is process:
                del self._processes[process.user, process.role, process.purpose]
            for key in [key for key, (owner, _) in self.expected.items() if owner is process]:
                del self.expected[key]

    def answer(self, principal: Principal, channel: Channel, frame: Frame) -> None:
        """Serve a call of a child process."""
        try:
            header, body, fds = self._result(principal, frame)
        except SyftError as error:
            channel.send(FrameKind.ERROR, (type(error).__name__, str(error)[:_MAX_ERROR]))
            return
        except Exception:
            logger.exception("A call of the session process of %r failed", principal.user)
            channel.send(FrameKind.ERROR, ("SyftError", "The node could not do this; its log says why."))
            return
        finally:
            _close(frame.fds)
        try:
            channel.send(FrameKind.RESULT, header, body, fds)
        finally:
            _close(fds)

    def _result(self, principal: Principal, frame: Frame) -> tuple[Any, Any, list[int]]:
        if isinstance(frame.body, RefusedBody):
            raise frame.body.error
        found = call(self, principal, frame)
        if isinstance(found, Reply):
            return found.header, found.body, found.fds
        return found, b"", []

    def sweep(self) -> None:
        """End processes that nobody came back to."""
        now = time.monotonic()
        for process in self.processes:
            process.retire(now - IDLE_SECONDS)
        for key in [key for key, (_, until) in self.expected.items() if until < now]:
            self.expected.pop(key, None)

    def close(self) -> None:
        """End all processes."""
        for process in self.processes:
            process.end()
        for program in self.runs.values():
            program.end()
        self.template.close()


def _close(fds: list[int]) -> None:
    for fd in fds:
        with contextlib.suppress(OSError):
            os.close(fd)
