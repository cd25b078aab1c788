# Made by scripts/stubs.
from syft.mpc.spdz import *
