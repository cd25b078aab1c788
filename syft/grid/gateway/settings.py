"""GatewaySettings: the configuration of a gateway."""

from __future__ import annotations

import dataclasses

from syft.core.id_provider import is_id
from syft.exceptions import SyftError
from syft.grid.server.settings import ServerSettings


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class GatewaySettings(ServerSettings):
    """The configuration of a gateway, besides `ServerSettings`.

    `store` is the folder of its key, users and registered names. Without `ca`, only nodes of this machine can register.

    Attributes:
        lifetime: seconds until a registration expires without a heartbeat.
        max_nodes: the maximum number of nodes.
        max_user_nodes: the maximum number of nodes of one user.
    """

    id: str = "gateway"
    lifetime: float = 30.0
    max_nodes: int = 1024
    max_user_nodes: int = 256

    def __post_init__(self) -> None:
        if not is_id(self.id) or not self.id.strip():
            raise SyftError("The id of a gateway must be a short text, such as grid.")
        if self.lifetime <= 0:
            raise SyftError("The lifetime of a registration must be a positive number of seconds.")
        self.check_access()
