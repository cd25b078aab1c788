"""`python -m syft`, or `resyft`: the command line. `doctor` and `--version` need no optional packages."""

from __future__ import annotations

import importlib.util
import sys

from resyft.import_name import require


def main() -> None:
    """Run the command line; without its packages only doctor and explain run."""
    require()
    from syft import __version__  # not above: it may be that of another package
    from syft._extras import install_line

    if _has_typer():
        from syft.cli.main import run

        run()
    elif sys.argv[1:] == ["doctor"]:
        from syft.cli.doctor import doctor

        doctor()
    elif sys.argv[1:2] == ["explain"] and len(sys.argv) == 3:
        _explain(sys.argv[2])
    elif sys.argv[1:] == ["--version"]:
        sys.stdout.write(f"resyft {__version__}\n")
    else:
        sys.stderr.write(
            f"All commands but doctor and explain need the packages of the extra 'node'. "
            f"Install them with: {install_line('node')}\n"
        )
        raise SystemExit(1)


def _has_typer() -> bool:
    try:
        return importlib.util.find_spec("typer") is not None
    except ValueError:  # a module of that name without a spec
        return False


def _explain(error: str) -> None:
    from syft.exceptions.manual import explain

    try:
        explain(error)
    except ValueError as unknown:
        sys.stderr.write(f"{unknown}\n")
        raise SystemExit(1) from None


if __name__ == "__main__":
    main()
