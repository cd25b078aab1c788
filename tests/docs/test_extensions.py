"""The parts of the build, on small inputs: a failing cell is named, links are rewritten, charts are laid out."""

import sys
from pathlib import Path

import pytest

sys.path.append(str(Path(__file__).resolve().parent.parent.parent / "docs" / "_ext"))

import layer_chart
import notebooks
import page_lists
import repository_links

NOTEBOOK = """---
jupytext:
  text_representation:
    format_name: myst
kernelspec:
  name: python3
  display_name: Python 3
---

# A page

```{code-cell} ipython3
kept = 1
```

Text.

```{code-cell} ipython3
print(kept, "shown")
LAST
```
"""


def page(tmp_path, name, last):
    path = tmp_path / f"{name}.md"
    path.write_text(NOTEBOOK.replace("LAST", last))
    return path


def test_a_failing_cell_is_named_and_the_others_are_kept(tmp_path, capsys):
    good, bad = page(tmp_path, "good", ""), page(tmp_path, "bad", "raise ValueError('too large')")
    report = tmp_path / "report.json"
    assert not notebooks.run_all([good, bad], tmp_path / "kept", report)
    printed = capsys.readouterr()
    assert "good ran in" in printed.out
    assert f"{bad}:19: code cell 2 raised ValueError: too large" in printed.err and "Traceback" in printed.err
    bad.write_text(NOTEBOOK.replace("LAST", "1"))
    assert notebooks.run_all([good, bad], tmp_path / "kept", report)
    again = capsys.readouterr()
    assert "bad ran in" in again.out and "good ran" not in again.out, "unchanged notebooks do not run again"
    assert notebooks.run_all([good, bad], tmp_path / "kept", report) and capsys.readouterr().out == ""


def test_only_pages_with_the_front_matter_are_notebooks(tmp_path):
    (tmp_path / "text.md").write_text("# A page on jupytext:\n")
    assert notebooks.pages(tmp_path) == []
    assert notebooks.pages(tmp_path / ".") == [] and notebooks.is_notebook(page(tmp_path, "one", ""))


def test_links_to_the_root_folder_become_links_of_the_site():
    docs = repository_links.DOCS
    text = "[a](../../CONTRIBUTING.md#test) [b](../decisions/) `[c](../../README.md)` [d](https://host/x.md) [e](#here)"
    told = repository_links.rewritten(text, docs / "how-to", docs / "how-to" / "grid.md")
    assert told == (
        "[a](../project/contributing.md#test) [b](../decisions/README.md) `[c](../../README.md)` "
        "[d](https://host/x.md) [e](#here)"
    )
    root = repository_links.rewritten("[a](docs/errors.md)", docs.parent, docs / "project" / "security.md")
    assert root == "[a](../errors.md)"


def test_the_navigation_follows_the_lists_of_the_front_page():
    text = "# X\n\n[no](a.md)\n\n## How-to guides: do\n\n* [b](how-to/b.md): text\n\n## Without\n\n* [c](c.md)\n"
    assert list(page_lists.parts("index", text)) == [("How-to guides", ["how-to/b"])]
    assert list(page_lists.parts("decisions/README", "| [001](001-a.md) | A |\n")) == [("", ["decisions/001-a"])]


def test_charts_have_a_row_for_each_layer():
    chart = layer_chart.Chart('flowchart TD\n  a["one: <top>"] --> b & c\n  b --> d["four"]\n  c --> d\n  e --> d')
    assert chart.rows() == [["a"], ["b", "c", "e"], ["d"]]
    assert "&lt;top&gt;" in chart.svg() and chart.svg().count("marker-end") == 5
    with pytest.raises(ValueError, match="flowchart TD"):
        layer_chart.Chart("graph LR\n a --> b")
    with pytest.raises(ValueError, match="can't be drawn: 'a b'"):
        layer_chart.Chart("flowchart TD\n a b --> c")
