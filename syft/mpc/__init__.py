"""Computing on shares: protocols that workers run together, and the tensors that stand for what they hold.

Importing this fills the tables: protocols, deals, rules of fixed-precision and shared tensors, tensor methods.
"""

from syft.mpc import optimizers, protocols, rules, tensor_methods
from syft.mpc.program import plans
from syft.mpc.program.cache import op_by_op
from syft.mpc.program.program import as_program
from syft.mpc.runtime import network, worker
from syft.mpc.runtime.cost_meter import count
from syft.mpc.serving import endpoint, guest_session, server
from syft.mpc.serving.invitation import Invitation
from syft.mpc.serving.query import ModelClient, connect
from syft.mpc.serving.serve import ServedModel, serve
from syft.mpc.tools.check import check
from syft.mpc.tools.profile import profile
from syft.mpc.tools.validate import validate
from syft.mpc.values import encoding, polynomials, sharing

__all__ = [
    "Invitation",
    "ModelClient",
    "ServedModel",
    "as_program",
    "check",
    "connect",
    "count",
    "encoding",
    "endpoint",
    "guest_session",
    "network",
    "op_by_op",
    "optimizers",
    "plans",
    "polynomials",
    "profile",
    "protocols",
    "rules",
    "serve",
    "server",
    "sharing",
    "tensor_methods",
    "validate",
    "worker",
]
