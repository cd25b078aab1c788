"""Transports between a client and a worker: streams, framing, WebSockets, TLS, and codecs of requests.

A stream takes messages and returns results. Not here: what a worker does with a message (`syft.workers.execution`).
"""
