# Made by scripts/stubs.
from syft.federated.dataset import *
