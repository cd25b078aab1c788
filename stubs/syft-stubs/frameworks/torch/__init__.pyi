# Made by scripts/stubs.
from syft.frameworks.torch import crypto as crypto
from syft.frameworks.torch import differential_privacy as differential_privacy
from syft.frameworks.torch import dp as dp
from syft.frameworks.torch import federated as federated
from syft.frameworks.torch import fl as fl
from syft.frameworks.torch import functions as functions
from syft.frameworks.torch import he as he
from syft.frameworks.torch import hook as hook
from syft.frameworks.torch import hook_args as hook_args
from syft.frameworks.torch import linalg as linalg
from syft.frameworks.torch import mpc as mpc
from syft.frameworks.torch import nn as nn
from syft.frameworks.torch import overload_torch as overload_torch
from syft.frameworks.torch import tensors as tensors
from syft.frameworks.torch import torch_attributes as torch_attributes
