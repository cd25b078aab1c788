"""The filter of system calls, run by an interpreter, for both architectures."""

from __future__ import annotations

import errno
import os
import struct
import sys

import pytest

from syft.grid.isolation.confinement import seccomp
from syft.grid.isolation.confinement.syscalls import CHECKED, DESCRIPTORS
from tests.helpers import warm_processes as warm

pytestmark = pytest.mark.skipif(not sys.platform.startswith("linux"), reason="the filter is Linux's")

ARCH = {"x86_64": 0xC000003E, "aarch64": 0xC00000B7}
COLUMN = {"x86_64": 0, "aarch64": 1}
ALLOW, KILL = 0x7FFF0000, 0x80000000
EPERM, ENOSYS = 0x50000 | errno.EPERM, 0x50000 | errno.ENOSYS
FORBIDDEN = {
    "x86_64": {"socket": 41, "connect": 42, "bind": 49, "listen": 50, "accept": 43, "fork": 57, "vfork": 58, "execve": 59,
               "execveat": 322, "ptrace": 101, "process_vm_readv": 310, "process_vm_writev": 311, "io_uring_setup": 425,
               "bpf": 321, "mount": 165, "unlink": 87, "rename": 82, "setuid": 105, "tkill": 200, "memfd_create": 319,
               "pidfd_open": 434, "pidfd_getfd": 438, "open_by_handle_at": 304, "perf_event_open": 298, "unshare": 272,
               "setns": 308, "shmget": 29, "userfaultfd": 323, "keyctl": 250, "ftruncate": 77, "seccomp": 317},
    "aarch64": {"socket": 198, "connect": 203, "bind": 200, "listen": 201, "accept": 202, "execve": 221, "execveat": 281,
                "ptrace": 117, "process_vm_readv": 270, "process_vm_writev": 271, "io_uring_setup": 425, "bpf": 280,
                "mount": 40, "unlinkat": 35, "renameat": 38, "setuid": 146, "tkill": 130, "memfd_create": 279,
                "pidfd_open": 434, "pidfd_getfd": 438, "open_by_handle_at": 265, "perf_event_open": 241, "unshare": 97,
                "setns": 268, "shmget": 194, "userfaultfd": 282, "keyctl": 219, "ftruncate": 46, "seccomp": 277},
}  # fmt: skip


def decide(machine, number, *arguments, files=True, arch=None):
    """Run the filter on a system call, and return its verdict."""
    code = seccomp.build(files, machine)
    values = [value & (2**64 - 1) for value in (*arguments, *[0] * 6)[:6]]
    data = struct.pack("=IIQ6Q", number, arch or ARCH[machine], 0, *values)
    at, accumulator = 0, 0
    while True:
        kind, yes, no, value = struct.unpack_from("=HBBI", code, 8 * at)
        at += 1
        if kind == 0x20:
            accumulator = struct.unpack_from("=I", data, value)[0]
        elif kind == 0x54:
            accumulator &= value
        elif kind in (0x15, 0x35):
            at += yes if (accumulator == value if kind == 0x15 else accumulator >= value) else no
        else:
            assert kind == 0x06
            return value


@pytest.mark.parametrize("machine", ARCH)
def test_dangerous_calls_are_denied(machine):
    for name, number in FORBIDDEN[machine].items():
        assert decide(machine, number) == EPERM, name
    # The 32-bit variants that x86_64 kernels offer, and calls that do not exist yet.
    for number in (0x40000000, 0x40000000 + 59, 9999, 2**32 - 1):
        assert decide(machine, number) == EPERM
    assert decide(machine, 1, arch=0x40000003) == KILL


@pytest.mark.parametrize("machine", ARCH)
def test_plain_calls_are_allowed(machine):
    for name, numbers in DESCRIPTORS.items():
        number = numbers[COLUMN[machine]]
        if number is not None:
            assert decide(machine, number) == ALLOW, name


@pytest.mark.parametrize("machine", ARCH)
def test_arguments_decide(machine):
    def verdict(name, *arguments, **given):
        return decide(machine, CHECKED[name][COLUMN[machine]], *arguments, **given)

    thread = 0x3D0F00  # what glibc passes for a thread
    assert verdict("clone", thread) == ALLOW
    assert verdict("clone", 17) == EPERM  # fork
    assert verdict("clone", thread | 0x10000000) == EPERM
    assert verdict("clone3") == ENOSYS
    assert verdict("openat", -100, 1, os.O_RDONLY | os.O_CLOEXEC | os.O_DIRECTORY) == ALLOW
    for flags in (os.O_WRONLY, os.O_RDWR, os.O_CREAT, os.O_TRUNC, os.O_APPEND, os.O_TMPFILE | os.O_RDWR, 3):
        assert verdict("openat", -100, 1, flags) == EPERM
    assert verdict("openat", -100, 1, 0, files=False) == 0x50000 | errno.EACCES
    assert verdict("kill", os.getpid(), 9) == ALLOW
    for pid in (0, -1, 1, -os.getpid(), os.getppid()):
        assert verdict("kill", pid, 9) == EPERM
    assert verdict("sendto", 3, 1, 1, 0, 0, 0) == ALLOW
    assert verdict("sendto", 3, 1, 1, 0, 1, 16) == EPERM
    assert verdict("sendto", 3, 1, 1, 0, 1 << 32, 16) == EPERM
    assert verdict("socketpair", 1, 1 | 0o2000000) == ALLOW
    assert verdict("socketpair", 1, 2) == EPERM
    assert verdict("socketpair", 2, 1) == EPERM
    assert verdict("prlimit64", 0, 9, 0, 1) == ALLOW
    assert verdict("prlimit64", 0, 9, 1 << 40, 0) == EPERM
    assert verdict("ioctl", 0, 0x5401) == ALLOW
    assert verdict("ioctl", 0, 0x5412) == EPERM  # TIOCSTI types into a terminal
    assert verdict("fcntl", 0, 1030) == ALLOW
    assert verdict("fcntl", 0, 8) == EPERM  # F_SETOWN sends signals


def test_no_file_is_opened_where_nothing_else_limits_files(tmp_path):
    file = tmp_path / "key"
    file.write_text("secret")
    code = """
import os, sys
from syft.grid.isolation.confinement import kernel, seccomp
kernel.prctl(kernel.PR_SET_NO_NEW_PRIVS, 1)
seccomp.install(files=False)
try:
    print(open(sys.argv[1]).read())
except PermissionError as error:
    print("denied", error.errno)
"""
    env = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
    assert warm.run(code, file, env=env, timeout=60).stdout == f"denied {errno.EACCES}\n"
