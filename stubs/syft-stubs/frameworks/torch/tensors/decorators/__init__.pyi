# Made by scripts/stubs.
from syft.frameworks.torch.tensors.decorators import logging as logging
