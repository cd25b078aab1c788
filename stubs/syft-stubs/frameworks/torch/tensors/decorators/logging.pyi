# Made by scripts/stubs.
from syft.tensors.logging import *
