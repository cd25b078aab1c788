"""`with_target`: gives a command the options that select a node."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from typing import Any

from syft.cli.api_client import Target
from syft.cli.options import Ca, Home, NodeId, Store, TokenFile, Url

# The default of a command's `target`: no node was selected.
NO_TARGET = Target()
_OPTIONS: dict[str, Any] = {
    "node": NodeId, "store": Store, "home": Home, "url": Url, "token_file": TokenFile, "ca": Ca
}  # fmt: skip


def with_target(command: Callable[..., None]) -> Callable[..., None]:
    """Replace the parameter `target` of a command by the options that select a node."""
    parameters: list[inspect.Parameter] = []
    for parameter in inspect.signature(command, eval_str=True).parameters.values():
        if parameter.name == "target":
            parameters += [parameter.replace(name=n, default=None, annotation=a) for n, a in _OPTIONS.items()]
        else:
            parameters.append(parameter)

    @functools.wraps(command)
    def run(**given: Any) -> None:
        target = Target(**{name: given.pop(name) for name in _OPTIONS})
        command(target=target, **given)

    # Typer reads the signature and the annotations of the wrapper, not of the wrapped function.
    del run.__wrapped__
    run.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
    run.__annotations__ = {parameter.name: parameter.annotation for parameter in parameters}
    return run
