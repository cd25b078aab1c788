"""docs/how-to/deploy.md: its blocks that say so run as they stand, and the options it names are there."""

import json
import os
import re
import shlex
import socket
import subprocess
import sys
import threading
from pathlib import Path

import pytest
import typer

from syft.cli import main as cli
from tests.helpers.cli import ENV, run

PAGE = Path(__file__).resolve().parent.parent.parent / "docs" / "how-to" / "deploy.md"
# Stands for `python` in the shell: a command that serves gets a process; others run in the process of the tests, which
# has imported torch already.
SHIM = """#!{python} -IS
import json, os, socket, sys
if sys.argv[1:3] != ["-m", "syft"] or "start" in sys.argv:
    os.execv({python!r}, [{python!r}, *sys.argv[1:]])
asked = socket.socket(socket.AF_UNIX)
asked.connect({path!r})
given = "" if sys.stdin is None or sys.stdin.isatty() else sys.stdin.read()
asked.sendall(json.dumps([sys.argv[3:], given]).encode())
asked.shutdown(socket.SHUT_WR)
code, out, err = json.loads(b"".join(iter(lambda: asked.recv(65536), b"")))
sys.stdout.write(out), sys.stderr.write(err)
sys.exit(code)
"""


def answer(listener):
    """Run the commands that the shell asks for, until it has ended."""
    while True:
        try:
            asked, _ = listener.accept()
        except OSError:
            return
        with asked:
            words, given = json.load(asked.makefile("rb"))
            ran = run(*words, given=given)
            asked.sendall(json.dumps([ran.code, ran.out, ran.err]).encode())


@pytest.mark.timeout(300)
def test_the_tour_runs(tmp_path, monkeypatch):
    blocks = re.findall(r"```bash\n# tested\n(.*?)```", PAGE.read_text(), re.DOTALL)
    assert len(blocks) == 11
    work, tools = tmp_path / "work", tmp_path / "bin"
    work.mkdir(), tools.mkdir()
    (tools / "python").write_text(SHIM.format(python=sys.executable, path=str(tmp_path / "s")))
    (tools / "python").chmod(0o755)
    monkeypatch.chdir(work)
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(tmp_path / "s"))
        listener.listen(8)
        thread = threading.Thread(target=answer, args=(listener,), daemon=True)
        thread.start()
        done = subprocess.run(
            ["bash", "-euo", "pipefail", "-c", "trap 'kill $(jobs -p) 2>/dev/null || true' EXIT\n" + "\n".join(blocks)],
            cwd=work,
            env={**ENV, "PATH": f"{tools}{os.pathsep}{os.environ['PATH']}"},
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=280,
        )
        listener.shutdown(socket.SHUT_RDWR)
    thread.join(60)
    assert done.returncode == 0, done.stdout + done.stderr
    for text in (
        "Keep team/authority.key secret",
        "Node hospital-a",
        "#patients",
        "3x2",
        "columns: age, pressure",
        "rosa was added",
        "Isolation: ",
        "There are no requests.",
        "Verified: running this code again gives the same value.",
        "alice may fetch",
        "alice may run it 3 times",
        "the means are tensor([ 53.3333, 131.6667]",
        "The log is intact",
        "The node hospital-a has stopped.",
    ):
        assert text in done.stdout, text
    assert (work / "alice.token").stat().st_mode & 0o777 == 0o600


def commands(group, words=()):
    """Yield each command with its words."""
    for name, command in getattr(group, "commands", {}).items():
        yield (*words, name), command
        yield from commands(command, (*words, name))


def test_the_page_names_what_is_there():
    text = PAGE.read_text()
    known = dict(commands(typer.main.get_command(cli.app)))
    options = {
        option
        for command in known.values()
        for param in command.params
        for option in (*param.opts, *param.secondary_opts)
    }
    named = set(re.findall(r"(?<![\w-])--[a-z][a-z-]+", text))
    foreign = {"--index-url", "--upgrade", "--system", "--home-dir", "--shell", "--now", "--help"}
    assert named - foreign <= options, named - foreign - options
    for line in re.findall(r"python -m syft ([a-z][^`\n|]*)", text.replace("\\\n", " ")):
        words = shlex.split(line, comments=True)
        path = tuple(word for word in words[:3])
        assert any(path[: len(name)] == name for name in known), line
    for link in re.findall(r"\]\(([^)#]+)\)", text):
        assert (PAGE.parent / link).exists(), link
    anchors = {
        re.sub(r"[^\w -]", "", head.lower()).replace(" ", "-") for head in re.findall(r"^## (.+)$", text, re.MULTILINE)
    }
    assert set(re.findall(r"\]\(#([^)]+)\)", text)) <= anchors


def test_the_service_file_keeps_what_it_says():
    unit = re.search(r"```ini\n(.*?)```", PAGE.read_text(), re.DOTALL)[1]
    for line in (
        "ProtectSystem=strict",
        "NoNewPrivileges=yes",
        "PrivateTmp=yes",
        "User=resyft",
        "UMask=0077",
        "SystemCallFilter=@system-service",
    ):
        assert line in unit
