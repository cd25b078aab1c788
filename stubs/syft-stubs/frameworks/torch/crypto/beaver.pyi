# Made by scripts/stubs.
from syft.mpc.beaver import *
