# Made by scripts/stubs.
from syft.mpc.securenn import *
