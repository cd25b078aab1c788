"""The page of a run as HTML: the same sections while it runs and in a saved file."""

from __future__ import annotations

import base64
import dataclasses
import hashlib
import html
from collections import Counter
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from syft.core.labels import printable
from syft.exceptions import TrainingError
from syft.federated.history.page_assets import SCRIPT, STYLE
from syft.federated.history.text import seconds_text, size_text

if TYPE_CHECKING:
    from syft.federated.history.records import History

# Maximum number of rows in a table of the page.
_LIVE_ROUNDS, _SAVED_ROUNDS, _FAILURES = 20, 500, 20
# Seconds between reloads of a live page in a browser without JavaScript.
_RELOAD = 5


@dataclasses.dataclass(frozen=True, slots=True)
class RoundInProgress:
    """The round that runs now: its number and attempt, and how many of its clients were called, answered and failed."""

    number: int
    attempt: int
    asked: int
    answered: int
    failed: int


@dataclasses.dataclass(frozen=True, slots=True)
class RunView:
    """The content of a page besides the history.

    Attributes:
        rounds: the number of rounds that the run was asked for; None if it is unknown.
        clients: number of clients; None if it is unknown.
        strategy: the strategy with its settings.
        is_live: whether the run is in progress.
        ending: why it ended before its last round.
        elapsed: seconds since it started here; None for the sum of its rounds.
        current: the round in progress.
        budgets: the largest epsilon by neighbouring relation.
        epsilons: the privacy loss so far by neighbouring relation; None for that of the history.
    """

    rounds: int | None = None
    clients: int | None = None
    strategy: str = ""
    is_live: bool = False
    ending: str | None = None
    elapsed: float | None = None
    current: RoundInProgress | None = None
    budgets: Mapping[str, float] = dataclasses.field(default_factory=dict)
    epsilons: Mapping[str, float] | None = None


def save_page(path: Any, history: History, view: RunView) -> None:
    """Write the page of a run to one file without references to others."""
    file = Path(path)
    if file.suffix.lower() not in (".html", ".htm"):
        raise TrainingError(f"A page is written as HTML. Use a name such as {file.stem or 'run'}.html.")
    file.write_text(document(history, view), encoding="utf-8")


def document(history: History, view: RunView) -> str:
    """Return the whole page. While the run is in progress it has a script that updates its sections."""
    parts = sections(history, view)
    body = "\n".join(f'<section id="{name}">{text}</section>' for name, text in parts.items() if name != "title")
    live = ""
    if view.is_live:
        live = f'<noscript><meta http-equiv="refresh" content="{_RELOAD}"></noscript>'
        body += f'\n<noscript><p class="note"><a href="">Refresh</a> (every {_RELOAD} seconds by itself)</p></noscript>'
        body += f"\n<script>{SCRIPT}</script>"
    policy = "" if view.is_live else f'<meta http-equiv="Content-Security-Policy" content="{content_policy()}">'
    return (
        f'<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n{policy}{live}\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        '<meta name="color-scheme" content="light dark">\n<link rel="icon" href="data:,">\n'
        f"<title>{parts['title']}</title>\n<style>{STYLE}</style>\n</head>\n<body>\n<main>\n{body}\n</main>\n</body>\n</html>\n"
    )


def content_policy(is_live: bool = False) -> str:
    """Return the Content-Security-Policy: this page's own style and script, and nothing from elsewhere."""
    own = f"script-src {_digest(SCRIPT)}; connect-src 'self'; frame-ancestors 'none'; " if is_live else ""
    return f"default-src 'none'; {own}style-src {_digest(STYLE)}; img-src data:; base-uri 'none'; form-action 'none'"


def _digest(text: str) -> str:
    return f"'sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}'"


def sections(history: History, view: RunView, known: Mapping[str, str] | None = None) -> dict[str, str]:
    """Return the parts of the page by the id of their element, and the title. All texts are escaped.

    Args:
        history: the complete rounds.
        view: the other properties of the run.
        known: the result for the same rounds; only the title and the status are new then.
    """
    now = {"title": _escaped(f"{_state(history, view)} – federated run"), "status": _status(history, view)}
    if known is not None:
        return {**known, **now}
    return {
        **now,
        "charts": _charts(history),
        "failures": _failures(history),
        "rounds": _rounds(history, _LIVE_ROUNDS if view.is_live else _SAVED_ROUNDS),
    }


def _escaped(value: object) -> str:
    return html.escape(printable(value))


def _state(history: History, view: RunView) -> str:
    done = len(history) if view.rounds is None else f"{len(history)} of {view.rounds}"
    if view.is_live:
        number = view.current.number if view.current is not None else min(len(history) + 1, view.rounds or 1)
        return f"Round {number} of {view.rounds}"
    return f"{'Complete' if view.ending is None else 'Ended'}: {done} rounds"


# --- status -----------------------------------------------------------------------------------------------------


def _status(history: History, view: RunView) -> str:
    kind = "live" if view.is_live else "done" if view.ending is None else "early"
    parts = [f'<header><h1>Federated run</h1><p class="badge {kind}">{_escaped(_state(history, view))}</p></header>']
    about = [view.strategy, "" if view.clients is None else f"{view.clients} clients"]
    if any(about):
        parts.append(f'<p class="about">{_escaped(" · ".join(filter(None, about)))}</p>')
    if view.rounds is not None:
        parts.append(f'<progress max="{max(1, view.rounds)}" value="{len(history)}" aria-label="rounds"></progress>')
    if view.ending is not None:
        parts.append(f'<p class="ending">{_escaped(view.ending)}</p>')
    tiles = "".join(
        f"<div><dt>{_escaped(name)}</dt><dd>{_escaped(value)}</dd>{more}</div>"
        for name, value, more in _tiles(history, view)
    )
    return "".join([*parts, f'<dl class="tiles">{tiles}</dl>'])


def _tiles(history: History, view: RunView) -> Iterable[tuple[str, str, str]]:
    """Yield the name, the value and a remark (as HTML) of each figure."""
    elapsed = sum(r.seconds for r in history) if view.elapsed is None else view.elapsed
    if view.current is not None:
        now = view.current
        again = f", attempt {now.attempt}" if now.attempt > 1 else ""
        remark = f"{now.failed} failed, {max(0, now.asked - now.answered - now.failed)} to go{again}"
        yield f"Answered in round {now.number}", f"{now.answered} of {now.asked}", _remark(remark)
    last = history[-1] if len(history) else None
    if last is not None:
        figures = {"loss": last.loss, **last.metrics}
        for name, figure in figures.items():
            if figure is not None:
                yield name, f"{figure:.4g}", _remark(f"after round {last.number}")
        asked, failed = (sum(getattr(r, name) for r in history) for name in ("asked", "failed"))
        yield "Calls of clients", str(asked), _remark(f"{failed} failed")
        sent, received = (sum(getattr(r, name) for r in history) for name in ("bytes_out", "bytes_in"))
        yield "Traffic", size_text(sent + received), _remark(f"{size_text(sent)} out, {size_text(received)} in")
    yield "Elapsed", seconds_text(elapsed), _remark(f"last round {seconds_text(last.seconds)}") if last else ""
    for unit, spent in _epsilons(history, view).items():
        most = view.budgets.get(unit)
        if most is None:
            yield "Epsilon", f"{spent:.3g}", _remark(unit)
        else:
            meter = f'<meter max="{most:g}" value="{min(spent, most):g}" aria-label="budget"></meter>'
            yield "Epsilon", f"{spent:.3g} of {most:g}", _remark(unit) + f"<dd>{meter}</dd>"


def _remark(text: str) -> str:
    return f'<dd class="remark">{_escaped(text)}</dd>'


def _epsilons(history: History, view: RunView) -> Mapping[str, float]:
    if view.epsilons is not None:
        return view.epsilons
    known = [r for r in history if r.epsilon is not None]
    return {known[-1].neighbours or "": known[-1].epsilon or 0.0} if known else {}


# --- charts and tables ------------------------------------------------------------------------------------------


def _charts(history: History) -> str:
    names = history.usual()
    drawn = "".join(f'<figure class="chart">{history.plot(name).svg}</figure>' for name in names)
    return f'<h2>Curves</h2><div class="charts">{drawn}</div>' if drawn else ""


def _failures(history: History) -> str:
    """Return the reasons of failures with the rounds that they happened in."""
    times: Counter[str] = Counter()
    last: dict[str, int] = {}
    for record in history:
        for reason in record.reasons:
            times[reason] += 1
            last[reason] = record.number
    if not times:
        return ""
    rows = [(reason, count, last[reason]) for reason, count in times.most_common(_FAILURES)]
    more = f'<p class="note">{len(times) - len(rows)} more reasons.</p>' if len(times) > len(rows) else ""
    return "<h2>Failures</h2>" + _table(("reason", "rounds", "last round"), rows, 1) + more


def _rounds(history: History, most: int) -> str:
    rows = history.rows()[-most:]
    if not rows:
        return '<p class="note">No round is complete yet.</p>'
    hidden = ("reasons",)
    columns = [name for name in rows[-1] if name not in hidden and any(row[name] not in (None, "") for row in rows)]
    cells = [[_cell(name, row[name]) for name in columns] for row in reversed(rows)]
    more = f'<p class="note">The last {len(rows)} of {len(history)} rounds.</p>' if len(rows) < len(history) else ""
    return "<h2>Rounds</h2>" + _table([name.replace("_", " ") for name in columns], cells, 0) + more


def _cell(name: str, value: Any) -> str:
    if value is None:
        return ""
    if name.startswith("bytes_"):
        return size_text(value)
    if name == "seconds":
        return f"{value:.3g}"
    return f"{value:.4g}" if isinstance(value, float) else str(value)


def _table(columns: Iterable[str], rows: Iterable[Iterable[object]], left: int) -> str:
    """Return a table whose columns from index `left` on are numbers."""
    number = [' class="number"' if index >= left else "" for index in range(64)]
    kinds = dict(enumerate(number))
    head = "".join(f'<th scope="col"{kinds.get(i, "")}>{_escaped(name)}</th>' for i, name in enumerate(columns))
    body = "".join(
        "<tr>" + "".join(f"<td{kinds.get(i, '')}>{_escaped(value)}</td>" for i, value in enumerate(row)) + "</tr>"
        for row in rows
    )
    return f'<div class="scroll" tabindex="0"><table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table></div>'
