"""20,000 mutated messages of every type: each is answered or refused, and nothing else happens."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent.parent
SHARDS = 2
MESSAGES = 10_000


@pytest.mark.parametrize("shard", range(SHARDS))
def test_mutated_messages_are_answered_or_refused(shard):
    code = f"from tests.attacks.fuzzing import main; main({1000 + shard}, {MESSAGES})"
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "PYTHONHASHSEED": "0"}
    done = subprocess.run(
        [sys.executable, "-c", code],
        cwd=ROOT,
        env=environment,
        capture_output=True,
        text=True,
        timeout=110,
        check=False,
    )
    assert done.returncode == 0, done.stdout[-6000:] + done.stderr[-3000:]
    found = re.search(r"(\d+) messages: (\d+) valid requests, (\d+) errors", done.stdout)
    assert found, done.stdout
    # The mutations must reach beyond the parser, or this test proves nothing.
    assert int(found[1]) == MESSAGES
    assert int(found[2]) > MESSAGES // 10
    assert MESSAGES // 4 < int(found[3]) < MESSAGES
