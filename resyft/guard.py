"""Imported by `syft` before its own modules: raises if files of another package are among them."""

from __future__ import annotations

from resyft.import_name import HERE, mixed

_problem = mixed(HERE)
if _problem is not None:
    raise ImportError(_problem, name="syft")
