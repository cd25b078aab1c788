"""The table of calls that child processes make to the supervisor."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from syft.exceptions import SerdeError
from syft.grid.isolation.processes.channel import Bytes, Frame
from syft.grid.isolation.supervisor.arguments import Check, arity_of, check_arguments

if TYPE_CHECKING:
    from syft.grid.isolation.supervisor.session_handle import SessionHandle

# Name of a call -> its handler: function(caller, body, *args). The caller, and with it the user, follows from the
# channel, never from a message.
Call = Callable[..., Any]
CALLS: dict[str, Call] = {}
_CHECKS: dict[str, tuple[tuple[int, float], tuple[Check, ...]]] = {}
_GIVEN = 2  # arguments of a handler from the supervisor


def serves(name: str, *checks: Check) -> Callable[[Call], Call]:
    """Register the handler of a call.

    Args:
        name: the name of the call.
        checks: one for each argument; the last one also for all further arguments.
    """

    def register(function: Call) -> Call:
        if name in CALLS:
            raise ValueError(f"The call {name!r} has a handler already.")
        CALLS[name] = function
        _CHECKS[name] = arity_of(function, _GIVEN), checks
        return function

    return register


class Reply:
    """The answer to a call: a plain value, bytes, and file descriptors, which are closed once they are sent."""

    def __init__(self, header: object, body: Bytes = b"", fds: list[int] | None = None) -> None:
        self.header = header
        self.body = body
        self.fds = fds or []


def call(caller: SessionHandle, frame: Frame) -> Any:
    """Serve a call of a child process, and return its answer: a plain value, or a `Reply`.

    Raises:
        SerdeError: there is no such call, or its arguments have the wrong types.
    """
    match frame.header:
        case (str() as name, tuple() as args) if name in CALLS:
            check_arguments(name, args, *_CHECKS[name])
            return CALLS[name](caller, frame.body, *args)
    raise SerdeError("A session process made an unknown call.")
