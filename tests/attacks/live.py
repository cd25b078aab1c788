"""A hostile client of a live node: bytes of any shape over a real connection. Shared by the attack tests."""

from __future__ import annotations

import threading

from syft.serde import deserialize, serialize
from syft.workers.frames import ANSWER, HELLO, REQUEST, WELCOME
from syft.workers.pipes import HEADER, PipeConnection
from syft.workers.websocket_pipe import WebsocketPipe, Where
from syft.workers.websocket_stream import VERSION
from syft.workers.wire import write_request


class Visitor:
    """A connection to a node with a session, that sends what it likes and keeps every byte that comes back."""

    def __init__(self, url, token=None, context=None, session=("", b"")):
        self.pipe = WebsocketPipe(Where(url, token, context).at("/stream"), 60)
        self.connection = PipeConnection(self.pipe, 1 << 30)
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
            assert kind == ANSWER
            self.seen.append(bytes(contents))
            if number == self.number and contents:
                return bytes(contents)
        return None

    def ask(self, message):
        """Send a message of a known type, and return the answer as an object."""
        written = self.send(write_request(None, (), message, True))
        return None if written is None else deserialize(written)

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
                self.answered = frame[1]
                self.answers[frame[1]] = bytes(frame[2])
                self.seen.append(bytes(frame[2]))

        thread = threading.Thread(target=read, daemon=True)
        thread.start()
        return thread

    def close(self):
        self.connection.close()
