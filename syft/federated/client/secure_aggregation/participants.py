"""Participants: the clients of a round of secure aggregation with their public keys, in a fixed order."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import Any

from syft.exceptions import TrainingError
from syft.federated.client.secure_aggregation.key_agreement import digest

KEY_BYTES = 32
# The encryption key, then the masking key.
ENTRY_BYTES = 2 * KEY_BYTES
# With identities: then the identity and its signature.
SIGNED_BYTES = ENTRY_BYTES + 32 + 64
MIN_CLIENTS, MAX_CLIENTS = 3, 10_000


class Participants:
    """The clients of a round, each with two public keys and a zero-based index.

    Args:
        run: the id of the run.
        round: the number of the round.
        threshold: number of clients that must remain at the end.
        entries: the keys of each client: the encryption key, then the masking key; then identity and signature if it
            has one.

    Attributes:
        digest: 32 bytes that identify this list. Every key of the round is bound to it, so clients that received
            different lists can't decrypt each other's messages.
    """

    __slots__ = ("digest", "entries", "threshold")

    def __init__(self, run: str, round: int, threshold: int, entries: Sequence[bytes]) -> None:
        check_size(len(entries), threshold)
        if not all(type(entry) is bytes and len(entry) in (ENTRY_BYTES, SIGNED_BYTES) for entry in entries):
            raise TrainingError(
                f"An entry of a client must have two keys ({ENTRY_BYTES} bytes), or also a signature "
                f"({SIGNED_BYTES} bytes)."
            )
        keys = [entry[start : start + KEY_BYTES] for entry in entries for start in (0, KEY_BYTES)]
        if len(set(keys)) != len(keys):
            raise TrainingError("A key is listed twice in a round of secure aggregation. Keys must be unique.")
        self.entries = tuple(entries)
        self.threshold = threshold
        self.digest = digest(b"syft secure aggregation 1", run.encode(), round, threshold, *entries)

    def __len__(self) -> int:
        return len(self.entries)

    def keys(self, index: int) -> bytes:
        """Return the two keys of a client."""
        return self.entries[index][:ENTRY_BYTES]

    def sealing_key(self, index: int) -> bytes:
        """Return the key with which others encrypt messages to a client."""
        return self.entries[index][:KEY_BYTES]

    def masking_key(self, index: int) -> bytes:
        """Return the key for agreeing on masks with a client."""
        return self.entries[index][KEY_BYTES:ENTRY_BYTES]

    def identity(self, index: int) -> bytes:
        """Return the claimed identity of a client; empty if it has none."""
        return self.entries[index][ENTRY_BYTES : ENTRY_BYTES + 32]

    def signature(self, index: int) -> bytes:
        """Return the signature of a client's keys; empty if there is none."""
        return self.entries[index][ENTRY_BYTES + 32 :]

    def index_of(self, keys: bytes) -> int:
        """Return the index of a client."""
        for index in range(len(self)):
            if self.keys(index) == keys:
                return index
        raise TrainingError("The keys that this client made for the round are not in the list of clients.")


def check_size(clients: int, threshold: object) -> None:
    """Raise if this number of clients with this threshold would not protect a client.

    Half of the clients or fewer must not suffice: else the server could ask one half for the shares that unmask a
    client as a survivor, and the other half for those that unmask it as dropped out.
    """
    if not MIN_CLIENTS <= clients <= MAX_CLIENTS:
        raise TrainingError(
            f"Secure aggregation needs {MIN_CLIENTS} to {MAX_CLIENTS} clients in a round, got {clients}: with fewer, "
            "the sum reveals the result of a single client."
        )
    if type(threshold) is not int or threshold < 2 or threshold > clients or 2 * threshold <= clients:
        raise TrainingError(
            f"The threshold of secure aggregation with {clients} clients must be more than half of them: "
            f"{clients // 2 + 1} to {clients}."
        )


def index_list(given: Any, clients: int) -> tuple[int, ...]:
    """Return validated, ascending indices of participants from the server."""
    if type(given) not in (list, tuple) or not all(type(index) is int and 0 <= index < clients for index in given):
        raise TrainingError("Clients of a round of secure aggregation must be named by their indices.")
    if any(after <= before for before, after in itertools.pairwise(given)):
        raise TrainingError("The indices of clients in a round of secure aggregation must be unique and ascending.")
    return tuple(given)


def by_index(given: Any, clients: int, length: int) -> tuple[bytes, ...]:
    """Return one part for each participant: bytes of the given length, or none."""
    if type(given) not in (list, tuple) or len(given) != clients:
        raise TrainingError(f"A message of secure aggregation must have one part for each of the {clients} clients.")
    if not all(type(part) is bytes and len(part) in (0, length) for part in given):
        raise TrainingError(f"Each part of a message of secure aggregation must have {length} bytes, or none.")
    return tuple(given)
