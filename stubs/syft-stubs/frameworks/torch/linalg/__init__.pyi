# Made by scripts/stubs.
from syft.linalg import *
from syft.frameworks.torch.linalg import lr as lr
from syft.frameworks.torch.linalg import operations as operations
