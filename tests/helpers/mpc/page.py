"""Write docs/reference/operations.md: operations on shared tensors, their costs and errors."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import torch

import syft as sy
from syft.exceptions import UnsupportedOperationError
from syft.mpc.runtime import cost_meter
from syft.mpc.runtime.protocol_registry import PROTOCOLS
from tests.helpers.mpc import function_page, layer_page
from tests.helpers.mpc.rows import MATRIX, REFUSED, A

HEAD = """# What runs on shared tensors

Look up here which torch calls run on encrypted tensors, how many rounds and bytes each takes, and how exact it is.

```py
x = torch.tensor([1.5, -2.0]).fix_precision().share(alice, bob, crypto_provider=dealer)
torch.relu(x).get().float_precision()  # tensor([1.5000, 0.0000])
```

Every call below runs on tensors shared among two or more parties with a crypto provider, in base 2 and base 10. The tests
compare each one with float64 torch for 2, 3 and 4 parties, in one process and in separate processes. Approximated functions
(exp, log, sigmoid, softmax and others) have their own table. A call that is not listed raises `UnsupportedOperationError`, which
names the nearest supported call.

Values must stay below 2^62 units of the last place; for products that are rescaled, this includes the product before
rescaling. With 16 bits (base 2) products up to about 10^9 fit, with three decimals up to about 4 * 10^12. Encoding and sharing
check the range. A sum or product of private numbers cannot be inspected, so it wraps around. A private index that is out of
range gives 0.

`python -m tests.helpers.mpc.page` generates this page from the tables of the tests and from the protocol registry. A test fails if the
page is out of date.

## Calls

Rounds and bytes are measured with two parties (`sy.mpc.count()`) on the small tensors of the tests. *Rounds* is how often
the parties wait for each other, *bytes* the number of bytes that one party sends to the other, *dealt* the number of bytes from
the crypto provider. Sums of shares and public numbers are free. The error is in units of the last place (0.001 with three
decimals, 2^-16 with 16 bits) for exact operands, multiplied by the largest value of the result if that exceeds one.

| call | rounds | bytes | dealt | error, units |
|---|---|---|---|---|
"""
PROTOCOL_HEAD = """
## Protocols

The protocols that implement the calls above. Bytes are per element of the result, from one party to each other party. k is the
number of candidates. Protocols with a helper need two parties and a crypto provider that takes part; with more parties, the
protocols without a helper run instead. The same holds for function secret sharing (`fss_`), which needs two parties.
`protocol="snn"` exists for code that was written for SecureNN. Values are in [-2^62, 2^62), in units of the last place. SecureNN
(`snn_`) also needs differences in that range, so its operands should be in [-2^61, 2^61).

The default protocols are the fastest if the parties are close to each other: a million comparisons take about a tenth of a
second in one process, and five to ten seconds with SecureNN or function secret sharing. `protocol="fss"` is for slow
connections. It takes one round instead of seven, and 8 bytes per element instead of 20, for each 32,768 elements; from about
200,000 elements on it needs no fewer rounds than the default. The dealer sends keys to each party, 1,504 bytes per element (1,040
for equality): on request the first time, ahead of the run afterwards, up to 64 MB. A party needs about 1 microsecond per
element to evaluate its keys. So `fss` pays off if a round trip between the parties takes more than 0.2 microseconds per element
(6 ms for 32,768 elements) and the connection to the dealer can carry the keys.

| protocol | rounds | bytes an element | exactness | helper |
|---|---|---|---|---|
"""
REFUSED_HEAD = """
## Refused

These raise `UnsupportedOperationError` (or `ValueError`, where a Python value was asked for):

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


def measure(row: Any, workers: tuple[Any, Any, Any]) -> cost_meter.RunCost:
    """Run a row on shares, and count."""
    alice, bob, dealer = workers
    args = [
        tensor if number in row.plain else tensor.fix_precision().share(alice, bob, crypto_provider=dealer)
        for number, tensor in enumerate(_inputs(row))
    ]
    with cost_meter.count() as tally:
        row.call(*args)
    return tally


def refusal(call: Any, workers: tuple[Any, Any, Any]) -> str:
    """Return what a refused call says."""
    alice, bob, dealer = workers
    x = torch.tensor(A).fix_precision().share(alice, bob, crypto_provider=dealer)
    try:
        call(x)
    except (UnsupportedOperationError, ValueError) as error:
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
    page = Path(__file__).parents[3] / "docs" / "reference" / "operations.md"
    made_with = page_workers(sy.TorchHook(torch, verbose=False))
    page.write_text(render(made_with))
    function_page.PICTURE.parent.mkdir(exist_ok=True)
    function_page.PICTURE.write_text(function_page.picture(made_with))
