"""The durable store of a node: objects and records that survive restarts, and quotas per user."""

import importlib.util

from syft.exceptions import DependencyError

if importlib.util.find_spec("sqlalchemy") is None:
    raise DependencyError("sqlalchemy", "node")

from syft.grid.storage.admin import ObjectAdmin as ObjectAdmin
from syft.grid.storage.folder import Loaded as Loaded
from syft.grid.storage.folder import load_folder as load_folder
from syft.grid.storage.interface import Damaged as Damaged
from syft.grid.storage.interface import Facts as Facts
from syft.grid.storage.interface import Item as Item
from syft.grid.storage.interface import Storage as Storage
from syft.grid.storage.memory_limit import MemoryLimit as MemoryLimit
from syft.grid.storage.object_manager import ObjectManager as ObjectManager
from syft.grid.storage.open import open_storage as open_storage
from syft.grid.storage.quotas import Quota as Quota
from syft.grid.storage.quotas import Usage as Usage
from syft.grid.storage.records import LogEntry as LogEntry
from syft.grid.storage.records import RecordStore as RecordStore
