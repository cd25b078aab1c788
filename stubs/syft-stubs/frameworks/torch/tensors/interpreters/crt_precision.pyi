# Made by scripts/stubs.
from syft.tensors.crt_precision import *
