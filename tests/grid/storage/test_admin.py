"""The owner's operations: publish, list, delete, export and import, and a folder of data that is published at start."""

from __future__ import annotations

import io
import json
import logging
import struct

import numpy as np
import pytest
import torch

import syft as sy
from syft.exceptions import IdNotUniqueError, ObjectNotFoundError, SerdeError, StorageError
from syft.grid.storage import ObjectAdmin, load_folder
from tests.helpers.grid.storage import StoredNode


@pytest.fixture(params=[True, False], ids=["stored", "in memory"])
def node(request, tmp_path):
    made = StoredNode(tmp_path / "store" if request.param else None)
    yield made
    made.stop()


def test_publish_list_delete(node):
    first = node.admin.publish(torch.ones(3), "#one", "about it", ["bob"], "ann")
    second = node.admin.publish(torch.arange(4), ["#two", "#2"])
    assert [(item.id, item.kind, item.tags, item.facts.owner) for item in node.admin.list()] == [
        (first, "tensor", {"#one"}, "ann"),
        (second, "tensor", {"#two", "#2"}, None),
    ]
    assert [row[0] for row in node.peer().search("#one")] == [first]
    with pytest.raises(IdNotUniqueError):
        node.admin.publish(torch.ones(1), obj_id=first)
    for wrong in ({"tags": [1]}, {"description": 5}, {"obj_id": "x" * 300}):
        with pytest.raises(TypeError):
            node.admin.publish(torch.ones(1), **wrong)
    with pytest.raises(SerdeError) if node.storage is not None else pytest.raises(AssertionError):
        node.admin.publish(torch.ones(1, device="meta"))
        raise AssertionError("nothing is written, so nothing is in the way")
    node.admin.delete(first)
    with pytest.raises(ObjectNotFoundError):
        node.admin.delete(first)
    assert first not in node.objects and len(node.peer().search("#one")) == 0


def test_export_and_import(node, tmp_path):
    node.admin.publish(torch.rand(30_000).to(torch.bfloat16), {"#a"}, "t\u00e9xt", ["bob"], "ann", "x")
    node.admin.publish(torch.tensor(5), obj_id=7)
    node.peer("eve").send(sy.String("hello"), "s")
    expected = {
        item.id: (item.tags, item.description, item.facts.owner, item.facts.allowed_users) for item in node.admin.list()
    }
    assert node.admin.export(tmp_path / "all") == 3 and (tmp_path / "all").stat().st_mode & 0o777 == 0o600
    assert node.admin.export(tmp_path / "one", [7]) == 1
    with pytest.raises(StorageError, match="already exists"):
        node.admin.export(tmp_path / "all")
    with pytest.raises(ObjectNotFoundError):
        node.admin.export(tmp_path / "none", ["no such"])
    with pytest.raises(IdNotUniqueError):
        node.admin.load(tmp_path / "all")
    other = StoredNode(tmp_path / "other")
    assert set(other.admin.load(tmp_path / "all")) == {"x", 7, "s"}
    other.restart()
    found = {
        item.id: (item.tags, item.description, item.facts.owner, item.facts.allowed_users)
        for item in other.admin.list()
    }
    assert (
        found == expected and torch.equal(other.objects["x"], node.objects["x"]) and other.objects["s"].child == "hello"
    )
    other.stop()
    assert {path.name for path in tmp_path.iterdir()} <= {"all", "one", "other", "store"}


def test_a_damaged_export_imports_nothing(node, tmp_path):
    for name in range(3):
        node.admin.publish(torch.rand(100), obj_id=name)
    node.admin.export(tmp_path / "good")
    good = (tmp_path / "good").read_bytes()
    for name in range(3):
        node.admin.delete(name)
    for number in range(0, len(good), 97):
        bad = bytearray(good)
        bad[number] ^= 1
        (tmp_path / "bad").write_bytes(bad)
        with pytest.raises(StorageError):
            node.admin.load(tmp_path / "bad")
    for bad in (good[:-1], good + b"x", b"", b"PK\3\4", good[: len(good) // 2]):
        (tmp_path / "bad").write_bytes(bad)
        with pytest.raises(StorageError):
            node.admin.load(tmp_path / "bad")
    with pytest.raises(StorageError):
        node.admin.load(tmp_path / "not there")
    assert not node.objects
    assert node.admin.load(tmp_path / "good") == (0, 1, 2)


def test_a_folder_of_data(node, tmp_path, caplog):
    folder = tmp_path / "data"
    folder.mkdir()
    torch.save(torch.arange(6).reshape(2, 3), folder / "plain.pt")
    torch.save({"w": torch.ones(2), "b": torch.zeros(1, dtype=torch.bfloat16)}, folder / "model.pth")
    np.save(folder / "array.npy", np.arange(3, dtype=">i4"))
    np.savez(folder / "several.npz", a=np.ones(2), b=np.zeros((0, 4), np.float32))
    (folder / "patients.csv").write_text('age,"weight, kg",ok\n50,80.5,1\n60,70,0\n', encoding="utf-8-sig")
    (folder / "patients.toml").write_text('tags = ["#diabetes"]\nallowed_users = ["Bob"]\ndescription = "From 2020"\n')
    (folder / "numbers.csv").write_text("1,2\n3,4\n")
    header = json.dumps(
        {"t": {"dtype": "F16", "shape": [2], "data_offsets": [0, 4]}, "__metadata__": {"a": "b"}}
    ).encode()
    data = np.array([1.5, 2], np.float16).tobytes()
    (folder / "safe.safetensors").write_bytes(struct.pack("<Q", len(header)) + header + data)
    (folder / "README.md").write_text("not data")
    (folder / ".hidden.npy").write_text("not data")
    (folder / "sub.npy").mkdir()

    def found(tag):
        (row,) = node.peer().search(tag)
        return node.objects[row[0]]

    report = load_folder(node.worker, folder)
    assert len(report.new) == 9 and not report.skipped and not report.kept and not report.missing
    assert found("#plain").tolist() == [[0, 1, 2], [3, 4, 5]]
    assert found("#array").tolist() == [0, 1, 2] and found("#w").tolist() == [1, 1]
    assert found("#patients").tolist() == [[50, 80.5, 1], [60, 70, 0]] and found("#safe").dtype == torch.float16
    item = node.object_manager.item(node.peer().search("#diabetes")[0][0])
    assert item.tags == {"#patients", "#diabetes"} and item.description == "From 2020"
    assert item.facts.allowed_users == ("bob",) and item.facts.owner is None
    if node.storage is None:
        return
    ids = set(report.new)
    again = load_folder(node.restart().worker, folder)
    assert set(again.kept) == ids and not again.new and len(node.objects) == 9
    (folder / "patients.toml").write_text("allowed_users = []\n")
    (folder / "numbers.csv").write_text("1,2\n3,5\n")
    (folder / "array.npy").unlink()
    gone = node.peer().search("#array")[0][0]
    with caplog.at_level(logging.WARNING):
        third = load_folder(node.restart().worker, folder)
    assert len(third.new) == 2 and set(third.new) < ids and third.missing == [gone] and "1 objects" in caplog.text
    assert (
        found("#numbers").tolist() == [[1, 2], [3, 5]] and node.object_manager.item(item.id).facts.allowed_users == ()
    )
    assert node.object_manager.item(item.id).description == "columns: age, weight, kg, ok" and not node.peer().search(
        "#diabetes"
    )


def _pickled() -> bytes:
    out = io.BytesIO()
    np.save(out, np.array([{}], dtype=object), allow_pickle=True)
    return out.getvalue()


BAD = {
    "evil.npy": _pickled(),
    "evil.pt": b"cos\nsystem\n(S'true'\ntR.",
    "text.csv": b"a,b\n1,x\n",
    "uneven.csv": b"a,b\n1,2\n3\n",
    "empty.csv": b"",
    "empty.npy": b"",
    "cut.npz": b"PK\3\4" + b"x" * 50,
    "words.npy": None,
    "short.safetensors": b"\1\0",
    "long.safetensors": struct.pack("<Q", 2**60) + b"{}",
    "wide.safetensors": struct.pack("<Q", 62)
    + json.dumps({"t": {"dtype": "F64", "shape": [9], "data_offsets": [0, 4]}}).encode()[:62],
    "latin.csv": b"\xff\xfe,1\n",
}


def test_files_that_can_not_be_read_are_left_out(node, tmp_path, caplog):
    folder = tmp_path / "data"
    folder.mkdir()
    for name, contents in BAD.items():
        (folder / name).write_bytes(contents if contents is not None else b"")
    np.save(folder / "words.npy", np.array(["secret", "text"]))
    for number, sidecar in enumerate(
        ("{", "[]", '{"allowed_user": ["bob"]}', '{"tags": "#a"}', '{"allowed_users": ["../x"]}', '{"description": 5}')
    ):
        (folder / f"side{number}.csv").write_text("1\n")
        (folder / f"side{number}.json").write_text(sidecar)
    (folder / "twice.csv").write_text("1\n")
    for ending in ("json", "toml"):
        (folder / f"twice.{ending}").write_text("")
    (folder / "good.csv").write_text("1\n")
    with caplog.at_level(logging.WARNING):
        report = load_folder(node.worker, folder)
    assert len(report.new) == 1 and len(report.skipped) == len(BAD) + 7
    assert "allowed_user" in report.skipped["side2.csv"] and "both describe" in report.skipped["twice.csv"]
    assert sum("Skipped the file" in record.message for record in caplog.records) == len(report.skipped)
    assert "secret" not in caplog.text
    with pytest.raises(StorageError, match="not a folder"):
        load_folder(node.worker, folder / "good.csv")
    assert isinstance(node.admin, ObjectAdmin)
