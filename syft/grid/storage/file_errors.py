"""UnreadableFileError: why a file of an owner's data was not taken, in words that may stand in a log."""

from __future__ import annotations


class UnreadableFileError(ValueError):
    """A file does not hold what files of its kind may hold. The text is of our own: it shows no values."""
