"""Access to Ray: imports it, starts it on this machine if it does not run yet, and shortens its errors.

Ray is imported where it is first needed, never by `import syft`.
"""

from __future__ import annotations

import importlib
import logging
import os
import re
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from syft.exceptions import DependencyError, SyftError
from syft.workers.transport.handshake import LOOPBACK

_MAX_REASON = 300
# Ray reports usage statistics by default.
_USAGE = "RAY_USAGE_STATS_ENABLED"
# The lines of Ray's errors that contain the reason why an actor is gone.
_BECAUSE = re.compile(r"^\s*The actor (?:is dead|died)[^.]*because (.*)$", re.MULTILINE)
_UNAVAILABLE = re.compile(r"^The actor \w+ is unavailable: (?:The actor is temporarily unavailable: )?(?:\w+: )?")


def package() -> Any:
    """Return the package `ray`."""
    try:
        return importlib.import_module("ray")
    except ImportError as error:
        raise DependencyError("ray", "ray") from error


def start(**options: object) -> None:
    """Connect to Ray, unless this process is connected: to the cluster that RAY_ADDRESS names, or to a new one.

    A new cluster is reachable from this machine only, and ends with this process.

    Args:
        **options: further options of `ray.init`.

    Raises:
        SyftError: Ray would be reachable from other machines.
    """
    ray = package()
    if ray.is_initialized():
        return
    quiet = {"ignore_reinit_error": True, "log_to_driver": False, "logging_level": logging.ERROR, **options}
    address = options.get("address") or os.environ.get("RAY_ADDRESS") or "local"
    if address != "local":
        ray.init(**{**quiet, "address": address})
        return
    with _on_loopback():
        ray.init(**{"include_dashboard": False, **quiet, "address": "local", "_node_ip_address": LOOPBACK})
    if not str(ray.get_runtime_context().gcs_address).startswith(f"{LOOPBACK}:"):
        ray.shutdown()
        raise SyftError(
            "This version of Ray would accept other machines, so it was stopped again. Start it yourself, with "
            "ray.init(...), on a machine where that is acceptable."
        )


@contextmanager
def _on_loopback() -> Iterator[None]:
    """Have Ray use the loopback address, as it does by itself on systems without clusters."""
    constants = importlib.import_module("ray._private.ray_constants")
    clusters = getattr(constants, "ENABLE_RAY_CLUSTER", True)
    usage = os.environ.get(_USAGE)
    constants.ENABLE_RAY_CLUSTER = False  # type: ignore[attr-defined]
    os.environ.setdefault(_USAGE, "0")
    try:
        yield
    finally:
        constants.ENABLE_RAY_CLUSTER = clusters  # type: ignore[attr-defined]
        if usage is None:
            del os.environ[_USAGE]


def connection() -> str | None:
    """Return a key of this process's connection to Ray; None if there is none. Each connection has another key."""
    ray = package()
    if not ray.is_initialized():
        return None
    context = ray.get_runtime_context()
    # Each part may be the same after a restart of the cluster or of the connection; together they are not.
    return f"{context.gcs_address} {context.get_node_id()} {context.get_worker_id()}"


def this_node() -> str:
    """Return Ray's name of this machine."""
    return str(package().get_runtime_context().get_node_id())


def explain(error: Exception) -> str:
    """Return in one line why an actor did not answer."""
    text = str(error)
    found = _BECAUSE.search(text)
    lines = [line.strip() for line in text.splitlines() if line.strip()] or [type(error).__name__]
    # For an error in the actor itself Ray shows the whole traceback, with its name in the last line.
    reason = found.group(1) if found is not None and not found.group(1).startswith("of an error raised") else lines[-1]
    return "its actor is gone: " + _UNAVAILABLE.sub("", reason)[:_MAX_REASON].rstrip(". ") + "."
