"""Errors of serialization and wire codes."""

from __future__ import annotations

from syft.exceptions.base import SyftError


class SerdeError(SyftError):
    """Bytes are not a valid message, or an object can't be serialized."""

    code = "SY801"


class CompressionNotFoundError(SerdeError):
    """Unknown compression scheme."""

    code = "SY802"

    def __init__(self, code: object = None) -> None:
        super().__init__(f"Compression scheme not found for compression code: {code}")


class InvalidProtocolFileError(SyftError):
    """The table of wire codes could not be read."""

    code = "SY803"


class UndefinedProtocolTypeError(SyftError):
    """A type has no wire code."""

    code = "SY804"


class UndefinedProtocolTypePropertyError(SyftError):
    """A property of a wire code is not set."""

    code = "SY805"
