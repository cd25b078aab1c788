"""The entry point of children in these tests: it runs any Python that the test sends it."""

from __future__ import annotations

import contextlib
import io
import json
import socket
import traceback


def main(fds, settings):
    """Run each program that arrives on the first descriptor, and answer with what it printed or raised."""
    with socket.socket(fileno=fds[0]) as sock, sock.makefile("rwb") as lines:
        names = {"fds": fds, "settings": settings, "sock": sock}
        for line in lines:
            printed = io.StringIO()
            answer = {"error": None, "errno": None}
            try:
                with contextlib.redirect_stdout(printed):
                    exec(json.loads(line), names)
            except Exception as error:
                answer = {"error": type(error).__name__, "errno": getattr(error, "errno", None)}
                answer["text"] = traceback.format_exc()
            answer["printed"] = printed.getvalue().strip()
            lines.write(json.dumps(answer).encode() + b"\n")
            lines.flush()
