"""Tables of polynomials read at private numbers: which bits may be read, and which arguments are refused."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from syft.exceptions import ProtocolError
from syft.mpc.protocols import lookup
from syft.mpc.protocols.lookup import MAX_DEGREE, MAX_WIDTH, LookupPosition, deal_digits, piecewise
from syft.mpc.values.function_tables import table_of
from tests.helpers.mpc.protocols import run

SIGMOID = table_of("sigmoid", 1 << 16)
LOW = SIGMOID.options["low"]
NO_DIGIT = f"1 to {MAX_WIDTH} of 64 bits"
NO_DROP = f"degree of 0 to {MAX_DEGREE}"

REFUSED_PLACES: dict[str, tuple[LookupPosition, str]] = {
    "one bit more dropped than there are below the digit": (LookupPosition(((10, 4),), 11, 2), NO_DROP),
    "all bits dropped": (LookupPosition(((10, 4),), 64, 2), NO_DROP),
    "a bit dropped below a digit at bit 0": (LookupPosition(((0, 4),), 1, 0), NO_DROP),
    "bits of the last digit dropped": (LookupPosition(((14, 4), (10, 4)), 11, 2), NO_DROP),
    "a negative number of bits dropped": (LookupPosition(((10, 4),), -1, 2), NO_DROP),
    "a degree too many": (LookupPosition(((10, 4),), 3, MAX_DEGREE + 1), NO_DROP),
    "a negative degree": (LookupPosition(((10, 4),), 3, -1), NO_DROP),
    "a digit without bits": (LookupPosition(((10, 0),), 3, 2), NO_DIGIT),
    "a digit too wide": (LookupPosition(((10, MAX_WIDTH + 1),), 3, 2), NO_DIGIT),
    "a digit beyond the word": (LookupPosition(((61, 4),), 3, 2), NO_DIGIT),
    "a digit before the word": (LookupPosition(((-1, 4),), 0, 2), NO_DIGIT),
}


@pytest.mark.parametrize("drop", [0, 9, 10])
def test_bits_up_to_the_lowest_digit_can_be_dropped(drop: int) -> None:
    LookupPosition(((14, 4), (10, 4)), drop, MAX_DEGREE).check()


@pytest.mark.parametrize("case", REFUSED_PLACES)
def test_bits_that_do_not_exist_are_refused(case: str) -> None:
    place, text = REFUSED_PLACES[case]
    with pytest.raises(ProtocolError, match=text):
        place.check()


@pytest.mark.parametrize("case", REFUSED_PLACES)
def test_the_dealer_refuses_bits_that_do_not_exist_before_it_draws(case: str) -> None:
    place, text = REFUSED_PLACES[case]
    with pytest.raises(ProtocolError, match=text):
        deal_digits(None, 5, place.digits, place.drop, place.degree, place.joined)


@pytest.mark.parametrize(
    ("option", "text"),
    [
        ({"shift": 1 << 33}, "some of 64 bits"),
        ({"shift": -1}, "some of 64 bits"),
        ({"low": 64}, "some of 64 bits"),
        ({"drop": LOW + 1}, "some of 64 bits"),
        ({"drop": 60}, "some of 64 bits"),
        ({"drop": -1}, "some of 64 bits"),
        ({"factor": 1 << 70}, r"integers below 2\^63"),
        ({"edges": (5, 4)}, "first edge must be below the second one"),
        ({"edges": (0, 1, 2)}, "two edges"),
        ({"outside": (1, 2)}, "two edges"),
        ({"times": 0.5}, r"integers below 2\^63"),
    ],
    ids=str,
)
def test_tables_that_are_none_are_refused_before_anything_is_dealt(
    option: dict[str, Any], text: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    x = torch.tensor([1, 2])
    monkeypatch.setattr(lookup, "read", lambda *args: pytest.fail("something was dealt"))
    with pytest.raises(ProtocolError, match=text):
        run(piecewise, 2, x, SIGMOID.coefficients, public=(1,), **{**SIGMOID.options, **option})


def test_with_all_bits_below_the_digit_dropped_each_piece_is_its_value_in_the_middle() -> None:
    """Piece n is worth 100 n in its middle and has slope 1; what is left of a number is dropped."""
    table = torch.tensor([[100 * n, 0, 1] for n in (0, 1, 2, 3, -4, -3, -2, -1)])
    x = torch.tensor([0, 16, 32, 48, -16, -64])
    for drop, slope in ((4, 0), (0, 1)):
        found = run(piecewise, 2, x, table, public=(1,), low=4, drop=drop, shift=0)
        assert torch.equal(found, 100 * (x >> 4))
        found = run(piecewise, 2, x + 5, table, public=(1,), low=4, drop=drop, shift=0)
        expected = 100 * (x >> 4) + 5 * slope
        # A number between two middles is read from either of them.
        assert bool(((found == expected) | (found == expected + 100 - 16 * slope)).all())
