"""Code execution: data from a peer is never run, unpickled or looked up by name."""

from __future__ import annotations

import io
import os
import pickle
import zipfile

import numpy as np
import pytest
import torch

import syft as sy
from syft.core.references import Ref
from syft.exceptions import CompressionNotFoundError, SerdeError
from syft.hook.allowed_functions import allowed
from syft.messaging import message as m
from syft.serde import serialize
from tests.helpers.attacks.hostile_peer import (
    BATCH,
    CALLABLE_POINTER,
    DICT,
    ERROR,
    LIST,
    MESSAGE,
    OBJECT,
    OPERATION,
    PLAN,
    POINTER,
    REF,
    REQUEST,
    SEARCH,
    STRING,
    TENSOR,
    TUPLE,
    WRAPPER,
    Mallory,
    error_name,
    request,
    still_answers,
)  # fmt: skip


class Touch:
    """Pickled, it makes a file when it is loaded."""

    def __init__(self, path):
        self.path = str(path)

    def __reduce__(self):
        return os.system, (f"touch {self.path}",)


def _rewritten(archive: bytes, pickled: bytes) -> bytes:
    """Return a torch.save file whose description is another pickle."""
    out = io.BytesIO()
    with zipfile.ZipFile(io.BytesIO(archive)) as old, zipfile.ZipFile(out, "w") as new:
        for info in old.infolist():
            new.writestr(info.filename, pickled if info.filename.endswith("data.pkl") else old.read(info))
    return out.getvalue()


def _payloads(marker) -> dict[str, bytes]:
    evil = Touch(marker)
    saved, whole, legacy, array = io.BytesIO(), io.BytesIO(), io.BytesIO(), io.BytesIO()
    torch.save(torch.ones(2), saved)
    torch.save(evil, whole)
    torch.save(evil, legacy, _use_new_zipfile_serialization=False)
    np.save(array, np.array([evil], dtype=object), allow_pickle=True)
    return {
        "bare pickle": pickle.dumps(evil),
        "old pickle": pickle.dumps(evil, protocol=0),
        "torch file": whole.getvalue(),
        "torch legacy file": legacy.getvalue(),
        "torch tensor file with another pickle": _rewritten(saved.getvalue(), pickle.dumps(evil, protocol=2)),
        "npy object file": array.getvalue(),
        "npy header": b"\x93NUMPY\x01\x00\x40\x00"
        + f"{{'descr': __import__('os').system('touch {marker}')}}".encode().ljust(64),
    }


@pytest.fixture
def marker(tmp_path):
    return tmp_path / "owned"


def test_the_payloads_are_live(marker):
    pickle.loads(_payloads(marker)["bare pickle"])
    assert marker.exists()


@pytest.mark.parametrize("name", list(_payloads("x")))
@pytest.mark.parametrize("strategy", ["raw", "torch", "numpy", "all", "pickle", None])
def test_no_payload_runs_in_any_tensor_strategy(bob, marker, name, strategy):
    payload = _payloads(marker)[name]
    mallory = Mallory(bob)
    forms = {
        "bytes": payload,
        "raw parts": (TUPLE, "uint8", (TUPLE, len(payload)), payload),
        "list": (LIST, payload),
    }
    for values in forms.values():
        tensor = (TENSOR, 1, values, None, None, None, None, strategy)
        for message in (
            (OBJECT, tensor, 5, False),
            (OPERATION, "torch.neg", (TUPLE, tensor), (DICT,), (TUPLE, 6), True),
        ):
            response = mallory.raw(message)
            if not (strategy == "raw" and values is forms["raw parts"]):  # that one is an honest tensor of bytes
                assert error_name(response) == "SerdeError"
    assert not marker.exists()
    still_answers(bob)


@pytest.mark.parametrize("name", list(_payloads("x")))
def test_pickled_messages_are_not_loaded(bob, marker, name):
    payload = _payloads(marker)[name]
    mallory = Mallory(bob)
    for data in (payload, b"(" + payload, b")" + payload, b"*" + payload):
        assert error_name(mallory.send(data)) in ("SerdeError", "CompressionNotFoundError")
        with pytest.raises((SerdeError, CompressionNotFoundError)):
            bob.recv_msg(data)
    assert not marker.exists()


def test_script_modules_are_refused_unless_trusted(bob):
    with pytest.warns(DeprecationWarning):
        module = torch.jit.script(torch.nn.Linear(2, 2))
    data = serialize(((), m.ObjectMessage(sy.ObjectWrapper(module, id=3), 3), True))
    bob.trusts_script_modules = False
    response = Mallory(bob).send(data)
    assert error_name(response) == "SerdeError" and "trusts_script_modules" in response.contents[1]
    assert not bob._objects
    assert sy.workers.base.BaseWorker(None, id="any", auto_add=False).trusts_script_modules is False


EVIL_NAMES = [
    "eval", "exec", "compile", "open", "__import__", "builtins.eval", "os.system", "os.popen", "subprocess.run",
    "torch.save", "torch.load", "torch.hub.load", "torch.jit.load", "torch.package.PackageImporter", "torch.from_file",
    "torch.ops.load_library", "torch.classes.load_library", "torch.utils.cpp_extension.load", "torch.os.system",
    "torch.serialization.load", "torch.set_default_dtype", "torch.manual_seed", "torch.use_deterministic_algorithms",
    "torch.storage._load_from_bytes", "torch.utils.data.DataLoader", "torch.multiprocessing.spawn", "torch.compile",
    "torch._C._jit_pass_inline", "torch.Tensor.__class__", "torch.Tensor.__init__", "torch.Tensor.__reduce_ex__",
    "torch.Tensor.__setstate__", "torch.Tensor.__subclasshook__", "torch.Tensor.__getattribute__", "torch.Tensor.__dir__",
    "torch.Tensor.__torch_function__", "torch.Tensor.apply_", "torch.Tensor.map_", "torch.Tensor.register_hook",
    "torch.Tensor.data_ptr", "torch.Tensor.storage", "torch.Tensor.untyped_storage", "torch.Tensor.share_memory_",
    "torch.Tensor.__deepcopy__", "torch.Tensor.grad_fn.__get__", "torch.Tensor._backward_hooks.__get__",
    "torch.Tensor.child.__get__", "torch.Tensor.owner", "torch.Tensor.send", "torch.Tensor.get", "torch.Tensor.move",
    "torch.Tensor", "torch", "torch.", ".", "", "self", "self.clear_objects", "clear_objects", "rm_obj", "get_obj",
    "worker.clear_objects", "execute_command", "_objects", "set_obj", "list_objects", "syft.eval", "syft.TorchHook",
    "syft.serde.deserialize", "syft.call.__globals__", "syft", "str", "str.format", "str.format_map", "str.__class__",
    "str.__init_subclass__", "str.__reduce_ex__", "str.maketrans", "__class__", "__call__", "torch.add\0", "torch.add ",
    "TORCH.ADD", "torch..add", "torch.nn.functional.handle_torch_function", "torch.overrides.is_tensor_like",
]  # fmt: skip


@pytest.mark.parametrize("name", EVIL_NAMES)
def test_calls_outside_the_table_are_refused(bob, name, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    bob.object_store.objects[1] = torch.ones(2)
    mallory = Mallory(bob)
    for args in ((), (Ref(1),), (Ref(1), "owned"), ("owned",), ("touch owned",), (Ref(1, "data"), Ref(1))):
        assert error_name(mallory.call(name, *args)) == "CommandNotAllowedError"
        assert (
            error_name(mallory.raw((OPERATION, name, (TUPLE,), (DICT, "owner", "self"), (TUPLE, 9), True)))
            == "CommandNotAllowedError"
        )
    assert list(bob._objects) == [1] and torch.equal(bob._objects[1], torch.ones(2))
    assert not list(tmp_path.iterdir())


def test_the_table_has_no_calls_for_files_processes_or_code(hook):
    words = (
        "save",
        "load",
        "file",
        "open",
        "hub",
        "system",
        "eval",
        "exec",
        "jit",
        "compile",
        "pickle",
        "reduce_ex",
        "spawn",
        "hook",
    )
    exempt = {"torch.Tensor.module_load"}  # copies one tensor into another
    found = [name for name in allowed() if name not in exempt and set(words) & set(name.split(".")[-1].split("_"))]
    assert not found


def test_a_command_on_self_reaches_no_object(bob):
    bob.object_store.objects[1] = torch.ones(2)
    mallory = Mallory(bob)
    # The documented form had an owner between the name and the arguments: there is no place for one on the wire.
    with_owner = (OPERATION, "clear_objects", "self", (TUPLE,), (DICT,), (TUPLE, 9), True)
    assert error_name(mallory.raw(with_owner)) == "SerdeError"
    for owner in ("self", "bob", bob.id, None):
        assert (
            error_name(mallory.raw((OPERATION, "clear_objects", (TUPLE, owner), (DICT,), (TUPLE, 9), True)))
            == "CommandNotAllowedError"
        )
    with pytest.raises(sy.exceptions.PlanCommandUnknownError):
        bob.create_message_execute_command("clear_objects", "self")
    assert list(bob._objects) == [1]


@pytest.mark.parametrize(
    "name", ["eval", "__class__", "clear_objects", "fetch_plan.__globals__", "", "execute_plan_command"]
)
def test_plan_commands_outside_the_table_are_refused(bob, name):
    assert error_name(Mallory(bob).raw((PLAN, (TUPLE, "print(1)"), name))) in ("PlanCommandUnknownError", "SerdeError")


ATTRIBUTES = [
    "__class__", "data.__class__", "__class__.__mro__", "__dict__", "__init__.__globals__", "grad_fn", "grad_fn.next_functions",
    "_backward_hooks", "owner", "owner.policy", "child", "child.child", "_syft_id", "tags", "register_hook", "shape", "numpy",
    "data.grad_fn", "T.__reduce_ex__", "", ".", "data.", ".data", "data..data", "DATA", "data ", "grad.__class__", "_base", "storage",
]  # fmt: skip


@pytest.mark.parametrize("attribute", ATTRIBUTES)
def test_attribute_paths_are_refused(bob, attribute):
    bob.object_store.objects[1] = torch.ones(2, 2, requires_grad=True)
    bob.object_store.objects[2] = sy.String("text")
    mallory = Mallory(bob)
    for obj_id in (1, 2):
        ref = Ref(obj_id, attribute)
        for message in (m.IsNoneMessage(ref), m.GetShapeMessage(ref), m.Operation("torch.neg", None, (ref,), {}, (9,))):
            assert error_name(mallory.ask(message)) == "CommandNotAllowedError"
    assert (
        error_name(mallory.raw((OBJECT, (POINTER, 1, 1, bob.id, attribute, (4,), None, False), 9, False, None)))
        == "CommandNotAllowedError"
    )
    assert sorted(bob._objects) == [1, 2]


def test_the_attributes_that_may_be_named_work(bob):
    bob.object_store.objects[1] = torch.ones(2, 3)
    assert Mallory(bob).ask(m.GetShapeMessage(Ref(1, "data.T"))).shape == (3, 2)


def test_commands_on_objects_of_the_wrong_type(bob):
    store = bob.object_store.objects
    store.update(
        {
            1: torch.ones(2),
            2: sy.String("text"),
            3: sy.ObjectWrapper(5, id=3),
            4: sy.ObjectWrapper(sy.String("in"), id=4),
        }
    )
    mallory = Mallory(bob)
    for name in (
        "torch.Tensor.add",
        "torch.cat",
        "str.upper",
        "str.join",
        "syft.call",
        "torch.Tensor.tolist",
        "torch.Tensor.__index__",
    ):
        for obj_id in store.copy():
            for arg in (Ref(2), Ref(3), [Ref(4)], {"a": Ref(1)}, None):
                response = mallory.call(name, Ref(obj_id), arg)
                if name == "str.join" and obj_id == 2 and (arg == Ref(2) or type(arg) is dict):
                    assert response.kind == "string"  # a text joins the letters of a text, and the keys of a dict
                else:
                    assert error_name(response) in ("TypeError", "CommandNotAllowedError"), (name, obj_id, arg)
    for obj_id in (1, 2):
        assert error_name(mallory.call("syft.call", Ref(obj_id))) == "CommandNotAllowedError"
    assert error_name(mallory.call("syft.call", Ref(3))) == "TypeError"
    for obj_id in (1, 2, 3, 4):
        assert error_name(mallory.ask(m.FetchThereMessage(obj_id))) == "InvalidTensorForRemoteGetError"
    still_answers(bob)


def test_messages_a_worker_does_not_answer(bob):
    mallory = Mallory(bob)
    for message in ((MESSAGE, "x"), (ERROR, (TUPLE, "KeyError", "a", "b")), (BATCH, (TUPLE, (MESSAGE, 1)))):
        assert error_name(mallory.raw(message)) == "SerdeError"
    for message in (5, None, "text", (TUPLE,), (LIST, 1), (STRING, "t", 1, (4,), None), (REF, 1, None)):
        assert error_name(mallory.raw(message)) == "SerdeError"
    for data in (b"", b"(", b"\x00", b"(\x01", request((SEARCH, (LIST,)))[:-1], request((SEARCH, (LIST,))) + b"\0"):
        assert error_name(mallory.send(data)) in ("SerdeError", "CompressionNotFoundError")


def test_things_that_are_no_objects_are_not_kept(bob):
    mallory = Mallory(bob)
    for thing in (
        None,
        5,
        "x",
        b"y",
        (TUPLE, 1),
        (LIST, 1),
        (REF, 1, None),
        (REQUEST, (TUPLE, 1, None, "")),
        (6, 0, 9, 1),
    ):
        assert type(mallory.raw((OBJECT, thing, 5, False, None))) is m.ErrorMessage
        assert not bob._objects
    # Wrapped, they can be kept, and do nothing.
    assert mallory.raw((OBJECT, (WRAPPER, 1, "x", (4,), None), 5, False, None)) is None
    assert error_name(mallory.call("syft.call", Ref(5))) == "TypeError"
    assert (
        error_name(mallory.raw((OBJECT, (CALLABLE_POINTER, 1, 2, "nobody", None, (4,), None, True), 6, False, None)))
        == "WorkerNotFoundError"
    )
    still_answers(bob)
