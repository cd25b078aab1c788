# Made by scripts/stubs.
from syft.federated.client.federated_client import *
