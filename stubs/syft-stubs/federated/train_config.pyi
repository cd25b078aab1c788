# Made by scripts/stubs.
from syft.workers.train_config import *
