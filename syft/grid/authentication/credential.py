"""AbstractCredential: the interface of credentials."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Any

__all__ = ["AbstractCredential"]


class AbstractCredential(ABC):
    """A secret that authenticates a client. Clients send it only over verified TLS or within this machine."""

    @staticmethod
    @abstractmethod
    def parse(path: str, file_name: str) -> Sequence[AbstractCredential]:
        """Read credentials from a file."""

    @abstractmethod
    def json(self) -> dict[str, Any]:
        """Return the JSON that is sent. It contains the secret: do not log it."""
