"""Published bytes outside of tensor values count towards a user's quota."""

from __future__ import annotations

import contextlib
import secrets

import pytest
import torch

from syft.federated.client.payload import Payload
from syft.messaging import message as m
from tests.helpers.attacks.live_client import Visitor
from tests.helpers.nodes import node

KiB = 2**10
QUOTA, BYTES = 256 * KiB, 32 * KiB
MANY = 16


@pytest.fixture(scope="module")
def small():
    """A node where a user may hold 256 KiB."""
    with node("small", max_user_bytes=QUOTA) as process:
        yield process


MAKES = {
    "a tensor": lambda: torch.randn(BYTES // 4),
    "a parcel of a tensor": lambda: Payload({"x": torch.randn(BYTES // 4)}),
    "a parcel of a text": lambda: Payload({"x": secrets.token_hex(BYTES // 2)}),
    "a description": lambda: torch.zeros(1).describe(secrets.token_hex(BYTES // 2)),
    "tags": lambda: torch.zeros(1).tag(*(f"#{secrets.token_hex(BYTES // 256)}" for _ in range(128))),
}


@pytest.mark.parametrize("kind", MAKES)
def test_published_bytes_count_towards_the_quota(hook, small, kind):
    kept, answer = [], None
    with contextlib.closing(Visitor(small.url, small.tokens["bob"])) as visitor:
        for number in range(MANY):
            answer = visitor.ask(m.ObjectMessage(MAKES[kind](), 1000 + number, True))
            if answer is not None:
                break
            kept.append(1000 + number)
        for obj_id in kept:
            visitor.ask(m.ForceObjectDeleteMessage(obj_id))
    assert len(kept) <= QUOTA // BYTES, f"{len(kept) * BYTES // KiB} KiB were taken"
    assert answer.contents[0] == "QuotaExceededError"
