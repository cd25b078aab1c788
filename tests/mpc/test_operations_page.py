"""The page of operations is what the tables say."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

from syft.mpc import lockstep
from syft.mpc.table import PROTOCOLS
from tests.mpc import page
from tests.mpc.running import numbers, run

WRITTEN = Path(__file__).parents[2] / "docs" / "operations.md"


def test_the_page_is_up_to_date(hook: Any) -> None:
    assert WRITTEN.read_text() == page.render(page.page_workers(hook)), "run: python -m tests.mpc.page"


@pytest.mark.parametrize(
    "name", ["negative", "zero", "relu", "truncate", "square", "open", "refresh", "divide", "floor_divide"]
)
def test_the_table_says_what_a_protocol_costs(name: str) -> None:
    entry = PROTOCOLS[name]
    size = 6400
    options: dict[str, Any] = {"truncate": {"divisor": 1000}, "divide": {"scale": 1000}}.get(name, {})
    args = [numbers(size, bits=20) + 2**21 for _ in range(2 if "divide" in name else 1)]
    with lockstep.count() as tally:
        run(entry.function, 2, *args, **options)
    assert tally.rounds == int(re.split(r"[, ]", entry.rounds)[0])
    # What is written is rounded up, by a sixth at most.
    assert tally.bytes <= float(re.split(r"[, ]", entry.bytes)[0]) * size + 1 <= tally.bytes * 7 / 6 + 2


def test_every_protocol_has_a_numbered_or_short_docstring() -> None:
    for entry in PROTOCOLS.values():
        text = entry.function.__doc__ or ""
        assert len(text) > 20, entry.name
