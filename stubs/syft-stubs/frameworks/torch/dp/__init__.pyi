# Made by scripts/stubs.
from syft.dp import *
from syft.frameworks.torch.dp import pate as pate
