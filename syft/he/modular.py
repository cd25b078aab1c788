"""Arithmetic modulo a large number: by gmpy2 if it is installed, which also uses several cores, else by Python."""

from __future__ import annotations

import functools
import importlib
from collections.abc import Callable
from typing import Any, NamedTuple


class Arithmetic(NamedTuple):
    """The functions of one implementation.

    Attributes:
        number: converts an int to the implementation's own type.
        power: (base, exponent, modulus) -> the power; a negative exponent inverts the base.
        prepare_thread: called once in each thread of the pool.
    """

    number: Callable[[int], Any]
    power: Callable[[Any, int, Any], Any]
    prepare_thread: Callable[[], None]


@functools.cache
def arithmetic() -> Arithmetic:
    """Return the fastest implementation; imported at the first use."""
    try:
        gmpy2: Any = importlib.import_module("gmpy2")
    except (ImportError, OSError):  # a confined process may not read it
        return Arithmetic(int, pow, lambda: None)

    def release_gil() -> None:
        gmpy2.get_context().allow_release_gil = True

    return Arithmetic(gmpy2.mpz, gmpy2.powmod, release_gil)
