# Made by scripts/stubs.
from syft.tensors.precision import *
