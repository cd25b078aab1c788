"""Hostile workers: any answer gives the client an error or a plain value."""

from __future__ import annotations

import gc
import itertools
import os
import pickle
import time

import pytest
import torch

import syft as sy
from syft.exceptions import RemoteError, SerdeError
from syft.exceptions.remote_traceback import facts_of
from syft.messaging.message import ErrorMessage
from syft.workers.transport.in_process import BytesStream
from syft.workers.transport.request_codec import read_answer
from tests.helpers.attacks.hostile_peer import (
    DEVICE,
    DICT,
    DTYPE,
    ERROR,
    LIST,
    LOGGING,
    OBJECT,
    OBJECT_META,
    OPERATION,
    POINTER,
    REF,
    SAME_AS,
    SEARCH,
    SET,
    SHELL,
    SIZE,
    STRING,
    TENSOR,
    TENSOR_META,
    TENSOR_POINTER,
    TUPLE,
    WRAPPER,
    wire,
)  # fmt: skip


class LyingStream(BytesStream):
    """Sends honestly, and answers with the lie that its worker was given."""

    def _exchange(self, *args, **kwargs):
        honest = super()._exchange(*args, **kwargs)
        return honest if self.location.lie is None else read_answer(self.client, self.location, self.location.lie)


class LyingWorker(sy.VirtualWorker):
    lie: bytes | None = None

    def open_stream(self, client):
        stream = LyingStream(client, self)
        self._incoming.append(stream)
        return stream


_number = itertools.count()


@pytest.fixture
def liar(hook):
    worker = LyingWorker(hook, id=f"liar-{next(_number)}", serialize=True)
    yield worker
    worker.lie = None
    worker.stop()
    hook.local_worker._known_workers.pop(worker.id, None)


META = (TENSOR_META, (SIZE, 2), (DTYPE, "float32"), False, (DEVICE, "cpu", None))
HUGE = (TENSOR_META, (SIZE, 2**62, 2**62), (DTYPE, "float32"), False, (DEVICE, "cpu", None))
FLAT = (TENSOR, 1, (TUPLE, "float32", (TUPLE, 1), b"1234"), None, None, None, None, "raw")

LIES = {
    "none": None, "true": True, "number": 7, "big number": 2**500, "nan": float("nan"), "text": "torch.load", "bytes": b"\x80\x04.",
    "tuple": (TUPLE,), "tuples": (TUPLE, (TUPLE, (TUPLE,))), "list": (LIST, 1, "x"), "dict": (DICT, "a", 1), "set": (SET, 1), "meta": META,
    "huge meta": HUGE, "metas": (TUPLE, META, META), "many metas": (LIST, *((META,) * 5000)), "meta of nothing": (TENSOR_META, None, None, None, None),
    "meta on cuda": (TENSOR_META, (SIZE, 2), (DTYPE, "float32"), False, (DEVICE, "cuda", 7)),
    "grad meta of integers": (TENSOR_META, (SIZE, 2), (DTYPE, "int64"), True, (DEVICE, "cpu", None)),
    "quantized meta": (TENSOR_META, (SIZE, 2), (DTYPE, "qint8"), False, (DEVICE, "cpu", None)),
    "same as nothing": (SAME_AS, 10**6, META), "same as before": (SAME_AS, -5, None), "same as what": (SAME_AS, 0, "x"), "same as": (SAME_AS, 0, HUGE),
    "unknown kind": (OBJECT_META, "nosuch"), "private kind": (OBJECT_META, "__class__"), "string kind": (OBJECT_META, "string"),
    "rows": (LIST, (TUPLE, 1, META, (SET,), None)), "bad rows": (LIST, (TUPLE, 1)), "odd rows": (LIST, (TUPLE, None, None, None, None)),
    "tensor": FLAT, "string": (STRING, "x", 1, (SET,), None), "wrapper": (WRAPPER, 1, "x", (SET,), None), "ref": (REF, 1, None),
    "shell": (SHELL, (LOGGING, 1, (SET,), None, (DICT,), FLAT), False, False, 1, None, None), "empty link": (LOGGING, 1, (SET,), None, (DICT,), None),
    "pointer to nobody": (POINTER, 1, 2, "nobody", None, (SET,), None, True), "pointer to me": (POINTER, 1, 424242, "me", None, (SET,), None, True),
    "attribute of mine": (POINTER, 1, 424242, "me", "__class__", (SET,), None, True),
    "tensor pointer to nobody": (TENSOR_POINTER, 1, 2, "nobody", None, (SET,), None, True, META),
    "message": (SEARCH, (LIST,)), "operation": (OPERATION, "torch.add", (TUPLE,), (DICT,), (TUPLE, 1), True), "object": (OBJECT, FLAT, 1, False),
    "error": (ERROR, (TUPLE, "KeyError", "gone", "")), "no error": (ERROR, (TUPLE,)), "half an error": (ERROR, (TUPLE, "ValueError")),
    "error of numbers": (ERROR, (TUPLE, 1, 2, 3)), "long error": (ERROR, (TUPLE, "E" * 10**5, "x" * 10**6, "y" * 10**6, "z")),
    "error of control": (ERROR, (TUPLE, "KeyError\x1b[2J", "\x1b]0;owned\x07", "\x00")),
}  # fmt: skip
RAW_LIES = {
    "empty scheme": b"(",
    "noise": bytes(range(256)),
    "pickle": pickle.dumps(print),
    "cut": wire(FLAT)[:-2],
    "longer": wire(FLAT) + b"x",
    "zip": b"PK\x03\x04" + bytes(60),
    "bad lz4": b")" + bytes(40),
    "bad zstd": b"*" + bytes(40),
    "unknown scheme": b"\xff" + bytes(40),
}

ACTS = {
    "get": lambda x: x.get(),
    "add": lambda x: x + x,
    "in place": lambda x: x.add_(1),
    "several": lambda x: x.sort(),
    "item": lambda x: x.sum().item(),
    "bool": lambda x: bool(x.sum()),
    "float": lambda x: float(x.sum()),
    "tolist": lambda x: x.tolist(),
    "shape": lambda x: x.child.get_shape(),
    "grad": lambda x: x.grad,
    "is_none": lambda x: x.child.is_none(),
    "search": lambda x: x.location.search("x"),
    "move": lambda x: x.move(x.location),
    "copy": lambda x: x.copy(),
    "backward": lambda x: x.backward(),
    "setitem": lambda x: x.__setitem__(0, 1.0),
    "tag": lambda x: x.tag("#t"),
    "remote": lambda x: x.location.remote.torch.zeros(2),
    "send": lambda x: torch.ones(2).send(x.location),
    "synchronize": lambda x: x.location.synchronize(),
    "iterate": lambda x: list(x),
}


@pytest.mark.parametrize("act", list(ACTS))
@pytest.mark.filterwarnings("ignore::UserWarning")
def test_no_answer_does_more_than_fail(hook, liar, act, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    me = hook.local_worker
    secret = torch.tensor([41.4375])
    me.object_store.objects[424242] = secret
    before = dict(me.object_store.objects)
    known = dict(me._known_workers)
    answers = {**{name: wire(tree) for name, tree in LIES.items()}, **RAW_LIES}
    try:
        for name, lie in answers.items():
            liar.lie = None
            x = torch.tensor([1.0, 2.0], requires_grad=act == "backward").send(liar)
            liar.lie = lie
            started = time.perf_counter()
            try:
                result = ACTS[act](x)
                repr(result)
            except Exception as error:
                assert not isinstance(error, StopIteration | StopAsyncIteration), name
            assert time.perf_counter() - started < 60, name  # it ends; how fast is for the benchmarks
            liar.lie = None
            x = result = None
        gc.collect()
        assert me.object_store.objects == before and torch.equal(secret, torch.tensor([41.4375]))
        assert me._known_workers == known
        assert not list(tmp_path.iterdir())
    finally:
        me.object_store.objects.pop(424242, None)
    y = torch.tensor([3.0]).send(liar)  # an honest answer is taken as ever
    assert (y + y).get().tolist() == [6.0]


NAMES = ["KeyboardInterrupt", "SystemExit", "GeneratorExit", "BaseException", "StopIteration", "StopAsyncIteration", "ExceptionGroup",
         "BaseExceptionGroup", "OSError", "FileNotFoundError", "DeprecationWarning", "os.system", "__import__", "print", "type", "", "Nosuch"]  # fmt: skip


@pytest.mark.parametrize("name", NAMES)
def test_errors_that_would_steer_the_client_come_back_as_remote_errors(hook, liar, name):
    x = torch.ones(2).send(liar)
    liar.lie = wire((ERROR, (TUPLE, name, "text", "")))
    with pytest.raises(RemoteError, match="text") as caught:
        x.get()
    assert type(caught.value) is RemoteError and "liar" in facts_of(caught.value)


@pytest.mark.parametrize("name", ["KeyError", "ValueError", "UnicodeDecodeError", "UnicodeEncodeError", "ObjectNotFoundError", "SpentPointerError",
                                  "WorkerNotFoundError", "DependencyError", "RecursionError", "MemoryError", "ImportError", "SyntaxError"])  # fmt: skip
def test_known_errors_come_back_whatever_their_constructor_wants(liar, name):
    x = torch.ones(2).send(liar)
    liar.lie = wire((ERROR, (TUPLE, name, "the text", "")))
    with pytest.raises(Exception) as caught:
        x.get()
    assert type(caught.value).__name__ == name
    assert str(caught.value) is not None and repr(caught.value)


def test_forged_answers_do_not_execute_code(liar, tmp_path):
    marker = tmp_path / "owned"

    class Touch:
        def __reduce__(self):
            return os.system, (f"touch {marker}",)

    for strategy in ("torch", "numpy", "all", "raw", "pickle"):
        liar.lie = None
        x = torch.ones(2).send(liar)  # the one before has left its worker, though its value did not arrive
        liar.lie = wire((TENSOR, 1, pickle.dumps(Touch()), None, None, None, None, strategy))
        with pytest.raises(SerdeError):
            x.get()
    assert not marker.exists()


def test_forged_error_texts_are_plain_text(liar):
    assert type(read_answer(None, liar, wire((STRING, "{0.__class__}", 1, (SET,), None))).child) is str
    with pytest.raises(KeyError) as caught:
        read_answer(None, liar, wire((ERROR, (TUPLE, "KeyError", "{0.__class__} %s", ""))))
    assert "{0.__class__} %s" in str(caught.value)
    with pytest.raises(TypeError):
        ErrorMessage.detail(None, (("KeyError", 5, ""),))


def test_a_client_is_not_made_to_delete_what_another_holds(hook, liar, alice):
    alice.object_store.objects[5] = torch.ones(2)
    x = torch.ones(2).send(liar)
    liar.lie = wire(
        (SHELL, (TENSOR_POINTER, 1, 5, alice.id, None, (SET,), None, True, META), False, False, 1, None, None)
    )
    got = x.get()
    del got
    gc.collect()
    assert 5 in alice._objects
