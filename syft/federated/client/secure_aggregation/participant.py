"""A client's part in one round of secure aggregation. It runs each step once, in order, or not at all.

    keys     two fresh key pairs: one encrypts, one masks                                -> public keys
    shares   receives all public keys; shares of two secrets, encrypted for each client  -> sealed shares
    train    (modifier "masking") receives the sealed shares of others                   -> update plus masks
    agree    receives the list of survivors; confirms it to each of them                 -> confirmations
    unmask   receives enough confirmations of the same list; a share for each client:
             of the seed of its own mask if it survived, of its masking key if not       -> shares

A step removes its state from the session's memory when it starts, and the state for the next step is stored when it
succeeds. So a repeated, out-of-order or invalid request ends the round for this client and reveals nothing: in
particular never both shares of one client.
"""

from __future__ import annotations

import hmac
from typing import Any

import torch

from syft.exceptions import TrainingError
from syft.federated.client.secure_aggregation import key_agreement, shamir
from syft.federated.client.secure_aggregation.client_policy import NO_GUARD, ClientPolicy
from syft.federated.client.secure_aggregation.participants import Participants, by_place, place_list

# Key of a round's state in a session's memory: plain values, which can move to another process.
MEMORY = "secure"
SEALED_BYTES = 2 * shamir.SHARE_BYTES + key_agreement.TAG_BYTES
VOW_BYTES = 32
_OUT_OF_ORDER = (
    "This client is not at this step of a round of secure aggregation: steps run once and in order, and a refused "
    "step ends the round for the client. Start a new round with fresh keys."
)


def _take(memory: dict[str, Any], step: str, round: object) -> dict[str, Any]:
    """Remove and return the state for a step; it is lost unless the step stores the next one."""
    state = memory.pop(MEMORY, None)
    if type(state) is not dict or state["step"] != step or type(round) is not int or state["round"] != round:
        raise TrainingError(_OUT_OF_ORDER)
    return state


def _roster(run: str, state: dict[str, Any]) -> Participants:
    return Participants(run, state["round"], state["threshold"], state["entries"])


def make_keys(memory: dict[str, Any], run: str, round: object, guard: ClientPolicy = NO_GUARD) -> bytes:
    """Start a round: make keys and return the public ones, signed if the client has an identity."""
    if type(round) is not int or not 0 <= round < 2**53:
        raise TrainingError("The number of a round must be a non-negative integer below 2^53.")
    sealing_secret, masking_secret = (
        key_agreement.draw(key_agreement.SECRET_BYTES),
        key_agreement.draw(key_agreement.SECRET_BYTES),
    )
    memory[MEMORY] = {"step": "shares", "round": round, "sealing": sealing_secret, "masking": masking_secret}
    keys = key_agreement.public_of(sealing_secret) + key_agreement.public_of(masking_secret)
    return keys if guard.identity is None else guard.identity.sign(run, round, keys)


def make_shares(
    memory: dict[str, Any], run: str, round: Any, entries: Any, threshold: Any, guard: ClientPolicy = NO_GUARD
) -> tuple[list[bytes], bytes]:
    """Return shares of this client's secrets, encrypted for each other client, and a commitment to its own seed."""
    state = _take(memory, "shares", round)
    if type(entries) not in (list, tuple):
        raise TrainingError("The clients of a round of secure aggregation must be a list of keys.")
    roster = Participants(run, state["round"], threshold, entries)
    guard.check(roster, run, state["round"])
    place = roster.place_of(key_agreement.public_of(state["sealing"]) + key_agreement.public_of(state["masking"]))
    secret = key_agreement.PairwiseSecret(state["sealing"])
    roots = [_root(roster, secret, place, other) for other in range(len(roster))]
    seed = key_agreement.draw(shamir.SECRET_BYTES)
    count = len(roster)
    of_key = shamir.split(state["masking"], roster.threshold, count, key_agreement.draw)
    of_seed = shamir.split(seed, roster.threshold, count, key_agreement.draw)
    sealed = [
        b""
        if other == place
        else key_agreement.seal(roots[other], roster.digest, place, other, of_key[other] + of_seed[other])
        for other in range(count)
    ]
    memory[MEMORY] = {
        "step": "mask", "round": state["round"], "threshold": roster.threshold, "entries": list(roster.entries),
        "place": place, "roots": roots, "seed": seed, "masking": state["masking"], "mine": of_seed[place],
    }  # fmt: skip
    return sealed, commitment(roster, place, seed)


def _root(roster: Participants, secret: key_agreement.PairwiseSecret, place: int, other: int) -> bytes:
    """Return the secret from which all keys of two clients are derived."""
    if place == other:
        return b""
    common = secret.agree(roster.sealing_key(other))
    return key_agreement.derive(common, roster.digest, b"root", min(place, other), max(place, other))


def commitment(roster: Participants, place: int, seed: bytes) -> bytes:
    """Return a commitment to the seed of a client's own mask."""
    return key_agreement.digest(b"seed", roster.digest, place, seed)


class Masked:
    """A client between receiving the shares of others and masking its update.

    Args:
        memory: the memory of the client session.
        run: the id of the run.
        round: the number of the round.
        sealed: the shares of others, encrypted for this client; empty for clients that dropped out.
    """

    def __init__(self, memory: dict[str, Any], run: str, round: object, sealed: object) -> None:
        self._memory = memory
        self._state = state = _take(memory, "mask", round)
        self.roster = roster = _roster(run, state)
        self.place: int = state["place"]
        parts = by_place(sealed, len(roster), SEALED_BYTES)
        if parts[self.place]:
            raise TrainingError("This client received a share from itself.")
        self.members = [place for place, part in enumerate(parts) if part or place == self.place]
        if len(self.members) < roster.threshold:
            raise TrainingError(
                f"{len(self.members)} clients sent shares, but {roster.threshold} are needed, so this client withholds "
                "its update."
            )
        self._of_keys, self._of_seeds = [b""] * len(roster), [b""] * len(roster)
        self._of_seeds[self.place] = state["mine"]
        for other in self.members:
            if other != self.place:
                self._of_keys[other], self._of_seeds[other] = self._open(other, parts[other])

    def _open(self, other: int, sealed: bytes) -> tuple[bytes, bytes]:
        text = key_agreement.unseal(self._state["roots"][other], self.roster.digest, other, self.place, sealed)
        shares = (b"", b"") if text is None else (text[: shamir.SHARE_BYTES], text[shamir.SHARE_BYTES :])
        if not all(map(shamir.is_share, shares)):
            raise TrainingError(
                "A share from another client can't be decrypted: it was changed in transit, belongs to another "
                "round, or the two clients received different lists of clients."
            )
        return shares

    def mask(self, vector: torch.Tensor, context: bytes) -> torch.Tensor:
        """Return a vector of int64 plus this client's masks, and store the state for unmasking.

        Args:
            vector: the packed result; it is changed in place.
            context: digest of the request. Masks of clients with different requests do not
                cancel.
        """
        state, digest, size = self._state, self.roster.digest, len(vector)
        vector += self_mask(self.roster, self.place, state["seed"], size)
        secret = key_agreement.PairwiseSecret(state["masking"])
        for other in self.members:
            if other != self.place:
                add_pair_mask(vector, self.roster, secret, self.place, other, context)
        self._memory[MEMORY] = {
            "step": "agree", "round": state["round"], "threshold": state["threshold"], "entries": state["entries"],
            "place": self.place, "roots": state["roots"], "members": self.members, "digest": digest,
            "of_keys": self._of_keys, "of_seeds": self._of_seeds,
        }  # fmt: skip
        return vector


def self_mask(roster: Participants, place: int, seed: bytes, size: int) -> torch.Tensor:
    """Return the mask of a client's own seed, which the others help to remove if it survives."""
    return key_agreement.mask(seed, roster.digest, size, b"self", place)


def add_pair_mask(
    vector: torch.Tensor,
    roster: Participants,
    secret: key_agreement.PairwiseSecret,
    place: int,
    other: int,
    context: bytes,
) -> None:
    """Add the mask shared with another client; the other client subtracts it."""
    common = secret.agree(roster.masking_key(other))
    first, second = min(place, other), max(place, other)
    words = key_agreement.mask(common, roster.digest, len(vector), b"pair", first, second, context)
    if place == first:
        vector += words
    else:
        vector -= words


def agree(memory: dict[str, Any], round: object, survivors: object) -> list[bytes]:
    """Record the survivors and return a confirmation for each of them."""
    state = _take(memory, "agree", round)
    found = place_list(survivors, len(state["entries"]))
    if state["place"] not in found:
        raise TrainingError("This client sent its masked update but is not in the list of survivors.")
    if not set(found) <= set(state["members"]):
        raise TrainingError("The list of survivors contains clients that never sent their shares.")
    if len(found) < state["threshold"]:
        raise TrainingError(
            f"{len(found)} clients survived, but {state['threshold']} are needed, so their sum stays masked."
        )
    state.update(step="unmask", survivors=list(found))
    memory[MEMORY] = state
    text = survivors_text(found)
    return [
        key_agreement.vow(state["roots"][other], state["digest"], state["place"], other, text)
        if other in found and other != state["place"]
        else b""
        for other in range(len(state["entries"]))
    ]


def survivors_text(survivors: tuple[int, ...] | list[int]) -> bytes:
    """Return a list of indices as bytes."""
    return key_agreement.joined(b"survivors", *survivors)


def unmask(memory: dict[str, Any], round: object, vows: object) -> list[bytes]:
    """Return one share for each client: of its seed if it survived, of its masking key if not.

    Args:
        memory: the memory of the client session.
        round: the number of the round.
        vows: confirmations from the survivors for this client; empty for clients that dropped out since.
    """
    state = _take(memory, "unmask", round)
    given = by_place(vows, len(state["entries"]), VOW_BYTES)
    survivors, place, text = state["survivors"], state["place"], survivors_text(state["survivors"])
    heard = [other for other, code in enumerate(given) if code]
    if not set(heard) <= set(survivors) - {place}:
        raise TrainingError("A confirmation came from a client that is not in the list of survivors.")
    for other in heard:
        expected = key_agreement.vow(state["roots"][other], state["digest"], other, place, text)
        if not hmac.compare_digest(given[other], expected):
            raise TrainingError(
                "Another client received a different list of survivors, so nothing is unmasked: two lists together "
                "could unmask a single client."
            )
    if len(heard) + 1 < state["threshold"]:
        raise TrainingError(
            f"{len(heard) + 1} clients agree on the survivors, but {state['threshold']} are needed to unmask their sum."
        )
    answered = set(survivors)
    return [(state["of_seeds"] if other in answered else state["of_keys"])[other] for other in range(len(given))]
