# Made by scripts/stubs.
from syft.generic.frameworks import attributes as attributes
from syft.generic.frameworks import hook as hook
from syft.generic.frameworks import overload as overload
from syft.generic.frameworks import remote as remote
from syft.generic.frameworks import types as types
