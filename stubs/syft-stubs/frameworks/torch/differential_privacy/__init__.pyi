# Made by scripts/stubs.
from syft.dp import *
from syft.frameworks.torch.differential_privacy import pate as pate
