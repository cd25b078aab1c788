"""`explain`: the manual's section on an error."""

from __future__ import annotations

from typing import Annotated

import typer

from syft.cli.output import fail, say
from syft.exceptions.manual import section


def explain(error: Annotated[str, typer.Argument(help="A code such as SY302, or the name of an error.")]) -> None:
    """Print when an error is raised and what to do about it."""
    try:
        say(section(error))
    except ValueError as unknown:
        fail(str(unknown))
