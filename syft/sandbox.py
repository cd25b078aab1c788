"""create_sandbox: six workers with data, in one call.

scikit-learn no longer has the Boston housing data. Its diabetes data set, also a regression, replaces it: it has the
tags of both, so programs that search for "#boston" or "#housing" still find data.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from types import ModuleType
from typing import Any

import torch

from syft._suggestions import suggests_keywords
from syft.exceptions import DependencyError, SyftError
from syft.grid.private_grid import PrivateGridNetwork
from syft.hook.torch_hook import TorchHook
from syft.workers.virtual import VirtualWorker

WORKERS = ("bob", "theo", "jason", "alice", "andy", "jon")
# Data sets of scikit-learn: the name of the loader -> the tags of each half.
DATASETS: dict[str, tuple[str, ...]] = {
    "diabetes": ("#diabetes", "#regression", "#boston", "#housing", "#boston_housing"),
    "digits": ("#digits", "#images", "#classification"),
    "iris": ("#iris", "#flowers", "#classification"),
    "wine": ("#wine", "#classification"),
    "breast_cancer": ("#breast", "#cancer", "#breast_cancer", "#classification"),
    "linnerud": ("#linnerud", "#exercise", "#regression"),
}
# Data sets that stand in for others: the name of the loader -> a remark for their users.
REMARKS = {"diabetes": "It takes the place of Boston housing, which scikit-learn no longer has, under its tags too."}


@suggests_keywords
def create_sandbox(gbs: dict[str, Any], verbose: bool = True, download_data: bool = True) -> None:
    """Hook torch, make six workers with data sets split over them, and write all of that into a dict.

    Writes `hook`, `bob`, `theo`, `jason`, `alice`, `andy`, `jon`, `workers` and `grid`. Each data set is there as
    "#data" and as "#target", six parts each, with the name of the set as a tag: `grid.search("#diabetes", "#data")`.
    The diabetes data is found as "#boston" and "#housing" too. Nothing is downloaded: the data comes with scikit-learn.

    Args:
        gbs: where the names are written to: `globals()` of a notebook, in which torch must be imported.
        verbose: print the progress.
        download_data: load the data sets; otherwise the workers are empty.

    Example:
        >>> import torch
        >>> import syft as sy
        >>> sy.create_sandbox(globals(), verbose=False)
        >>> sum(len(part[0]) for part in grid.search("#diabetes", "#data").values())
        442
    """
    names: object = gbs  # from a notebook, so unchecked
    if not isinstance(names, dict) or not any(names.get(name) is torch for name in ("torch", "th")):
        raise SyftError("Import torch where the sandbox is made: import torch; sy.create_sandbox(globals()).")
    say: Callable[[str], None] = print if verbose else lambda text: None
    say("Setting up the sandbox")
    say("  - hooking torch")
    say(f"  - making the workers {', '.join(WORKERS)}")
    hook = TorchHook(torch)
    workers = [VirtualWorker(hook, id=name) for name in WORKERS]
    if download_data:
        for name, tags in DATASETS.items():
            say(f"  - distributing the data set {name}, with the tags {' '.join(tags)}")
            if name in REMARKS:
                say(f"    {REMARKS[name]}")
            _distribute(name, tags, workers)
    gbs.update(zip(WORKERS, workers, strict=True))
    gbs.update(hook=hook, workers=workers, grid=PrivateGridNetwork(*workers))
    say("  - storing hook, workers, grid and each worker under its name")
    say('Done. Search all workers: grid.search("#iris", "#data")' if download_data else "Done.")


def hook(gbs: dict[str, Any]) -> None:
    """Make a sandbox without data: hook torch and make the workers."""
    create_sandbox(gbs, verbose=False, download_data=False)


def _distribute(name: str, tags: tuple[str, ...], workers: list[VirtualWorker]) -> None:
    """Split one data set over the workers, unless they have it: a notebook cell may be run twice."""
    try:
        from sklearn import datasets
    except ImportError:
        raise DependencyError("scikit-learn", "examples") from None
    found = getattr(datasets, f"load_{name}")()  # a name of the table above
    if workers[0].search([f"#{name}", "#data"]):
        return
    description = "\n\n".join(filter(None, (REMARKS.get(name), str(found.DESCR))))
    for half, values in (("#data", found.data), ("#target", found.target)):
        whole = torch.tensor(values, dtype=torch.float32 if values.dtype.kind == "f" else None)
        parts: Any = whole.tensor_split(len(workers))
        for part, worker in zip(parts, workers, strict=True):
            part.clone().tag(half, f"#{name}", *tags).describe(description).send(worker)


class _HookModule(ModuleType):
    """`syft.hook`, which is also documented as a function: `sy.hook(globals())`."""

    def __call__(self, gbs: dict[str, Any]) -> None:
        hook(gbs)


sys.modules["syft.hook"].__class__ = _HookModule
