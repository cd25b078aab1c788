# Made by scripts/stubs.
from syft.mpc.compat.securenn import *
