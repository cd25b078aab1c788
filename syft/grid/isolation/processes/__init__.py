"""Child processes of a node: the template they are forked from, channels to them, watchdogs, exit status.

Not here: what the processes do (`session`, `vault`, `programs`).
"""
