"""`node data`: the published data of a node."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Annotated, Any

import typer

from syft.cli.api_client import ApiClient, Columns, Target, quoted, reach, request, show_rows
from syft.cli.options import NO_TARGET, Json, Limit, NodeCommands, RowId
from syft.cli.output import note, say, shape_of
from syft.exceptions import QuotaExceededError, SyftError
from syft.grid.owner.data import send_published

app = NodeCommands("The published data of a node.")


@app.add("list")
def list_data(
    tag: Annotated[str | None, typer.Option(help="Only objects with this tag.")] = None,
    limit: Limit = 100,
    skip: Annotated[int, typer.Option(min=0, help="Leave out this many at the start.")] = 0,
    target: Target = NO_TARGET,
    as_json: Json = False,
) -> None:
    """List published objects: shapes and tags, never values."""
    columns: Columns = {
        "id": "id",
        "kind": "kind",
        "shape": lambda row: shape_of(row["shape"]),
        "dtype": "dtype",
        "tags": "tags",
        "owner": lambda row: row["owner"] or "the node",
        "description": "description",
    }
    query = {"tag": tag, "limit": limit, "skip": skip}
    show_rows(target, as_json, "objects", columns, "Nothing is published here.", **query)


@app.add("publish")
def publish(
    file: Annotated[Path, typer.Argument(help="csv, npy, npz, pt or safetensors; or resyft, as export wrote it.")],
    tag: Annotated[list[str] | None, typer.Option(help="A tag to find it by; may be given several times.")] = None,
    description: Annotated[str | None, typer.Option(help="A description.")] = None,
    target: Target = NO_TARGET,
) -> None:
    """Publish the tensors of a file. They are private: users compute on them, and ask for results."""
    with reach(target) as talk:
        ids = _import(talk, file) if file.suffix == ".resyft" else _publish(talk, file, tag or [], description)
    for obj_id in ids:
        say(f"Published: {obj_id}")


def _import(talk: ApiClient, file: Path) -> Any:
    from syft.grid.storage.admin import ObjectAdmin

    if talk.node is None:
        raise SyftError("A .resyft file is imported by a node that does not run: stop it first, and use --store.")
    return ObjectAdmin(talk.node.object_manager).load(file)


def _publish(talk: ApiClient, file: Path, tags: list[str], description: str | None) -> list[Any]:
    from syft.grid.storage.admin import ObjectAdmin
    from syft.grid.storage.csv_reader import UnreadableFileError
    from syft.grid.storage.readers import READERS, read_file

    if file.suffix.lower() not in READERS:
        raise SyftError(f"{file.name} has an unsupported file type. Supported types: {', '.join(sorted(READERS))}.")
    try:
        tensors, about = read_file(
            file, math.inf if talk.node is None else ObjectAdmin(talk.node.object_manager).room()
        )
    except (UnreadableFileError, QuotaExceededError) as error:
        raise SyftError(f"{file.name} was not published: {error}.") from None
    _warn_of_duplicates(talk, file)
    ids = []
    client = None if talk.node is not None else talk.client()
    try:
        for name, tensor in tensors.items():
            words = {f"#{file.stem}", *([f"#{name}"] if name else []), *tags}
            text = description if description is not None else about
            plain = tensor.detach().clone().contiguous()
            if talk.node is not None:
                ids.append(ObjectAdmin(talk.node.object_manager).publish(plain, words, text))
            else:
                ids.append(send_published(client, plain, words, text))
    except QuotaExceededError as error:
        first = f" (its first {len(ids)} tensors were)" if ids else ""
        raise SyftError(
            f"{file.name} was not published{first}: {error} Start the node with a larger --max-bytes, or delete "
            "something."
        ) from None
    finally:
        if client is not None:
            client.close()
    return ids


def _warn_of_duplicates(talk: ApiClient, file: Path) -> None:
    """Warn if data of this name exists already: a file that is published twice exists twice."""
    found = [row["id"] for row in talk.ask("GET", "objects", tag=f"#{file.stem}", limit=10)]
    if found:
        note(
            f"Data with the tag #{file.stem} is here already ({', '.join(found)}). Both are published now. "
            "Delete the old data: python -m syft node data delete ID"
        )


@app.add("share")
def share(
    object_id: Annotated[str, typer.Argument(metavar="ID", help="As data list shows it; a data set is dataset:KEY.")],
    user: Annotated[list[str] | None, typer.Option(help="A user who may read it; may be given several times.")] = None,
    public: Annotated[bool, typer.Option("--public", help="Every user may read it.")] = False,
    target: Target = NO_TARGET,
) -> None:
    """Set the users who may read a data set. Includes all results derived from it; no user, if none is named."""
    request(target, "PUT", f"objects/{quoted(object_id)}/users", {"users": user or [], "public": public})
    say(f"From now on {'everybody' if public else ' '.join(user or []) or 'nobody'} may read it.")


@app.add("delete")
def delete(object_id: RowId, target: Target = NO_TARGET) -> None:
    """Delete an object, from disk too."""
    request(target, "DELETE", f"objects/{quoted(object_id)}")
    say(f"Deleted: {object_id}")


@app.add("export")
def export(
    object_id: RowId,
    file: Annotated[
        Path, typer.Argument(help="A new file: .npy or .csv, or .resyft with the object's description and tags.")
    ],
    target: Target = NO_TARGET,
) -> None:
    """Write an object to a file that only you may read."""
    write = _WRITERS.get(file.suffix)
    if write is None:
        raise SyftError(f"{file.name} has an unsupported file type. Supported types: {', '.join(sorted(_WRITERS))}.")
    if file.exists():
        raise SyftError(f"{file} exists already. Give another name, or remove it first.")
    with reach(target) as talk:
        write(talk, object_id, file)
    say(f"Written: {file}")


def _export_whole(talk: ApiClient, object_id: str, file: Path) -> None:
    from syft.grid.storage.admin import ObjectAdmin

    if talk.node is None:
        raise SyftError("A .resyft file is written by a node that does not run: stop it first, and use --store.")
    ObjectAdmin(talk.node.object_manager).export(file, [_known_id(talk.node.object_manager.objects, object_id)])


def _known_id(objects: Any, text: str) -> Any:
    from syft.core.id_provider import all_named, parse_id

    found = all_named(parse_id(text), objects)
    if not found:
        raise SyftError(f"No object {text!r} is held here. List them: python -m syft node data list")
    if len(found) > 1:
        raise SyftError(f"{text!r} names {len(found)} objects. Use all digits: python -m syft node data list")
    return found[0]


def _fetch(talk: ApiClient, object_id: str) -> tuple[Any, str | None]:
    """Return a tensor and its description over the stream, so that the read is in the audit log."""
    import torch

    client = talk.client()
    try:
        objects = client._objects
        pointer = objects[_known_id(objects, object_id)]
        if not isinstance(pointer, torch.Tensor):
            raise SyftError(f"{object_id} is not a tensor, so it has no rows to write. Use a .resyft file.")
        return pointer.copy().get(), pointer.description  # type: ignore[attr-defined]
    finally:
        client.close()


def _export_numbers(talk: ApiClient, object_id: str, file: Path) -> None:
    import csv
    import io

    import numpy as np

    from syft.grid.private_files import new_file
    from syft.grid.storage.csv_reader import names_in

    tensor, about = _fetch(talk, object_id)
    array = tensor.detach().numpy()
    buffer = io.BytesIO()
    if file.suffix == ".npy":
        np.save(buffer, array, allow_pickle=False)
    elif array.ndim <= 2:
        known = names_in(about, array.shape[1]) if array.ndim == 2 else None
        if known is not None:
            csv.writer(text := io.StringIO(), lineterminator="\n").writerow(known)
            buffer.write(text.getvalue().encode())
        np.savetxt(buffer, np.atleast_1d(array), delimiter=",", fmt="%d" if array.dtype.kind in "biu" else "%.17g")
    else:
        raise SyftError("A tensor of more than two dimensions has no rows: name a .npy file.")
    new_file(file, buffer.getvalue())


_WRITERS = {".npy": _export_numbers, ".csv": _export_numbers, ".resyft": _export_whole}
