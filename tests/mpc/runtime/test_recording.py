"""Recordings: steps are recorded and not sent; symbolic shares have shapes and no values; state is restored."""

from __future__ import annotations

import copy
import threading

import pytest
import torch

import syft as sy
from syft.exceptions import ProtocolError, SerdeError, TensorsNotCollocatedError
from syft.mpc.runtime import recording as recordings
from syft.mpc.runtime.recording import ShareRecording, SymbolicShare, SymbolicShareError
from tests.helpers.mpc.protocols import cast_of

FORMATS = [{"base": 2, "precision_fractional": 16}, {"base": 10, "precision_fractional": 3}]


@pytest.fixture(scope="module", params=[2, 3])
def cast(request):
    yield from cast_of("recording", request.param)


def shared(cast, plain, **options):
    parties, provider = cast
    tensor = plain.fix_precision(**options) if plain.is_floating_point() else plain
    return tensor.share(*parties, crypto_provider=provider)


@pytest.mark.parametrize("options", FORMATS)
def test_nothing_is_sent_and_steps_are_noted(cast, options):
    x, w = shared(cast, torch.randn(3, 4), **options), shared(cast, torch.randn(4, 2), **options)
    with sy.count_messages() as sent, sy.mpc.count() as tally, ShareRecording() as recording:
        y = (x @ w).relu() + 1
        larger = y > 0.5
        parts = y.unbind(0)
    assert sent.messages == 0 and tally.runs == 0
    assert [step.name for step in recording.steps][:3] == ["product", "relu", "add_public"]
    assert y.shape == larger.shape == (3, 2) and len(parts) == 3 and parts[0].shape == (2,)
    assert y.dtype is larger.dtype is torch.float32
    assert list(y.child.child.child) == [party.id for party in cast[0]]
    assert "Outline" in repr(y)


def test_outlines_give_no_numbers(cast):
    x = shared(cast, torch.tensor([1, 2, 3]))
    with ShareRecording():
        y = x + x
    for use in (y.get, lambda: y.copy(), lambda: y + 1, lambda: y * x, lambda: y.child.virtual_get(), y.tolist,
                lambda: y.child.reconstruct(), lambda: sy.serialize(y)):  # fmt: skip
        with pytest.raises(
            (SymbolicShareError, SerdeError, ValueError), match="recorded and not computed|can't be converted"
        ):
            use()
    assert x.get().tolist() == [1, 2, 3]


def test_fetching_inside_is_refused_too(cast):
    x = shared(cast, torch.tensor([1, 2, 3]))
    with ShareRecording(), pytest.raises(SymbolicShareError, match="outside of the recorded function"):
        (x + 1).get()


def test_public_values_are_computed(cast):
    x = shared(cast, torch.tensor([1.0, 2.0]))
    with ShareRecording() as recording:
        public = torch.tensor([3.0, 4.0]) * 2
        encoded = torch.tensor([1.0]).fix_precision() * 3
        x + public
    assert public.tolist() == [6.0, 8.0] and encoded.float_precision().tolist() == [3.0]
    assert recording.steps[0].args[1].tolist() == [6000, 8000]


def test_public_operands_are_those_of_their_time(cast):
    x, index = shared(cast, torch.tensor([1, 2, 3])), torch.tensor([0, 1])
    with ShareRecording() as recording:
        x[index]
        index += 1
    kept = [leaf for step in recording.steps for leaf in sy.core.trees.iter_tensors(step.args) if torch.is_tensor(leaf)]
    assert [leaf.tolist() for leaf in kept] == [[0, 1]] and index.tolist() == [1, 2]


def test_links_are_as_before(cast):
    x = shared(cast, torch.tensor([[1.0, 2.0], [3.0, 4.0]]))
    view, plain = x[0], torch.tensor([1.0, 2.0]).fix_precision()
    before = x.child.child, view.child.child
    with ShareRecording() as recording:
        x.add_(1)
        view.mul_(2)
        plain.add_(1)
        assert x.child.child is not before[0]
        made = x + 1
        made.add_(1)
    assert (x.child.child, view.child.child) == before and plain.float_precision().tolist() == [1.0, 2.0]
    assert {id(link) for link, _ in recording.writes} == {id(x.child), id(view.child), id(plain.child)}
    assert x.get().float_precision().tolist() == [[1.0, 2.0], [3.0, 4.0]]


def test_facts_of_links_are_as_before(cast):
    x = shared(cast, torch.tensor([1.0, -2.0])).requires_grad_()
    with ShareRecording():
        y = torch.relu(x)
        (y > 0).sum()
        y.sum().backward
    assert x.child.facts is None
    assert torch.relu(x).get().float_precision().tolist() == [1.0, 0.0]


def test_recordings_nest_and_end(cast):
    x = shared(cast, torch.tensor([1, 2]))
    with ShareRecording() as outer:
        y = x + 1
        with ShareRecording() as inner:
            z = y * 2
        with pytest.raises(ZeroDivisionError), ShareRecording():
            raise ZeroDivisionError
        assert recordings.current.recording is outer
        w = y * 3
    assert recordings.current.recording is None
    assert len(inner.steps) == 1 and len(outer.steps) == 2
    assert inner.value(y.child) is not outer.value(y.child) and outer.gives(outer.value(w.child))
    assert not outer.gives(inner.value(z.child))
    assert (x + 1).get().tolist() == [2, 3]


def test_a_recording_is_of_one_thread(cast):
    x = shared(cast, torch.tensor([1, 2]))
    seen = []
    with ShareRecording() as recording:
        thread = threading.Thread(target=lambda: seen.append((x + 1).get().tolist()))
        thread.start()
        thread.join()
    assert seen == [[2, 3]] and not recording.steps


def test_errors_are_those_of_a_run(cast):
    parties, provider = cast
    x, y = shared(cast, torch.ones(2, 3)), torch.tensor([1]).share(*parties)
    other = torch.tensor([1]).share(parties[0], provider)
    with ShareRecording():
        with pytest.raises(RuntimeError, match="can't be multiplied"):
            x @ x
        with pytest.raises(ProtocolError, match="needs a crypto provider"):
            y * y
        with pytest.raises(TensorsNotCollocatedError):
            y + other


def test_copies_of_outlines(cast):
    x = shared(cast, torch.tensor([1.0, 2.0]))
    with ShareRecording() as recording:
        y = x * 3
        proxy = copy.deepcopy(y.child)
    assert recording.value(proxy.child) is recording.value(y.child.child)
    assert type(next(iter(proxy.child.child.values()))) is SymbolicShare
