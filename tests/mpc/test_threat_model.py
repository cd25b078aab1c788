"""The statements of the threat model about encrypted computation."""

from __future__ import annotations

from pathlib import Path

PAGE = Path(__file__).resolve().parents[2] / "docs" / "explanation" / "threat-model.md"


def test_the_threat_model_names_what_truncation_reveals():
    """A party that also sees the result learns more than stochastic rounding tells."""
    text = PAGE.read_text()
    assert "Truncation tells a little more than stochastic rounding" in text
    (row,) = [line for line in text.splitlines() if line.startswith("| truncation (rescaling)")]
    assert "with the result, one comparison of the dropped digits" in row
