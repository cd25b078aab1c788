"""Write docs/operations.md: what can be computed on shared tensors, what it costs, and how exact it is."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import torch

import syft as sy
from syft.exceptions import UnsupportedOperation
from syft.mpc.runtime import lockstep
from syft.mpc.runtime.protocol_registry import PROTOCOLS
from tests.mpc import function_page, layer_page
from tests.mpc.rows import MATRIX, REFUSED, A

HEAD = """# What runs on shared tensors

Everything below runs on tensors shared among two parties or more, with a crypto provider, in base 2 and base 10, and is
compared with float64 torch for 2, 3 and 4 parties, in one process and in processes of their own. Functions that are
approximated (exp, log, sigmoid, softmax and so on) have a table of their own below. A call that is not here raises
`UnsupportedOperation`, and says what is nearest to it.

Values must stay in range: 2^62 units of the last place, and for products that are rescaled the product before that. With
16 bits (base 2) products up to about 10^9 fit, with three decimals up to about 4 * 10^12. Encoding and sharing check this; a sum or a
product of private numbers can't be looked at, and wraps around. A private index that is out of range gives 0.

This page is written by `python -m tests.mpc.page` from the tables of the tests and of `syft/mpc/runtime/protocol_registry.py`; a test fails
when it is out of date.

## Calls

Rounds and bytes are measured with two parties (`sy.mpc.count()`), on the small tensors of the tests: rounds are how often
the parties wait for each other, bytes are what a party sends to the other, dealt is what the crypto provider sends. Sums
of shares and public numbers cost nothing. The error is in units of the last place (0.001 with three decimals, 2^-16 with
16 bits), for operands that are exact, times the largest value of the result where that is more than one.

| call | rounds | bytes | dealt | error, units |
|---|---|---|---|---|
"""
PROTOCOL_HEAD = """
## Protocols

What the calls above are made of, and what `sy.mpc.engine.run(name, ...)` takes. Bytes are for each element of the result, from
a party to each other party. k is the number of candidates. Those with a helper are for two parties and a crypto provider
that takes part; with other numbers of parties the protocols without a helper run in their place, as they do for function
secret sharing (`fss_`), which is for two parties. `protocol="snn"` is there for what was built on it. Values lie in
[-2^62, 2^62), in units of the last place. Those of SecureNN (`snn_`) need their differences to lie in there too, so what
they compare should be in [-2^61, 2^61).

The default protocols are the quickest where the parties are close: a million comparisons take about a tenth of a second in
one process, those of SecureNN and of function secret sharing five to ten seconds. `protocol="fss"` is for parties that are
far from each other. It takes one round in place of seven, and 8 bytes an element in place of 20, for each 32,768 elements;
from about 200,000 elements on it has no fewer rounds than the default. The dealer sends keys to each party, 1,504 bytes an
element (1,040 for equality), the first time when they are asked for, afterwards ahead of the run, up to 64 MB. A party
takes about 1 microsecond an element to use its keys. So it pays where a round trip between the parties takes more than
0.2 microseconds an element (6 ms for 32,768 elements) and the line from the dealer has time to carry the keys.

| protocol | rounds | bytes an element | exactness | helper |
|---|---|---|---|---|
"""
REFUSED_HEAD = """
## Refused

These raise `UnsupportedOperation` (or `ValueError`, where a Python value was asked for):

"""


def _inputs(row: Any) -> list[torch.Tensor]:
    made = []
    for number, given in enumerate(row.inputs):
        if isinstance(given, tuple):
            generator = torch.Generator().manual_seed(number)
            made.append(torch.randint(-8, 8, given, generator=generator) / 4)
        else:
            made.append(torch.tensor(given))
    return made


def measure(row: Any, workers: tuple[Any, Any, Any]) -> lockstep.RunCost:
    """Run a row on shares, and count."""
    alice, bob, dealer = workers
    args = [
        tensor if number in row.plain else tensor.fix_precision().share(alice, bob, crypto_provider=dealer)
        for number, tensor in enumerate(_inputs(row))
    ]
    with lockstep.count() as tally:
        row.call(*args)
    return tally


def refusal(call: Any, workers: tuple[Any, Any, Any]) -> str:
    """Return what a refused call says."""
    alice, bob, dealer = workers
    x = torch.tensor(A).fix_precision().share(alice, bob, crypto_provider=dealer)
    try:
        call(x)
    except (UnsupportedOperation, ValueError) as error:
        return str(error).split("\n")[0]
    raise AssertionError("not refused")


def render(workers: tuple[Any, Any, Any]) -> str:
    """Return the page."""
    lines = [HEAD.rstrip("\n")]
    for name, row in MATRIX.items():
        tally = measure(row, workers)
        lines.append(f"| `{name}` | {tally.rounds} | {tally.bytes} | {tally.dealt} | {row.units:g} |")
    lines += function_page.table(workers)
    lines += layer_page.table(workers)
    lines.append(PROTOCOL_HEAD.rstrip("\n"))
    for entry in PROTOCOLS.values():
        helper = "yes" if entry.helper else ""
        exact = entry.error.replace("|", "\\|")
        lines.append(f"| `{entry.name}` | {entry.rounds} | {entry.bytes} | {exact} | {helper} |")
    lines.append(REFUSED_HEAD.rstrip("\n"))
    lines.append("")
    lines += [f"* `{name}`: {refusal(call, workers)}" for name, call in REFUSED.items()]
    return "\n".join(lines) + "\n"


def page_workers(hook: Any) -> tuple[Any, Any, Any]:
    """Make the workers that the page is measured with."""
    alice, bob, dealer = (sy.VirtualWorker(hook, id=f"page-{name}") for name in ("alice", "bob", "dealer"))
    return alice, bob, dealer


if __name__ == "__main__":
    page = Path(__file__).parents[2] / "docs" / "operations.md"
    made_with = page_workers(sy.TorchHook(torch, verbose=False))
    page.write_text(render(made_with))
    function_page.PICTURE.parent.mkdir(exist_ok=True)
    function_page.PICTURE.write_text(function_page.picture(made_with))
