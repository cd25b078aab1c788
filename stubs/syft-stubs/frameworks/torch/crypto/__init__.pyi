# Made by scripts/stubs.
from syft.mpc import *
from syft.frameworks.torch.crypto import beaver as beaver
from syft.frameworks.torch.crypto import fss as fss
from syft.frameworks.torch.crypto import securenn as securenn
from syft.frameworks.torch.crypto import spdz as spdz
