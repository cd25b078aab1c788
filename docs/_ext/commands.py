"""The directive of the page of commands: usage, arguments and options of each, from the code of the command line."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from docutils import nodes
from sphinx.application import Sphinx
from sphinx.util.docutils import SphinxDirective

PROGRAM = "python -m syft"


def commands(command: Any, words: list[str]) -> Iterator[tuple[list[str], Any]]:
    """Yield the words and the object of each command that does something."""
    below = getattr(command, "commands", None)
    if not below:
        yield words, command
        return
    for name, other in below.items():
        yield from commands(other, [*words, name])


class Commands(SphinxDirective):
    """Documents all commands of `python -m syft`."""

    def run(self) -> list[nodes.Node]:
        """Return a section for each command."""
        import typer

        from syft.cli.main import app

        root = typer.main.get_command(app)
        return [self._section(words, command) for words, command in commands(root, [])]

    def _section(self, words: list[str], command: Any) -> nodes.section:
        section = nodes.section(ids=["-".join(words)], names=[" ".join(words)])
        section += nodes.title("", "", nodes.Text(" ".join(words)))
        for paragraph in (command.help or "").split("\n\n"):
            section += nodes.paragraph("", "", nodes.Text(" ".join(paragraph.split())))
        metavars = [_metavar(p) for p in command.params if p.param_type_name == "argument"]
        optional = ["[OPTIONS]"] if any(p.param_type_name == "option" for p in command.params) else []
        usage = " ".join([PROGRAM, *words, *optional, *metavars])
        section += nodes.literal_block(usage, usage, language="text")
        rows = [row for row in map(_row, command.params) if row]
        if rows:
            section += _table(rows)
        return section


def _metavar(parameter: Any) -> str:
    name = (parameter.metavar or parameter.name).upper()
    name = f"{name}..." if parameter.nargs == -1 else name
    return name if parameter.required else f"[{name}]"


def _row(parameter: Any) -> tuple[str, str] | None:
    """Return the name and the meaning of a parameter, if the command shows it."""
    if getattr(parameter, "hidden", False):
        return None
    text = getattr(parameter, "help", None) or ""
    if parameter.param_type_name == "argument":
        return _metavar(parameter), text
    names = ", ".join([*parameter.opts, *parameter.secondary_opts])
    if not parameter.is_flag:
        names += " " + (parameter.metavar or parameter.name.split("_")[-1]).upper()
    default = parameter.default
    if parameter.required:
        text += " Required."
    elif default not in (None, False, (), [], "") and isinstance(default, str | int | float):
        text += f" Default: {default}."
    return names, text.strip()


def _table(rows: list[tuple[str, str]]) -> nodes.table:
    body = nodes.tbody()
    for name, text in rows:
        cells = nodes.literal("", name), nodes.Text(text)
        body += nodes.row("", *(nodes.entry("", nodes.paragraph("", "", cell)) for cell in cells))
    widths = [nodes.colspec(colwidth=width) for width in (40, 60)]
    return nodes.table("", nodes.tgroup("", *widths, body, cols=2), classes=["commands"])


def setup(app: Sphinx) -> dict[str, Any]:
    """Register the extension."""
    app.add_directive("commands", Commands)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
