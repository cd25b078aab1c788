# Made by scripts/stubs.
from syft.core.tensor import *
