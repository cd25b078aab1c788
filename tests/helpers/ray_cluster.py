"""Ray for tests: a cluster on loopback, started once for the tests of a file."""

from __future__ import annotations

import gc
import secrets
import tempfile
from pathlib import Path

import pytest

from syft.workers.ray import cluster as ray_cluster

marks = [
    pytest.mark.timeout(300),
    # Ray leaves handles of its own log files and processes to the garbage collector.
    pytest.mark.filterwarnings("ignore::ResourceWarning", "ignore::pytest.PytestUnraisableExceptionWarning"),
    pytest.mark.filterwarnings("ignore::FutureWarning:ray.*", "ignore::DeprecationWarning:ray.*"),
]

# Ray reads its token once a process, however many clusters are started there.
TOKEN = secrets.token_hex(32)


@pytest.fixture(scope="module")
def cluster():
    """Start Ray once, on loopback, with a token and files of its own. The paths of its sockets must be short."""
    ray = pytest.importorskip("ray")
    short = tempfile.TemporaryDirectory(prefix="ray-", dir="/tmp", ignore_cleanup_errors=True)
    with short as home, pytest.MonkeyPatch.context() as patch:
        token = Path(home, "token")
        token.write_text(TOKEN)
        for name in ("RAY_ADDRESS", "RAY_AUTH_MODE", "RAY_AUTH_TOKEN"):
            patch.setenv(name, "")  # noted, so that what Ray sets is taken back
            patch.delenv(name)
        patch.setenv("RAY_AUTH_TOKEN_PATH", str(token))
        patch.setenv("RAY_memory_monitor_refresh_ms", "0")  # others may need memory too: no actor is ended for that
        ray_cluster.start(num_cpus=3, object_store_memory=100 << 20, _temp_dir=home)
        yield ray
        ray.shutdown()
        gc.collect()  # here, where warnings about what Ray leaves open are let pass
