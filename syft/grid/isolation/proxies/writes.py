"""The arguments that a call writes to, by its name and arguments."""

from __future__ import annotations

from typing import Any

from syft.messaging.message import Operation
from syft.messaging.mutation import changed_values

# Norms that update running statistics: the positions of the two statistics and of the flag that enables the update,
# and the flag's name and default.
_NORMS: dict[str, tuple[int, int, int, str, bool]] = {
    "torch.nn.functional.batch_norm": (1, 2, 5, "training", False),
    "torch.nn.functional.instance_norm": (1, 2, 5, "use_input_stats", True),
    **{
        f"torch.{name}": (3, 4, 5, flag, True)
        for name, flag in (
            ("batch_norm", "training"),
            ("native_batch_norm", "training"),
            ("instance_norm", "use_input_stats"),
        )
    },
}


def written_values(name: str, args: tuple[Any, ...], kwargs: dict[str, Any]) -> list[Any]:
    """Return the arguments that a call writes to, with their nesting.

    Args:
        name: the wire name of the call.
        args: its arguments.
        kwargs: its keyword arguments.
    """
    norm = _NORMS.get(name)
    if norm is None:
        return changed_values(Operation(name, None, args, kwargs))
    mean, variance, at, flag, default = norm
    updates = args[at] if len(args) > at else kwargs.get(flag, default)
    if not updates:
        return []
    return [*args[mean : variance + 1], kwargs.get("running_mean"), kwargs.get("running_var"), kwargs.get("out")]
