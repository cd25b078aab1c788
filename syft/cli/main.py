"""All commands. Errors end with one line and exit code 1; usage errors with exit code 2."""

from __future__ import annotations

import contextlib
import os
import signal
import sys
import threading
from collections.abc import Iterator
from typing import Annotated

import typer

from syft import __version__
from syft._extras import EXTRAS, install_line
from syft._sigint import INTERRUPTED, is_script
from syft.cli.budget import app as budget
from syft.cli.certs import app as certs
from syft.cli.data import app as data
from syft.cli.doctor import doctor
from syft.cli.explain import explain
from syft.cli.gateway import app as gateway
from syft.cli.output import fail
from syft.cli.programs import app as programs
from syft.cli.requests import audit, grants, requests
from syft.cli.start import start
from syft.cli.users import tokens, users
from syft.exceptions import SyftError

PROGRAM = "resyft" if is_script() else "python -m syft"
app = typer.Typer(
    name=PROGRAM,
    help="Compute on data that stays where it is: nodes, their owners and users.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
)
node = typer.Typer(help="Run a node, and decide what leaves it.", no_args_is_help=True, rich_markup_mode=None)
app.add_typer(node, name="node")
app.add_typer(gateway, name="gateway")
app.command()(doctor)
app.command()(explain)
node.command()(start)
for name, group in (
    ("requests", requests),
    ("users", users),
    ("tokens", tokens),
    ("grants", grants),
    ("programs", programs),
    ("budget", budget),
    ("audit", audit),
    ("data", data),
    ("certs", certs),
):
    node.add_typer(group, name=name)


def _version(wanted: bool) -> None:
    if wanted:
        sys.stdout.write(f"resyft {__version__}\n")
        raise typer.Exit


@app.callback()
def _options(
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Print the version and exit.")
    ] = False,
) -> None:
    pass


@contextlib.contextmanager
def _interruptible() -> Iterator[None]:
    """End a command on Ctrl-C with one line, after its resources were closed."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = signal.signal(signal.SIGINT, lambda *_: fail("Interrupted.", code=INTERRUPTED))
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)


def run() -> None:
    """Run the command line."""
    try:
        with _interruptible():
            app(prog_name=PROGRAM)
    except SyftError as error:
        fail(str(error))
    except ModuleNotFoundError as error:
        missing = (error.name or "").partition(".")[0]
        extra = next((extra for extra, (_, packages) in EXTRAS.items() if missing in packages), None)
        if extra is None:
            raise
        fail(f"This needs the package {missing!r}, which is not installed: {install_line(extra)}")
    except BrokenPipeError:  # the reader of our output closed it
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        raise SystemExit(1) from None
    except OSError as error:
        where = f": {error.filename}" if error.filename else ""
        fail(f"{error.strerror or error}{where}")
