"""StringPointer: a remote String with the methods of `str`; each call is one message."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

from syft.core.string import COMPARISONS, METHODS, OPERATORS, String, plain_text, run_for_peer, with_string_signature
from syft.core.trees import map_tensors
from syft.hook.allowed_functions import register_command
from syft.pointers.object_pointer import ObjectPointer
from syft.pointers.remote_call import call_by_name, pointer_kinds


class StringPointer(ObjectPointer):
    """A pointer to a String at another worker; see ObjectPointer for the arguments."""


pointer_kinds["string"] = StringPointer


def _remote(name: str) -> Callable[..., Any]:
    def method(self: StringPointer, *args: object, **kwargs: object) -> Any:
        plain, named = map_tensors(plain_text, (args, kwargs))
        return call_by_name(f"str.{name}", (self, *plain), named)

    method.__name__ = name
    method.__doc__ = f"Run `str.{name}` on the remote string."
    return with_string_signature(method)


for _name in (*METHODS, *OPERATORS, *COMPARISONS, "__len__"):
    register_command(f"str.{_name}", functools.partial(run_for_peer, _name))
    setattr(StringPointer, _name, _remote(_name))


# A pointer to a String deletes it by default.
String.create_pointer = staticmethod(  # type: ignore[attr-defined]
    functools.partial(StringPointer.create_pointer, garbage_collect_data=True)
)
