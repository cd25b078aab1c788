# Made by scripts/stubs.
from syft.federated import federated_client as federated_client
from syft.federated import train_config as train_config
