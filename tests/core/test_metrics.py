"""Counts of messages."""

from __future__ import annotations

import torch

import syft as sy


def test_a_count_shows_the_singular_of_one(make_worker):
    bob = make_worker("bob")
    x = torch.ones(2).send(bob)
    with sy.count_messages() as one:
        x.get()
    assert repr(one) == f"<1 message, 1 round, {one.bytes} bytes>" and one.bytes > 1
    with sy.count_messages() as none:
        pass
    assert repr(none) == "<0 messages, 0 rounds, 0 bytes>"
