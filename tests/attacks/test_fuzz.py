"""Thousands of mutated messages of every type: each is answered or refused, and nothing else happens."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
import torch

from syft.serde import deserialize, serialize
from tests.helpers import warm_processes as warm
from tests.helpers.attacks.message_samples import message_types, samples
from tests.helpers.depth import deep

ROOT = Path(__file__).parent.parent.parent
SHARDS = 2
MESSAGES = deep(6_000, 10_000)


def test_there_is_a_sample_of_every_type_of_message(alice, bob):
    made = samples(torch.ones(2).send(alice))
    assert message_types() - {type(sample) for sample in made} == set()
    for sample in made:  # and what is mutated is one that would be taken
        assert type(deserialize(serialize(((), sample, True, 0), alice), bob)[1]) is type(sample)


@pytest.mark.timeout(300)
@pytest.mark.parametrize("shard", range(SHARDS))
def test_mutated_messages_are_answered_or_refused(shard):
    code = f"from tests.helpers.attacks.message_fuzzing import main; main({1000 + shard}, {MESSAGES})"
    done = warm.run(code, cwd=ROOT, timeout=280)
    assert done.returncode == 0, done.stdout[-6000:] + done.stderr[-3000:]
    found = re.search(r"(\d+) messages: (\d+) valid requests, (\d+) errors", done.stdout)
    assert found, done.stdout
    # The mutations must reach beyond the parser, or this test proves nothing.
    assert int(found[1]) == MESSAGES
    assert int(found[2]) > MESSAGES // 10
    assert MESSAGES // 4 < int(found[3]) < MESSAGES
