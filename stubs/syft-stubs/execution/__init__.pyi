# Made by scripts/stubs.
from syft.execution import placeholder as placeholder
from syft.execution import plan as plan
from syft.execution import protocol as protocol
from syft.execution import role as role
from syft.execution import state as state
from syft.execution import translation as translation
