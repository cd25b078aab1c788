# Made by scripts/stubs.
from syft.frameworks import torch as torch
