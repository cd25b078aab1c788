"""Templates and children for tests."""

from __future__ import annotations

import contextlib
import json
import socket
import textwrap

from syft.grid.isolation.confinement.limits import Limits
from syft.grid.isolation.processes.template import ENVIRONMENT, START, start_arguments
from tests.helpers import warm_processes as warm

MAIN = "tests.helpers.isolation.hostile_child:main"
ENTRIES = {"session": MAIN, "vault": MAIN, "program": MAIN}
# The answers of a child whose system call was denied.
DENIED = ("PermissionError", "OSError", "BlockingIOError")


def launch_warm(control):
    """Start a template process from the warm process of the tests."""
    return warm.popen(START, *start_arguments(control), pass_fds=[control], env=ENVIRONMENT)


class Line:
    """A child with the socket that leads to it."""

    def __init__(self, template, role="vault", fds=(), limits=Limits(), **settings):  # noqa: B008
        self.sock, theirs = socket.socketpair()
        self.sock.settimeout(60)
        with theirs:
            self.child = template.fork(role, [theirs.fileno(), *fds], settings, limits)
        self._lines = self.sock.makefile("rb")

    def send(self, code):
        """Have the child run a program, without waiting."""
        self.sock.sendall(json.dumps(textwrap.dedent(code)).encode() + b"\n")

    def answer(self):
        """Return the next answer; an empty dict if the child has ended."""
        with contextlib.suppress(ConnectionResetError):
            line = self._lines.readline()
            return json.loads(line) if line else {}
        return {}

    def run(self, code):
        """Have the child run a program, and return its answer."""
        try:
            self.send(code)
        except BrokenPipeError:
            return {}
        return self.answer()

    def printed(self, code):
        """Have the child run a program that must succeed, and return what it printed."""
        answer = self.run(code)
        assert answer.get("error") is None, answer
        return answer["printed"]

    def close(self):
        self._lines.close()
        self.sock.close()
        self.child.kill()
        self.child.wait(30)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()
