# Made by scripts/stubs.
from syft.mpc.fss import *
