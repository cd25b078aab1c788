# Made by scripts/stubs.
from syft.nn import *
from syft.frameworks.torch.nn import conv as conv
from syft.frameworks.torch.nn import pool as pool
from syft.frameworks.torch.nn import rnn as rnn
