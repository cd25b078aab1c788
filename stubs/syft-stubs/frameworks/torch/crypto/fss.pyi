# Made by scripts/stubs.
from syft.mpc.compat.fss import *
