"""Computing on shares: protocols that workers run together, and the tensors that stand for what they hold.

Importing this fills the tables: protocols, deals, rules of fixed-precision and shared tensors, tensor methods.
"""

from syft.mpc import (
    encoding,
    endpoints,
    guests,
    hosted,
    methods,
    network,
    optimizers,
    plans,
    polynomials,
    protocols,
    rules,
    runs,
    sharing,
)
from syft.mpc.checking import check
from syft.mpc.invitations import Invitation
from syft.mpc.metering import count
from syft.mpc.profiling import profile
from syft.mpc.program import as_program
from syft.mpc.querying import ModelClient, connect
from syft.mpc.replay import op_by_op
from syft.mpc.serving import ServedModel, serve
from syft.mpc.validation import validate

__all__ = [
    "Invitation",
    "ModelClient",
    "ServedModel",
    "as_program",
    "check",
    "connect",
    "count",
    "encoding",
    "endpoints",
    "guests",
    "hosted",
    "methods",
    "network",
    "op_by_op",
    "optimizers",
    "plans",
    "polynomials",
    "profile",
    "protocols",
    "rules",
    "runs",
    "serve",
    "sharing",
    "validate",
]
