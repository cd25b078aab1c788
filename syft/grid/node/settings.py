"""Settings: what a node is told when it is started."""

from __future__ import annotations

import dataclasses
import re
from pathlib import Path

from syft.exceptions import SyftError
from syft.grid.identity.binding import check_exposure

MiB = 2**20
# Ids are parts of addresses, of texts and of commands.
_ID = re.compile(r"\w[\w.-]{0,99}")


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """How a node is run.

    Attributes:
        id: the name of the node.
        host: the address to listen on: this machine only, unless there are TLS and tokens.
        port: the port; 0: any that is free.
        store: the folder, or the PostgreSQL address, where published objects, requests and the log are kept; None:
            nothing is kept when the node stops.
        home: the folder of the node's key and users, for this account alone; by default in the folder of the store.
        data: a folder with the owner's data, which is published when the node starts.
        certificate: the file of the certificate, for TLS.
        key: the file of its key.
        ca: the file of the authority that other nodes' certificates are signed by.
        tokens: let only those in who show a token.
        owner: what the owner is called where others are told whom to ask.
        grace: seconds that a session is kept after its connection was lost.
        heartbeat: seconds of silence after which a client is asked whether it is there.
        stream_timeout: seconds that the node waits for another node.
        max_connections: connections at once.
        max_user_connections: connections of one user at once.
        max_user_processes: session and party processes of one user at once.
        max_user_objects: objects that one user may hold.
        max_user_bytes: bytes that one user may hold.
        max_objects: objects of all users together.
        max_bytes: bytes of all users together.
        max_message_bytes: the largest message that is read.
        max_in_flight_bytes: bytes that messages of all users may take until they are dealt with; None: 4 GiB, or more
            if one user may have more.
        max_user_in_flight_bytes: the same for one user; None: twice the largest message.
        max_pending: connections at once whose clients are not identified yet.
        max_address_pending: the same for one address.
        max_memory: bytes that the process may take before users are refused more; None: most of what there is.
        peers: the only other nodes that this one connects to, as "host:port"; empty: all that its authority signed.
        max_process_memory: bytes of address space that a session process or vault may take beyond the template's; None:
            what a user may hold, and 4 GiB.
        call_seconds: CPU time, and elapsed time, that one call may take.
        step_seconds: the planned duration of one step of private training; None: measured with made-up samples.
        threads: how many threads torch uses; None: as many as it likes.
        trust_script_modules: load script modules that users send. They are programs and not bound to the table of
            allowed calls; they run in the confined processes of users.
    """

    id: str = "node"
    host: str = "127.0.0.1"
    port: int = 0
    store: str | Path | None = None
    home: str | Path | None = None
    data: str | Path | None = None
    certificate: str | Path | None = None
    key: str | Path | None = None
    ca: str | Path | None = None
    tokens: bool = True
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
    threads: int | None = None
    trust_script_modules: bool = False

    def __post_init__(self) -> None:
        if type(self.id) is not str or _ID.fullmatch(self.id) is None:
            raise SyftError("The id of a node is one word of letters, digits, dots, dashes and _, such as hospital-a.")
        if (self.certificate is None) != (self.key is None):
            raise SyftError("TLS takes both: a certificate and its key.")
        if self.store is not None and self.store_folder is None and self.home is None:
            raise SyftError("A node whose store is a database has its key and users in a folder: say which, by home.")
        check_exposure(self.host, self.certificate is not None, self.tokens)

    @property
    def tls(self) -> bool:
        """Whether clients speak TLS to the node."""
        return self.certificate is not None

    @property
    def store_folder(self) -> Path | None:
        """The folder of the store, if it is one."""
        if self.store is None or "://" in str(self.store):
            return None
        return Path(self.store)

    @property
    def identity_folder(self) -> Path | None:
        """The folder of the node's key and users, if they are kept."""
        folder = Path(self.home) if self.home is not None else self.store_folder
        return None if folder is None else folder / "identity"
