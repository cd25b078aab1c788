"""The documented module paths whose modules are elsewhere: one table, one import finder.

Importing a documented path returns the module at its home, the same object, so that an assignment through either
path reaches the code. Modules are loaded at their first use, and no file is loaded twice.
"""

from __future__ import annotations

import importlib
import importlib.util
import sys
from collections.abc import Callable, Sequence
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec
from types import ModuleType

from syft._suggestions import no_name

__all__ = ["MOVED", "home_of", "install"]

# Documented path -> home. The package itself never imports a path on the left.
MOVED: dict[str, str] = {
    # objects and pointers
    "syft.generic.pointers": "syft.pointers",
    "syft.generic.pointers.object_pointer": "syft.pointers.object_pointer",
    "syft.generic.pointers.pointer_tensor": "syft.pointers.pointer_tensor",
    "syft.generic.pointers.multi_pointer": "syft.pointers.multi_pointer",
    "syft.generic.pointers.callable_pointer": "syft.pointers.callable_pointer",
    "syft.generic.pointers.object_wrapper": "syft.pointers.object_wrapper",
    "syft.generic.pointers.string_pointer": "syft.pointers.string_pointer",
    "syft.generic.pointers.pointer_plan": "syft.pointers.pointer_plan",
    "syft.generic.pointers.pointer_protocol": "syft.pointers.pointer_protocol",
    "syft.generic.abstract.object": "syft.core.object",
    "syft.generic.abstract.sendable": "syft.core.object",
    "syft.generic.abstract.syft_serializable": "syft.core.object",
    "syft.generic.abstract.tensor": "syft.core.tensor",
    "syft.generic.object": "syft.core.object",
    "syft.generic.tensor": "syft.core.tensor",
    "syft.generic.object_storage": "syft.core.object_storage",
    "syft.generic.id_provider": "syft.core.id_provider",
    "syft.generic.string": "syft.core.string",
    "syft.generic.metrics": "syft.core.metrics",
    # the hook
    "syft.generic.frameworks.hook.hook": "syft.hook.base",
    "syft.generic.frameworks.hook.hook_args": "syft.hook.args",
    "syft.generic.frameworks.hook.trace": "syft.hook.trace",
    "syft.generic.frameworks.types": "syft.hook.types",
    "syft.generic.frameworks.overload": "syft.hook.overload",
    "syft.generic.frameworks.remote": "syft.hook.remote",
    "syft.generic.frameworks.attributes": "syft.hook.attributes",
    "syft.frameworks.torch.hook": "syft.hook.torch_hook",
    "syft.frameworks.torch.hook.hook": "syft.hook.torch_hook",
    "syft.frameworks.torch.hook.hook_args": "syft.hook.torch_args",
    "syft.frameworks.torch.hook_args": "syft.hook.args",
    "syft.frameworks.torch.overload_torch": "syft.hook.overload",
    "syft.frameworks.torch.torch_attributes": "syft.hook.attributes",
    # tensor types
    "syft.frameworks.torch.functions": "syft.pointers.multi_pointer",
    "syft.frameworks.torch.tensors.decorators.logging": "syft.tensors.logging",
    "syft.frameworks.torch.tensors.interpreters.native": "syft.tensors.native",
    "syft.frameworks.torch.tensors.interpreters.plusisminus": "syft.tensors.plusisminus",
    "syft.frameworks.torch.tensors.interpreters.precision": "syft.tensors.precision",
    "syft.frameworks.torch.tensors.interpreters.large_precision": "syft.tensors.large_precision",
    "syft.frameworks.torch.tensors.interpreters.crt_precision": "syft.tensors.crt_precision",
    "syft.frameworks.torch.tensors.interpreters.numpy": "syft.tensors.numpy_tensor",
    "syft.frameworks.torch.tensors.interpreters.additive_shared": "syft.tensors.additive_shared",
    "syft.frameworks.torch.tensors.interpreters.autograd": "syft.tensors.autograd",
    "syft.frameworks.torch.tensors.interpreters.gradients": "syft.tensors.gradients",
    "syft.frameworks.torch.tensors.interpreters.gradients_core": "syft.tensors.gradients",
    "syft.frameworks.torch.tensors.interpreters.private": "syft.tensors.private",
    "syft.frameworks.torch.tensors.interpreters.placeholder": "syft.tensors.placeholder",
    "syft.frameworks.torch.tensors.interpreters.polynomial": "syft.tensors.polynomial",
    "syft.frameworks.torch.tensors.interpreters.Polynomial": "syft.tensors.polynomial",
    "syft.frameworks.torch.tensors.interpreters.paillier": "syft.he.paillier_tensor",
    "syft.frameworks.torch.tensors.interpreters.abstract": "syft.core.tensor",
    "syft.frameworks.torch.tensors.interpreters.pointer": "syft.pointers.pointer_tensor",
    "syft.frameworks.torch.tensors.interpreters.multi_pointer": "syft.pointers.multi_pointer",
    # plans, by the paths of later 0.2 releases
    "syft.execution.plan": "syft.messaging.plan",
    "syft.execution.state": "syft.messaging.plan.state",
    "syft.execution.placeholder": "syft.tensors.placeholder",
    "syft.execution.protocol": "syft.messaging.protocol",
    "syft.execution.role": "syft.messaging.protocol.role",
    "syft.execution.translation": "syft.messaging.plan.translation",
    # workers
    "syft.workers.websocket_server": "syft.grid.websocket_server",
    "syft.workers.policy": "syft.workers.access.policy",
    # encrypted computation
    "syft.frameworks.torch.mpc": "syft.mpc",
    "syft.frameworks.torch.mpc.beaver": "syft.mpc.compat.beaver",
    "syft.frameworks.torch.mpc.securenn": "syft.mpc.compat.securenn",
    "syft.frameworks.torch.mpc.spdz": "syft.mpc.compat.spdz",
    "syft.frameworks.torch.mpc.fss": "syft.mpc.compat.fss",
    "syft.frameworks.torch.crypto": "syft.mpc",
    "syft.frameworks.torch.crypto.beaver": "syft.mpc.compat.beaver",
    "syft.frameworks.torch.crypto.securenn": "syft.mpc.compat.securenn",
    "syft.frameworks.torch.crypto.spdz": "syft.mpc.compat.spdz",
    "syft.frameworks.torch.crypto.fss": "syft.mpc.compat.fss",
    "syft.frameworks.torch.he": "syft.he",
    "syft.frameworks.torch.he.paillier": "syft.he.paillier",
    # privacy
    "syft.frameworks.torch.dp": "syft.dp",
    "syft.frameworks.torch.dp.pate": "syft.dp.pate",
    "syft.frameworks.torch.differential_privacy": "syft.dp",
    "syft.frameworks.torch.differential_privacy.pate": "syft.dp.pate",
    # training
    "syft.frameworks.torch.fl": "syft.federated",
    "syft.frameworks.torch.fl.dataset": "syft.federated.dataset",
    "syft.frameworks.torch.fl.dataloader": "syft.federated.dataloader",
    "syft.frameworks.torch.fl.utils": "syft.federated.utils",
    "syft.frameworks.torch.fl.floptimizer": "syft.federated.floptimizer",
    "syft.frameworks.torch.federated": "syft.federated",
    "syft.frameworks.torch.federated.dataset": "syft.federated.dataset",
    "syft.frameworks.torch.federated.dataloader": "syft.federated.dataloader",
    "syft.frameworks.torch.federated.utils": "syft.federated.utils",
    "syft.frameworks.torch.federated.floptimizer": "syft.federated.floptimizer",
    "syft.federated.federated_client": "syft.federated.client.federated_client",
    "syft.federated.train_config": "syft.federated.client.train_config",
    "syft.frameworks.torch.nn": "syft.nn",
    "syft.frameworks.torch.nn.conv": "syft.nn.conv",
    "syft.frameworks.torch.nn.pool": "syft.nn.pool",
    "syft.frameworks.torch.nn.rnn": "syft.nn.rnn",
    "syft.frameworks.torch.linalg": "syft.linalg",
    "syft.frameworks.torch.linalg.lr": "syft.linalg.lr",
    "syft.frameworks.torch.linalg.operations": "syft.linalg.operations",
}


def _children() -> dict[str, list[str]]:
    """Return the names directly below each documented path and below each of its parents."""
    children: dict[str, list[str]] = {}
    for path in MOVED:
        while "." in path:
            path, _, name = path.rpartition(".")
            names = children.setdefault(path, [])
            if name not in names:
                names.append(name)
    return children


_CHILDREN = _children()
# Packages with files of their own that also have rows below them; the ordinary finder loads them.
_REAL = {home[:end] for home in MOVED.values() for end in range(len(home)) if home[end] == "."}
_ROOTS = tuple(f"syft.{name}." for name in _CHILDREN["syft"])


def home_of(path: str) -> str | None:
    """Return the home of the module with a documented path, or None if it is at that path.

    Modules below a moved package move with it, whether or not they have a row of their own.
    """
    head, tail = path, ""
    while head:
        if head in MOVED:
            return MOVED[head] + tail
        head, _, name = head.rpartition(".")
        tail = f".{name}{tail}"
    return None


def _exists(home: str) -> bool:
    """Return whether there is a module at `home`. Loads its parents, as an import of it would."""
    if home in sys.modules:
        return sys.modules[home] is not None
    try:
        spec = importlib.util.find_spec(home)
    except ModuleNotFoundError as error:
        if error.name is None or not f"{home}.".startswith(f"{error.name}."):
            raise  # a parent exists, but one of its own imports does not
        return False
    return spec is not None and spec.has_location  # a bare directory is not a module


def _lazy_children(path: str, name: str, own: Callable[[str], object] | None = None) -> Callable[[str], object]:
    """Make the `__getattr__` of module `name`: it tries the module's `own`, then imports the rows below `path`."""

    def __getattr__(attribute: str) -> object:
        if own is not None:
            try:
                return own(attribute)
            except AttributeError:
                if attribute not in _CHILDREN[path]:
                    raise
        if attribute in _CHILDREN[path]:
            child = f"{path}.{attribute}"
            try:
                return importlib.import_module(child)
            except ModuleNotFoundError as error:
                if error.name != child:
                    raise
        raise no_name(name, attribute, [*_CHILDREN[path], *vars(sys.modules[name])])

    return __getattr__


class _ParentLoader(Loader):
    """Makes the packages that hold nothing but rows, such as `syft.generic`."""

    def exec_module(self, module: ModuleType) -> None:
        path = module.__name__
        names = _CHILDREN[path]
        module.__doc__ = f"A documented path to modules that are elsewhere: {', '.join(names)}."
        vars(module)["__getattr__"] = _lazy_children(path, path)
        vars(module)["__dir__"] = lambda: sorted({*vars(module), *names})


class _HomeLoader(Loader):
    """Returns the module at its home instead of making one."""

    def __init__(self, path: str, home: str) -> None:
        self.path = path
        self.home = home
        self.own_spec: ModuleSpec | None = None

    def create_module(self, spec: ModuleSpec) -> ModuleType:
        module = importlib.import_module(self.home)
        # The import system is about to write our spec over the module's own; exec_module puts that back.
        # Another thread may be between the two, with its spec on the module.
        own = module.__spec__
        while own is not None and isinstance(own.loader, _HomeLoader):
            own = own.loader.own_spec
        self.own_spec = own
        return module

    def exec_module(self, module: ModuleType) -> None:
        module.__spec__ = self.own_spec
        if self.path not in _CHILDREN:
            return
        if hasattr(module, "__path__"):
            own = vars(module).get("__getattr__")
            vars(module)["__getattr__"] = _lazy_children(self.path, self.home, own)
            return
        # The import system refuses to look below a module that is no package, so its rows are imported here. Names
        # that the module itself uses keep their values.
        for name in _CHILDREN[self.path]:
            path = f"{self.path}.{name}"
            if _exists(MOVED[path]):
                child = sys.modules.setdefault(path, importlib.import_module(MOVED[path]))
                vars(module).setdefault(name, child)


class _Finder(MetaPathFinder):
    """Finds the modules of the table by their documented paths."""

    def find_spec(
        self, fullname: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        if not f"{fullname}.".startswith(_ROOTS):
            return None
        home = home_of(fullname)
        if home is not None:
            return ModuleSpec(fullname, _HomeLoader(fullname, home)) if _exists(home) else None
        if fullname in _CHILDREN and fullname not in _REAL:
            return ModuleSpec(fullname, _ParentLoader(), is_package=True)
        return None


def install() -> None:
    """Make the documented paths importable, and reachable as attributes of `syft`. Can be repeated."""
    kind = (_Finder.__module__, _Finder.__qualname__)
    others = [f for f in sys.meta_path if (type(f).__module__, type(f).__qualname__) != kind]
    # First, because the ordinary finder would load the files of a moved package a second time.
    sys.meta_path[:] = [_Finder(), *others]
    for name in _CHILDREN["syft"]:
        if f"syft.{name}" not in _REAL:
            setattr(sys.modules["syft"], name, importlib.import_module(f"syft.{name}"))
