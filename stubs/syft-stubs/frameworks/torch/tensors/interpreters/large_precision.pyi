# Made by scripts/stubs.
from syft.tensors.large_precision import *
