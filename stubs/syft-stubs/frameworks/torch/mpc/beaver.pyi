# Made by scripts/stubs.
from syft.mpc.compat.beaver import *
