# Made by scripts/stubs.
from syft.tensors.native import *
