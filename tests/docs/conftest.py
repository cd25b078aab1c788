"""One build of the site for all tests, the one that runs the notebooks."""

import os
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent.parent


@pytest.fixture(scope="session")
def build():
    """Build the site as scripts/docs does; return how the process ended."""
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    command = [ROOT / "scripts" / "docs"]
    return subprocess.run(command, capture_output=True, text=True, env=environment, timeout=1500, check=False)
