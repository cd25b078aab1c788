# Made by scripts/stubs.
from syft.federated import *
from syft.frameworks.torch.federated import dataloader as dataloader
from syft.frameworks.torch.federated import dataset as dataset
from syft.frameworks.torch.federated import floptimizer as floptimizer
from syft.frameworks.torch.federated import utils as utils
