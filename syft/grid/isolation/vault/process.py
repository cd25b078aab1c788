"""The vault process: holds private data and results computed from it, and sends nothing but sealed copies."""

from __future__ import annotations

import logging
import socket
from typing import Any

import torch

from syft.core.byte_budget import ByteBudget, spending
from syft.core.id_provider import ObjectId
from syft.core.labels import set_id
from syft.core.references import Ref
from syft.exceptions import IdNotUniqueError, SerdeError
from syft.federated.client.federated_client import FederatedClient
from syft.grid.isolation.children.worker import NO_LIMIT, load_object, run_to_exit
from syft.grid.isolation.confinement.limits import CallClock, Limits
from syft.grid.isolation.processes.channel import Channel, Frame, FrameKind
from syft.grid.isolation.processes.progress import ProgressPage
from syft.grid.isolation.records.call_codec import operation_of, read_blob
from syft.grid.isolation.records.record_reader import read_record
from syft.grid.isolation.records.records import CallRecord, DeleteRecord, PutRecord, Record
from syft.grid.isolation.records.replay import seal_all
from syft.hook.torch_hook import TorchHook
from syft.workers.base import BaseWorker
from syft.workers.execution.execute import execute
from syft.workers.execution.session import Session

logger = logging.getLogger("syft.node")
# Maximum number of failed calls; further sealed copies are refused, since the numbers must fit into a frame header.
MAX_FAILED = 10_000


class VaultWorker(BaseWorker, FederatedClient):
    """The worker of a vault.

    Args:
        id: the name of the node.
        trusts_script_modules: whether script modules that users send are loaded.
    """

    def __init__(self, id: ObjectId, trusts_script_modules: bool) -> None:
        super().__init__(None, id, auto_add=False)
        self.trusts_script_modules = trusts_script_modules

    def resolve(self, ref: Ref) -> Any:
        """Refuse pointers inside blobs: the history would not show the objects that a call reads through them."""
        raise SerdeError("A blob holds a pointer to an object of the vault; references belong in the record.")


class VaultProcess:
    """The vault of one user.

    Args:
        channel: the channel to the supervisor.
        progress: the page that names the current call.
        settings: the settings of the node, from the supervisor.
        limits: the limits of one call.
    """

    def __init__(self, channel: Channel, progress: ProgressPage, settings: dict[str, Any], limits: Limits) -> None:
        self._channel = channel
        self._progress = progress
        self._budget = ByteBudget(settings["max_user_in_flight_bytes"], name="the vault")
        self._clock = CallClock(limits)
        self.worker = VaultWorker(settings["id"], settings["trust_script_modules"])
        TorchHook(torch, local_worker=self.worker)
        self.session = self.worker.open_session("vault")
        # The numbers of failed records. Their objects differ from the history.
        self.failed: set[int] = set()
        self._orders = {"load": self._load, "record": self._record, "seal": self._seal}

    def run(self) -> None:
        """Carry out orders until the supervisor closes the channel."""
        done = 0
        while (frame := self._channel.receive()) is not None:
            self._orders[frame.header[0]](frame)
            done += 1
            self._progress.note_done(done)

    def _load(self, frame: Frame) -> None:
        load_object(self.worker, frame)

    def _record(self, frame: Frame) -> None:
        """Run a record. Its failure is not reported; sealed copies that depend on it are refused."""
        _, name, number = frame.header
        self._progress.write(name)
        try:
            with self._clock.call(), spending(self._budget):
                self._carry_out(read_record(memoryview(frame.body)))
        except Exception as error:
            self.failed.add(number)
            logger.debug("A call in the vault failed: %s", type(error).__name__)
        self._progress.write("")

    def _carry_out(self, record: Record) -> None:
        store = self.worker.object_store
        if isinstance(record, CallRecord):
            run_call(self.worker, self.session, record)
        elif isinstance(record, PutRecord):
            if record.obj_id in store.objects:
                raise IdNotUniqueError(f"The vault holds an object with id {record.obj_id!r} already.")
            obj = read_blob(record.blob, self.worker)
            set_id(obj, record.obj_id)
            store.objects[record.obj_id] = obj
        elif isinstance(record, DeleteRecord):
            for obj_id in record.ids:
                store.remove(obj_id)

    def _seal(self, frame: Frame) -> None:
        _, number, ids, limit = frame.header
        try:
            if len(self.failed) > MAX_FAILED:
                raise ValueError(f"more than {MAX_FAILED} calls of this session failed in the vault")
            found = [self.worker.object_store.get(obj_id) for obj_id in ids]
            written = seal_all(found)
            if len(written) > limit:
                raise ValueError(f"the result takes {len(written)} bytes, more than the {limit} that its spec needs")
        except Exception as error:
            self._channel.send(FrameKind.FAILED, (number, f"{type(error).__name__}: {error}"[:2000]))
        else:
            self._channel.send(FrameKind.ANSWER, (number, tuple(sorted(self.failed))), written)


def run_call(worker: VaultWorker, session: Session, record: CallRecord) -> None:
    """Run a call; its results are stored under the ids that the record names."""
    operation = operation_of(record, worker)
    try:
        execute(worker, session, operation)
    except Exception as error:
        cause = f"{operation.cmd_name} failed: {type(error).__name__}: {str(error)[:500]}"
        for obj_id in operation.return_ids:
            worker.object_store.note_departure(obj_id, cause)
        raise


def main(fds: list[int], settings: dict[str, Any]) -> None:
    """Serve the supervisor until it closes the channel."""
    channel, page = fds

    def run() -> None:
        limits = Limits.from_plain(settings["limits"])
        VaultProcess(Channel(socket.socket(fileno=channel), NO_LIMIT), ProgressPage(page), settings, limits).run()

    run_to_exit(run, "vault")
