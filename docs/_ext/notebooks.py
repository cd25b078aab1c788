"""Runs the notebooks of docs/tutorials/, two at a time, and keeps their outputs for the site.

`python docs/_ext/notebooks.py` runs those that changed since the last time, and all of them after a change of the
library. It writes docs/_build/notebooks.json: seconds, CPU seconds and the error, if any, of each.
"""

from __future__ import annotations

import asyncio
import hashlib
import json
import os
import re
import shutil
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from functools import cache
from pathlib import Path
from typing import Any

DOCS = Path(__file__).resolve().parent.parent
ROOT = DOCS.parent
REPORT = DOCS / "_build" / "notebooks.json"
CACHES = DOCS / "_build" / "outputs"
TIMEOUT = 300  # seconds for one cell
# Runs after the last cell, in the kernel: the CPU seconds of its process and of the children that it still has or had.
_MEASURE = """
import psutil as _psutil
_times = [_psutil.Process().cpu_times()] + [p.cpu_times() for p in _psutil.Process().children(recursive=True)]
print(sum(t.user + t.system for t in _times) + _times[0].children_user + _times[0].children_system)
"""
_COLOURS = re.compile(r"\x1b\[[0-9;]*m")


def enabled() -> bool:
    """Return whether this build shows outputs."""
    return os.environ.get("RESYFT_DOCS_RUN", "1") != "0"


@cache
def cache_folder() -> Path:
    """Return the folder of outputs that this version of the library made."""
    digest = hashlib.sha256(sys.version.encode())
    for path in [*sorted((ROOT / "syft").rglob("*.py")), ROOT / "constraints.txt"]:
        digest.update(path.read_bytes())
    return CACHES / digest.hexdigest()[:16]


def pages(folder: Path = DOCS) -> list[Path]:
    """Return the notebooks among the pages."""
    found = sorted(path for path in folder.rglob("*.md") if "_build" not in path.parts)
    return [path for path in found if is_notebook(path)]


def is_notebook(page: Path) -> bool:
    """Return whether a page has the front matter of a notebook."""
    text = page.read_text()
    return text.startswith("---\n") and "\njupytext:" in text.split("\n---", 1)[0]


def read(page: Path) -> Any:
    """Return a page as a notebook."""
    from myst_nb.core.read import read_myst_markdown_notebook

    return read_myst_markdown_notebook(page.read_text(), add_source_map=True, path=str(page))


def execute(page: Path, notebook: Any) -> dict[str, Any]:
    """Run all cells in a kernel of its own, with the page's folder as working directory; report what happened."""
    import nbformat
    from nbclient import NotebookClient
    from nbclient.exceptions import CellExecutionError, CellTimeoutError, DeadKernelError

    count = len(notebook.cells)
    notebook.cells.append(nbformat.v4.new_code_cell(_MEASURE))
    where = {"metadata": {"path": str(page.parent)}}
    options = {"kernel_name": "python3", "timeout": TIMEOUT, "record_timing": False}  # times would change the key
    client = NotebookClient(notebook, resources=where, **options)
    found: dict[str, Any] = {"error": None, "cpu": None}
    start = time.monotonic()
    try:
        environment = {**os.environ, "OMP_NUM_THREADS": "1", "PYTHONPATH": str(ROOT)}
        asyncio.run(client.async_execute(env=environment))
        found["cpu"] = round(float(notebook.cells[-1].outputs[0]["text"]), 1)
    except (CellExecutionError, CellTimeoutError, DeadKernelError) as error:
        found["error"] = _described(page, notebook, error)
    found["seconds"] = round(time.monotonic() - start, 1)
    del notebook.cells[count:]
    return found


def _described(page: Path, notebook: Any, error: Exception) -> str:
    """Name the page, the line, the number of the cell, and the error with its traceback."""
    last = max((i for i, c in enumerate(notebook.cells) if c.get("execution_count") or c.get("outputs")), default=0)
    number = sum(cell.cell_type == "code" for cell in notebook.cells[: last + 1])
    lines = notebook.metadata.get("source_map", [])
    line = lines[last] + 1 if last < len(lines) else 0
    raised = [o for o in notebook.cells[last].get("outputs", []) if o.output_type == "error"]
    text = "\n".join(raised[0].traceback) if raised else f"{type(error).__name__}: {error}"
    title = f"{raised[0].ename}: {raised[0].evalue}" if raised else type(error).__name__
    name = page.relative_to(ROOT) if page.is_relative_to(ROOT) else page
    return f"{name}:{line}: code cell {number} raised {title}\n\n{_COLOURS.sub('', text)}"


def run_all(found: list[Path], cache_path: Path, report: Path = REPORT) -> bool:
    """Run the notebooks whose outputs are not kept yet; return whether all of them ran to their end."""
    from jupyter_cache import get_cache
    from jupyter_cache.base import CacheBundleIn

    before = json.loads(report.read_text()) if report.exists() else {}
    kept = get_cache(str(cache_path))
    results, missing = {}, {}
    for page in found:
        notebook = read(page)
        try:
            kept.match_cache_notebook(notebook)
            results[page.stem] = before.get(page.stem, {"seconds": 0.0, "cpu": 0.0, "error": None})
        except KeyError:
            missing[page] = notebook
    with ThreadPoolExecutor(min(2, os.cpu_count() or 1)) as pool:
        for page, done in zip(missing, pool.map(execute, missing, missing.values()), strict=True):
            results[page.stem] = done
            if done["error"]:
                print(f"docs: {done['error']}\n", file=sys.stderr, flush=True)
                continue
            print(f"docs: {page.stem} ran in {done['seconds']} s ({done['cpu']} s of CPU)", flush=True)
            bundle = CacheBundleIn(missing[page], str(page), data={"execution_seconds": done["seconds"]})
            kept.cache_notebook_bundle(bundle, check_validity=False, overwrite=True)
    report.write_text(json.dumps(results, indent=1, sort_keys=True))
    return not any(done["error"] for done in results.values())


def main() -> int:
    """Run the notebooks; drop outputs of other versions of the library."""
    folder = cache_folder()
    folder.mkdir(parents=True, exist_ok=True)
    for other in CACHES.iterdir():
        if other != folder:
            shutil.rmtree(other)
    return 0 if run_all(pages(), folder) else 1


if __name__ == "__main__":
    sys.exit(main())
