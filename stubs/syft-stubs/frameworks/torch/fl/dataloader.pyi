# Made by scripts/stubs.
from syft.federated.dataloader import *
