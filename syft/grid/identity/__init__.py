"""The identity of a node: its key, tokens, users and roles."""

from syft.grid.identity.names import user_name as user_name
from syft.grid.identity.node_identity import NodeIdentity as NodeIdentity
from syft.grid.identity.revocations import Revocations as Revocations
from syft.grid.identity.roles import ROLES as ROLES
from syft.grid.identity.roles import Capability as Capability
from syft.grid.identity.roles import may as may
from syft.grid.identity.throttle import Throttle as Throttle
from syft.grid.identity.tokens import TokenIdentity as TokenIdentity
from syft.grid.identity.tokens import Tokens as Tokens
from syft.grid.identity.users import UserAccount as UserAccount
