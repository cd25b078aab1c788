# Made by scripts/stubs.
from syft.nn.rnn import *
