"""Partitions: how a data set is shared out over simulated clients."""

from syft.federated.partition.by_label import ByLabel as ByLabel
from syft.federated.partition.dirichlet import Dirichlet as Dirichlet
from syft.federated.partition.iid import IID as IID
from syft.federated.partition.partition import Partition as Partition
from syft.federated.partition.shards import Shards as Shards
