"""Names of later 0.2 releases: those that are elsewhere here, and those that have a replacement."""

from __future__ import annotations

import dis
import importlib
import sys
from collections.abc import Sequence
from importlib.abc import MetaPathFinder
from importlib.machinery import ModuleSpec
from types import ModuleType
from typing import Any, NoReturn

__all__ = ["ELSEWHERE", "GONE", "GONE_MODULES", "find", "install", "refuse"]

# Name in `syft` -> its module; not listed by `dir(syft)`.
ELSEWHERE = {"make_hook": "syft.hook.torch_hook", "TranslationTarget": "syft.messaging.plan.translation"}

# Name -> what to use instead.
GONE = {
    "KerasHook": "Keras is not supported. Write the model in torch, share it, and call sy.mpc.serve(model, in_shape).",
    "TFEWorker": "TF Encrypted is not supported. Use sy.ProcessWorker(hook, id=...).",
    "TFECluster": "TF Encrypted is not supported. Use model.share(alice, bob) and sy.mpc.serve(model, in_shape).",
    "NetworkMonitor": "Count messages, rounds and bytes with sy.count_messages().",
    "ModelCentricFLClient": "Train at the clients with sy.federated.run(...).",
    "StaticFLClient": "Train at the clients with sy.federated.run(...).",
}
_FL = "syft.grid.clients"
# Module -> the name in it.
GONE_MODULES = {
    "syft.workers.tfe": "TFEWorker",
    "syft.frameworks.keras": "KerasHook",
    f"{_FL}.model_centric_fl_client": "ModelCentricFLClient",
    f"{_FL}.static_fl_client": "StaticFLClient",
}
_IMPORT_FROM = dis.opmap["IMPORT_FROM"]


def find(name: str) -> Any:
    """Return what a name of `syft` stands for."""
    return getattr(importlib.import_module(ELSEWHERE[name]), name)


def refuse(module: str, name: str) -> NoReturn:
    """Raise the error for a name that is gone; call it from the `__getattr__` of a module.

    `from module import name` would hide the text of an AttributeError, so it gets an ImportError.
    """
    text = f"module {module!r} has no {name!r}. {GONE[name]}"
    caller = sys._getframe(2)
    if caller.f_code.co_code[caller.f_lasti] == _IMPORT_FROM:
        raise ImportError(text, name=module)
    raise AttributeError(text, name=name)


class _GoneFinder(MetaPathFinder):
    """Says what to use instead of a module that is gone; asked last, when no other finder knows it."""

    def find_spec(
        self, fullname: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        if fullname in GONE_MODULES:
            raise ModuleNotFoundError(f"No module named {fullname!r}. {GONE[GONE_MODULES[fullname]]}", name=fullname)
        return None


def install() -> None:
    """Make imports of modules that are gone say what to use instead. Can be repeated."""
    sys.meta_path[:] = [f for f in sys.meta_path if type(f).__qualname__ != _GoneFinder.__qualname__] + [_GoneFinder()]
