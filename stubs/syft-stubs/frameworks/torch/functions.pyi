# Made by scripts/stubs.
from syft.tensors.functions import *
