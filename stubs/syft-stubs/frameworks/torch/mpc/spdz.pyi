# Made by scripts/stubs.
from syft.mpc.compat.spdz import *
