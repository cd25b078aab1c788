"""HTML and text tables for notebooks, in Jupyter's colours; they never show values of tensors."""

from __future__ import annotations

import html
from collections.abc import Iterable
from typing import Any

from syft.core.labels import printable
from syft.core.references import TensorMeta

_STYLE = "border-collapse:collapse;font-size:90%;color:var(--jp-ui-font-color1,inherit)"


def table_html(title: str, rows: Iterable[tuple[str, object]]) -> str:
    """Render a title and name-value rows."""
    cells = "".join(
        f"<tr><td style='text-align:left;padding:2px 12px 2px 4px;opacity:.7'>{html.escape(name)}</td>"
        f"<td style='text-align:left;padding:2px 4px'>{html.escape(printable(value))}</td></tr>"
        for name, value in rows
    )
    head = f"<tr><th colspan=2 style='text-align:left'>{html.escape(title)}</th></tr>"
    return f"<table style='{_STYLE}'>{head}{cells}</table>"


def grid_html(title: str, columns: Iterable[str], rows: Iterable[Iterable[str]]) -> str:
    """Render a title, column names and rows of texts."""
    names = list(columns)
    cell = "text-align:left;padding:2px 12px 2px 4px"
    head = "".join(f"<th style='{cell};opacity:.7'>{html.escape(name)}</th>" for name in names)
    body = "".join(
        "<tr>" + "".join(f"<td style='{cell}'>{html.escape(text)}</td>" for text in row) + "</tr>" for row in rows
    )
    top = f"<tr><th colspan={len(names)} style='text-align:left'>{html.escape(title)}</th></tr>"
    return f"<table style='{_STYLE}'>{top}<tr>{head}</tr>{body}</table>"


def grid_text(columns: Iterable[str], rows: Iterable[Iterable[str]], left: int = 3) -> str:
    """Render column names and rows of texts as lines; columns from index `left` on are right-aligned."""
    lines = [list(columns), *map(list, rows)]
    widths = [max(map(len, column)) for column in zip(*lines, strict=True)]

    def line(cells: list[str]) -> str:
        sized = zip(cells, widths, strict=True)
        return "  ".join(t.ljust(size) if i < left else t.rjust(size) for i, (t, size) in enumerate(sized)).rstrip()

    return "\n".join([line(lines[0]), "-" * len(line(lines[0])), *map(line, lines[1:])])


def pointer_html(pointer: Any) -> str:
    """Render a pointer: its location, and the metadata of the object."""
    rows: list[tuple[str, object]] = [
        ("owner", pointer.owner.id if pointer.owner is not None else None),
        ("location", pointer.location.id),
        ("id at location", pointer.id_at_location),
    ]
    meta = getattr(pointer, "_meta", None)
    if isinstance(meta, TensorMeta):
        rows += [("shape", tuple(meta.shape)), ("dtype", meta.dtype), ("requires_grad", meta.requires_grad)]
    if pointer.tags:
        rows.append(("tags", " ".join(sorted(pointer.tags))))
    if pointer.description:
        rows.append(("description", pointer.description.split("\n")[0][:80]))
    if pointer.lease.spent:
        rows.append(("spent", pointer.lease.spent))
    return table_html(type(pointer).__name__, rows)


def chain_html(tensor: Any) -> str:
    """Render a chain, link by link."""
    link = tensor.child
    if hasattr(link, "lease"):
        return pointer_html(link)
    names = []
    last = link
    while hasattr(link, "__dict__") and "child" in link.__dict__:
        last = link
        names.append(type(link).__name__)
        link = link.__dict__["child"]
    rows: list[tuple[str, object]] = [("shape", tuple(tensor.shape)), ("dtype", tensor.dtype)]
    if type(link) is dict:  # one pointer per worker, or one tensor per modulus
        rows.append((getattr(type(last), "child_keys", "at"), " ".join(map(str, link))))
    else:
        names.append(type(link).__name__)
    ciphertexts = getattr(last, "ciphertexts", None)
    if ciphertexts is not None:
        rows.append(("public key", ciphertexts.key))
    provider = getattr(last, "crypto_provider", None)
    if provider is not None:
        rows.append(("crypto provider", getattr(provider, "id", provider)))
    return table_html("tensor", [("chain", " > ".join(names)), *rows])


def worker_html(worker: Any) -> str:
    """Render a worker: its objects, by shape and tag."""
    rows: list[tuple[str, object]] = [
        ("objects", len(worker._objects)),
        ("knows", " ".join(str(name) for name in worker._known_workers if name != worker.id)),
    ]
    for obj in list(worker._objects.values())[:20]:
        shape = tuple(obj.shape) if hasattr(obj, "shape") else ""
        rows.append((type(obj).__name__, f"{shape} {' '.join(sorted(getattr(obj, 'tags', ())))}"))
    return table_html(f"{type(worker).__name__} {worker.id}", rows)
