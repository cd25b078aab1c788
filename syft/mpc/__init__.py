"""Secure multi-party computation: tensors that are split into secret shares, and the protocols on them.

Here are the public functions: run a function as one program, check, validate and profile a model, serve it encrypted.
Importing the package registers protocols, rules for torch operations, tensor methods and worker commands.
"""

from typing import TYPE_CHECKING

from syft._lazy import missing_name as _missing_name
from syft._lazy import publish as _publish
from syft.mpc import optimizers, protocols, rules, tensor_methods  # noqa: F401  (registers rules and methods)
from syft.mpc.program.cache import op_by_op
from syft.mpc.program.program import as_program
from syft.mpc.runtime import network, worker  # noqa: F401  (registers worker commands)
from syft.mpc.runtime.cost_meter import count
from syft.mpc.serving import endpoint, server  # noqa: F401  (registers worker commands)
from syft.mpc.serving.client import ModelClient, connect
from syft.mpc.serving.invitation import Invitation
from syft.mpc.serving.serve import ServedModel, serve
from syft.mpc.tools.check import check
from syft.mpc.tools.profile import profile
from syft.mpc.tools.validate import validate
from syft.mpc.values import encoding, function_tables, sharing  # noqa: F401  (registers codec and sharing)

__all__ = [
    "Invitation",
    "ModelClient",
    "ServedModel",
    "as_program",
    "check",
    "connect",
    "count",
    "op_by_op",
    "profile",
    "serve",
    "validate",
]
_publish(__name__, globals(), __all__)


if not TYPE_CHECKING:  # a type checker would accept any name
    __getattr__ = _missing_name(__name__)


def __dir__() -> list[str]:
    return list(__all__)
