"""The vault process: holds private data and results computed from it, and sends nothing but sealed copies."""

from __future__ import annotations

import logging
import socket
from typing import Any

import torch

from syft.core.byte_budget import ByteBudget, spending
from syft.grid.isolation.children.worker import NO_LIMIT, load_object
from syft.grid.isolation.processes.channel import Channel, Frame, FrameKind
from syft.grid.isolation.processes.progress import ProgressPage
from syft.grid.isolation.records.record_reader import read_record
from syft.grid.isolation.records.replay import ConfinedWorker, Runner, seal_all
from syft.hook.torch_hook import TorchHook

logger = logging.getLogger("syft.node")
# Maximum number of failed calls; further sealed copies are refused, since the numbers must fit into a frame header.
MAX_FAILED = 10_000


class VaultProcess:
    """The vault of one user."""

    def __init__(self, channel: Channel, progress: ProgressPage, settings: dict[str, Any]) -> None:
        self._channel = channel
        self._progress = progress
        self._budget = ByteBudget(settings["max_user_in_flight_bytes"], name="the vault")
        self.worker = ConfinedWorker(settings["id"], settings["trust_script_modules"])
        TorchHook(torch, local_worker=self.worker)
        self.runner = Runner(self.worker, {})
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
            with spending(self._budget):
                self.runner.run(read_record(memoryview(frame.body)))
        except Exception as error:
            self.failed.add(number)
            logger.debug("A call in the vault failed: %s", type(error).__name__)
        self._progress.write("")

    def _seal(self, frame: Frame) -> None:
        _, number, ids, limit = frame.header
        try:
            if len(self.failed) > MAX_FAILED:
                raise ValueError(f"more than {MAX_FAILED} calls of this session failed in the vault")
            written = seal_all([self.runner.get(obj_id) for obj_id in ids])
            if len(written) > limit:
                raise ValueError(f"the result takes {len(written)} bytes, more than the {limit} that its spec needs")
        except Exception as error:
            self._channel.send(FrameKind.FAILED, (number, f"{type(error).__name__}: {error}"[:2000]))
        else:
            self._channel.send(FrameKind.ANSWER, (number, tuple(sorted(self.failed))), written)


def main(fds: list[int], settings: dict[str, Any]) -> None:
    """Serve the supervisor until it closes the channel."""
    channel, page = fds
    VaultProcess(Channel(socket.socket(fileno=channel), NO_LIMIT), ProgressPage(page), settings).run()
