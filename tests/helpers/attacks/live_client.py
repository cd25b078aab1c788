"""A hostile client of a live node: bytes of any shape over a real connection. Shared by the attack tests."""

from __future__ import annotations

import contextlib
import http.client
import json
import threading
import time
from pathlib import Path

from syft.serde import deserialize, serialize
from syft.workers.transport.framing import ANSWER, BYE, HEADER, HELLO, NOTICE, REQUEST, WELCOME, FramedConnection
from syft.workers.transport.greeting import VERSION
from syft.workers.transport.request_codec import write_request
from syft.workers.transport.tls import client_context
from syft.workers.transport.websocket import Endpoint, WebsocketPipe


class Visitor:
    """A connection to a node with a session, that sends what it likes and keeps every byte that comes back."""

    def __init__(self, url, token=None, context=None, session=("", b"")):
        self.pipe = WebsocketPipe(Endpoint(url, token, context).at("/stream"), 60)
        self.connection = FramedConnection(self.pipe, 1 << 30)
        self.connection.write(HELLO, 0, serialize((VERSION, *session)))
        frame = self.connection.read()
        if frame is None or frame[0] != WELCOME:
            raise ConnectionError("not welcome")
        self.done = frame[1]
        _, self.session_id, self.secret, self.node_id, self.largest = deserialize(frame[2])
        self.number = self.answered = self.done
        self.seen, self.answers = [], {}

    def send(self, request):
        """Send bytes as a request, and return the answer's bytes; None if the node hung up."""
        self.number += 1
        self.connection.write(REQUEST, self.number, request)
        while (frame := self.connection.read()) is not None:
            kind, number, contents = frame
            if kind in (NOTICE, BYE):
                continue
            assert kind == ANSWER
            self.seen.append(bytes(contents))
            if number == self.number and contents:
                return bytes(contents)
        return None

    def ask(self, message):
        """Send a message of a known type, and return the answer as an object."""
        written = self.send(write_request(None, (), message, True))
        if written is None:
            raise ConnectionError("the node closed the connection")
        return deserialize(written)

    def raw(self, data):
        """Send bytes that need not be frames."""
        self.pipe.send(data)

    def frame(self, kind, number, length, contents=b""):
        """Send a frame whose head says what it likes."""
        self.pipe.send(HEADER.pack(kind, number, length) + contents)

    def hears(self):
        """Read one frame; None if the node hung up."""
        return self.connection.read()

    def collect(self):
        """Read all answers in a thread, until the node hangs up."""

        def read():
            while (frame := self.connection.read()) is not None:
                if frame[0] in (NOTICE, BYE):
                    continue
                self.answered = frame[1]
                self.answers[frame[1]] = bytes(frame[2])
                self.seen.append(bytes(frame[2]))

        thread = threading.Thread(target=read, daemon=True)
        thread.start()
        return thread

    def close(self):
        self.connection.close()


def ask_api(target, user, what):
    """Ask the node over HTTP, as a user."""
    context = client_context(target.ca)
    with contextlib.closing(http.client.HTTPSConnection("127.0.0.1", target.port, timeout=60, context=context)) as line:
        line.request("GET", f"/v1/{what}", headers={"Authorization": f"Bearer {target.tokens[user]}"})
        answer = line.getresponse()
        assert answer.status == 200
        return json.load(answer)


def objects_of(target, user):
    """All that a user may see."""
    return ask_api(target, user, "objects?published=false&limit=1000")


def state_of(target):
    """The objects of the node that do not belong to bob, on whose behalf all attacks run: as its owner sees them, and its files."""

    def ask(what):
        return ask_api(target, "owner", what)

    store = Path(target.settings["store"])
    files = {str(path.relative_to(store)) for path in store.rglob("*") if not path.name.endswith(("-wal", "-shm"))}
    return {
        "objects": [row for row in ask("objects?limit=1000") if row["owner"] != "bob"],
        "requests": [row for row in ask("requests?limit=1000") if row["user"] != "bob" or row["status"] != "pending"],
        "users": ask("users"),
        "grants": ask("grants?limit=1000"),
        "files": files,
    }


@contextlib.contextmanager
def trickle(senders):
    """Send a byte with each of these now and then, until the end."""
    over = threading.Event()

    def run():
        while not over.wait(0.3):
            for send in senders:
                with contextlib.suppress(OSError):
                    send(b"x")

    thread = threading.Thread(target=run, daemon=True)
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join(60)


def listen(pipe):
    """Read from a pipe in a thread, until the node hangs up."""

    def read():
        while pipe.recv():
            pass

    thread = threading.Thread(target=read, daemon=True)
    thread.start()
    return thread


def is_ended(sock, end):
    """Say whether the other end hangs up before some time."""
    sock.settimeout(max(0.1, end - time.monotonic()))
    try:
        return sock.recv(100) == b""
    except OSError as error:
        return not isinstance(error, TimeoutError)
