"""Run a story, a Python file with `# %%` cells, in a Jupyter kernel of its own."""

from __future__ import annotations

import os
import re
from pathlib import Path

import nbformat
from nbclient import NotebookClient

ROOT = Path(__file__).resolve().parent.parent.parent
CELL = re.compile(r"^# %%.*\n", re.MULTILINE)


def cells(story: Path) -> list[str]:
    """Return the code of the cells, without the text above the first one."""
    return [cell.strip() for cell in CELL.split(story.read_text())[1:]]


def run(story: Path, times: int = 2, **variables: str) -> list[list[nbformat.NotebookNode]]:
    """Run all cells in order, `times` times in one kernel; return the outputs of each cell.

    A cell that raises ends the test with nbclient's error, which has the code and the traceback.
    """
    notebook = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(code) for code in cells(story) * times])
    client = NotebookClient(notebook, kernel_name="python3", timeout=300, resources={"metadata": {"path": str(ROOT)}})
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "PYTHONPATH": str(ROOT), **variables}
    client.execute(env=environment)
    return [cell.outputs for cell in notebook.cells]


def shown(outputs: list[list[nbformat.NotebookNode]]) -> str:
    """Return everything that the cells printed or displayed, as text."""
    texts = []
    for output in (output for cell in outputs for output in cell):
        texts.append(output.get("text") or output.get("data", {}).get("text/plain", ""))
    return "\n".join(texts)
