# Made by scripts/stubs.
from syft.federated import *
from syft.frameworks.torch.fl import dataloader as dataloader
from syft.frameworks.torch.fl import dataset as dataset
from syft.frameworks.torch.fl import floptimizer as floptimizer
from syft.frameworks.torch.fl import utils as utils
