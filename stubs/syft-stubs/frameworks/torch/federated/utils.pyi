# Made by scripts/stubs.
from syft.federated.utils import *
