# Made by scripts/stubs.
from syft.tensors.additive_shared import *
