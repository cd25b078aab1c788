"""Federated learning: data sets that are spread over workers, loaders over them, and averages of models."""

from syft.federated.dataloader import FederatedDataLoader as FederatedDataLoader
from syft.federated.dataset import BaseDataset as BaseDataset
from syft.federated.dataset import FederatedDataset as FederatedDataset
from syft.workers import federated_client as federated_client
from syft.workers import train_config as train_config
