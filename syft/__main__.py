"""`python -m syft`: the command line."""

from __future__ import annotations

import importlib.util
import sys


def main() -> None:
    """Run the command line; without its packages, print how to install them."""
    if importlib.util.find_spec("typer") is None:
        sys.stderr.write("The command line needs packages that are not installed: pip install 'resyft[node]'\n")
        raise SystemExit(1)
    from syft.cli.main import run

    run()


if __name__ == "__main__":
    main()
