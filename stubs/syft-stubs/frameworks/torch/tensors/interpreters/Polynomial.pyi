# Made by scripts/stubs.
from syft.tensors.polynomial import *
