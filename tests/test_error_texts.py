"""Texts of errors say what happened and what to do."""

import re

import numpy as np
import pytest
import torch
from torch import nn

import syft as sy
from syft.exceptions import SyftError


def test_errors_say_what_to_do(hook, bob, alice):
    """In 0.2 errors were empty, named attributes of internals, or ran to six sentences."""
    x = torch.ones(2).send(bob)
    spent = torch.ones(2).send(bob)
    spent.get()
    cases = [
        (lambda: x + torch.ones(2), r"is on '.*'.*local tensor.*x\.send"),
        (lambda: x + torch.ones(2).send(alice), r"is on.*is on.*move"),
        (lambda: torch.ones(2).get(), r"local.*x\.send\(bob\)"),
        (lambda: torch.ones(2).move(bob), r"local.*x\.send\(bob\)"),
        (lambda: torch.ones(2).send("nobody"), r"No worker 'nobody'.*known:.*add_worker"),
        (lambda: spent + 1, r"fetched by 'me'.*copy\(\)\.get\(\)"),
        (lambda: x.child.attr("grad").get() if x.grad else x.data_ptr(), r"can't be run on a worker"),
        (lambda: nn.Linear(2, 2).get(), r"local.*model\.send\(bob\)"),
        (lambda: sy.deserialize(b"nonsense"), r"\w+"),
        (lambda: sy.serialize(object()), r"register"),
        (lambda: sy.TorchHook(np), r"sy\.TorchHook\(torch\)"),
    ]
    for call, text in cases:
        with pytest.raises(SyftError) as caught:
            call()
        message = str(caught.value)
        assert re.search(text, message, re.DOTALL), message
        assert "!!!" not in message and "'child'" not in message and len(message) > 20
