# Made by scripts/stubs.
from syft.tensors.gradients import *
