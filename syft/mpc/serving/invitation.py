"""Invitations: what the owner of a served model hands to a client, and nothing that tells of the model itself.

An invitation is a small value that can be written as text, sent by mail, and read in another process. Whoever has it
can ask the model as often as it says, so it is kept as a password is; its secrets are never printed.
"""

from __future__ import annotations

import base64
import binascii
import dataclasses
import json
import math
from typing import Any

import torch

from syft.core.id_provider import ObjectId, is_id
from syft.exceptions import SyftError
from syft.mpc.values.encoding import decode_plain, encode_plain
from syft.tensors.precision import FLOATS
from syft.workers.transport.handshake import TOKEN_BYTES, Address

PREFIX = "syft-invitation-1:"
MAX_TEXT = 1 << 16
MAX_DIMENSIONS = 64
Shape = tuple[int, ...]
_DTYPES = {str(dtype).removeprefix("torch."): dtype for dtype in FLOATS}


@dataclasses.dataclass(frozen=True, slots=True)
class Number:
    """The form of a tensor that goes in, or comes out.

    Attributes:
        shape: its shape.
        scale: how many units make one; 1 for whole numbers.
        field: how many whole numbers there are.
        is_whole: whether these are whole numbers as such, as the place of a maximum.
        dtype: the name of the dtype that numbers are decoded to.
    """

    shape: Shape
    scale: int
    field: int
    is_whole: bool = False
    dtype: str = "float32"

    def encode(self, tensor: torch.Tensor) -> torch.Tensor:
        """Return a plain tensor as whole numbers."""
        return encode_plain(tensor, self.scale, self.field)

    def decode(self, whole: torch.Tensor) -> torch.Tensor:
        """Return whole numbers as what they stand for."""
        return whole if self.is_whole else decode_plain(whole, self.scale, _DTYPES[self.dtype])

    def row(self) -> tuple[Any, ...]:
        """Return the fields; float32 goes without saying, as in invitations of earlier releases."""
        fields = (self.shape, self.scale, self.field, self.is_whole)
        return fields if self.dtype == "float32" else (*fields, self.dtype)


@dataclasses.dataclass(frozen=True, slots=True)
class Server:
    """One of the parties, as a client reaches it.

    Attributes:
        id: the worker.
        address: where it is and the secrets that open it; None for a worker of the client's own process.
    """

    id: ObjectId
    address: Address | None = dataclasses.field(default=None, repr=False)


@dataclasses.dataclass(frozen=True)
class Invitation:
    """What a client needs to ask a served model.

    Attributes:
        name: the model's name at the servers.
        guest: who the client is there.
        servers: the parties, in order.
        provider: the id of the dealer.
        inputs: what the model takes.
        outputs: what it gives.
        requests: how many requests it is good for; None for any number.

    Example:
        >>> number = Number((1, 2), 1000, 2**62)
        >>> servers = (Server("alice"), Server("bob"))
        >>> invitation = Invitation("0" * 32, "guest-1", servers, "carol", (number,), (number,), 3)
        >>> invitation
        <Invitation to a model at alice, bob: (1, 2) -> (1, 2), 3 requests>
        >>> Invitation.from_text(invitation.to_text()) == invitation
        True
    """

    name: str
    guest: ObjectId
    servers: tuple[Server, ...]
    provider: ObjectId | None
    inputs: tuple[Number, ...]
    outputs: tuple[Number, ...]
    requests: int | None = None

    def __repr__(self) -> str:
        places = ", ".join(str(server.id) for server in self.servers)
        takes, gives = (" and ".join(str(number.shape) for number in side) for side in (self.inputs, self.outputs))
        count = "any number of" if self.requests is None else self.requests
        return f"<Invitation to a model at {places}: {takes} -> {gives}, {count} requests>"

    def to_text(self) -> str:
        """Return the invitation as one line of text, secrets included: give it to nobody but the client."""
        plain = {
            "name": self.name,
            "guest": self.guest,
            "servers": [_written(server) for server in self.servers],
            "provider": self.provider,
            "inputs": [number.row() for number in self.inputs],
            "outputs": [number.row() for number in self.outputs],
            "requests": self.requests,
        }
        return PREFIX + base64.urlsafe_b64encode(json.dumps(plain, separators=(",", ":")).encode()).decode()

    @classmethod
    def from_text(cls, text: str) -> Invitation:
        """Read an invitation.

        Raises:
            SyftError: the text is not one.
        """
        if type(text) is not str or not text.strip().startswith(PREFIX) or len(text) > MAX_TEXT:
            raise SyftError(f"This text is not an invitation to a model: those begin with {PREFIX!r}.")
        try:
            plain = json.loads(base64.b64decode(text.strip()[len(PREFIX) :], altchars=b"-_", validate=True))
            made = cls(
                plain["name"],
                plain["guest"],
                tuple([_read_server(*server) for server in plain["servers"]]),
                plain["provider"],
                tuple([read_number(*number) for number in plain["inputs"]]),
                tuple([read_number(*number) for number in plain["outputs"]]),
                plain["requests"],
            )
            made.check()
        except (binascii.Error, ValueError, KeyError, TypeError, RecursionError):
            raise SyftError("This invitation is damaged; ask for it again, and copy the whole line.") from None
        return made

    def check(self) -> None:
        """Raise unless all parts are of the right kind."""
        ids = [server.id for server in self.servers]
        named = type(self.name) is str and is_id(self.guest) and (self.provider is None or is_id(self.provider))
        counted = self.requests is None or (type(self.requests) is int and self.requests >= 0)
        if not named or not counted or len(ids) < 2 or len(set(ids)) != len(ids) or not all(map(is_id, ids)):
            raise ValueError("parts of an invitation")


def _written(server: Server) -> list[Any]:
    address = server.address
    if address is None:
        return [server.id]
    return [server.id, address.port, address.token.hex(), address.proof.hex()]


def _read_server(server_id: Any, port: Any = None, token: Any = "", proof: Any = "") -> Server:
    if port is None:
        return Server(server_id)
    address = Address(port, bytes.fromhex(token), bytes.fromhex(proof))
    if type(port) is not int or not 0 < port < 2**16 or {len(address.token), len(address.proof)} != {TOKEN_BYTES}:
        raise ValueError("an address")
    return Server(server_id, address)


def read_number(shape: Any, scale: Any, field: Any, is_whole: Any, dtype: Any = "float32") -> Number:
    """Return the form of a tensor that came from outside; raises ValueError or TypeError if it is none."""
    dimensions = tuple(shape)
    if len(dimensions) > MAX_DIMENSIONS or not all(type(size) is int and size >= 0 for size in dimensions):
        raise ValueError("a shape")
    if type(scale) is not int or not 1 <= scale <= 2**40 or type(is_whole) is not bool:
        raise ValueError("a scale")
    if type(field) is not int or not 4 <= field <= 2**64 or math.prod(dimensions) > 2**40:
        raise ValueError("a field")
    if type(dtype) is not str or dtype not in _DTYPES:
        raise ValueError("a dtype")
    return Number(dimensions, scale, field, is_whole, dtype)
