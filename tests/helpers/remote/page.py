"""Write docs/reference/remote-functions.md: how many calls run remotely, which are refused, and why."""

from __future__ import annotations

from collections import defaultdict
from pathlib import Path

from syft.hook.allowed_functions import _EXTRA, CONSTRUCTORS, allowed, overridable
from syft.hook.denylist import REASONS, REFUSED
from tests.helpers.remote.samples import samples, unlisted_samples

# Proxies of calls that are sampled: in-place activations, and what torch.meshgrid calls in turn.
WITHOUT_SAMPLES = [
    *(f"torch.{name}" for name in "rand_like randn_like randint_like _is_all_true _is_any_true _weight_norm".split()),
    "torch._VF.meshgrid",
    *(
        f"torch.{name}"
        for name in "relu_ celu_ selu_ rrelu_ threshold_ dropout_ alpha_dropout_ feature_dropout_".split()
    ),
]


def render() -> str:
    """Return the page."""
    table = {**samples(), **unlisted_samples()}
    tested = {name: len(rows) for name, rows in table.items() if name in allowed() and rows}
    groups: dict[str, list[str]] = defaultdict(list)
    for name, reason in REFUSED.items():
        groups[reason].append(name)
    lines = [
        "# What runs remotely",
        "",
        "Look up here whether a torch call runs on a remote tensor, and if not, why.",
        "",
        "```py",
        "x = torch.tensor([1.0, 2.0]).send(bob)",
        "torch.exp(x)  # runs at bob",
        "x.apply_(print)  # raises CommandNotAllowedError with the reason below",
        "```",
        "",
        "A torch call on a pointer is sent by name. The names come from torch's own list of overridable functions;",
        "a worker runs the allowed ones and no others. The tests run each allowed call on pointers and on local",
        "tensors and compare values, dtypes and gradients.",
        "",
        "`python -m tests.helpers.remote.page` generates this page from the tables in `syft.hook`. A test fails if the page",
        "is out of date.",
        "",
        "| | count |",
        "|---|---|",
        f"| overridable calls of torch | {len(overridable())} |",
        f"| allowed on a worker | {len(allowed())} |",
        f"| of these, compared with local torch | {len(tested)}, with {sum(tested.values())} samples |",
        f"| refused | {len([name for name in REFUSED if name in overridable()])} |",
        f"| tensor constructors, `worker.remote.torch.*` | {len(CONSTRUCTORS)} |",
        "",
        "Metadata of a tensor (shape, dtype, strides, `is_leaf`) may always leave a worker. Every other Python value",
        "(`item`, `tolist`, `bool()`, `equal` and others) is checked by the worker's release policy first.",
        "",
        "## Allowed without their own sample",
        "",
        "Variants of calls that are compared, and a few calls with separate tests: "
        + ", ".join(f"`{name}`" for name in WITHOUT_SAMPLES)
        + ".",
        "",
        "## Refused calls and reasons",
        "",
    ]
    for reason in sorted(groups):
        names = ", ".join(f"`{name.removeprefix('torch.')}`" for name in sorted(groups[reason]))
        lines += [f"### {reason} ({len(groups[reason])})", "", REASONS[reason], "", names, ""]
    return "\n".join(lines)


if __name__ == "__main__":
    (Path(__file__).resolve().parents[3] / "docs" / "reference" / "remote-functions.md").write_text(render())

__all__ = ["WITHOUT_SAMPLES", "_EXTRA", "render"]
