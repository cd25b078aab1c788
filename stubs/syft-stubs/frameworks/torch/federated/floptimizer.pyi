# Made by scripts/stubs.
from syft.federated.floptimizer import *
