"""Every error of the library, with its code; docs/errors.md has the tree and a section for each.

Texts say what happened and what to do next, and never contain the values of a tensor. Names of 0.2 that do not end in
`Error` are aliases.
"""

from __future__ import annotations

from syft._lazy import publish as _publish
from syft.exceptions.base import *  # noqa: F403
from syft.exceptions.objects import *  # noqa: F403
from syft.exceptions.services import *  # noqa: F403

_publish(__name__, globals(), list(globals()))
