"""Files of an owner's data: what is read keeps its numbers, and what is not is refused in one line of our own."""

import logging
import os
import warnings

import numpy as np
import pytest
import torch
from torch import nn
from torch.utils.data import Dataset, TensorDataset

from syft.exceptions import QuotaExceededError
from syft.grid.node.node import NodeWorker
from syft.grid.rights import NodePolicy
from syft.grid.storage import ObjectManager, Quota, load_folder, open_storage
from syft.grid.storage.csv_reader import UnreadableFileError
from syft.grid.storage.readers import read_file
from tests.helpers.grid.storage import memory_records


def read_text(folder, text):
    path = folder / "table.csv"
    path.write_text(text, encoding="utf-8")
    with warnings.catch_warnings(action="error"):
        (table,), about = read_file(path)[0].values(), read_file(path)[1]
    return table, about


@pytest.mark.parametrize(
    ("text", "dtype", "values"),
    [
        ("a,b\n16777217,2\n", torch.int64, [[16777217, 2]]),
        ("9007199254740993\n", torch.int64, [[9007199254740993]]),
        ("a\n0.1\n\n16777217\n", torch.float64, [[0.1], [16777217]]),
        ('"a, b",c\n1,-2\n', torch.int64, [[1, -2]]),
        ("a,b\n1,1e3\n", torch.float64, [[1, 1000]]),
        ("a,b\n", torch.float64, []),
        ("a,b\n\n\n", torch.float64, []),
    ],
)
def test_numbers_of_a_csv_stay_what_they_are(tmp_path, text, dtype, values):
    table, about = read_text(tmp_path, text)
    assert table.dtype is dtype and table.tolist() == values
    assert about.startswith("columns: col0") is text[0].isdigit()


NUMBERS = ("1,2.5,-3", "1e3,nan,inf", " 1 , +2 ,3.", "1,-inf,0")
HEADERS = ("age,weight", "x1,x2", "age at visit,2nd visit of all", "Größe,naïve", "e,E5x")
# Rows of data that are not all plain numbers, and headers with something else in them.
MIXED = (
    "41,weight", "age,1e3", "age,nan", "age,inf", "age,NA", "age,", ",", "1,,3", "age, ", 'age,"1,5"', "age,12.5%",
    "2020-01-01,5", "2020-01-01,2020-01-02", "age,<5", "age,$5", "age,1/2", "age,12kg", "age,41 yrs", "age,0x1F",
    "age,None", "age,\u0661\u0662", "age,1.234,5e", "age,true", "age,1 234", "age,-", "age,?",
)  # fmt: skip


@pytest.mark.parametrize("first", NUMBERS)
def test_a_first_line_of_numbers_is_data_and_is_not_described(tmp_path, first):
    table, about = read_text(tmp_path, f"{first}\n7,8,9\n")
    assert len(table) == 2 and about == "columns: col0, col1, col2"


@pytest.mark.parametrize("first", HEADERS)
def test_a_first_line_of_names_is_a_header(tmp_path, first):
    table, about = read_text(tmp_path, f"{first}\n7,8\n")
    assert table.tolist() == [[7, 8]] and about == f"columns: {first.replace(',', ', ')}"


@pytest.mark.parametrize("first", MIXED)
def test_a_first_line_that_may_hold_values_is_refused(tmp_path, first):
    with pytest.raises(UnreadableFileError, match=r"first line, column \d") as refused:
        read_text(tmp_path, f"{first}\n" + ",".join("7" for _ in first.split(",")) + "\n")
    assert not any(cell.strip() in str(refused.value) for cell in first.split(",") if len(cell.strip()) > 2)


def test_an_open_quote_does_not_make_a_name_of_the_data(tmp_path):
    with pytest.raises(UnreadableFileError, match="first row spans several lines"):
        read_text(tmp_path, 'age,"weight\n41,80\n42,81\n')


def test_the_folder_names_the_file_and_the_column(hook, tmp_path, caplog):
    (tmp_path / "patients.csv").write_text("Smith,41\nJones,42\n")
    worker = NodeWorker("header-node", NodePolicy(memory_records()))
    ObjectManager(worker)
    report = load_folder(worker, tmp_path)
    assert "column 2" in report.skipped["patients.csv"]
    assert "patients.csv" in caplog.text and "Smith" not in caplog.text and not worker.object_store.objects


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("a,b\n1,2\n3,geheim\n", "line 3, column 2 holds text"),
        ("a,b\n1,2\n\n3,\n", "line 4, column 2 holds nothing"),
        ("a,b\n1,2\n3\n", "line 3 has 1 column, the first line has 2 columns"),
        ("a,b\n1,2,3\n4,5,6\n", "line 2 has 3 columns"),
        ("a;b\n1,5;2\n", "separated by semicolons"),
        ('a,b\n"1,5",2\n', "a number with a comma"),
        ("a\n99999999999999999999\n", "beyond 64 bits"),
        ("", "it is empty"),
    ],
)
def test_csv_errors_name_the_position_and_never_the_value(tmp_path, text, told):
    with pytest.raises(UnreadableFileError, match=told) as refused:
        read_text(tmp_path, text)
    assert "geheim" not in str(refused.value) and "\n" not in str(refused.value)


def test_data_that_is_not_numeric_gets_one_line_without_advice_to_unpickle(tmp_path):
    torch.save(nn.Linear(2, 2), tmp_path / "module.pt")
    (tmp_path / "rubbish.pt").write_bytes(b"rubbish")
    np.savez(tmp_path / "objects.npz", a=np.array([{}], dtype=object))
    np.save(tmp_path / "objects.npy", np.array([{}], dtype=object))
    (tmp_path / "rubbish.npz").write_bytes(b"rubbish")
    (tmp_path / "latin.csv").write_bytes(b"\xe9,1\n")
    for path in tmp_path.iterdir():
        with pytest.raises(UnreadableFileError, match=f"a {path.suffix} file must hold ") as refused:
            read_file(path)
        assert not {"weights_only", "allow_pickle"} & set(str(refused.value).replace("=", " ").split())


def test_a_file_that_is_too_large_is_not_even_read(tmp_path):
    np.save(tmp_path / "large.npy", np.zeros(1))
    os.truncate(tmp_path / "large.npy", 2**42)
    np.savez_compressed(tmp_path / "packed.npz", a=np.zeros(2**20))
    for name in ("large.npy", "packed.npz"):
        with pytest.raises(QuotaExceededError, match="1.0M are free; raise --max-bytes"):
            read_file(tmp_path / name, 2**20)


def test_a_folder_is_published_without_what_is_too_large_or_of_another_kind(hook, tmp_path, caplog):
    np.save(tmp_path / "large.npy", np.zeros(1))
    os.truncate(tmp_path / "large.npy", 2**42)
    for name in ("patients.xlsx", "good.csv"):
        (tmp_path / name).write_text("1\n")
    worker = NodeWorker("folder-node", NodePolicy(memory_records()))
    ObjectManager(worker, node_quota=Quota(10, 2**20))
    with caplog.at_level(logging.INFO):
        report = load_folder(worker, tmp_path)
    assert len(report.new) == 1 and list(report.skipped) == ["large.npy"]
    assert (
        "Skipped the file large.npy of the data folder: it needs 4096.0G" in caplog.text
        and "--max-bytes" in caplog.text
    )
    assert "Ignored in the data folder: patients.xlsx." in caplog.text


def test_a_data_set_of_code_is_refused_with_a_reason(hook, tmp_path, caplog):
    class Squares(Dataset):
        def __len__(self):
            return 3

        def __getitem__(self, number):
            return torch.tensor([float(number)]), torch.tensor([float(number**2)])

    worker = NodeWorker("code-node", NodePolicy(memory_records()))
    with open_storage(tmp_path / "store") as storage:
        object_manager = ObjectManager(worker, storage)
        with caplog.at_level(logging.WARNING):
            worker.add_dataset(Squares(), "squares")
            worker.add_dataset(TensorDataset(torch.ones(3), torch.ones(3)), "ones")
        assert sorted(worker.datasets) == ["ones", "squares"] and [item.id for item in object_manager.items()] == [
            "dataset:ones"
        ]
        assert "'squares' is Python code" in caplog.text and "'ones'" not in caplog.text
        object_manager.close()
