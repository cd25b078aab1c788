"""Calls of the Linux kernel that Python does not offer."""

from __future__ import annotations

import ctypes
import os
import sys

IS_LINUX = sys.platform == "linux"

PR_SET_PDEATHSIG = 1
PR_SET_DUMPABLE = 4
PR_SET_KEEPCAPS = 8
PR_SET_NO_NEW_PRIVS = 38
CAP_DAC_READ_SEARCH = 2
CLONE_NEWNS = 0x00020000
# Flags of mount(2): read-only, no set-user-id, no devices, no programs; and private with everything below.
_SEALED, _PRIVATE = 1 | 2 | 4 | 8, (1 << 14) | (1 << 18)

_CAPABILITY_VERSION = 0x20080522  # _LINUX_CAPABILITY_VERSION_3


def call(number: int, *arguments: int | ctypes.c_void_p | None) -> int:
    """Make a system call by number, and raise OSError if it fails."""
    libc = ctypes.CDLL(None, use_errno=True)
    # A plain int is passed as a 32-bit C int.
    wide = [ctypes.c_long(value) if isinstance(value, int) else value for value in arguments]
    return _checked(libc.syscall(ctypes.c_long(number), *wide))


def prctl(option: int, value: int = 0, pointer: ctypes.c_void_p | None = None) -> int:
    """Change or read an attribute of this process, and raise OSError if that fails."""
    libc = ctypes.CDLL(None, use_errno=True)
    zero = ctypes.c_ulong(0)
    return _checked(libc.prctl(option, ctypes.c_ulong(value), pointer or zero, zero, zero))


def unshare(flags: int) -> None:
    """Move this process into new namespaces."""
    _checked(ctypes.CDLL(None, use_errno=True).unshare(flags))


def cover(folder: str) -> None:
    """Hide the contents of a folder from this process by an empty file system, in its own mount namespace."""
    unshare(CLONE_NEWNS)
    libc = ctypes.CDLL(None, use_errno=True)
    none = ctypes.c_void_p()
    # First, or the empty file system would also appear outside of the namespace.
    _checked(libc.mount(b"none", b"/", none, ctypes.c_ulong(_PRIVATE), none))
    _checked(libc.mount(b"none", folder.encode(), b"tmpfs", ctypes.c_ulong(_SEALED), b"size=4k,nr_inodes=1,mode=555"))


def keep_capabilities(*kept: int) -> None:
    """Give up all capabilities but these, which must be permitted."""
    mask = sum(1 << number for number in kept)
    header = (ctypes.c_uint32 * 2)(_CAPABILITY_VERSION, 0)
    # Effective, permitted and inheritable, for capabilities 0 to 31 and then 32 to 63.
    sets = (ctypes.c_uint32 * 6)(mask, mask, 0, 0, 0, 0)
    _checked(ctypes.CDLL(None, use_errno=True).capset(header, sets))


def _checked(result: int) -> int:
    if result < 0:
        code = ctypes.get_errno()
        raise OSError(code, os.strerror(code))
    return result
