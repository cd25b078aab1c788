"""docs/operations.md agrees with the tables of the tests and the protocols."""

from __future__ import annotations

import math
import re
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest
import torch

from syft.mpc.runtime import cost_meter
from syft.mpc.runtime.protocol_registry import PROTOCOLS
from syft.mpc.values.function_tables import table_of
from tests.helpers.mpc import function_page, page
from tests.helpers.mpc.function_rows import FUNCTIONS
from tests.helpers.mpc.protocols import numbers, run

WRITTEN = Path(__file__).parents[3] / "docs" / "reference" / "operations.md"


# Measured errors vary, because rounding is random.
MEASURED = re.compile(r"~[0-9.]+e[-+][0-9]+")


def test_the_page_is_up_to_date(hook: Any) -> None:
    """Rendering also fails if an error that is measured now is beyond its bound."""
    written, made = (MEASURED.sub("~", text) for text in (WRITTEN.read_text(), page.render(page.page_workers(hook))))
    assert written == made, "run: python -m tests.helpers.mpc.page"


def test_the_errors_on_the_page_are_within_their_bounds() -> None:
    """The errors as parts of results that are more than one, so of all bounds the part of the result counts once."""
    found = 0
    for line in WRITTEN.read_text().splitlines():
        name = line[2:].split("`")[1] if line.startswith("| `") else ""
        if name in FUNCTIONS and "~" in line:
            function, errors = FUNCTIONS[name], [float(text[1:]) for text in MEASURED.findall(line)]
            for error, scale in zip(errors, (2**16, 1000), strict=True):
                assert error <= float(function.allowed(torch.tensor(1.0), scale)) * 1.05, name
            found += 1
    assert found == sum(1 for function in FUNCTIONS.values() if function.units)


def test_the_picture_has_every_function() -> None:
    drawn = function_page.PICTURE.read_text()
    names = [name for name, function in FUNCTIONS.items() if function.units]
    assert all(f">{name}</text>" in drawn for name in names)
    assert drawn.count("<polyline") == 2 * len(names)
    ElementTree.fromstring(drawn)  # noqa: S314  (a file of our own)
    assert f"images/{function_page.PICTURE.name}" in WRITTEN.read_text()


SIGMOID = table_of("sigmoid", 65536)
# Protocols, and what they are run with beside shares.
OPTIONS: dict[str, dict[str, Any]] = {
    **{name: {} for name in ("negative", "zero", "relu", "square", "open", "refresh", "floor_divide")},
    "truncate": {"divisor": 1000},
    "divide": {"scale": 1000},
    "piecewise": {"table": SIGMOID.coefficients, **SIGMOID.options},
    "exp": {"scale": 65536},
    "root": {"kind": "sqrt", "scale": 65536},
}


@pytest.mark.parametrize("name", OPTIONS)
def test_declared_costs_of_protocols(name: str) -> None:
    entry = PROTOCOLS[name]
    size = 6400
    args = [numbers(size, bits=20) + 2**21 for _ in range(2 if "divide" in name else 1)]
    with cost_meter.count() as tally:
        run(entry.function, 2, *args, **OPTIONS[name])
    assert tally.rounds == int(re.split(r"[, ]", entry.rounds)[0])
    # The numbers on the page are rounded up, by a sixth at most.
    assert tally.bytes <= float(re.split(r"[, ]", entry.bytes)[0]) * size + 1 <= tally.bytes * 7 / 6 + 2


@pytest.mark.parametrize("kind", ["log", "reciprocal"])
def test_declared_costs_of_roots(kind: str) -> None:
    entry = PROTOCOLS["root"]
    with cost_meter.count() as tally:
        run(entry.function, 2, numbers(640, bits=20), kind=kind, scale=65536)
    said = {"log": (11, 480), "reciprocal": (13, 840)}[kind]
    assert "11 for log" in entry.rounds and "840 for reciprocal" in entry.bytes
    assert tally.rounds == said[0] and tally.bytes <= said[1] * 640 <= tally.bytes * 7 / 6


@pytest.mark.parametrize(("count", "more"), [(2, 13), (8, 13), (10, 13), (16, 23), (32, 23)])
def test_declared_costs_of_softmax(count: int, more: int) -> None:
    entry = PROTOCOLS["softmax"]
    with cost_meter.count() as tally:
        run(entry.function, 2, numbers(64, count, bits=18), dim=1, scale=65536)
    assert entry.rounds == "7 log2(k) + 13 (k > 15: 23)"
    assert tally.rounds == 7 * math.ceil(math.log2(count)) + more
    assert tally.bytes <= float(entry.bytes) * 64 * count


def test_every_protocol_has_a_numbered_or_short_docstring() -> None:
    for entry in PROTOCOLS.values():
        text = entry.function.__doc__ or ""
        assert len(text) > 20, entry.name
