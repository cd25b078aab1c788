# Made by scripts/stubs.
from syft.he.paillier import *
