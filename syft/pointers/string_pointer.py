"""StringPointer: a remote String with the methods of `str`; each call is one message."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

from syft.core.string import METHODS, OPERATORS, String, call_string_method
from syft.hook.functions import register_command
from syft.pointers.object_pointer import ObjectPointer
from syft.pointers.remote_call import call_by_name, pointer_kinds


class StringPointer(ObjectPointer):
    """A pointer to a String at another worker; see ObjectPointer for the arguments."""


pointer_kinds["string"] = StringPointer


def _remote(name: str) -> Callable[..., Any]:
    def method(self: StringPointer, *args: Any, **kwargs: Any) -> Any:
        plain = tuple(value.child if isinstance(value, String) else value for value in args)
        return call_by_name(f"str.{name}", (self, *plain), kwargs)

    method.__name__ = name
    method.__doc__ = f"Run `str.{name}` on the remote text."
    return method


for _name in (*METHODS, *OPERATORS):
    register_command(f"str.{_name}", functools.partial(call_string_method, _name))
    setattr(StringPointer, _name, _remote(_name))


def create_pointer(
    obj: String,
    location: Any = None,
    id_at_location: Any = None,
    register: bool = False,
    owner: Any = None,
    ptr_id: Any = None,
    garbage_collect_data: bool = True,
) -> StringPointer:
    """Make a pointer to a String that a worker holds (documented as `String.create_pointer`)."""
    return StringPointer(
        location=location if location is not None else obj.owner,
        id_at_location=id_at_location if id_at_location is not None else obj.id,
        owner=owner,
        id=ptr_id,
        garbage_collect_data=garbage_collect_data,
        tags=obj.tags,
        description=obj.description,
    )


String.create_pointer = staticmethod(create_pointer)  # type: ignore[attr-defined]
