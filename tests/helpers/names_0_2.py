"""The names of the 0.2 API and their state here. `python -m tests.helpers.names_0_2` writes them into the docs page."""

from __future__ import annotations

import csv
import importlib
import inspect
import itertools
from pathlib import Path

import torch

import syft as sy
from syft._paths import home_of

INDEX = Path(__file__).parents[1] / "data" / "names_0_2.tsv"
PAGE = Path(__file__).parents[2] / "docs" / "how-to" / "coming-from-pysyft-0.2.md"
BEGIN, END = "<!-- names: begin -->\n", "<!-- names: end -->\n"

# Names, or beginnings of paths, that stay away -> a word of the error that says what to use instead; None for parts that
# did nothing in 0.2 or were internal.
ABSENT: dict[str, str | None] = {
    "syft.KerasHook": "serve",
    "syft.TFECluster": "serve",
    "syft.TFEWorker": "ProcessWorker",
    "syft.frameworks.keras": "serve",
    "syft.workers.tfe": "ProcessWorker",
    "syft.generic.metrics.NetworkMonitor": "count_messages",
    "syft.exceptions.EmptyCryptoPrimitiveStoreError": None,
    "syft.frameworks.torch.tensors.interpreters.additive_shared.AdditiveSharingTensor.torch": None,
    "syft.frameworks.torch.tensors.interpreters.autograd.AutogradTensor.torch": None,
    "syft.frameworks.torch.tensors.interpreters.build_gradients": None,
    "syft.frameworks.torch.tensors.interpreters.crt_precision.CRTPrecisionTensor.torch": None,
    "syft.frameworks.torch.tensors.interpreters.gradients_core.GradFunc.detail": None,
    "syft.frameworks.torch.tensors.interpreters.gradients_core.GradFunc.simplify": None,
    "syft.frameworks.torch.tensors.interpreters.gradients_core.get_mismatch_dims": None,
    "syft.frameworks.torch.tensors.interpreters.hook": None,
    "syft.frameworks.torch.tensors.interpreters.paillier.PaillierTensor.torch": None,
    "syft.frameworks.torch.tensors.interpreters.precision.FixedPrecisionTensor.torch": None,
    "syft.frameworks.torch.tensors.interpreters.private.PrivateTensor.torch": None,
    "syft.generic.pointers.pointer_tensor.PointerTensor.keep": None,
    "syft.generic.pointers.pointer_tensor.PointerTensor.value": None,
    "torch.Tensor.keep": None,
    "torch.Tensor.value": None,
}
# Names that instances have, not their classes.
OF_INSTANCES = {
    ("torch.Tensor", "child"),
    ("syft.workers.base", "BaseWorker.serializer"),
    *(
        ("syft.generic.pointers.pointer_tensor", f"PointerTensor.{name}")
        for name in ("fix_prec", "fix_precision", "float_prec", "float_precision", "share", "share_")
    ),
}


def names() -> list[tuple[str, str]]:
    """Return (module or class, name) of every name; an empty name stands for the module itself."""
    with INDEX.open(newline="") as file:
        return [(module, name) for module, name in itertools.islice(csv.reader(file, delimiter="\t"), 1, None)]


def resolve(module: str, name: str) -> object:
    """Return the object; raises ImportError or AttributeError where it is absent."""
    if module.startswith("torch."):
        found: object = torch
        parts = [*module.split(".")[1:], name]
    else:
        found, parts = importlib.import_module(module), name.split(".")
    for part in filter(None, parts):
        if inspect.isclass(found) and part.startswith("__") and not part.endswith("__"):
            part = f"_{found.__name__.lstrip('_')}{part}"
        found = getattr(found, part)
    return found


def absent(module: str, name: str) -> str | None:
    """Return the entry of ABSENT that a name belongs to; None for a name that is there."""
    path = f"{module}.{name}" if name else module
    return next((start for start in ABSENT if path == start or path.startswith(f"{start}.")), None)


def state(module: str, name: str) -> str:
    """Return the last column of the table."""
    entry = absent(module, name)
    if entry is not None:
        return f"absent; use `{ABSENT[entry]}`" if ABSENT[entry] else "absent; nothing to use instead"
    home = home_of(module)
    return "there" if home is None else f"there, in `{home}`"


def table() -> str:
    """Return the table: one row for each module and class."""
    lines = ["| where | names | state |", "|---|---|---|"]
    for (module, cls, what), group in itertools.groupby(
        ((m, n.rpartition(".")[0], state(m, n), n.rpartition(".")[2]) for m, n in names()), key=lambda row: row[:3]
    ):
        where = f"`{module}`" + (f", `{cls}`" if cls else "")
        found = ", ".join(f"`{name}`" for *_, name in group if name)
        lines.append(f"| {where} | {found or 'the module'} | {what} |")
    return "\n".join(lines) + "\n"


def main() -> None:
    """Write the table into the page, between its two marks."""
    sy.TorchHook(torch)
    before, _, rest = PAGE.read_text().partition(BEGIN)
    _, _, after = rest.partition(END)
    PAGE.write_text(before + BEGIN + table() + END + after)


if __name__ == "__main__":
    main()
