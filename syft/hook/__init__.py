"""How a torch call reaches syft: one tensor subclass, tables of rules, and methods added to torch.

`sy.hook` is also the documented name of the TorchHook in force: its attributes are found here too.
"""

from __future__ import annotations

from typing import Any

from syft._suggestions import no_name

# The hook in force, if torch is hooked: at most one.
_installed: list[Any] = []


def __getattr__(name: str) -> Any:
    if not name.startswith("__") and _installed and hasattr(_installed[0], name):
        return getattr(_installed[0], name)
    raise no_name(__name__, name, [*globals(), *(dir(_installed[0]) if _installed else ())])
