"""Benchmarks: one command prints the table; each row a ratio measured in one run."""
