"""Default folders of nodes: one for each id, in the user's data directory."""

from __future__ import annotations

import os
from pathlib import Path
from urllib.parse import quote

from syft.cli.node_record import FILE
from syft.exceptions import SyftError

VARIABLE = "RESYFT_HOME"
_LONGEST = 200  # length of a folder's name in any file system


def data_home() -> Path:
    """Return the folder for all nodes of this user: RESYFT_HOME, else XDG_DATA_HOME/resyft or ~/.local/share/resyft."""
    chosen = os.environ.get(VARIABLE, "")
    if chosen:
        return Path(chosen).absolute()
    shared = os.environ.get("XDG_DATA_HOME", "")
    if Path(shared).is_absolute():  # the standard says to ignore a path that is not absolute
        return Path(shared) / "resyft"
    try:
        return Path.home() / ".local" / "share" / "resyft"
    except RuntimeError:
        raise SyftError(
            f"This account has no home folder. Pass --store FOLDER, or set the variable {VARIABLE}."
        ) from None


def default_store(node: str) -> Path:
    """Return the default folder of a node."""
    name = quote(node, safe=" @+=,")
    if name.startswith("."):  # not ".", "..", or a hidden folder
        name = f"%2E{name[1:]}"
    if not node.strip() or len(name) > _LONGEST:
        raise SyftError("The id of a node is a short text, such as hospital-a; or say where it is kept: --store FOLDER")
    return data_home() / "nodes" / name


def only_store() -> Path | None:
    """Return the folder of the only node of this user; None if there are none, or several."""
    found = list((data_home() / "nodes").glob(f"*/identity/{FILE}"))
    return found[0].parent.parent if len(found) == 1 else None
