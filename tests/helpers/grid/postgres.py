"""A real PostgreSQL server for tests: made in a temporary folder, reached by a socket in it, stopped at the end."""

from __future__ import annotations

import atexit
import functools
import itertools
import os
import shutil
import signal
import subprocess
import tempfile
import time
from pathlib import Path

import pg8000.native
import pytest

_number = itertools.count()


def binaries() -> Path | None:
    """Return the folder of the server's programs."""
    found = sorted(Path("/usr/lib/postgresql").glob("*/bin/postgres"))
    if not found and (program := shutil.which("postgres")):
        found = [Path(program)]
    return found[-1].parent if found else None


def _account() -> dict[str, object]:
    """Return the account of the server, which refuses to run as root."""
    if os.geteuid() != 0:
        return {}
    return {"user": "nobody", "group": Path("/").stat().st_gid, "extra_groups": []}


class Server:
    """One server."""

    def __init__(self, programs: Path) -> None:
        self.programs = programs
        self.folder = Path(tempfile.mkdtemp(prefix="pg-"))
        if account := _account():
            shutil.chown(self.folder, account["user"])
        self._run("initdb", "-D", "data", "-A", "trust", "-U", "node", "-E", "UTF8", "--locale=C", "--no-sync")
        self.start()

    def _run(self, program, *args, **kwargs):
        command = [str(self.programs / program), *args]
        subprocess.run(command, cwd=self.folder, check=True, capture_output=True, timeout=110, **_account())

    @property
    def socket(self) -> str:
        return str(self.folder / ".s.PGSQL.5432")

    def start(self) -> None:
        options = ["-c", "listen_addresses=", "-c", "fsync=off", "-c", "shared_buffers=16MB", "-k", str(self.folder)]
        self.process = subprocess.Popen(
            [str(self.programs / "postgres"), "-D", "data", *options],
            cwd=self.folder, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, **_account(),
        )  # fmt: skip
        for _ in range(1200):
            try:
                pg8000.native.Connection("node", unix_sock=self.socket, database="postgres").close()
                return
            except Exception:
                time.sleep(0.05)
        raise RuntimeError("the server does not answer")

    def stop(self, how: int = signal.SIGINT) -> None:
        """End it: at once and in order, or as a crash would."""
        self.process.send_signal(how)
        self.process.wait(60)

    def database(self) -> str:
        """Make an empty database, and return its address."""
        name = f"node{next(_number)}"
        connection = pg8000.native.Connection("node", unix_sock=self.socket, database="postgres")
        connection.run(f"create database {name}")
        connection.close()
        return f"postgresql://node@/{name}?unix_sock={self.socket}"

    def sql(self, url: str, text: str, **values) -> list:
        """Do something in a database behind the back of its node."""
        name = url.rpartition("/node@/")[2].partition("?")[0] if "/node@/" in url else url
        connection = pg8000.native.Connection("node", unix_sock=self.socket, database=name)
        try:
            return connection.run(text, **values)
        finally:
            connection.close()


@functools.cache
def server() -> Server:
    """Return the server of this test process, started when it is first needed."""
    programs = binaries()
    if programs is None:
        pytest.skip("no PostgreSQL server is installed here (looked in /usr/lib/postgresql/*/bin and PATH)")
    made = Server(programs)

    def end() -> None:
        if made.process.poll() is None:
            made.stop(signal.SIGQUIT)
        shutil.rmtree(made.folder, ignore_errors=True)

    atexit.register(end)
    return made
