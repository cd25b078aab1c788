"""Wire codes by class, under the documented names."""

from __future__ import annotations

from collections.abc import Mapping

from syft.exceptions import UndefinedProtocolTypeError, UndefinedProtocolTypePropertyError
from syft.serde import registry


class TypeInfo:
    """The wire codes of one type."""

    def __init__(self, name: str, obj: Mapping[str, int]) -> None:
        """Store the name of a type and its codes, under "code" and "forced_code"."""
        self.name = name
        self.obj = obj

    def _property(self, name: str) -> int:
        if name not in self.obj:
            raise UndefinedProtocolTypePropertyError(
                f"The type {self.name} has no {name}. Set it with syft.serde.register."
            )
        return self.obj[name]

    @property
    def code(self) -> int:
        """The code of an object."""
        return self._property("code")

    @property
    def forced_code(self) -> int:
        """The code of a full copy, for types that are otherwise sent as a reference."""
        return self._property("forced_code")


def fullname(cls: type) -> str:
    """Return the name of a class with its module; only the name for python's own."""
    return cls.__qualname__ if cls.__module__ == "builtins" else f"{cls.__module__}.{cls.__qualname__}"


def proto_type_info(cls: type) -> TypeInfo:
    """Return the wire codes of a class."""
    row = registry.BY_TYPE.get(cls)
    if row is None:
        raise UndefinedProtocolTypeError(
            f"The type {fullname(cls)} has no wire code. Register it with syft.serde.register."
        )
    codes = {"code": row.code}
    forced = registry.FORCED.get(cls)
    if forced is not None:
        codes["forced_code"] = forced.code
    return TypeInfo(fullname(cls), codes)
