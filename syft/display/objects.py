"""HTML of pointers, chains and workers, without a message to any worker."""

from __future__ import annotations

from typing import Any

from syft.core.references import TensorMeta
from syft.display.tables import table_html


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
