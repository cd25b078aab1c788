"""Types for the methods that TorchHook adds to torch: run `python -m syft.typing` once.

TorchHook adds `send`, `get`, `share`, ... to torch's own classes at run time, where no type checker sees them. Python
has no way to declare a method on another package's class, and stubs of torch shipped with this library would replace
torch's own and age with each release of it. So this module writes the stubs on your machine, from the torch that is
installed there: copies of torch's own stubs and of the files that define Tensor, Module and Dataset, in which these
have one more base class, of the stub `syft.torch_methods`. mypy, pyright and editors then complete and check
`x.send(bob)`.

The stubs are a partial stub package `torch-stubs`: all other modules of torch stay as they are. They say that the
methods are there, which is true after `sy.TorchHook(torch)`. Run the command again after each update of torch;
`python -m syft.typing --remove` takes the stubs away.
"""

from __future__ import annotations

import argparse
import re
import shutil
import sysconfig
from pathlib import Path

import torch

from syft.exceptions import SyftError

__all__ = ["remove_stubs", "write_stubs"]

# File of torch -> its class, and the class of syft.torch_methods with the methods that TorchHook adds.
_PATCHED = {
    "_C/__init__.pyi": ("TensorBase", "TensorMethods"),
    "nn/modules/module.py": ("Module", "ModuleMethods"),
    "utils/data/dataset.py": ("Dataset", "DatasetMethods"),
}


def write_stubs(folder: Path) -> Path:
    """Write the stubs for the installed torch.

    Args:
        folder: a folder that type checkers search, such as the environment's site-packages.

    Returns:
        The path of the stub package.
    """
    root = Path(torch.__file__).parent
    remove_stubs(folder)
    stubs = folder / "torch-stubs"
    for file in root.rglob("*.pyi"):  # pyright ignores the stubs inside a package that has a partial stub package
        target = stubs / file.relative_to(root)
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(file, target)
    (stubs / "py.typed").write_text("partial\n")
    for path, (name, methods) in _PATCHED.items():
        target = (stubs / path).with_suffix(".pyi")
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_text(_with_base((root / path).read_text(encoding="utf-8"), name, methods), encoding="utf-8")
    return stubs


def remove_stubs(folder: Path) -> None:
    """Remove the stubs from a folder, if they are there."""
    shutil.rmtree(folder / "torch-stubs", ignore_errors=True)


def _with_base(source: str, name: str, methods: str) -> str:
    """Return a source file whose class `name` has `methods` as its first base."""
    patched, found = re.subn(
        rf"^class {name}(?:\(([^)]*)\))?:",
        lambda match: (
            f"from syft.torch_methods import {methods} as _Added\n"
            f"class {name}({', '.join(filter(None, ('_Added', match[1])))}):"
        ),
        source,
        flags=re.MULTILINE,
    )
    if found != 1:
        raise SyftError(f"torch {torch.__version__} has no class {name} at the expected place; no stubs were written.")
    return patched


def main() -> None:
    """Write or remove the stubs."""
    parser = argparse.ArgumentParser(prog="python -m syft.typing", description="Type stubs for hooked torch classes.")
    parser.add_argument("folder", nargs="?", type=Path, default=Path(sysconfig.get_path("purelib")))
    parser.add_argument("--remove", action="store_true", help="remove the stubs")
    options = parser.parse_args()
    if options.remove:
        remove_stubs(options.folder)
        print(f"Removed torch-stubs from {options.folder}.")
    else:
        print(f"Wrote {write_stubs(options.folder)} for torch {torch.__version__}.")


if __name__ == "__main__":
    main()
