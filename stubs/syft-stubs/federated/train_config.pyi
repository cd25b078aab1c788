# Made by scripts/stubs.
from syft.federated.client.train_config import *
