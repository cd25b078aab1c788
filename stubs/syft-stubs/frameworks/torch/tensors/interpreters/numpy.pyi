# Made by scripts/stubs.
from syft.tensors.numpy_tensor import *
