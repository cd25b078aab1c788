"""`resyft`, or `python -m resyft`: the command line of `python -m syft`."""

from __future__ import annotations

from resyft.import_name import require


def main() -> None:
    """Run the command line, unless another package has replaced its files."""
    require()
    from syft.__main__ import main as run

    run()


if __name__ == "__main__":
    main()
