"""Start launched nodes: hand over their data, wait until they serve, and set what only a running node takes."""

from __future__ import annotations

import dataclasses
import shutil
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Self

from syft.core.callsite import warn_user
from syft.exceptions import SyftError
from syft.grid import certificates
from syft.grid.identity.names import user_name
from syft.grid.launch.data import Handover, budgets_of, hand_over
from syft.grid.launch.node import LaunchedNode
from syft.grid.launch.options import command_words
from syft.grid.launch.process import LaunchedProcess, stop_all, wait_until_ready
from syft.grid.launch.session import Launched, LaunchSession, session
from syft.grid.node.settings import Settings

_HOSTS = ("localhost", "127.0.0.1")
_SKIPPED = "Skipped the file "


@dataclasses.dataclass(frozen=True, slots=True)
class NodePlan:
    """The arguments of one node, after checks.

    Attributes:
        name: its id.
        data: its data, as `launch` takes it.
        users: the names of its users.
        words: the words of its command.
        threads: the number of torch threads.
    """

    name: str
    data: Any = dataclasses.field(compare=False)
    users: tuple[str, ...]
    words: tuple[str, ...]
    threads: int

    @classmethod
    def of(
        cls,
        name: str,
        data: Any,
        users: Sequence[str] | str,
        store: str | Path | None,
        port: int,
        settings: Mapping[str, Any],
    ) -> Self:
        """Check the arguments of `launch`.

        Raises:
            SyftError: an argument is wrong.
        """
        Settings(id=name)  # raises if it is no id
        if type(port) is not int or not 0 <= port < 2**16:
            raise SyftError(f"launch(port=...) needs a port from 0 to 65535, got {port!r}.")
        words = ["--id", name, "--port", str(port), *command_words(settings)]
        if store is not None:
            words += ["--store", str(Path(store).expanduser().absolute())]
        names = tuple(dict.fromkeys(map(user_name, [users] if isinstance(users, str) else users)))
        threads = 1 if settings.get("threads") is None else settings["threads"]
        if type(threads) is not int or threads < 1:
            raise SyftError(f"launch(threads=...) needs a positive number of threads, got {threads!r}.")
        return cls(name, data, names, tuple(words), threads)

    @staticmethod
    def check_several(plans: Sequence[NodePlan], data: object, store: object, port: int) -> None:
        """Refuse arguments that fit one node only."""
        if not plans:
            raise SyftError("launch() needs at least one node: sy.launch({'north': data, 'south': data}).")
        for option, is_given in (("data", data is not None), ("store", store is not None), ("port", port != 0)):
            if is_given:
                raise SyftError(f"launch({option}=...) is for one node. Launch each node by itself to set it.")


def start_nodes(plans: Sequence[NodePlan]) -> list[LaunchedNode]:
    """Return a running node for each plan; nodes that run with equal arguments are returned as they are."""
    here = session()
    with here.lock:
        folders: dict[str, Path] = {}
        try:
            handed = {}
            for plan in plans:
                folders[plan.name] = here.new_folder(plan.name)
                handed[plan.name] = hand_over(plan.data, folders[plan.name] / "data")
            new = [plan for plan in plans if not _is_same(here, plan, handed[plan.name])]
            stop_all([_retire(here, plan.name) for plan in new if plan.name in here.nodes])
            _start(here, new, handed, folders)
        finally:
            for name, folder in folders.items():
                known = here.nodes.get(name)
                shutil.rmtree(
                    folder if known is None or known.handed is not handed.get(name) else folder / "data",
                    ignore_errors=True,
                )
        return [here.nodes[plan.name].node for plan in plans]


def _is_same(here: LaunchSession, plan: NodePlan, handed: Handover) -> bool:
    known = here.nodes.get(plan.name)
    return (
        known is not None and known.node.is_running and known.arguments == plan and known.handed.digest == handed.digest
    )


def _retire(here: LaunchSession, name: str) -> LaunchedProcess:
    """Close the clients of a node that is replaced, and return its process."""
    node = here.nodes.pop(name).node
    node.release()
    return node.process


def _start(
    here: LaunchSession, plans: Sequence[NodePlan], handed: Mapping[str, Handover], folders: Mapping[str, Path]
) -> None:
    started: list[LaunchedProcess] = []
    try:
        for plan in plans:
            started.append(_process(here, plan, folders[plan.name]))
        wait_until_ready(started)
        for plan, process in zip(plans, started, strict=True):
            node = LaunchedNode(process, here.authority.certificate, plan.users)
            _complete(node, handed[plan.name])
            here.nodes[plan.name] = Launched(node, plan, handed[plan.name])
    except BaseException:
        for plan in plans:
            here.nodes.pop(plan.name, None)
        stop_all(started)
        raise


def _process(here: LaunchSession, plan: NodePlan, folder: Path) -> LaunchedProcess:
    pair = certificates.issue(here.authority, _HOSTS, folder / "tls", node_id=plan.name)
    secrets = ["--cert", pair.certificate, "--key", pair.key, "--ca", here.authority.certificate]
    words = ["node", "start", *plan.words, "--data", folder / "data", *secrets]
    return LaunchedProcess(plan.name, folder, list(map(str, words)), plan.threads)


def _complete(node: LaunchedNode, handed: Handover) -> None:
    """Add data sets and budgets, and report files that the node left out."""
    for name, dataset in handed.datasets.items():
        node.owner.client.add_dataset(dataset, name)
        readers = handed.options[name].allowed_users
        if readers is not None:
            node.owner.share(f"dataset:{name}", readers)
    for data, epsilon, delta in budgets_of(handed):
        node.owner.budget.set(data, epsilon, delta)
    for line in node.log().splitlines():
        if _SKIPPED in line:
            warn_user(f"The node {node.id!r} left out {line.partition(_SKIPPED)[2]}")
