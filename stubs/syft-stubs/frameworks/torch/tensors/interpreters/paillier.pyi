# Made by scripts/stubs.
from syft.he.paillier_tensor import *
