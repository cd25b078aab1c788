"""Protocols: computations of several workers, whose data goes from one to the other."""

from syft.messaging.protocol.chain import Protocol as Protocol
from syft.messaging.protocol.role import Role as Role
from syft.messaging.protocol.roles import RoleProtocol as RoleProtocol
from syft.messaging.protocol.roles import func2protocol as func2protocol
