# Made by scripts/stubs.
from syft.frameworks.torch.tensors import decorators as decorators
from syft.frameworks.torch.tensors import interpreters as interpreters
