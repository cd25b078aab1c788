"""Has every worker know the call for questions with differential privacy; what answers it is loaded when asked."""

from __future__ import annotations

from typing import Any

from syft.workers.execution import DEPUTIES

QUERY = "syft.dp_query"


def _answer(worker: Any, session: Any, *args: Any, **settings: Any) -> Any:
    from syft.dp.answering import answer

    return answer(worker, session, *args, **settings)


DEPUTIES[QUERY] = _answer
