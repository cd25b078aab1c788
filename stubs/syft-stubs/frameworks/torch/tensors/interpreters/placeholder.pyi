# Made by scripts/stubs.
from syft.tensors.placeholder import *
