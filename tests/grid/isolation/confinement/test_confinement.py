"""A process that its user has taken over: every attack fails or ends that process only."""

from __future__ import annotations

import errno
import itertools
import os
import platform
import signal
import socket
import sys
import threading
import time

import pytest
import torch

from syft.grid.isolation.confinement.confine import MEASURES, NOBODY, available, summary
from syft.grid.isolation.confinement.limits import Limits
from syft.grid.isolation.processes.template import ENVIRONMENT, Template, start_arguments
from syft.grid.isolation.processes.watchdog import Watchdog, WorkCount
from tests.helpers import warm_processes as warm
from tests.helpers.isolation.templates import DENIED, ENTRIES, Line, launch_warm

pytestmark = pytest.mark.skipif(not sys.platform.startswith("linux"), reason="the measures are Linux's")

# As root, then setting the user before anything else: an ordinary account.
_START_UNPRIVILEGED = """
import json, os, sys
sys.path[:] = json.loads(sys.argv[2])
from syft.grid.isolation.processes.forkserver import serve
import tests.helpers.isolation.hostile_child
os.setgroups([])
os.setresgid(12345, 12345, 12345)
os.setresuid(12345, 12345, 12345)
serve(int(sys.argv[1]))
"""


def launch_unprivileged(control):
    return warm.popen(_START_UNPRIVILEGED, *start_arguments(control), pass_fds=[control], env=ENVIRONMENT)


@pytest.fixture(scope="module", params=["root", "unprivileged"])
def template(request):
    if request.param == "unprivileged" and os.geteuid() != 0:
        pytest.skip("only root can start a process as another user")
    launch = launch_warm if request.param == "root" else launch_unprivileged
    with Template(ENTRIES, launch=launch).start() as made:
        yield made


@pytest.fixture
def line(template):
    with Line(template) as made:
        yield made


ATTACKS = {
    "read a key file": "print(open({key!r}).read())",
    "read a key file as the template's user": "print(open({own!r}).read())",
    "read a public file": "print(open('/etc/passwd').read())",
    "list a folder": "import os; print(os.listdir('/etc'))",
    "read the supervisor's memory": "open('/proc/{supervisor}/mem', 'rb')",
    "read the supervisor's environment": "print(open('/proc/{supervisor}/environ').read())",
    "read the template's memory": "open('/proc/{template}/mem', 'rb')",
    "read its own start environment": "print(open('/proc/self/environ').read())",
    "make a TCP socket": "import socket; socket.socket()",
    "make a unix socket": "import socket; socket.socket(socket.AF_UNIX)",
    "make a netlink socket": "import socket; socket.socket(socket.AF_NETLINK, socket.SOCK_RAW)",
    "connect to loopback": "import socket; socket.socket(fileno=fds[1]).connect(('127.0.0.1', {port}))",
    "bind to loopback": "import socket; socket.socket(fileno=fds[1]).bind(('127.0.0.1', 0))",
    "listen": "import socket; socket.socket(fileno=fds[1]).listen()",
    "make datagram sockets": "import socket; socket.socketpair(socket.AF_UNIX, socket.SOCK_DGRAM)",
    "fork": "import os; os.fork() or os._exit(1)",
    "exec": "import os; os.execv('/bin/true', ['true'])",
    "spawn": "import os; os.posix_spawn('/bin/true', ['true'], {{}})",
    "run a program": "import subprocess; subprocess.run(['/bin/true'])",
    "kill the supervisor": "import os; os.kill({supervisor}, 9)",
    "kill the template": "import os; os.kill({template}, 9)",
    "kill a process group": "import os; os.kill(0, 9)",
    "kill everything": "import os; os.kill(-1, 9)",
    "open a pidfd": "import os; os.pidfd_open({supervisor})",
    "create a file": "open({folder!r} + '/made', 'w')",
    "append to a file": "open({own!r}, 'a')",
    "truncate a file": "import os; os.truncate({own!r}, 0)",
    "write to shared memory": "open('/dev/shm/resyft-hostile', 'w')",
    "make an anonymous file": "import os; os.memfd_create('x')",
    "delete a file": "import os; os.unlink({own!r})",
    "change a mode": "import os; os.chmod({own!r}, 0o777)",
    "link a file": "import os; os.link({own!r}, {folder!r} + '/link')",
    "make a folder": "import os; os.mkdir({folder!r} + '/made')",
    "lock a data file": "import fcntl; fcntl.flock(0, fcntl.LOCK_EX)",
    "become root": "import os; os.setuid(0)",
    "change root": "import os; os.chroot('/')",
    "slow down others": "import os; os.setpriority(os.PRIO_PROCESS, {supervisor}, 19)",
    "pin others": "import os; os.sched_setaffinity({template}, [0])",
    "read the pins of others": "import os; os.sched_getaffinity({template})",
    "limit others": "import resource; resource.prlimit({template}, resource.RLIMIT_NOFILE, (1, 1))",
    "raise the memory limit": "libc.prlimit(0, 9, (ctypes.c_long * 2)(-1, -1), None) and fail()",
    "become dumpable": "libc.prctl(4, 1, 0, 0, 0) and fail()",
    "ptrace the template": "libc.ptrace(16, {template}, 0, 0) and fail()",
    "read another process": "libc.syscall(310, {template}, 0, 0, 0, 0, 0) and fail()",
    "use io_uring": "libc.syscall(425, 1, 0) and fail()",
    "use bpf": "libc.syscall(321, 0, 0, 0) and fail()",
    "use userfaultfd": "libc.syscall(323, 0) and fail()",
    "use keys": "libc.syscall(250, 0, -3, 0) and fail()",
    "open by handle": "libc.open_by_handle_at(3, 0, 0) and fail()",
    "make a namespace": "libc.unshare(0x10000000) and fail()",
    "mount": "libc.mount(0, b'/', 0, 0, 0) and fail()",
    "vfork": "libc.syscall(58) and fail()",
    "clone with namespaces": "libc.syscall(56, 0x10010000, 0, 0, 0, 0) and fail()",
    "shared memory of System V": "libc.shmget(1, 4096, 0o1600) and fail()",
}
_PREAMBLE = """
import ctypes, os
libc = ctypes.CDLL(None, use_errno=True)
def fail():
    code = ctypes.get_errno()
    raise OSError(code, os.strerror(code))
"""
_X86_ONLY = {"read another process", "use bpf", "use userfaultfd", "use keys", "vfork", "clone with namespaces"}


@pytest.mark.parametrize("attack", ATTACKS)
def test_attack_is_denied(template, tmp_path, attack):
    if attack in _X86_ONLY and platform.machine() != "x86_64":
        pytest.skip("uses a system call number of x86_64")
    key, own = tmp_path / "key", tmp_path / "own"
    for file in (key, own):
        file.write_text("secret")
        file.chmod(0o600)
    # A file that file permissions alone would let the child read.
    for folder in (tmp_path, *list(tmp_path.parents)[:3]):
        if folder.stat().st_uid == os.getuid() and folder != tmp_path.parents[-1]:
            folder.chmod(folder.stat().st_mode | 0o055)
    tmp_path.chmod(0o777)
    own.chmod(0o666)
    with (
        socket.create_server(("127.0.0.1", 0)) as server,
        socket.socket() as unconnected,
        Line(template, fds=[unconnected.fileno()]) as line,
    ):
        line.run(_PREAMBLE)
        names = {"key": str(key), "own": str(own), "folder": str(tmp_path), "supervisor": os.getpid()}
        code = ATTACKS[attack].format(template=template.pid, port=server.getsockname()[1], **names)
        answer = line.run(code)
        # EPERM, EACCES or ENOSYS come from the measures; other errors would mean that the call was tried.
        if "/proc/" in code and answer["error"] == "FileNotFoundError":
            return  # it is hidden
        assert answer["error"] in DENIED, answer
        assert answer["errno"] in (errno.EPERM, errno.EACCES, errno.ENOSYS), answer
        assert line.printed("print('alive')") == "alive"
    assert own.read_text() == "secret"
    assert {file.name for file in tmp_path.iterdir()} == {"key", "own"}


def test_old_system_calls_of_another_architecture_end_the_child(line):
    if platform.machine() != "x86_64":
        pytest.skip("int 0x80 is an instruction of x86")
    code = """
        import ctypes, mmap
        page = mmap.mmap(-1, 4096, prot=mmap.PROT_READ | mmap.PROT_WRITE | mmap.PROT_EXEC)
        page.write(bytes.fromhex("b802000000cd80c3"))  # fork by the 32-bit table
        ctypes.CFUNCTYPE(ctypes.c_int)(ctypes.addressof(ctypes.c_char.from_buffer(page)))()
    """
    assert line.run(code) == {}
    line.child.wait(30)
    assert line.child.exit_code in (-signal.SIGSYS, -signal.SIGSEGV)


@pytest.mark.skipif(os.geteuid() != 0, reason="only root changes users")
def test_children_run_as_another_user_without_environment():
    with Template(ENTRIES, launch=launch_warm).start() as template, Line(template) as line:
        seen = line.printed("import os; print(os.getresuid(), os.getresgid(), os.getgroups(), dict(os.environ))")
        assert "user" in line.child.confinement
    assert seen == f"({NOBODY}, {NOBODY}, {NOBODY}) ({NOBODY}, {NOBODY}, {NOBODY}) [] {{}}"


def test_all_offered_measures_are_active(line):
    offered = {name for name, state in available().items() if state.startswith("yes")}
    # An ordinary account cannot change its user, and some systems deny it namespaces.
    assert offered - set(line.child.confinement) <= ({"user", "namespaces"} if template_is_ordinary(line) else set())


def template_is_ordinary(line):
    return "user" not in line.child.confinement


def test_only_passed_descriptors_are_open(line):
    # Counted without /proc, which is closed to the child.
    found = "import os\nopen_ = []\nfor fd in range(256):\n  try: os.fstat(fd); open_.append(fd)\n  except OSError: pass\nprint(open_)"
    assert line.printed(found) == "[0, 1, 2, 3]"


def test_memory_limit_fails_the_call_and_not_the_process(template):
    with Line(template, limits=Limits(memory=512 << 20)) as line:
        answer = line.run("import torch; x = torch.ones(1 << 30)")
        assert answer["error"] in ("RuntimeError", "MemoryError"), answer
        answer = line.run("kept = []\nwhile True: kept.append(bytearray(1 << 20))")
        assert answer["error"] == "MemoryError", answer
        assert line.printed("del kept; print(torch.ones(1 << 20).sum().item())") == str(float(1 << 20))


@pytest.mark.parametrize(
    ("limits", "code", "text"),
    [
        (Limits(wall_seconds=0.5), "import time; time.sleep(60)", "took longer than 0.5 s (limit wall_seconds)"),
        (Limits(cpu_seconds=0.5), "while True: pass", "used more CPU time than 0.5 s (limit cpu_seconds)"),
        # All signals that a process can ignore are ignored.
        (
            Limits(wall_seconds=0.5),
            "import signal\nfor s in set(signal.Signals) - {9, 19}: signal.signal(s, signal.SIG_IGN)\nwhile True: pass",
            "took longer",
        ),
        (Limits(wall_seconds=0.5), "import os, signal; os.kill(os.getpid(), signal.SIGSTOP)", "took longer"),
    ],
)
def test_watchdog_kills_a_child_that_exceeds_a_limit(template, limits, code, text):
    dog = Watchdog()
    with Line(template, limits=limits) as line, Line(template) as other:
        with dog.call(line.child, lambda: "torch.matrix_power"):
            assert line.run(code) == {}
        reason = line.child.wait(30)
        assert reason.startswith(f"the call torch.matrix_power {text}")
        assert line.child.end_reason() == reason
        with dog.call(other.child, lambda: "add"):
            assert other.printed("print(1)") == "1"
        assert other.child.is_alive()
    dog.close()


@pytest.mark.parametrize("limits", [Limits(wall_seconds=0.5), Limits(cpu_seconds=0.5)], ids=["wall", "cpu"])
def test_watchdog_kills_a_child_that_blocks_and_ignores_all_signals(template, limits):
    dog = Watchdog()
    with Line(template, limits=limits) as line:
        deaf = """
            import signal
            for number in set(signal.Signals) - {signal.SIGKILL, signal.SIGSTOP}:
                signal.signal(number, signal.SIG_IGN)
            signal.pthread_sigmask(signal.SIG_BLOCK, signal.valid_signals())
        """
        assert (
            line.printed(deaf + "    print(signal.SIGTERM in signal.pthread_sigmask(signal.SIG_BLOCK, []))") == "True"
        )
        os.kill(line.child.pid, signal.SIGTERM)
        assert line.printed("print('still here')") == "still here"
        with dog.call(line.child, lambda: "torch.matrix_power"):
            assert line.run("while True: pass") == {}
        assert line.child.wait(30).startswith("the call torch.matrix_power ") and not line.child.is_alive()
        assert line.child.exit_code == -signal.SIGKILL
    dog.close()


def test_watchdog_keeps_a_clock_for_each_call(template):
    dog = Watchdog()
    with Line(template, limits=Limits(wall_seconds=0.5)) as line:
        clock = dog.begin(line.child, lambda: "add")
        dog.end(dog.begin(line.child, lambda: "mul"))
        assert line.child.wait(30).startswith("the call add took longer")
        dog.end(clock)
    dog.close()


def test_watchdog_limits_each_order_of_a_child_that_does_not_answer(template):
    dog = Watchdog()
    given, done = 0, 0
    with Line(template, limits=Limits(wall_seconds=0.8)) as line:
        dog.keep(line.child, lambda: "exp", lambda: WorkCount(given, done))
        time.sleep(1.2)
        assert line.child.is_alive()  # it has no orders
        given = 3
        for done in (1, 2, 3):  # noqa: B007
            time.sleep(0.5)
        assert line.child.is_alive()
        given = 4
        assert line.child.wait(30) == "the call exp took longer than 0.8 s (limit wall_seconds)"
    dog.close()


def test_a_child_gains_no_cpu_time_by_orders_that_it_claims_to_have_done(template):
    dog = Watchdog()
    count = itertools.count(1)
    with Line(template, limits=Limits(cpu_seconds=0.5)) as line:
        dog.keep(line.child, lambda: "", lambda: WorkCount(2, next(count)))
        line.send("while True: pass")
        assert "(limit cpu_seconds)" in line.child.wait(30)
    dog.close()


SIGNALS = {
    "number of threads": "os.stat('/proc/{pid}/task').st_nlink",
    "number of files": "os.stat('/proc/{pid}/fd').st_size",
    "a thread": "os.access('/proc/{pid}/task/{pid}', os.F_OK) or 1 / 0",
    "whether it lives": "os.stat('/proc/{pid}')",
    "its program": "os.readlink('/proc/{pid}/exe')",
    "all processes": "os.listdir('/proc')[0]",
    "its own threads": "os.stat('/proc/self/task').st_nlink",
    "threads of the machine": "libc.sysinfo(ctypes.create_string_buffer(112)) and fail()",
}


@pytest.mark.skipif(not available()["hidden processes"].startswith("yes"), reason="the system offers no mounts")
@pytest.mark.parametrize("role", ["session", "vault"])
def test_a_child_sees_nothing_of_other_processes(template, role):
    prelude = "import ctypes, os\nlibc = ctypes.CDLL(None)\ndef fail(): raise PermissionError\n"
    with Line(template) as other, Line(template, role) as line:
        assert "hidden processes" in line.child.confinement
        for name, signal_ in SIGNALS.items():
            answer = line.run(f"{prelude}print({signal_.format(pid=other.child.pid)})")
            assert answer.get("error"), (name, answer)
        assert other.printed("print(1)") == "1"
    assert os.path.exists("/proc/self/stat")  # the node itself sees all  # noqa: PTH110


WORK = {
    "linear algebra": "torch.linalg.svd(torch.rand(20, 20)); torch.linalg.inv(torch.eye(5)); torch.fft.fft(torch.rand(64))",
    "convolution": "m = torch.nn.Sequential(torch.nn.Conv2d(3, 8, 3), torch.nn.BatchNorm2d(8)); m(torch.rand(2, 3, 16, 16)).sum().backward()",
    "training": "p = torch.nn.Linear(4, 2); o = torch.optim.Adam(p.parameters()); p(torch.rand(8, 4)).sum().backward(); o.step()",
    "threads": "torch.set_num_threads(2); torch.mm(torch.rand(500, 500), torch.rand(500, 500)); torch.rand(1 << 20).exp().sum()",
    "fake tensors": "from torch._subclasses.fake_tensor import FakeTensorMode\nwith FakeTensorMode(): torch.rand(3).add(1)",
    "late imports": "import wave, xml.dom.minidom, ctypes.util, torch.distributions",
    "python threads": "import threading; t = threading.Thread(target=print); t.start(); t.join()",
    "event loop": "import asyncio; asyncio.run(asyncio.sleep(0))",
    "clocks": "import time; time.sleep(0.01); time.perf_counter()",
    "randomness": "import os, secrets; os.urandom(10); secrets.token_bytes(3); torch.rand(2)",
    "keys and ciphers": "from cryptography.hazmat.primitives.ciphers.aead import AESGCM; AESGCM(AESGCM.generate_key(128)).encrypt(bytes(12), b'x', None)",
}


@pytest.mark.parametrize("work", WORK)
@pytest.mark.parametrize("role", ENTRIES)
def test_useful_work_is_possible(template, role, work):
    with Line(template, role) as line:
        if work == "late imports" and os.geteuid() == 0 and "user" not in line.child.confinement:
            pytest.skip("the interpreter may be readable by root only")
        line.printed("import torch\n" + WORK[work])


def test_data_is_mapped_from_a_descriptor_copy_on_write(template, tmp_path):
    file = tmp_path / "data"
    data = torch.arange(1000, dtype=torch.float32)
    file.write_bytes(data.numpy().tobytes())
    handle = os.open(file, os.O_RDONLY)
    with Line(template, fds=[handle]) as line:
        os.close(handle)
        code = """
            import mmap, torch
            x = torch.frombuffer(mmap.mmap(fds[1], 0, access=mmap.ACCESS_COPY), dtype=torch.float32)
            x.add_(1)
            print(x.sum().item())
        """
        assert float(line.printed(code)) == float((data + 1).sum())
        # Neither by its path nor through /proc can the file be opened again.
        for path in (str(file), "/proc/self/fd/4"):
            denied = ("PermissionError", "FileNotFoundError") if path.startswith("/proc/") else ("PermissionError",)
            assert line.run(f"open({path!r}, 'rb')")["error"] in denied
        answer = line.run("import os; os.write(fds[1], b'x')")
        assert answer["errno"] == errno.EBADF, answer
    assert file.read_bytes() == data.numpy().tobytes()


def test_further_descriptors_arrive_by_message(template, tmp_path):
    file = tmp_path / "data"
    file.write_bytes(b"later")
    ours, theirs = socket.socketpair()
    with ours, theirs, Line(template, "session", [theirs.fileno()]) as line, file.open("rb") as opened:
        socket.send_fds(ours, [b"x"], [opened.fileno()])
        code = "import os, socket\n_, got, _, _ = socket.recv_fds(socket.socket(fileno=fds[1]), 1, 1)\nprint(os.read(got[0], 9))"
        assert line.printed(code) == "b'later'"


def test_writable_descriptor_cannot_grow_a_file(template, tmp_path):
    with (tmp_path / "out").open("wb") as out, Line(template, fds=[out.fileno()]) as line:
        answer = line.run("import os; os.write(fds[1], b'x')")
        assert answer["errno"] == errno.EFBIG, answer


def test_limits_are_checked():
    with pytest.raises(ValueError, match="Limits.memory must be positive, got 0"):
        Limits(memory=0)
    with pytest.raises(ValueError, match=r"Limits.processes must be 0, got 3: confined processes cannot fork"):
        Limits(processes=3)


def test_summary_names_missing_measures():
    line = summary({"seccomp": "yes", "landlock": "yes, ABI 7", "user": "no: the node does not run as root"})
    assert line == "Isolation: seccomp; landlock, ABI 7. Missing: user (the node does not run as root)."
    assert set(available()) == set(MEASURES)
    assert summary().startswith("Isolation: ")


def test_other_threads_of_the_supervisor_are_untouched(template):
    """Starting children does not confine the supervisor itself."""
    with Line(template):
        done = []
        thread = threading.Thread(target=lambda: done.append(socket.socket().close()))
        thread.start()
        thread.join()
        assert done == [None]
