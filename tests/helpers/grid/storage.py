"""Helpers of the tests of stores: a worker with an object manager, and a peer that sends it bytes."""

from __future__ import annotations

import itertools
import weakref
from typing import Any
from unittest import mock

import sqlalchemy as sa
import torch

import syft as sy
from syft.core.references import Ref
from syft.grid.storage import ObjectAdmin, ObjectManager, RecordStore, open_storage, tables
from syft.messaging import message as m
from syft.serde import deserialize
from syft.workers.base import BaseWorker
from syft.workers.transport.request_codec import answer, error_of, let_go, respond, write_request

_number = itertools.count(1)


class Peer:
    """A client with a session, whose every message is written and read."""

    def __init__(self, worker: Any, name: str) -> None:
        self.worker = worker
        self.session = worker.open_session(name)

    def ask(self, message: Any, waits: bool = True) -> Any:
        written = answer(self.worker, self.session, write_request(None, (), message, waits))
        return self._read(written)

    def _read(self, written: bytes) -> Any:
        response = deserialize(written) if written else None
        if isinstance(response, m.ErrorMessage):
            raise error_of(self.worker, response)
        return response

    def send(self, obj: Any, obj_id: Any, published: bool = True) -> Any:
        return self.ask(m.ObjectMessage(obj, obj_id, published, None))

    def call(self, name: str, *args: Any, result: Any = None, **kwargs: Any) -> Any:
        result = f"result {next(_number)}" if result is None else result
        self.ask(m.Operation(name, None, args, kwargs, (result,)))
        return Ref(result)

    def get(self, obj_id: Any) -> Any:
        return self.ask(m.ObjectRequestMessage((obj_id, None, "")))

    def begin_get(self, obj_id: Any) -> tuple[Any, Any]:
        """Fetch, and return the value and what leaves: as if nobody knew yet whether the answer arrived."""
        request = write_request(None, (), m.ObjectRequestMessage((obj_id, None, "")), True)
        written, leaving = respond(self.worker, self.session, request)
        return self._read(written), leaving

    def delete(self, obj_id: Any) -> None:
        self.ask(m.ForceObjectDeleteMessage(obj_id))

    def search(self, *words: str) -> list[Any]:
        return self.ask(m.SearchMessage(list(words)))


class StoredNode:
    """A worker whose published objects are in a store; `restart` is what a new process would find."""

    def __init__(self, where: Any, **quotas: Any) -> None:
        self.where = where
        self.quotas = quotas
        self.start()

    def start(self) -> None:
        # A busy server takes its time to notice that the one before has gone.
        with mock.patch("syft.grid.storage.postgres._LOCK_TIMEOUT_MS", 60_000):
            self.storage = None if self.where is None else open_storage(self.where)
        self.worker = BaseWorker(sy.TorchHook(torch), id="node", auto_add=False)
        self.object_manager = ObjectManager(self.worker, self.storage, **self.quotas)
        self.admin = ObjectAdmin(self.object_manager)
        self.objects = self.worker.object_store.objects

    def restart(self) -> StoredNode:
        """Drop everything in memory, without a chance to write anything, and start again."""
        self.storage.close()
        self.start()
        return self

    def peer(self, name: str = "ann") -> Peer:
        return Peer(self.worker, name)

    def stop(self) -> None:
        if self.storage is not None:
            self.storage.close()


def memory_records() -> RecordStore:
    """Return records in memory; their database is closed with them."""
    engine = sa.create_engine("sqlite://", poolclass=sa.StaticPool, connect_args={"check_same_thread": False})
    tables.metadata.create_all(engine)
    records = RecordStore(engine.begin)
    weakref.finalize(records, engine.dispose)
    return records


__all__ = ["Peer", "StoredNode", "let_go", "memory_records"]
