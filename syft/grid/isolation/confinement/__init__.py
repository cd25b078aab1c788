"""Confinement of processes by the kernel: seccomp, Landlock, resource limits."""
