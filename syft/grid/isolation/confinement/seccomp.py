"""A seccomp filter: the system calls that a confined process may make. Everything else fails with EPERM."""

from __future__ import annotations

import ctypes
import errno
import os
import platform
import struct
from collections.abc import Callable

from syft.grid.isolation.confinement import kernel
from syft.grid.isolation.confinement.syscalls import ALLOWED, CHECKED

# Instructions of classic BPF.
_LOAD, _JUMP_EQUAL, _JUMP_AT_LEAST, _AND, _RETURN = 0x20, 0x15, 0x35, 0x54, 0x06
# Offsets in struct seccomp_data.
_NUMBER, _ARCH, _ARGUMENTS = 0, 4, 16
_ALLOW, _ERRNO, _KILL = 0x7FFF0000, 0x00050000, 0x80000000
_SECCOMP_SET_MODE_FILTER, _SECCOMP_GET_ACTION_AVAIL = 1, 2
# AUDIT_ARCH value, column of the tables, number of seccomp(2).
_MACHINES = {"x86_64": (0xC000003E, 0, 317), "aarch64": (0xC00000B7, 1, 277)}
_X32_BIT = 0x40000000

_CLONE_THREAD = 0x10000
_CLONE_NAMESPACES = 0x7E020080
_AF_UNIX, _SOCK_STREAM, _SOCKET_TYPE = 1, 1, 0xF
# Requests of ioctl(2): TCGETS, TIOCGWINSZ, FIONREAD, FIONBIO, FIONCLEX, FIOCLEX.
_IOCTLS = (0x5401, 0x5413, 0x541B, 0x5421, 0x5450, 0x5451)
# Commands of fcntl(2): DUPFD, GETFD, SETFD, GETFL, SETFL, DUPFD_CLOEXEC, GET_SEALS. No locks, no SIGIO to others.
_FCNTLS = (0, 1, 2, 3, 4, 1030, 1034)
_PRCTLS = (15, 16, 3)  # PR_SET_NAME, PR_GET_NAME, PR_GET_DUMPABLE
_ARCH_PRCTLS = (0x1021, 0x1022, 0x1023)  # ARCH_GET_XCOMP_SUPP and so on: oneDNN asks for AMX

_Instruction = tuple[int, int, int, int]


def _statement(code: int, value: int) -> _Instruction:
    return (code, 0, 0, value)


def _return(value: int) -> _Instruction:
    return _statement(_RETURN, value)


def _fail(code: int) -> _Instruction:
    return _return(_ERRNO | code)


def _argument(index: int, high: bool = False) -> _Instruction:
    # Both architectures are little-endian.
    return _statement(_LOAD, _ARGUMENTS + 8 * index + 4 * high)


def _one_of(index: int, values: tuple[int, ...]) -> list[_Instruction]:
    """Allow the call if the low half of an argument, which the kernel reads as an int, is one of the values."""
    tests = [(_JUMP_EQUAL, len(values) - at, 0, value) for at, value in enumerate(values)]
    return [_argument(index), *tests, _fail(errno.EPERM), _return(_ALLOW)]


def _is_zero(index: int) -> list[_Instruction]:
    """Allow the call if a 64-bit argument is zero."""
    return [
        _argument(index),
        (_JUMP_EQUAL, 0, 2, 0),
        _argument(index, high=True),
        (_JUMP_EQUAL, 1, 0, 0),
        _fail(errno.EPERM),
        _return(_ALLOW),
    ]


def _masked(index: int, mask: int, value: int) -> list[_Instruction]:
    """Allow the call if the masked bits of an argument have this value."""
    return [
        _argument(index),
        _statement(_AND, mask),
        (_JUMP_EQUAL, 1, 0, value),
        _fail(errno.EPERM),
        _return(_ALLOW),
    ]


def _stream_pair() -> list[_Instruction]:
    """Allow pairs of unix stream sockets. A datagram socket could send to any path, such as the system log's."""
    return [
        _argument(0),
        (_JUMP_EQUAL, 0, 3, _AF_UNIX),
        _argument(1),
        _statement(_AND, _SOCKET_TYPE),
        (_JUMP_EQUAL, 1, 0, _SOCK_STREAM),
        _fail(errno.EPERM),
        _return(_ALLOW),
    ]


def _checks(files: bool) -> dict[str, list[_Instruction]]:
    """Return the instructions for the calls whose arguments matter."""
    own = (os.getpid(),)
    writing = os.O_WRONLY | os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_APPEND | (os.O_TMPFILE & ~os.O_DIRECTORY)
    reading: Callable[[int], list[_Instruction]] = (
        (lambda index: _masked(index, writing, 0)) if files else (lambda index: [_fail(errno.EACCES)])
    )
    return {
        # Threads, but no processes. glibc falls back to clone, whose flags the filter can see.
        "clone": _masked(0, _CLONE_THREAD | _CLONE_NAMESPACES, _CLONE_THREAD),
        "clone3": [_fail(errno.ENOSYS)],
        "openat": reading(2),
        "open": reading(1),
        "openat2": [_fail(errno.ENOSYS)],
        "fcntl": _one_of(1, _FCNTLS),
        "ioctl": _one_of(1, _IOCTLS),
        "prctl": _one_of(0, _PRCTLS),
        "arch_prctl": _one_of(0, _ARCH_PRCTLS),
        "prlimit64": _is_zero(2),  # reading limits, not setting them
        "kill": _one_of(0, own),
        "tgkill": _one_of(0, own),
        "sendto": _is_zero(4),  # no address: only to the connected peer
        "socketpair": _stream_pair(),
        "sched_setaffinity": _one_of(0, (0,)),
        # Settings of other processes would be a channel from a vault to its session process.
        "sched_getaffinity": _one_of(0, (0, *own)),
        "sched_getparam": _one_of(0, (0, *own)),
        "sched_getscheduler": _one_of(0, (0, *own)),
    }


def build(files: bool, machine: str) -> bytes:
    """Return the filter program.

    Args:
        files: whether files may be opened for reading; pass False if nothing else limits which files.
        machine: "x86_64" or "aarch64".
    """
    arch, column, _ = _MACHINES[machine]
    program = [
        _statement(_LOAD, _ARCH),
        (_JUMP_EQUAL, 1, 0, arch),
        _return(_KILL),
        _statement(_LOAD, _NUMBER),
        (_JUMP_AT_LEAST, 0, 1, _X32_BIT),
        _fail(errno.EPERM),
    ]
    for numbers in ALLOWED.values():
        number = numbers[column]
        if number is not None:
            program += [(_JUMP_EQUAL, 0, 1, number), _return(_ALLOW)]
    for name, body in _checks(files).items():
        number = CHECKED[name][column]
        if number is not None:
            program += [(_JUMP_EQUAL, 0, len(body), number), *body]
    program.append(_fail(errno.EPERM))
    return b"".join(struct.pack("=HBBI", *instruction) for instruction in program)


def install(files: bool) -> None:
    """Apply the filter to all threads of this process; needs no_new_privs. Raises OSError if it cannot."""
    machine = platform.machine()
    if machine not in _MACHINES:
        raise OSError(errno.ENOSYS, f"no table of system calls for {machine}")
    code = build(files, machine)
    buffer = ctypes.create_string_buffer(code, len(code))

    class Program(ctypes.Structure):
        _fields_ = (("length", ctypes.c_ushort), ("code", ctypes.c_void_p))

    program = Program(len(code) // 8, ctypes.addressof(buffer))
    pointer = ctypes.c_void_p(ctypes.addressof(program))
    kernel.call(_MACHINES[machine][2], _SECCOMP_SET_MODE_FILTER, 0, pointer)


def state() -> str:
    """Return whether this system offers seccomp filters: "yes", or "no: " and the reason."""
    machine = platform.machine()
    if not kernel.IS_LINUX:
        return "no: needs Linux"
    if machine not in _MACHINES:
        return f"no: no table of system calls for {machine}"
    action = ctypes.c_uint32(_ERRNO)
    try:
        pointer = ctypes.c_void_p(ctypes.addressof(action))
        kernel.call(_MACHINES[machine][2], _SECCOMP_GET_ACTION_AVAIL, 0, pointer)
    except OSError as error:
        return f"no: {error.strerror}"
    return "yes"
