"""Note which documented rows the tests of a file are about, and check that none is left out."""

from __future__ import annotations

import csv
from pathlib import Path

INDEX = Path(__file__).parents[1] / "data" / "documented_api.tsv"


class Rows:
    """The rows of some documented modules, and those that tests have named so far.

    Use `row = Rows("syft.frameworks.torch.hook")`, then `@row("TorchHook.create_shape")` above a test.
    """

    def __init__(self, *modules):
        self.modules = modules
        self.covered = set()

    def __call__(self, *names):
        def note(test):
            self.covered.update(names)
            return test

        return note

    def documented(self):
        with INDEX.open(newline="") as file:
            return {n.partition("(")[0] for m, n in csv.reader(file, delimiter="\t") if m in self.modules}

    def check(self, count):
        """Assert that the tests cover all documented rows, and nothing that is not documented."""
        documented = self.documented()
        assert len(documented) == count
        assert documented - self.covered == set()
        assert self.covered - documented == set()
