"""Settings: the configuration of a node."""

from __future__ import annotations

import dataclasses
import re
from pathlib import Path

from syft.exceptions import SyftError
from syft.grid.server.settings import ServerSettings

MiB = 2**20
# Ids are parts of addresses, messages and commands.
_ID = re.compile(r"\w[\w.-]{0,99}")


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Settings(ServerSettings):
    """The configuration of a node, besides `ServerSettings`.

    `store` is the folder or PostgreSQL address of published objects, requests and the audit log.

    Attributes:
        home: the private folder of the node's key and users; by default inside the folder of the store.
        data: a folder of data files, which are published at startup.
        owner: the name of the owner in messages to users.
        grace: seconds that a session survives the loss of its connection.
        heartbeat: seconds of silence after which a client is pinged.
        stream_timeout: seconds that the node waits for another node.
        max_connections: concurrent connections.
        max_user_connections: concurrent connections of one user.
        max_user_processes: concurrent session and party processes of one user.
        max_user_objects: objects that one user may hold.
        max_user_bytes: bytes that one user may hold.
        max_objects: objects of all users together.
        max_bytes: bytes of all users together.
        max_message_bytes: the maximum size of a message.
        max_in_flight_bytes: bytes of unprocessed messages of all users; None: 4 GiB, or more if one user may have
            more.
        max_user_in_flight_bytes: the same for one user; None: twice the largest message.
        max_pending: concurrent connections of clients that are not authenticated yet.
        max_address_pending: the same for one address.
        max_memory: bytes of memory beyond which users can't allocate more; None: 90% of what is available.
        peers: the only other nodes that this one connects to, as "host:port"; empty: all that its authority signed.
        max_process_memory: bytes of address space of a session process or vault beyond the template's; None:
            `max_user_bytes` plus 4 GiB.
        call_seconds: CPU time, and elapsed time, that one call may take.
        step_seconds: the planned duration of one step of private training; None: measured with made-up samples.
        min_rows: the number of rows that a requested result must depend on; reviews warn of less.
        threads: the number of torch threads; None: torch's default.
        trust_script_modules: load script modules from users. They are programs, not limited to the allowed calls;
            they run in the confined processes of users.
    """

    id: str = "node"
    home: str | Path | None = None
    data: str | Path | None = None
    owner: str = "owner"
    grace: float = 60.0
    heartbeat: float = 20.0
    stream_timeout: float = 60.0
    max_connections: int = 512
    max_user_connections: int = 64
    max_user_processes: int = 16
    max_user_objects: int = 100_000
    max_user_bytes: int = 4096 * MiB
    max_objects: int = 1_000_000
    max_bytes: int = 16384 * MiB
    max_message_bytes: int = 1024 * MiB
    max_in_flight_bytes: int | None = None
    max_user_in_flight_bytes: int | None = None
    max_pending: int = 256
    max_address_pending: int = 64
    max_memory: int | None = None
    peers: tuple[str, ...] = ()
    max_process_memory: int | None = None
    call_seconds: float = 600.0
    step_seconds: float | None = None
    min_rows: int = 10
    threads: int | None = None
    trust_script_modules: bool = False

    def __post_init__(self) -> None:
        if type(self.id) is not str or _ID.fullmatch(self.id) is None:
            raise SyftError(f"Invalid node id {self.id!r}. Use letters, digits, ., - and _, such as hospital-a.")
        if self.store is not None and self.store_folder is None and self.home is None:
            raise SyftError(
                "A node with a database as its store needs a folder for its key and users: pass home (--home FOLDER)."
            )
        if self.min_rows < 1:
            raise SyftError(f"min_rows must be at least 1, got {self.min_rows}.")
        self.check_access()

    @property
    def store_folder(self) -> Path | None:
        """The folder of the store; None if it is not a folder."""
        if self.store is None or "://" in str(self.store):
            return None
        return Path(self.store)

    @property
    def identity_folder(self) -> Path | None:
        """The folder of the node's key and users; None if they are temporary."""
        folder = Path(self.home) if self.home is not None else self.store_folder
        return None if folder is None else folder / "identity"
