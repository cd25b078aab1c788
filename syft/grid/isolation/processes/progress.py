"""ProgressPage: shared memory in which a child process writes the name of its current call, for crash reports."""

from __future__ import annotations

import contextlib
import mmap
import os
import struct

from syft.core.labels import printable

_SIZE = 4096
_MAX_NAME = 200
# The number of completed orders, after the name.
_DONE = struct.Struct("<Q")
_DONE_AT = 512


class ProgressPage:
    """The name of the current call, shared by the supervisor and one child process.

    Args:
        fd: the descriptor of an existing page; None creates a new one.
    """

    def __init__(self, fd: int | None = None) -> None:
        if fd is None:
            fd = os.memfd_create("syft-progress", os.MFD_CLOEXEC)
            os.ftruncate(fd, _SIZE)
        self._fd = fd
        self._page = mmap.mmap(fd, _SIZE)
        self._last = ""

    def fileno(self) -> int:
        """Return the descriptor of the page."""
        return self._fd

    def close_descriptor(self) -> None:
        """Close the descriptor after the child has it; the page stays mapped."""
        if self._fd >= 0:
            os.close(self._fd)
            self._fd = -1

    def write(self, name: str) -> None:
        """Write the name of the call that begins; "" after its end."""
        data = name.encode("utf-8", "replace")[:_MAX_NAME]
        self._page[: len(data) + 1] = data + b"\0"

    def read(self) -> str:
        """Return the name of the current call. For display only: the child wrote it."""
        try:
            data = bytes(self._page[: _MAX_NAME + 1]).partition(b"\0")[0]
        except ValueError:  # it is closed
            return self._last
        return printable(data.decode("utf-8", "replace"))

    def note_done(self, count: int) -> None:
        """Write the number of completed orders."""
        _DONE.pack_into(self._page, _DONE_AT, count)

    def done(self) -> int:
        """Return the number of completed orders, as the child wrote it."""
        try:
            count: int = _DONE.unpack_from(self._page, _DONE_AT)[0]
        except ValueError:  # it is closed
            return 0
        return count

    def close(self) -> None:
        """Unmap the page; `read` returns the last name from now on."""
        self._last = self.read()
        with contextlib.suppress(OSError, ValueError):
            self._page.close()
            self.close_descriptor()
