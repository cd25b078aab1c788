"""`python -m syft`, or `resyft`: the command line. `doctor` and `--version` need no optional packages."""

from __future__ import annotations

import importlib.util
import sys

from resyft.import_name import require


def main() -> None:
    """Run the command line; without its packages, print how to install them."""
    require()
    from syft import __version__  # not above: it may be that of another package
    from syft._extras import install_line

    if importlib.util.find_spec("typer") is not None:
        from syft.cli.main import run

        run()
    elif sys.argv[1:] == ["doctor"]:
        from syft.cli.doctor import doctor

        doctor()
    elif sys.argv[1:] == ["--version"]:
        sys.stdout.write(f"resyft {__version__}\n")
    else:
        sys.stderr.write(
            f"All commands but doctor need the packages of the extra 'node'. "
            f"Install them with: {install_line('node')}\n"
        )
        raise SystemExit(1)


if __name__ == "__main__":
    main()
