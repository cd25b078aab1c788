# Made by scripts/stubs.
from syft.mpc import *
from syft.frameworks.torch.mpc import beaver as beaver
from syft.frameworks.torch.mpc import fss as fss
from syft.frameworks.torch.mpc import securenn as securenn
from syft.frameworks.torch.mpc import spdz as spdz
