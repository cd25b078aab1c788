"""AbstractCredential: what every kind of credential can do."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Any

__all__ = ["AbstractCredential"]


class AbstractCredential(ABC):
    """Something that shows who a client is. Clients send it over verified TLS, or within this machine, only."""

    @staticmethod
    @abstractmethod
    def parse(path: str, file_name: str) -> Sequence[AbstractCredential]:
        """Read credentials from a file."""

    @abstractmethod
    def json(self) -> dict[str, Any]:
        """Return the form that is sent. It holds the secret: do not log it."""
