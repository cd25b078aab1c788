"""UnreadableFileError: the reason why a data file was refused, safe to log."""

from __future__ import annotations


class UnreadableFileError(ValueError):
    """A data file has unsupported contents. The message contains no values of the file."""
