"""Participants: who takes part in a round of secure aggregation, by their keys, in an order that all go by."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import Any

from syft.exceptions import TrainingError
from syft.federated.client.secure_aggregation.key_agreement import digest

KEY_BYTES = 32
# The key that seals, then the key that masks.
ENTRY_BYTES = 2 * KEY_BYTES
# Then who they belong to, and a signature of that, if clients have identities.
SIGNED_BYTES = ENTRY_BYTES + 32 + 64
LEAST, MOST = 3, 10_000


class Participants:
    """The clients of a round, each known by two public keys and a place, which begins with 0.

    Args:
        run: the id of the run.
        round: the number of the round.
        threshold: how many clients have to be left at the end.
        entries: the keys of each client: the one that seals, then the one that masks; then its identity and signature
            if it has one.

    Attributes:
        digest: 32 bytes that no other roster has. Every key of the round is bound to it, so clients that were shown
            different rosters can't open what they send each other.
    """

    __slots__ = ("digest", "entries", "threshold")

    def __init__(self, run: str, round: int, threshold: int, entries: Sequence[bytes]) -> None:
        check_size(len(entries), threshold)
        if not all(type(entry) is bytes and len(entry) in (ENTRY_BYTES, SIGNED_BYTES) for entry in entries):
            raise TrainingError(
                f"A client of secure aggregation is listed with two keys ({ENTRY_BYTES} bytes), or with a signature "
                f"too ({SIGNED_BYTES})."
            )
        keys = [entry[start : start + KEY_BYTES] for entry in entries for start in (0, KEY_BYTES)]
        if len(set(keys)) != len(keys):
            raise TrainingError("A key is listed twice in a round of secure aggregation. Each client has its own.")
        self.entries = tuple(entries)
        self.threshold = threshold
        self.digest = digest(b"syft secure aggregation 1", run.encode(), round, threshold, *entries)

    def __len__(self) -> int:
        return len(self.entries)

    def keys(self, place: int) -> bytes:
        """Return the two keys of a client."""
        return self.entries[place][:ENTRY_BYTES]

    def sealing_key(self, place: int) -> bytes:
        """Return the key by which others seal what they send to a client."""
        return self.entries[place][:KEY_BYTES]

    def masking_key(self, place: int) -> bytes:
        """Return the key by which masks with a client are agreed on."""
        return self.entries[place][KEY_BYTES:ENTRY_BYTES]

    def identity(self, place: int) -> bytes:
        """Return whom the keys of a client are said to belong to; nothing if it does not say."""
        return self.entries[place][ENTRY_BYTES : ENTRY_BYTES + 32]

    def signature(self, place: int) -> bytes:
        """Return the signature of the keys of a client; nothing if there is none."""
        return self.entries[place][ENTRY_BYTES + 32 :]

    def place_of(self, keys: bytes) -> int:
        """Return the place of a client."""
        for place in range(len(self)):
            if self.keys(place) == keys:
                return place
        raise TrainingError("The keys that this client made for the round are not in its list of clients.")

    def __repr__(self) -> str:
        return f"<Roster of {len(self)} clients, {self.threshold} of them needed>"


def check_size(clients: int, threshold: object) -> None:
    """Raise if so many clients with such a threshold would protect nobody.

    Half of the clients or fewer must not be enough: else the server could ask one half for what unmasks a client as one
    that answered, and the other half for what unmasks it as one that did not.
    """
    if not LEAST <= clients <= MOST:
        raise TrainingError(
            f"Secure aggregation needs {LEAST} to {MOST} clients in a round, not {clients}: with fewer, "
            "the sum tells what a single client gave."
        )
    if type(threshold) is not int or threshold < 2 or threshold > clients or 2 * threshold <= clients:
        raise TrainingError(
            f"The threshold of secure aggregation with {clients} clients is more than half of them, "
            f"so {clients // 2 + 1} to {clients}."
        )


def place_list(given: Any, clients: int) -> tuple[int, ...]:
    """Return places in a roster that came from the server: a rising list."""
    if type(given) not in (list, tuple) or not all(type(place) is int and 0 <= place < clients for place in given):
        raise TrainingError("Clients of a round of secure aggregation are named by their places in its list.")
    if any(after <= before for before, after in itertools.pairwise(given)):
        raise TrainingError("The places of clients in a round of secure aggregation rise, each is named once.")
    return tuple(given)


def by_place(given: Any, clients: int, length: int) -> tuple[bytes, ...]:
    """Return what came for each place of a roster: bytes of one length, or none."""
    if type(given) not in (list, tuple) or len(given) != clients:
        raise TrainingError(f"A message of secure aggregation has one part for each of the {clients} clients.")
    if not all(type(part) is bytes and len(part) in (0, length) for part in given):
        raise TrainingError(f"Each part of a message of secure aggregation has {length} bytes, or none.")
    return tuple(given)
