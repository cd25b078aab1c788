"""Landlock: which files a confined process may open. It needs no privileges and cannot be undone."""

from __future__ import annotations

import contextlib
import ctypes
import os
import struct
from collections.abc import Iterable
from pathlib import Path

from syft.grid.isolation.confinement import kernel

# The same numbers on all architectures.
_CREATE_RULESET, _ADD_RULE, _RESTRICT_SELF = 444, 445, 446
_VERSION = 1
_RULE_PATH_BENEATH = 1
_READ_FILE, _READ_DIR = 1 << 2, 1 << 3
# File system rights by ABI: the number of low bits of the mask that the kernel knows.
_RIGHTS = {1: 13, 2: 14, 3: 15, 4: 15, 5: 16}
_NETWORK = 0b11  # bind and connect TCP, from ABI 4
_SCOPES = 0b11  # abstract unix sockets and signals, from ABI 6


def abi() -> int:
    """Return the version of Landlock that the kernel offers; 0 if none."""
    if not kernel.IS_LINUX:
        return 0
    try:
        return kernel.call(_CREATE_RULESET, None, 0, _VERSION)
    except OSError:
        return 0


def restrict(readable: Iterable[Path]) -> int:
    """Let this process open only files below these folders, for reading; needs no_new_privs.

    Returns:
        The ABI version that was used.

    Raises:
        OSError: if the kernel does not offer Landlock.
    """
    version = kernel.call(_CREATE_RULESET, None, 0, _VERSION)
    handled = (1 << _RIGHTS[min(version, max(_RIGHTS))]) - 1
    attributes = struct.pack("=Q", handled)
    if version >= 4:
        attributes += struct.pack("=Q", _NETWORK)
    if version >= 6:
        attributes += struct.pack("=Q", _SCOPES)
    buffer = ctypes.create_string_buffer(attributes, len(attributes))
    ruleset = kernel.call(_CREATE_RULESET, ctypes.c_void_p(ctypes.addressof(buffer)), len(attributes), 0)
    try:
        for path in readable:
            with contextlib.suppress(FileNotFoundError, NotADirectoryError, PermissionError):
                _allow_reading(ruleset, path)
        kernel.call(_RESTRICT_SELF, ruleset, 0)
    finally:
        os.close(ruleset)
    return version


def _allow_reading(ruleset: int, path: Path) -> None:
    handle = os.open(path, os.O_PATH | os.O_CLOEXEC)
    try:
        rights = _READ_FILE | (_READ_DIR if path.is_dir() else 0)
        rule = struct.pack("=Qi", rights, handle)
        buffer = ctypes.create_string_buffer(rule, len(rule))
        kernel.call(_ADD_RULE, ruleset, _RULE_PATH_BENEATH, ctypes.c_void_p(ctypes.addressof(buffer)), 0)
    finally:
        os.close(handle)
