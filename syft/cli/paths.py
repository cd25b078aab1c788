"""Where a node keeps what it keeps, if nobody says where: a folder for each id, in the user's data directory."""

from __future__ import annotations

import os
from pathlib import Path
from urllib.parse import quote

from syft.cli.node_record import FILE
from syft.exceptions import SyftError

VARIABLE = "RESYFT_HOME"
_LONGEST = 200  # of the name of a folder, in any file system


def data_home() -> Path:
    """Return the folder for all nodes of this user: RESYFT_HOME, else XDG_DATA_HOME/resyft or ~/.local/share/resyft."""
    chosen = os.environ.get(VARIABLE, "")
    if chosen:
        return Path(chosen).absolute()
    shared = os.environ.get("XDG_DATA_HOME", "")
    if Path(shared).is_absolute():  # one that is not absolute counts for nothing, says the standard
        return Path(shared) / "resyft"
    try:
        return Path.home() / ".local" / "share" / "resyft"
    except RuntimeError:
        raise SyftError(f"This account has no home. Say where: --store FOLDER, or the variable {VARIABLE}.") from None


def default_store(node: str) -> Path:
    """Return the folder of a node that was not told where to keep what it keeps."""
    name = quote(node, safe=" @+=,")
    if name.startswith("."):  # neither this folder, nor the one above, nor a hidden one
        name = f"%2E{name[1:]}"
    if not node.strip() or len(name) > _LONGEST:
        raise SyftError("The id of a node is a short text, such as hospital-a; or say where it is kept: --store FOLDER")
    return data_home() / "nodes" / name


def only_store() -> Path | None:
    """Return the folder of the only node of this user; None if there are none, or several."""
    found = list((data_home() / "nodes").glob(f"*/identity/{FILE}"))
    return found[0].parent.parent if len(found) == 1 else None
