# Made by scripts/stubs.
from syft.workers.federated_client import *
