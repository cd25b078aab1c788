# Made by scripts/stubs.
from syft.he import *
from syft.frameworks.torch.he import paillier as paillier
