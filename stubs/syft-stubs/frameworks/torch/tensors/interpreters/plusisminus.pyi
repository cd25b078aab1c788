# Made by scripts/stubs.
from syft.tensors.plusisminus import *
