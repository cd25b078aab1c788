# Made by scripts/stubs.
from syft.tensors.private import *
