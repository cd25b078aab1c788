"""Confinement: a process irrevocably drops all rights that torch calls do not need."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import sysconfig
from collections.abc import Callable
from pathlib import Path

from syft.grid.isolation.confinement import kernel, landlock, seccomp
from syft.grid.isolation.confinement.limits import Limits, address_space, apply_limits

_NEWUSER, _NEWNET, _NEWIPC = 0x10000000, 0x40000000, 0x08000000
_DEVICES = (Path("/dev/null"), Path("/dev/zero"), Path("/dev/urandom"))
# Runs a measure in a process of its own, without the rest of this package; exits with the number of the error.
_PROBE = """
import importlib.util, sys
spec = importlib.util.spec_from_file_location("kernel", {path!r})
kernel = importlib.util.module_from_spec(spec)
spec.loader.exec_module(kernel)
try:
    {measure}
except OSError as error:
    sys.exit(error.errno)
"""
# The user and group that a process becomes if it starts as root.
NOBODY = 65534


def confine(limits: Limits) -> list[str]:
    """Confine this process with all measures of the system, and return the names of the active ones.

    Call it before reading untrusted bytes. Measures that the system lacks are skipped: compare with `MEASURES`.
    """
    folders = library_folders()
    parent = os.getppid()
    size = address_space()  # from /proc, which is hidden below
    active: list[str] = []
    _attempt(active, "session", _leave_session)
    os.umask(0o077)
    os.environ.clear()
    # No PID namespace: it would apply to children only, and a confined process has none.
    _attempt(active, "namespaces", lambda: kernel.unshare(_namespaces()))
    # Even stat(2) on entries of /proc reveals the numbers of threads and files of a process.
    _attempt(active, "hidden processes", lambda: kernel.cover("/proc"))
    if os.geteuid() != 0:
        _attempt([], "", kernel.keep_capabilities)  # those of the user namespace
    # Reading stays limited to the libraries by Landlock.
    reads_as_root = landlock.abi() > 0 and bool(_unreadable(folders))
    is_other_user = _attempt(active, "user", lambda: _become_nobody(reads_as_root))
    # After the change of user, which resets both settings.
    _attempt(active, "parent death", lambda: _die_with(parent))
    _attempt(active, "not dumpable", lambda: kernel.prctl(kernel.PR_SET_DUMPABLE, 0))
    _attempt(active, "no new privileges", lambda: kernel.prctl(kernel.PR_SET_NO_NEW_PRIVS, 1))
    active += apply_limits(limits, size)
    has_landlock = _attempt(active, "landlock", lambda: landlock.restrict(folders))
    if not has_landlock and is_other_user and reads_as_root:
        kernel.keep_capabilities()
    # Without Landlock and with the supervisor's user, key files would be readable: then no file can be opened.
    _attempt(active, "seccomp", lambda: seccomp.install(files=has_landlock or is_other_user))
    return active


# Measures, strongest first, and the effect of each.
MEASURES = {
    "seccomp": "no network, processes, exec, ptrace or writing of files",
    "landlock": "no files except the libraries",
    "user": "an unprivileged user other than the node's",
    "namespaces": "no network interfaces, no shared IPC",
    "hidden processes": "no view of other processes: /proc is empty",
    "no new privileges": "set-user-id programs have no effect",
    "not dumpable": "memory not readable by other processes",
    "limit on memory": "bounded address space",
}


def _attempt(active: list[str], name: str, measure: Callable[[], object]) -> bool:
    try:
        measure()
    except OSError:
        return False
    active.append(name)
    return True


def _leave_session() -> None:
    os.chdir("/")
    os.setsid()


def _namespaces() -> int:
    return _NEWNET | _NEWIPC | (0 if os.geteuid() == 0 else _NEWUSER)


def _become_nobody(reads_as_root: bool) -> None:
    if os.geteuid() != 0:
        raise PermissionError("only root can change the user")
    if reads_as_root:
        kernel.prctl(kernel.PR_SET_KEEPCAPS, 1)
    os.setgroups([])
    os.setresgid(NOBODY, NOBODY, NOBODY)
    os.setresuid(NOBODY, NOBODY, NOBODY)
    if reads_as_root:
        kernel.keep_capabilities(kernel.CAP_DAC_READ_SEARCH)


def _unreadable(folders: list[Path]) -> Path | None:
    """Return the first folder that users other than its owner cannot enter, or None."""
    for folder in folders:
        with contextlib.suppress(OSError):
            if any(not part.stat().st_mode & 0o001 for part in (folder, *folder.parents) if part.is_dir()):
                return folder
    return None


def _die_with(parent: int) -> None:
    kernel.prctl(kernel.PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != parent:
        os._exit(0)


def protect_supervisor() -> bool:
    """Make this process's memory unreadable for other processes of its user; call this before loading keys.

    Core dumps and debuggers of the same user stop working. Returns whether the system offers it.
    """
    return kernel.IS_LINUX and _attempt([], "not dumpable", lambda: kernel.prctl(kernel.PR_SET_DUMPABLE, 0))


def library_folders() -> list[Path]:
    """Return the folders that Python and torch may load code from later, and safe devices.

    The folders of `sys.path` are not used: the current folder is often one of them, and may hold keys.
    """
    found = [Path(folder) for name, folder in sysconfig.get_paths().items() if name.endswith(("stdlib", "lib"))]
    for package in ("syft", "torch", "numpy"):
        module = sys.modules.get(package)
        if module is not None and module.__file__:
            found.append(Path(module.__file__).parent)
    # Shared libraries that are loaded by name.
    found += [Path(folder) for folder in ("/lib", "/lib64", "/usr/lib", "/usr/lib64", "/usr/local/lib")]
    return [*dict.fromkeys(found), *_DEVICES]


def available() -> dict[str, str]:
    """Return the state of each measure on this system: "yes", maybe with details, or "no: " and the reason."""
    version = landlock.abi()
    linux = "yes" if kernel.IS_LINUX else "no: needs Linux"
    flags = _namespaces()
    # An account other than root has the right to mount in a user namespace only.
    into_user = f"kernel.unshare({flags & _NEWUSER})"
    return {
        "seccomp": seccomp.state(),
        "landlock": f"yes, ABI {version}" if version else "no: not in this kernel, or disabled",
        "user": _user_state(),
        "namespaces": _state_of(f"kernel.unshare({flags})", "yes, network and IPC"),
        "hidden processes": _state_of(f"{into_user}; kernel.cover('/proc')", "yes"),
        "no new privileges": linux,
        "not dumpable": linux,
        "limit on memory": "yes" if address_space() is not None else "no: /proc is missing",
    }


def _user_state() -> str:
    if not hasattr(os, "geteuid") or os.geteuid() != 0:
        return "no: the node does not run as root"
    folder = _unreadable(library_folders())
    if folder is None:
        return f"yes, uid {NOBODY}"
    if landlock.abi():
        return f"yes, uid {NOBODY}, with the right to read {folder}"
    return f"yes, uid {NOBODY}, but it cannot read {folder}: install Python where all users can read it"


def _state_of(measure: str, yes: str) -> str:
    """Return whether a measure works on this system: "yes", or "no: " and the reason."""
    if not kernel.IS_LINUX:
        return "no: needs Linux"
    command = [sys.executable, "-I", "-S", "-c", _PROBE.format(path=kernel.__file__, measure=measure)]
    code = subprocess.run(command, check=False, capture_output=True, timeout=30).returncode  # noqa: S603
    if code:
        return f"no: {os.strerror(code)}" if code > 0 else "no: the probe was killed"
    return yes


def summary(offered: dict[str, str] | None = None) -> str:
    """Return one line for the start banner: the active measures, and the missing ones with the reason."""
    offered = available() if offered is None else offered
    active = [name + state.removeprefix("yes") for name, state in offered.items() if state.startswith("yes")]
    missing = [f"{name} ({state.removeprefix('no: ')})" for name, state in offered.items() if state.startswith("no")]
    line = f"Isolation: {'; '.join(active) or 'none'}."
    return f"{line} Missing: {'; '.join(missing)}." if missing else line
