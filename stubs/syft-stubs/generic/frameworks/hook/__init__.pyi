# Made by scripts/stubs.
from syft.generic.frameworks.hook import hook as hook
from syft.generic.frameworks.hook import hook_args as hook_args
from syft.generic.frameworks.hook import trace as trace
