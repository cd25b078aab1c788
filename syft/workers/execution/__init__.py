"""Execution of messages at a worker: sessions, handlers, evaluation of calls, storing and copying of results.

Not here: bytes and connections (`syft.workers.transport`), and kinds of workers.
"""
