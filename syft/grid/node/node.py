"""Node: a worker with a store, users and rights, served on one port."""

from __future__ import annotations

import logging
import os
import threading
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import torch
from fastapi import APIRouter

from syft.config import configure
from syft.core.id_provider import ObjectId
from syft.core.labels import printable
from syft.federated.client.dp_training import check_step_seconds
from syft.federated.client.federated_client import FederatedClient
from syft.grid.certificates import certificate_of
from syft.grid.identity import NodeIdentity
from syft.grid.isolation.confinement.limits import Limits
from syft.grid.isolation.entry_points import ENTRY_POINTS
from syft.grid.isolation.processes.template import Template
from syft.grid.isolation.programs.rules import ProgramRules
from syft.grid.isolation.supervisor import model_calls
from syft.grid.isolation.supervisor import program_calls as program_calls  # fills the table of calls
from syft.grid.isolation.supervisor.peering import SupervisedPeering
from syft.grid.isolation.supervisor.plan_calls import SLICE
from syft.grid.isolation.supervisor.release_calls import SEALED
from syft.grid.isolation.supervisor.supervisor import Supervisor
from syft.grid.node.settings import Settings
from syft.grid.rights import NodePolicy, RowStore
from syft.grid.server.app import NodeContext, make_app
from syft.grid.server.auth import Authenticator
from syft.grid.server.pending_connections import PendingConnections
from syft.grid.server.port_server import GridServer, PortServer
from syft.grid.server.temporary_folders import passing_folder
from syft.grid.server.token_auth import TokenAuthenticator
from syft.grid.storage import Loaded, MemoryLimit, ObjectManager, Quota, Storage, load_folder, open_storage
from syft.hook.torch_hook import TorchHook
from syft.workers.access.policy import ReleasePolicy
from syft.workers.base import BaseWorker
from syft.workers.delegation.peer import OutboundPolicy
from syft.workers.transport.socket_stream import SERVED
from syft.workers.transport.tls import is_loopback

logger = logging.getLogger("syft.node")
# Address space of a process beyond its user's objects: temporary results, stacks, torch's buffers.
PROCESS_SLACK = 4 << 30
# File descriptors of one process; a session takes one, also while its client is disconnected.
PROCESS_FILES = 4096


class NodeWorker(BaseWorker, FederatedClient):
    """The worker that a node serves; its policy is set before the first message."""

    # The counter of requests to hosted models, if there is a store (see `syft.mpc.serving.request_limits`).
    request_counts: Any = None
    # Owners refer to objects by the text of their ids, so users may not choose ids that look like others.
    takes_any_id = False
    takes_quantized_tensors = False
    serves_unknown_clients = False
    # An unpublished plan is private to its user, and published means stored: it ends with the session.
    keeps_lasting_objects = False

    def __init__(self, id: ObjectId, policy: ReleasePolicy) -> None:
        super().__init__(None, id, auto_add=False)
        self.policy = policy
        for prepare in SERVED:
            prepare(self)

    def be_local(self) -> None:
        """Make this the local worker of its process."""
        TorchHook(torch, local_worker=self)


class Node(GridServer):
    """The node of one owner. Without a store, nothing survives a restart.

    Args:
        settings: the settings.
        routers: functions that return an HTTP router for the node.
        serves_users: start the template of session processes at once, not with the first session.

    Example:
        >>> node = Node(Settings(id="hospital-a", tokens=False))  # doctest: +SKIP
        >>> node.start()  # doctest: +SKIP
    """

    def __init__(self, settings: Settings, routers: Iterable[Any] = (), serves_users: bool = True) -> None:
        self.settings = settings
        self._serves_users = serves_users
        super().__init__(settings)
        try:
            self._open(settings)
            made: list[APIRouter] = [router(self) for router in routers]
            app = make_app(self.context, made, title=f"resyft node {settings.id}")
            room = PendingConnections(settings.max_pending, settings.max_address_pending)
            self.server = PortServer(app, settings.host, settings.port, self._tls, settings.heartbeat, room)
        except Exception:
            self._closing.close()
            raise

    def _open(self, settings: Settings) -> None:
        # Before any key is loaded, since forked processes inherit the memory of this process.
        reader, writer = os.pipe()
        self._closing.callback(os.close, writer)
        self._template = Template(ENTRY_POINTS, log=writer)
        self._closing.callback(self._template.close)
        if self._serves_users:
            self._template.start()
        threading.Thread(target=_copy_log, args=(reader,), name="syft process log", daemon=True).start()
        self.identity: NodeIdentity = self._closing.enter_context(NodeIdentity(self._home(), settings.id))
        self.storage: Storage = self._closing.enter_context(open_storage(self._store()))
        records = self.storage.records
        self.policy = NodePolicy(records, settings.owner)
        self.policy.step_seconds = check_step_seconds(settings.step_seconds)
        self.audit = self.policy.audit
        self.programs = ProgramRules(RowStore(records, "programs"), RowStore(records, "program_plans"), self.audit)
        self.worker = NodeWorker(settings.id, self.policy)
        self.worker.trusts_script_modules = settings.trust_script_modules
        self.worker.request_counts = records
        self.object_manager = ObjectManager(
            self.worker,
            storage=self.storage,
            quota=Quota(settings.max_user_objects, settings.max_user_bytes),
            node_quota=Quota(settings.max_objects, settings.max_bytes),
            memory_limit=MemoryLimit(settings.max_memory),
            keeps_values=False,
        )
        self._closing.callback(self.object_manager.close)
        self.loaded = Loaded() if settings.data is None else load_folder(self.worker, settings.data)
        authenticator = TokenAuthenticator(self.identity) if settings.tokens else Authenticator()
        most, each = settings.max_connections, settings.max_user_connections
        in_flight = settings.max_in_flight_bytes, settings.max_user_in_flight_bytes
        self.context = NodeContext(
            self.worker, authenticator, settings.grace, most, each, settings.max_message_bytes, *in_flight
        )
        self.context.frame_timeout = 3 * settings.heartbeat
        certificate = certificate_of(settings.certificate, settings.id) if settings.certificate is not None else None
        self.supervisor = self._supervise(settings, certificate)
        self.object_manager.removal_listeners.append(self.supervisor.forget_object)
        self.context.sessions.open_responder = self.supervisor.open
        self.context.sweeps += [self.supervisor.sweep, self.policy.requests.expire]
        self.policy.requests.forget_copy = self._forget_copy
        self.context.peering = SupervisedPeering(self.supervisor)

    def _supervise(self, settings: Settings, certificate: bytes | None) -> Supervisor:
        """Return the supervisor of session processes."""
        limits = Limits(
            memory=settings.max_process_memory or settings.max_user_bytes + PROCESS_SLACK,
            cpu_seconds=settings.call_seconds,
            wall_seconds=settings.call_seconds,
            open_files=PROCESS_FILES,
        )
        child_settings = {
            "id": settings.id,
            "threads": settings.threads or 1,
            "stream_timeout": settings.stream_timeout,
            "heartbeat": settings.heartbeat,
            "trust_script_modules": settings.trust_script_modules,
            "max_message_bytes": settings.max_message_bytes,
            "max_user_in_flight_bytes": self.context.budgets.user_limit,
            "peer_key": self.identity.peer_key.public.hex(),
            "certificate": None if certificate is None else certificate.hex(),
            "max_user_objects": settings.max_user_objects,
            "max_user_bytes": settings.max_user_bytes,
        }
        rules = OutboundPolicy(settings.ca, is_loopback(settings.host), settings.peers)
        max_body = settings.max_message_bytes + (1 << 20)
        supervisor = Supervisor(
            self, self._template, limits, child_settings, max_body, rules, model_calls.prepare_party
        )
        supervisor.max_user_processes = settings.max_user_processes
        self._closing.callback(supervisor.close)
        return supervisor

    def _forget_copy(self, request_id: str) -> None:
        """Delete the sealed copy of a request, and the calls that lead to it unless the result was released.

        Reviews of later requests compare them with every release, also with those that are over.
        """
        self.object_manager.discard(f"{SEALED}{request_id}")
        if self.policy.requests.find(request_id)["scope"] is None:
            self.object_manager.discard(f"{SLICE}{request_id}")

    def _store(self) -> str:
        """Return the location of the store; a temporary folder if the node has none."""
        if self.settings.store is not None:
            return str(self.settings.store)
        memory = "/dev/shm" if Path("/dev/shm").is_dir() else None  # noqa: S108
        return self._closing.enter_context(passing_folder("syft-node-", memory))

    def _home(self) -> Path:
        if self.settings.identity_folder is not None:
            return self.settings.identity_folder
        return Path(self._closing.enter_context(passing_folder("syft-node-"))) / "identity"

    def take_process(self) -> None:
        """Dedicate this process to the node: its worker becomes the local worker, its settings apply to all threads."""
        if self.settings.threads is not None:
            torch.set_num_threads(self.settings.threads)
        configure(stream_timeout=self.settings.stream_timeout, heartbeat=self.settings.heartbeat)
        self.worker.be_local()

    def run(self) -> None:
        """Serve until interrupted, then close everything; for a process dedicated to the node."""
        self.take_process()
        super().run()

    def close(self) -> None:
        """Close store and users; idempotent."""
        try:
            self.worker.close()
        except Exception as error:  # a failed call to another worker must not prevent closing
            logger.warning("A call of %r to another worker failed: %s", self.worker.id, error)
        super().close()


def _copy_log(reader: int) -> None:
    """Log the output of user processes. The log is for the owner only, since a vault may print data."""
    with open(reader, "rb", closefd=True) as file:
        for line in file:
            logger.debug("Output of a user process: %s", printable(line[:500].decode("utf-8", "replace").rstrip()))
