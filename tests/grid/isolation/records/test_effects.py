"""The tables of effects agree with torch, for the samples of every call that workers run."""

import inspect
import warnings

import pytest
import torch

from syft.core.references import Ref
from syft.grid.isolation.records import effects
from syft.grid.isolation.records.call_codec import write_call
from syft.hook.allowed_functions import allowed as table
from syft.messaging.message import Operation
from tests.helpers.remote.sample import replaced, tensors
from tests.helpers.remote.samples import allowed, run, samples

pytestmark = pytest.mark.filterwarnings("ignore")


def _record(name, sample):
    """The record of a sample whose tensors are held by the worker, under their indices."""
    order = {id(tensor): number for number, tensor in enumerate(tensors(sample))}
    args, kwargs = replaced(sample, lambda tensor: Ref(order[id(tensor)]))
    return write_call(Operation(name, None, args, kwargs, ("result",)))


def _ran():
    for name, function in allowed().items():
        for sample in samples()[name]:
            if "Generator" in repr((sample.args, sample.kwargs)):
                continue
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                yield name, _record(name, sample), sample, function


def _memory(tensor):
    return tensor.untyped_storage().data_ptr() if tensor.layout is torch.strided and tensor.numel() else None


def test_calls_that_move_the_generator_are_known_to_draw():
    missed = set()
    for name, record, sample, function in _ran():
        before = torch.Generator().manual_seed(0).get_state()
        run(function, sample)
        if not torch.equal(before, torch.default_generator.get_state()) and not effects.draws(record):
            missed.add(name)
    assert not missed


def test_calls_that_torch_tags_as_seeded_are_known_to_draw():
    tagged = set()
    for schema in torch._C._jit_get_all_schemas():
        if schema.name.startswith("aten::"):
            packet = getattr(torch.ops.aten, schema.name[6:], None)
            overload = getattr(packet, schema.overload_name or "default", None)
            if overload is not None and torch.Tag.nondeterministic_seeded in overload.tags:
                tagged.add(schema.name[6:])
    names = {name for name in table() if name.rpartition(".")[2] in tagged}
    assert names
    assert {name for name in names if name.rpartition(".")[2] not in effects._DRAWS} == set()


def test_most_calls_are_known_not_to_draw():
    drawing = {name for name, record, _, _ in _ran() if effects.draws(record)}
    assert len(drawing) < 60


def test_arguments_that_change_are_known_to_be_written():
    missed = set()
    for name, record, sample, function in _ran():
        if name in effects.BACKWARD:
            continue
        _, given = run(function, sample)
        written = {ref.id for ref in effects.writes(record)}
        for number, tensor in enumerate(given):
            if tensor._version and number not in written:
                missed.add((name, number))
    assert not missed


def test_fresh_results_share_no_memory_with_arguments():
    shared, fresh = set(), set()
    for name, record, sample, function in _ran():
        if not effects.is_fresh(record) or effects.writes(record):
            continue
        fresh.add(name)
        for kind in (lambda tensor: tensor, lambda tensor: tensor.contiguous()):
            args, kwargs = replaced(sample, lambda tensor, kind=kind: kind(tensor.detach().clone()))
            memory = {_memory(tensor) for tensor in tensors((args, kwargs))} - {None, 0}
            if any(_memory(tensor) in memory for tensor in tensors(function(*args, **kwargs))):
                shared.add(name)
    assert not shared
    assert len(fresh) > 200


def test_functions_with_inplace_are_all_known():
    for name, function in table().items():
        try:
            parameters = list(inspect.signature(function).parameters)
        except (TypeError, ValueError):
            continue
        if "inplace" in parameters:
            assert effects._INPLACE_AT[name.rpartition(".")[2]] == parameters.index("inplace")


def test_number_of_results_is_known():
    wrong = set()
    for name, record, sample, function in _ran():
        result, _ = run(function, sample)
        if tensors(result) and (not isinstance(result, torch.Tensor)) is not effects.gives_several(record):
            wrong.add((name, str(record.args)[:80]))
    # The results of these depend on values, so they have no proxy.
    assert {name for name, _ in wrong} <= {"torch.nonzero", "torch.Tensor.nonzero"}, wrong


def _call(name, *args, **kwargs):
    return write_call(Operation(name, None, args, kwargs, (9,)))


@pytest.mark.parametrize(
    ("record", "drawn"),
    [
        (_call("torch.nn.functional.dropout", Ref(1)), True),
        (_call("torch.nn.functional.dropout", Ref(1), 0.5, False), False),
        (_call("torch.nn.functional.dropout", Ref(1), training=False), False),
        (_call("torch.dropout", Ref(1), 0.5, True), True),
        (_call("torch.dropout", Ref(1), p=0.5, train=False), False),
        (_call("torch.Tensor.normal_", Ref(1)), True),
        (_call("torch.randperm", 5), True),
        (_call("torch.nn.functional.scaled_dot_product_attention", Ref(1), Ref(1), Ref(1)), False),
        (_call("torch.nn.functional.scaled_dot_product_attention", Ref(1), Ref(1), Ref(1), dropout_p=0.1), True),
        (_call("torch.lstm", Ref(1), Ref(2), [Ref(3)], True, 1, 0.0, True, False, False), False),
        (_call("torch.lstm", Ref(1), Ref(2), [Ref(3)], True, 2, 0.5, True, False, False), True),
        (_call("torch.Tensor.add", Ref(1), 1), False),
    ],
    ids=lambda value: str(value)[:70],
)
def test_draws(record, drawn):
    assert effects.draws(record) is drawn
