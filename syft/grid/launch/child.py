"""The process of a launched node: the command `node start`, stopped when the launching program is gone.

Arguments: the id of the launching process, the folder with its copies of data, and the words of the command. Standard
input is a pipe whose other end only the launching program holds, so the system closes it however that program ends.
"""

from __future__ import annotations

import contextlib
import os
import runpy
import select
import shutil
import signal
import sys
import threading
import traceback

# Seconds between checks of the parent: a forked child of the launching program may hold a copy of the pipe's end.
_LOOK = 1.0
# Seconds that a clean stop may take.
_GRACE = 15.0


def main(parent: int, copies: str, words: list[str]) -> None:
    """Run the command until the launching program is gone, and exit."""
    threading.Thread(target=_watch, args=(parent, copies), daemon=True, name="launch watch").start()
    code: object = 1
    try:
        _run(words)
    except SystemExit as end:
        code = end.code or 0
    except BaseException:
        traceback.print_exc()
    for stream in (sys.stdout, sys.stderr):
        stream.flush()
    # Everything is closed, and the interpreter takes its time to end: up to some seconds on a busy machine.
    os._exit(code if isinstance(code, int) else 1)


def _run(words: list[str]) -> None:
    with contextlib.ExitStack() as closing:
        if "--store" not in words:
            from syft.grid.server.temporary_folders import passing_folder

            # Made here, not by the launching program, so that values are deleted although that program was killed.
            words = [*words, "--store", closing.enter_context(passing_folder("syft-launch-store-"))]
        sys.argv = ["syft", *words]
        runpy.run_module("syft", run_name="__main__", alter_sys=True)


def _watch(parent: int, copies: str) -> None:
    while os.getppid() == parent:
        if select.select([0], [], [], _LOOK)[0] and not os.read(0, 1):
            break
    shutil.rmtree(copies, ignore_errors=True)
    os.kill(os.getpid(), signal.SIGTERM)
    threading.Event().wait(_GRACE)
    os._exit(1)


if __name__ == "__main__":
    main(int(sys.argv[1]), sys.argv[2], sys.argv[3:])
