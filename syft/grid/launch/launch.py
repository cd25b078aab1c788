"""launch: start real nodes for local work, such as a notebook with an owner and a user in it."""

from __future__ import annotations

import importlib.util
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, overload

from syft.exceptions import DependencyError

if TYPE_CHECKING:
    from syft.grid.launch.node import LaunchedNode

_NEEDED = {"fastapi": "fastapi", "uvicorn": "uvicorn", "jwt": "pyjwt", "argon2": "argon2-cffi", "typer": "typer"}


@overload
def launch(
    name: str,
    data: Mapping[str, Any] | str | Path | None = None,
    users: Sequence[str] | str = ("user",),
    store: str | Path | None = None,
    port: int = 0,
    **settings: Any,
) -> LaunchedNode: ...
@overload
def launch(
    name: Mapping[str, Any], data: None = None, users: Sequence[str] | str = ("user",), **settings: Any
) -> tuple[LaunchedNode, ...]: ...
def launch(
    name: str | Mapping[str, Any],
    data: Mapping[str, Any] | str | Path | None = None,
    users: Sequence[str] | str = ("user",),
    store: str | Path | None = None,
    port: int = 0,
    **settings: Any,
) -> LaunchedNode | tuple[LaunchedNode, ...]:
    """Start a node on this machine, and return it with its owner and its users.

    The node is the program of `python -m syft node start`, with TLS, tokens, isolated processes and a store. It listens
    on this machine only. It ends when this program ends, however that happens.

    A name that already runs: with equal arguments the running node is returned, with its requests, grants and budgets,
    so a notebook cell can be run again. With other arguments that node is stopped and a new one is started.

    Args:
        name: the id of the node; or a dictionary from ids to data, to start several nodes at the same time.
        data: a dictionary from names to tensors, numpy arrays, pandas objects, `sy.BaseDataset`s, or paths of files or
            folders. A tuple adds options: `(tensor, {"tags": [...], "description": "...", "allowed_users": [...],
            "epsilon": 1.0, "delta": 1e-6})`. Or the path of a data folder. All data is private by default.
        users: the names of the users.
        store: a folder that keeps data, requests and budgets when the node stops; None: everything is deleted.
        port: the port; 0: any free port.
        **settings: options of `python -m syft node start`, such as `threads=2`, `max_user_bytes="500M"`,
            `call_seconds=60`, `owner="data-office@hospital.example"`.

    Returns:
        The node; a tuple of nodes, in order, if `name` is a dictionary.

    Raises:
        NodeStartError: the node did not start; the text has the reason.

    Example:
        >>> node = sy.launch("hospital", data={"ages": ages}, users=["sam"])  # doctest: +SKIP
        >>> node.users["sam"].search("#ages")  # doctest: +SKIP
        >>> node.owner.requests  # doctest: +SKIP
    """
    for module, package in _NEEDED.items():
        if importlib.util.find_spec(module) is None:
            raise DependencyError(package, "node")
    from syft.grid.launch.start import NodePlan, start_nodes

    if isinstance(name, Mapping):
        plans = [NodePlan.of(each, given, users, None, 0, settings) for each, given in name.items()]
        NodePlan.check_several(plans, data, store, port)
        return tuple(start_nodes(plans))
    return start_nodes([NodePlan.of(name, data, users, store, port, settings)])[0]
