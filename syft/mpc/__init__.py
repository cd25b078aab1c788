"""Computing on shares: protocols that workers run together, and the tensors that stand for what they hold.

Importing this fills the tables: protocols, deals, rules of fixed-precision and shared tensors, tensor methods.
"""

from syft.mpc import encoding, methods, network, protocols, rules, runs, sharing
from syft.mpc.lockstep import count

__all__ = ["count", "encoding", "methods", "network", "protocols", "rules", "runs", "sharing"]
