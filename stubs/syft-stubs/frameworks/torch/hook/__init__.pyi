# Made by scripts/stubs.
from syft.hook.torch_hook import *
from syft.frameworks.torch.hook import hook as hook
from syft.frameworks.torch.hook import hook_args as hook_args
