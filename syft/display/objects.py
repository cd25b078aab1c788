"""HTML of pointers, chains and workers, without a message to any worker."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from syft.core import metrics
from syft.core.id_provider import short_id
from syft.core.labels import description_of, tags_of
from syft.core.metrics import MessageCount
from syft.core.references import TensorMeta
from syft.display.tables import table_html

Fact = tuple[str, object]
# Maximum number of objects of a worker that are shown.
SHOWN_OBJECTS = 20
# Links at whose bottom are numbers that this process can't read.
_ENCRYPTED = frozenset({"AdditiveSharingTensor", "PaillierTensor"})


def _pointer_facts(pointer: Any) -> Iterator[Fact]:
    """Yield what is known here about an object elsewhere."""
    yield "owner", pointer.owner.id if pointer.owner is not None else None
    yield from (("location", pointer.location.id), ("id at location", short_id(pointer.id_at_location)))
    yield "attribute", pointer.point_to_attr
    meta = getattr(pointer, "_meta", None)
    if isinstance(meta, TensorMeta):
        yield from (("shape", tuple(meta.shape)), ("dtype", meta.dtype), ("requires_grad", meta.requires_grad))
    yield from (("tags", " ".join(sorted(pointer.tags))), ("description", _first_line(pointer.description)))
    moved = getattr(pointer.lease.stream, "moved", {}).get(pointer.id_at_location)
    yield from (("spent", pointer.lease.spent), ("in the vault", moved))


def pointer_html(pointer: Any) -> str:
    """Render a pointer: its location, and the metadata of the object."""
    others = [("and", other._head()) for other in getattr(pointer, "others", ()) if hasattr(other, "_head")]
    return table_html(type(pointer).__name__, [*_pointer_facts(pointer), *others])


def chain_html(tensor: Any) -> str:
    """Render a chain, link by link."""
    link = tensor.__dict__["child"]
    if hasattr(link, "lease"):
        return pointer_html(link)
    rows: list[Fact] = [("shape", tuple(tensor.shape)), ("dtype", tensor.dtype)]
    names: list[str] = []
    for part in _links(link):
        names.append(type(part).__name__)
        rows += part._facts() if hasattr(type(part), "_facts") else ()
        if type(part).__name__ == "MultiPointerTensor":
            rows += [(f"at {worker}", pointer._head()) for worker, pointer in part.child.items()]
        if hasattr(part, "lease"):
            rows += _pointer_facts(part)
    labels = [("tags", " ".join(sorted(tags_of(tensor)))), ("description", _first_line(description_of(tensor)))]
    title = "encrypted tensor" if names[-1] in _ENCRYPTED else "tensor"
    return table_html(title, {"chain": " > ".join(names), **dict(rows), **dict(labels)}.items())


def _links(link: Any) -> Iterator[Any]:
    """Yield the links of a chain, and the tensor at its bottom; of several residues, the first."""
    while link is not None:
        yield link
        child = getattr(link, "__dict__", {}).get("child")
        if hasattr(link, "lease") or not hasattr(child, "__dict__"):
            residues = list(child.values()) if type(child) is dict and hasattr(type(link), "child_keys") else []
            child = residues[0] if residues else None
        own = getattr(child, "__dict__", {})
        link = own.get("child", child) if hasattr(type(child), "__torch_dispatch__") and "child" in own else child


def _first_line(text: str | None) -> str:
    return (text or "").split("\n")[0][:80]


def worker_html(worker: Any) -> str:
    """Render a worker: its objects by shape and tag, or where it is if it holds them in another process."""
    rows: list[Fact] = []
    known = " ".join(str(name) for name in worker._known_workers if name != worker.id)
    url, process = getattr(worker, "url", None), getattr(worker, "pid", None)
    if url is not None or process is not None:
        rows += [("at", url), ("process", process), ("knows", known)]
        return table_html(f"{type(worker).__name__} {worker.id}", rows)
    objects = list(worker._objects.items())
    rows += [("objects", len(objects)), ("knows", known)]
    for obj_id, obj in objects[:SHOWN_OBJECTS]:
        meta = f"{tuple(obj.shape)} {obj.dtype} " if hasattr(obj, "shape") and hasattr(obj, "dtype") else ""
        rows.append((f"{type(obj).__name__} {short_id(obj_id)}", f"{meta}{' '.join(sorted(tags_of(obj)))}"))
    if len(objects) > SHOWN_OBJECTS:
        rows.append(("", f"and {len(objects) - SHOWN_OBJECTS} more"))
    return table_html(f"{type(worker).__name__} {worker.id}", rows)


def message_count_html(count: MessageCount) -> str:
    """Render a count of messages, with those between each two workers."""
    pairs = [
        (f"{sender} to {receiver}", f"{number} messages") for (sender, receiver), number in count.by_worker.items()
    ]
    totals = [("messages", count.messages), ("rounds", count.rounds), ("bytes", count.bytes)]
    return table_html("messages", [*totals, *pairs[:SHOWN_OBJECTS]])


metrics.render_html[:] = [message_count_html]
