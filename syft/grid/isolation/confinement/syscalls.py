"""System call numbers, for x86_64 and aarch64, of the calls that confined processes may make."""

from __future__ import annotations

from typing import TypeAlias

# Name -> numbers on x86_64 and aarch64; None where the architecture lacks the call.
Calls: TypeAlias = dict[str, tuple[int | None, int | None]]


def _calls(table: str) -> Calls:
    """Return the calls of a table: a name and two numbers each, with "-" where the architecture lacks the call."""
    rows = [entry.split() for entry in table.split(",")]
    return {name: (None if x86 == "-" else int(x86), None if arm == "-" else int(arm)) for name, x86, arm in rows}


# Memory.
MEMORY = _calls(
    """
    mmap 9 222, munmap 11 215, mremap 25 216, mprotect 10 226, madvise 28 233, brk 12 214, mincore 27 232,
    msync 26 227
    """
)
# Threads and scheduling.
THREADS = _calls(
    """
    futex 202 98, futex_waitv 449 449, set_robust_list 273 99, get_robust_list 274 100, set_tid_address 218 96,
    rseq 334 293, membarrier 324 283, sched_yield 24 124, sched_get_priority_max 146 125,
    sched_get_priority_min 147 126, getcpu 309 168, exit 60 93, exit_group 231 94, restart_syscall 219 128
    """
)
# Signals of the process itself.
SIGNALS = _calls(
    """
    rt_sigaction 13 134, rt_sigprocmask 14 135, rt_sigreturn 15 139, sigaltstack 131 132, rt_sigtimedwait 128 137,
    rt_sigpending 127 136, rt_sigsuspend 130 133, signalfd4 289 74, pause 34 -
    """
)
# Identity, clocks and randomness.
FACTS = _calls(
    """
    getpid 39 172, gettid 186 178, getppid 110 173, getpgid 121 155, getsid 124 156, getuid 102 174, geteuid 107 175,
    getgid 104 176, getegid 108 177, getgroups 115 158, getresuid 118 148, getresgid 120 150, getrlimit 97 163,
    times 100 153, getrusage 98 165, uname 63 160, clock_gettime 228 113, clock_getres 229 114,
    clock_nanosleep 230 115, nanosleep 35 101, gettimeofday 96 169, time 201 -, getrandom 318 278, wait4 61 260,
    waitid 247 95
    """
)
# Open descriptors.
DESCRIPTORS = _calls(
    """
    read 0 63, write 1 64, readv 19 65, writev 20 66, pread64 17 67, pwrite64 18 68, preadv 295 69, preadv2 327 286,
    close 3 57, close_range 436 436, dup 32 23, dup2 33 -, dup3 292 24, pipe 22 -, pipe2 293 59, lseek 8 62, poll 7 -,
    ppoll 271 73, select 23 -, pselect6 270 72, epoll_create 213 -, epoll_create1 291 20, epoll_ctl 233 21,
    epoll_wait 232 -, epoll_pwait 281 22, epoll_pwait2 441 441, eventfd2 290 19, fstat 5 80, fstatfs 138 44,
    fadvise64 221 223
    """
)
# Sockets that are already connected; recvmsg also receives descriptors.
MESSAGES = _calls(
    """
    recvfrom 45 207, recvmsg 47 212, recvmmsg 299 243, sendmsg 46 211, sendmmsg 307 269, shutdown 48 210,
    getsockopt 55 209, setsockopt 54 208, getsockname 51 204, getpeername 52 205
    """
)
# File names; Landlock decides which files can be opened.
LOOKUPS = _calls(
    """
    stat 4 -, lstat 6 -, newfstatat 262 79, statx 332 291, access 21 -, faccessat 269 48, faccessat2 439 439,
    readlink 89 -, readlinkat 267 78, getcwd 79 17, getdents64 217 61, statfs 137 43
    """
)
# Calls whose arguments the filter checks.
CHECKED = _calls(
    """
    clone 56 220, clone3 435 435, openat 257 56, openat2 437 437, open 2 -, fcntl 72 25, ioctl 16 29, prctl 157 167,
    prlimit64 302 261, arch_prctl 158 -, kill 62 129, tgkill 234 131, sendto 44 206, socketpair 53 199,
    sched_setaffinity 203 122, sched_getaffinity 204 123, sched_getparam 143 121, sched_getscheduler 145 120
    """
)
# Calls with any arguments.
ALLOWED: Calls = {**MEMORY, **THREADS, **SIGNALS, **FACTS, **DESCRIPTORS, **MESSAGES, **LOOKUPS}
