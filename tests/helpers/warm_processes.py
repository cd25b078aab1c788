"""Child processes that start fast: forks of one process that has imported everything.

To start Python, torch and this library takes seconds of a core; tests start hundreds of processes. A process made here
is a child of the one that asks for it, like one that `subprocess.Popen` starts: it can be waited for, its exit code is
its own, and it has the environment and the files that it was given. Where how a process is started is itself what is
tested, tests start a real one (`cold`).
"""

from __future__ import annotations

import atexit
import contextlib
import ctypes
import json
import os
import socket
import subprocess
import sys
import threading
from pathlib import Path

from syft.grid.isolation.processes import template
from syft.workers.process import worker

# Modules that are imported before the first fork.
_IMPORTED = """
import torch
fresh = torch.get_rng_state()
import fastapi, uvicorn, websockets
import syft
import syft.cli.main, syft.grid.gateway, syft.grid.gateway.registration, syft.grid.node.api, syft.grid.node.node
import syft.grid.node.settings, syft.grid.websocket_server, syft.mpc.runtime.network
import syft.grid.isolation.processes.template, syft.grid.isolation.processes.forkserver
import syft.grid.isolation.session.process, syft.grid.isolation.vault.process
syft.grid.isolation.session.process.prepare()
from syft.workers.access.fake_execution import warm_up
"""

# The warm process. It forks twice, so that the new process becomes a child of the process that asked for it.
_TEMPLATE = (
    _IMPORTED
    + """
import array, gc, json, os, signal, socket, subprocess, sys, time, types


def take(sock):
    size = array.array("i").itemsize
    data, rights, _, _ = sock.recvmsg(1 << 20, socket.CMSG_SPACE(64 * size))
    handles = array.array("i")
    for _, _, found in rights:
        handles.frombytes(found[: len(found) - len(found) % size])
    return data, list(handles)


def become(told, handles, asker):
    # The three standard streams come first; then what the asker passes on, at the numbers that it has there.
    wanted = [0, 1, 2, *told["passed"]]
    top = max(*wanted, *handles) + 1
    moved = [os.dup2(handle, top + place) for place, handle in enumerate(handles)]
    for handle in handles:
        os.close(handle)
    for handle, place in zip(moved, wanted, strict=True):
        os.dup2(handle, place, inheritable=True)
        os.close(handle)
    # Python's own streams are created again for them.
    sys.stdin = sys.__stdin__ = open(0, closefd=False)
    sys.stdout = sys.__stdout__ = open(1, "w", closefd=False)
    sys.stderr = sys.__stderr__ = open(2, "w", buffering=1, errors="backslashreplace", closefd=False)
    while os.getppid() != asker:
        time.sleep(0.001)
    os.chdir(told["folder"])
    os.environ.clear()
    os.environ.update(told["environment"])
    for folder in os.environ.get("PYTHONPATH", "").split(os.pathsep):
        if folder and folder not in sys.path:
            sys.path.insert(1, folder)
    sys.argv[:] = ["-c", *told["arguments"]]
    signal.signal(signal.SIGINT, signal.default_int_handler)
    main = types.ModuleType("__main__")
    main.__builtins__ = __builtins__
    sys.modules["__main__"] = main
    return told["code"], main.__dict__


class Copied:
    # A fork of this process that becomes the template of a node, with the methods of a child that are needed.

    def __init__(self, control):
        self.pid = os.fork()
        if not self.pid:
            null = os.open(os.devnull, os.O_RDWR)
            moved = os.dup(control)
            for place in (0, 1, 2):
                os.dup2(null, place)
            kept = os.dup2(moved, 3)
            os.closerange(4, 4096)
            os.environ.clear()
            signal.signal(signal.SIGINT, signal.SIG_IGN)
            signal.signal(signal.SIGTERM, signal.SIG_DFL)
            try:
                syft.grid.isolation.processes.forkserver.serve(kept)
            finally:
                os._exit(0)

    def wait(self, timeout=None):
        end = time.monotonic() + (3600 if timeout is None else timeout)
        while time.monotonic() < end:
            try:
                if os.waitpid(self.pid, os.WNOHANG)[0]:
                    return 0
            except ChildProcessError:
                return 0
            time.sleep(0.005)
        raise subprocess.TimeoutExpired("template", timeout)

    def kill(self):
        os.kill(self.pid, signal.SIGKILL)


syft.grid.isolation.processes.template.launch_interpreter = Copied


def serve(sock, asker):
    while True:
        data, handles = take(sock)
        if not data:
            os._exit(0)
        length = int(data)
        written = b""
        while len(written) < length:
            written += sock.recv(length - len(written))
        told = json.loads(written)
        between = os.fork()
        if not between:
            made = os.fork()
            if made:
                sock.sendall(b"%d " % made)
                os._exit(0)
            sock.close()
            return become(told, handles, asker)
        for handle in handles:
            os.close(handle)
        os.waitpid(between, 0)
        sock.sendall(b".")


torch.set_num_threads(1)
warm_up()
torch.set_rng_state(fresh)
assert len(os.listdir("/proc/self/task")) == 1, "what is forked must have no other threads"
signal.signal(signal.SIGINT, signal.SIG_IGN)
gc.collect()
gc.freeze()
code, names = serve(socket.socket(fileno=int(sys.argv[1])), int(sys.argv[2]))
exec(compile(code, "<string>", "exec"), names)
"""
)

_SUBREAPER = 36  # PR_SET_CHILD_SUBREAPER of Linux
_lock = threading.Lock()
_template: socket.socket | None = None
_spawn = worker._spawn
# Starts the template of a node as users' nodes do: by an interpreter of its own.
cold_template = template.launch_interpreter


class Forked(subprocess.Popen):
    """A forked process, with the methods of any other child.

    Args:
        pid: its id.
        arguments: what it was given.
        pipes: this process's ends of its standard streams, or None for each that is no pipe.
        text: whether they carry text.
    """

    def __init__(self, pid, arguments, pipes, text):
        self.args, self.pid, self.returncode = arguments, pid, None
        modes = ("w", "r", "r") if text else ("wb", "rb", "rb")
        opened = [None if pipe is None else open(pipe, mode) for pipe, mode in zip(pipes, modes, strict=True)]
        self.stdin, self.stdout, self.stderr = opened
        self.encoding = self.errors = self.pipesize = None
        self.text_mode = self.universal_newlines = text
        self._child_created, self._waitpid_lock = True, threading.Lock()
        self._input, self._communication_started, self._sigint_wait_secs = None, False, 0.25


def popen(
    code, *arguments, env=None, stdin=subprocess.DEVNULL, stdout=None, stderr=None, pass_fds=(), text=False, cwd=None
):
    """Run a program with arguments in a process of its own, as `python -c code *arguments` would."""
    arguments = list(map(str, arguments))
    if not sys.platform.startswith("linux"):
        given = {"stdin": stdin, "stdout": stdout, "stderr": stderr, "pass_fds": pass_fds, "text": text}
        return subprocess.Popen([sys.executable, "-c", code, *arguments], env=env, cwd=cwd, **given)
    told = {
        "code": code,
        "arguments": arguments,
        "environment": dict(os.environ if env is None else env),
        "folder": str(cwd or Path.cwd()),
        "passed": list(pass_fds),
    }
    theirs, ours = [], []
    with contextlib.ExitStack() as stack:
        for number, given in enumerate((stdin, stdout, stderr)):
            pipe, handle = None, number if given is None else given
            if given == subprocess.PIPE:
                ends = os.pipe()
                pipe, handle = ends[::-1] if number == 0 else ends
                stack.callback(os.close, handle)
            elif given == subprocess.DEVNULL:
                handle = os.open(os.devnull, os.O_RDWR)
                stack.callback(os.close, handle)
            elif given == subprocess.STDOUT:
                handle = theirs[1]
            ours.append(pipe)
            theirs.append(handle if isinstance(handle, int) else handle.fileno())
        pid = _ask(told, [*theirs, *pass_fds])
    return Forked(pid, arguments, ours, text)


def command(line, **given):
    """Run a command line that begins with `python -m syft`."""
    assert line[1:3] == ["-m", "syft"], line
    code = "import runpy; runpy.run_module('syft', run_name='__main__', alter_sys=True)"
    return popen(code, *line[3:], **given)


def run(code, *arguments, input=None, timeout=None, check=False, env=None, cwd=None):
    """Run a program to its end, as `subprocess.run` would; what it says is text."""
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
    with popen(code, *arguments, env=env, cwd=cwd, **pipes) as made:
        try:
            out, err = made.communicate(input, timeout=timeout)
        except BaseException:
            made.kill()
            raise
    done = subprocess.CompletedProcess(made.args, made.returncode, out, err)
    if check and done.returncode:
        raise RuntimeError(f"a program ended with exit code {done.returncode}: {err[-3000:]}")
    return done


def _ask(told, handles):
    """Have the warm process fork; for that moment this process takes in whose parent ends."""
    written = json.dumps(told).encode()
    with _lock:
        sock = _warm()
        control = ctypes.CDLL(None, use_errno=True).prctl
        if control(_SUBREAPER, 1, 0, 0, 0):
            raise OSError(ctypes.get_errno(), "prctl")
        try:
            socket.send_fds(sock, [b"%20d" % len(written)], handles)
            sock.sendall(written)
            answer = b""
            while not answer.endswith(b"."):
                part = sock.recv(100)
                if not part:
                    raise RuntimeError("the warm process ended")
                answer += part
        finally:
            control(_SUBREAPER, 0, 0, 0, 0)
    return int(answer[:-1])


def _warm():
    global _template
    if _template is None:
        ours, theirs = socket.socketpair()
        with theirs:
            made = subprocess.Popen(
                [sys.executable, "-c", _TEMPLATE, str(theirs.fileno()), str(os.getpid())],
                stdin=subprocess.DEVNULL,
                pass_fds=[theirs.fileno()],
                env={**os.environ, "OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1", "PYTHONHASHSEED": "0"},
                cwd=Path(__file__).parents[2],
            )
        _template = ours
        atexit.register(_cool, ours, made)
    return _template


def _cool(sock, made):
    sock.close()
    with contextlib.suppress(subprocess.TimeoutExpired):
        made.wait(5)


def launch_template(control):
    """Start the template of a node from the warm process."""
    code = f"import os; os.environ.clear()\n{template.START}"
    null = {"stdin": subprocess.DEVNULL, "stdout": subprocess.DEVNULL}
    return popen(code, *template.start_arguments(control), pass_fds=[control], **null)


def spawn(control, listener, threads):
    """Start the process of a ProcessWorker from the warm one; one with several threads, a cold one."""
    if threads != 1:
        return _spawn(control, listener, threads)
    home = str(Path(worker.__file__).resolve().parents[2])
    handles = (control.fileno(), listener.fileno())
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    return popen(worker.START, home, worker.MAIN, *map(str, handles), pass_fds=handles, env=environment)


@contextlib.contextmanager
def cold():
    """Let ProcessWorkers be started as users' are: each by an interpreter of its own."""
    before, worker._spawn = worker._spawn, _spawn
    try:
        yield
    finally:
        worker._spawn = before
