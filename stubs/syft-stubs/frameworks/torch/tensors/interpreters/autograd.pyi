# Made by scripts/stubs.
from syft.tensors.autograd import *
