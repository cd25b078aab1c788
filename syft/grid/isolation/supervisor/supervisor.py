"""Supervisor: starts the processes of users, relays their connections, and serves their calls.

It ends a process that violates the protocol or a limit, without effect on others. It runs no calls of users and parses
no values.
"""

from __future__ import annotations

import dataclasses
import logging
import os
import threading
import time
from collections.abc import Callable
from concurrent.futures import FIRST_COMPLETED, Future, wait
from typing import TYPE_CHECKING, Any, TypeAlias

from syft.core.byte_budget import ByteBudget
from syft.core.id_provider import ObjectId
from syft.exceptions import QuotaExceededError, SessionEndedError
from syft.federated.client.secure_aggregation.client_policy import _policy
from syft.grid.isolation.confinement.limits import Limits
from syft.grid.isolation.processes.template import IsolationError, Template
from syft.grid.isolation.processes.watchdog import Watchdog
from syft.grid.isolation.supervisor.connection_limits import MAX_NODE_RELAYS, ConnectionLimits
from syft.grid.isolation.supervisor.session_handle import Relay, SessionHandle
from syft.grid.storage.interface import Item
from syft.workers.delegation.peer import OutboundPolicy
from syft.workers.execution.session import Session

if TYPE_CHECKING:
    from syft.grid.isolation.programs.handle import ProgramHandle
    from syft.grid.node.node import Node

logger = logging.getLogger("syft.node")
# The user, the role and the purpose of a session process.
Key: TypeAlias = tuple[Any, str, str]
# Seconds until a process without connections ends.
IDLE_SECONDS = 60.0
# Maximum number of processes of one user that start concurrently, so that other users need not wait.
_MAX_STARTING = 2


class Supervisor:
    """Starts and ends the processes of a node, and serves their calls.

    Args:
        node: the node: its worker, store, policy and settings.
        template: the process that all others are forked from.
        limits: the limits of one process.
        settings: the settings of the node for child processes, as plain values.
        max_body: the maximum size of the body of a frame.
        rules: the outbound policy of the node.
        prepare_party: checks the purpose of a party process, and prepares the process.
    """

    def __init__(
        self,
        node: Node,
        template: Template,
        limits: Limits,
        settings: dict[str, Any],
        max_body: int,
        rules: OutboundPolicy,
        prepare_party: Callable[[SessionHandle], None],
    ) -> None:
        self.rules = rules
        self.node = node
        self.template = template
        self.limits = limits
        self.max_body = max_body
        self._settings = settings
        self.watchdog = Watchdog()
        # Other nodes that are admitted on behalf of a client: fingerprint of their token -> (process, expiry).
        self.expected: dict[bytes, tuple[SessionHandle, float]] = {}
        # The connections with other nodes that this process relays.
        self.relays = ConnectionLimits(MAX_NODE_RELAYS)
        # The processes of federated runs: (user, run, data sets) -> program.
        self.runs: dict[tuple[Any, ...], ProgramHandle] = {}
        self.run_lock = threading.Lock()
        self._processes: dict[Key, SessionHandle] = {}
        # Processes that are being started; all connections of a user wait for the same future.
        self._starting: dict[Key, Future[SessionHandle]] = {}
        self._prepare_party = prepare_party
        self._lock = threading.RLock()
        # Maximum number of session and party processes per user.
        self.max_user_processes = 16

    def child_settings(self) -> dict[str, Any]:
        """Return the settings of a child process."""
        return {
            **self._settings,
            "requires_secure": _policy(self.node.worker).required,
            "step_seconds": self.node.policy.step_seconds,
        }

    def budget_of(self, user: str | None) -> ByteBudget:
        """Return the byte budget of the frames that the supervisor holds on behalf of a user."""
        return self.node.context.budgets.of(user)

    def value_fd(self, item: Item) -> int:
        """Return a descriptor of the value of a stored object: its file if it has one, else a copy in memory."""
        fd = self.node.storage.open_value(item)
        if fd is not None:
            return int(fd)
        value = self.node.object_manager.value(item)
        fd = os.memfd_create("syft-value", os.MFD_CLOEXEC)
        try:
            view = memoryview(value).cast("B") if len(value) else memoryview(b"")
            while view:
                view = view[os.write(fd, view[: 1 << 30]) :]
            return fd
        except OSError:
            os.close(fd)
            raise

    def vault_limits(self) -> Limits:
        """Return the limits of a vault, with address space for mapped data sets."""
        mapped = sum(item.size for item in self.node.object_manager.items())
        return dataclasses.replace(self.limits, memory=self.limits.memory + mapped)

    def forget_object(self, obj_id: ObjectId) -> None:
        """Drop a deleted published object in all session processes."""
        for process in self.processes:
            process.order("forget", obj_id)

    def open(self, session: Session) -> Relay:
        """Open a relay for a session, to the process of its user."""
        key = (session.client_id, session.role, session.purpose)
        process = self._running(key)
        try:
            return process.open(session)
        except SessionEndedError:  # it ended meanwhile
            return self._running(key).open(session)

    def _running(self, key: Key) -> SessionHandle:
        """Return the process of a user. A new one starts outside the lock, so that other users do not wait."""
        while True:
            with self._lock:
                process, starting = self._processes.get(key), self._starting.get(key)
                if starting is None and process is not None and process.is_open:
                    return process
                pending = [future for (user, _, _), future in self._starting.items() if user == key[0]]
                if starting is None and len(pending) < _MAX_STARTING:
                    self._check_room(key[0])
                    own = self._starting[key] = Future()
                    break
            if starting is not None:
                return starting.result()
            wait(pending, return_when=FIRST_COMPLETED)
        self._start(key, own)
        return own.result()

    def _check_room(self, user: str | None) -> None:
        """Raise if a user has the maximum number of processes; the caller holds the lock."""
        keys = {key for key, process in self._processes.items() if process.is_open} | set(self._starting)
        used = sum(key[0] == user for key in keys)
        if used >= self.max_user_processes:
            raise QuotaExceededError(
                f"You have {used} processes at this node, and a user may have {self.max_user_processes} "
                "(max_user_processes): one for the session, and one for each encrypted model or dealer. Close "
                "connections that are not needed."
            )

    def _start(self, key: Key, starting: Future[SessionHandle]) -> None:
        """Start the process of a user and resolve the future that its connections wait for."""
        try:
            process = self._fork(key)
            with self._lock:
                # A party process is listed before it gets its model, so that it also gets a replacement of the model.
                self._processes[key] = process
            if process.purpose:
                try:
                    self._prepare_party(process)
                except Exception:
                    process.end()
                    raise
            if process.is_over:
                self.forget(process)
        except BaseException as error:  # other connections wait for this future, so it must always get a result
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

    @property
    def processes(self) -> list[SessionHandle]:
        """The running session processes."""
        with self._lock:
            return list(self._processes.values())

    def forget(self, process: SessionHandle) -> None:
        """Remove a process that has ended."""
        with self._lock:
            if self._processes.get((process.user, process.role, process.purpose)) is process:
                del self._processes[process.user, process.role, process.purpose]
            for key in [key for key, (owner, _) in self.expected.items() if owner is process]:
                del self.expected[key]

    def sweep(self) -> None:
        """End idle processes, and drop expired introductions."""
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
