"""Invitations: the credentials with which a client queries a served model. They say nothing about its parameters.

An invitation can be written as text, sent by mail, and read in another process. Its holder can query the model, so it
must be stored like a password; its secrets are never printed.
"""

from __future__ import annotations

import base64
import binascii
import dataclasses
import json

from syft.core.id_provider import ObjectId, is_id
from syft.display.facts import FactList, Shown
from syft.exceptions import SyftError
from syft.mpc.serving.tensor_encoding import Encodings, read_rows, shapes_of, show_shapes, write_rows
from syft.workers.transport.handshake import TOKEN_BYTES, Address

PREFIX = "syft-invitation-1:"
MAX_TEXT = 1 << 16


@dataclasses.dataclass(frozen=True, slots=True)
class ServingParty:
    """A party, as a client connects to it.

    Attributes:
        id: the id of the worker.
        address: its address and secrets; None for a worker of the client's own process.
    """

    id: ObjectId
    address: Address | None = dataclasses.field(default=None, repr=False)


@dataclasses.dataclass(frozen=True)
class Invitation(Shown):
    """The name, parties, encodings and secrets that a client needs to query a served model.

    Attributes:
        name: the model's name at the servers.
        client_id: the client's id at the servers.
        servers: the parties, in order.
        provider: the id of the dealer.
        inputs: the encodings of the model's inputs.
        outputs: the encodings of its results.
        requests: the number of requests that the client may make; None: unlimited.

    Example:
        >>> from syft.mpc.serving.tensor_encoding import TensorEncoding
        >>> encoding = TensorEncoding((1, 2), 1000, 2**62)
        >>> servers = (ServingParty("alice"), ServingParty("bob"))
        >>> invitation = Invitation("0" * 32, "client-1", servers, "carol", (encoding,), (encoding,), 3)
        >>> invitation
        <Invitation to a model at alice, bob: (1, 2) -> (1, 2), 3 requests>
        >>> Invitation.from_text(invitation.to_text()) == invitation
        True
    """

    name: str
    client_id: ObjectId
    servers: tuple[ServingParty, ...]
    provider: ObjectId | None
    inputs: Encodings
    outputs: Encodings
    requests: int | None = None

    def __repr__(self) -> str:
        places = ", ".join(str(server.id) for server in self.servers)
        takes, gives = (show_shapes(shapes_of(side)) for side in (self.inputs, self.outputs))
        count = "any number of" if self.requests is None else self.requests
        return f"<Invitation to a model at {places}: {takes} -> {gives}, {count} requests>"

    def _facts(self) -> FactList:
        yield from (("parties", ", ".join(str(server.id) for server in self.servers)), ("dealer", self.provider))
        yield from (
            (name, show_shapes(shapes_of(side))) for name, side in (("takes", self.inputs), ("gives", self.outputs))
        )
        yield "requests", "any number" if self.requests is None else self.requests

    def to_text(self) -> str:
        """Return the invitation as one line of text, with its secrets: send it to the client only."""
        plain = {
            "name": self.name,
            "guest": self.client_id,
            "servers": [_write_server(server) for server in self.servers],
            "provider": self.provider,
            "inputs": write_rows(self.inputs),
            "outputs": write_rows(self.outputs),
            "requests": self.requests,
        }
        return PREFIX + base64.urlsafe_b64encode(json.dumps(plain, separators=(",", ":")).encode()).decode()

    @classmethod
    def from_text(cls, text: str) -> Invitation:
        """Read an invitation; raises SyftError if the text is not one."""
        if type(text) is not str or not text.strip().startswith(PREFIX) or len(text) > MAX_TEXT:
            raise SyftError(f"This text is not an invitation to a model. Invitations start with {PREFIX!r}.")
        try:
            plain = json.loads(base64.b64decode(text.strip()[len(PREFIX) :], altchars=b"-_", validate=True))
            made = cls(
                plain["name"],
                plain["guest"],
                tuple([_read_server(*server) for server in plain["servers"]]),
                plain["provider"],
                read_rows(plain["inputs"]),
                read_rows(plain["outputs"]),
                plain["requests"],
            )
            made.check()
        except (binascii.Error, ValueError, KeyError, TypeError, RecursionError):
            raise SyftError(
                "This invitation is damaged. Copy the whole line, or ask the model's owner to send it again."
            ) from None
        return made

    def check(self) -> None:
        """Raise ValueError unless all parts have the right types."""
        ids = [server.id for server in self.servers]
        named = type(self.name) is str and is_id(self.client_id) and (self.provider is None or is_id(self.provider))
        counted = self.requests is None or (type(self.requests) is int and self.requests >= 0)
        if not named or not counted or len(ids) < 2 or len(set(ids)) != len(ids) or not all(map(is_id, ids)):
            raise ValueError("invitation")


def _write_server(server: ServingParty) -> list[object]:
    address = server.address
    if address is None:
        return [server.id]
    return [server.id, address.port, address.token.hex(), address.proof.hex()]


def _read_server(server_id: ObjectId, port: object = None, token: str = "", proof: str = "") -> ServingParty:
    if port is None:
        return ServingParty(server_id)
    secrets = bytes.fromhex(token), bytes.fromhex(proof)
    if type(port) is not int or not 0 < port < 2**16 or set(map(len, secrets)) != {TOKEN_BYTES}:
        raise ValueError("address")
    address = Address(port, *secrets)
    return ServingParty(server_id, address)
