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
from syft.federated.client.secure_aggregation.client_policy import NO_POLICY, ClientPolicy
from syft.federated.client.secure_aggregation.participants import Participants, by_index, index_list

# Key of a round's state in a session's memory: plain values, which can move to another process.
MEMORY = "secure"
SEALED_BYTES = 2 * shamir.SHARE_BYTES + key_agreement.TAG_BYTES
CONFIRMATION_BYTES = 32
_OUT_OF_ORDER = (
    "This client is not at this step of a round of secure aggregation: steps run once and in order, and a refused "
    "step ends the round for the client. Start a new round with fresh keys."
)


def _pop_state(memory: dict[str, Any], step: str, round: object) -> dict[str, Any]:
    """Remove and return the state for a step; it is lost unless the step stores the next one."""
    state = memory.pop(MEMORY, None)
    if type(state) is not dict or state["step"] != step or type(round) is not int or state["round"] != round:
        raise TrainingError(_OUT_OF_ORDER)
    return state


def _participants(run: str, state: dict[str, Any]) -> Participants:
    return Participants(run, state["round"], state["threshold"], state["entries"])


def make_keys(memory: dict[str, Any], run: str, round: object, policy: ClientPolicy = NO_POLICY) -> bytes:
    """Start a round: make keys and return the public ones, signed if the client has an identity."""
    if type(round) is not int or not 0 <= round < 2**53:
        raise TrainingError("The number of a round must be a non-negative integer below 2^53.")
    sealing_secret, masking_secret = (
        key_agreement.draw(key_agreement.SECRET_BYTES),
        key_agreement.draw(key_agreement.SECRET_BYTES),
    )
    memory[MEMORY] = {"step": "shares", "round": round, "sealing": sealing_secret, "masking": masking_secret}
    keys = key_agreement.public_of(sealing_secret) + key_agreement.public_of(masking_secret)
    return keys if policy.identity is None else policy.identity.sign(run, round, keys)


def make_shares(
    memory: dict[str, Any], run: str, round: Any, entries: Any, threshold: Any, policy: ClientPolicy = NO_POLICY
) -> tuple[list[bytes], bytes]:
    """Return shares of this client's secrets, encrypted for each other client, and a commitment to its own seed."""
    state = _pop_state(memory, "shares", round)
    if type(entries) not in (list, tuple):
        raise TrainingError("The clients of a round of secure aggregation must be a list of keys.")
    participants = Participants(run, state["round"], threshold, entries)
    policy.check(participants, run, state["round"])
    index = participants.index_of(key_agreement.public_of(state["sealing"]) + key_agreement.public_of(state["masking"]))
    secret = key_agreement.PairwiseSecret(state["sealing"])
    roots = [_root(participants, secret, index, other) for other in range(len(participants))]
    seed = key_agreement.draw(shamir.SECRET_BYTES)
    count = len(participants)
    of_key = shamir.split(state["masking"], participants.threshold, count, key_agreement.draw)
    of_seed = shamir.split(seed, participants.threshold, count, key_agreement.draw)
    sealed = [
        b""
        if other == index
        else key_agreement.seal(roots[other], participants.digest, index, other, of_key[other] + of_seed[other])
        for other in range(count)
    ]
    memory[MEMORY] = {
        "step": "mask", "round": state["round"], "threshold": participants.threshold,
        "entries": list(participants.entries),
        "index": index, "roots": roots, "seed": seed, "masking": state["masking"], "mine": of_seed[index],
    }  # fmt: skip
    return sealed, commitment(participants, index, seed)


def _root(participants: Participants, secret: key_agreement.PairwiseSecret, index: int, other: int) -> bytes:
    """Return the secret from which all keys of two clients are derived."""
    if index == other:
        return b""
    common = secret.agree(participants.sealing_key(other))
    return key_agreement.derive(common, participants.digest, b"root", min(index, other), max(index, other))


def commitment(participants: Participants, index: int, seed: bytes) -> bytes:
    """Return a commitment to the seed of a client's own mask."""
    return key_agreement.digest(b"seed", participants.digest, index, seed)


class Masked:
    """A client between receiving the shares of others and masking its update.

    The sealed shares are empty for clients that dropped out.
    """

    def __init__(self, memory: dict[str, Any], run: str, round: object, sealed: object) -> None:
        self._memory = memory
        self._state = state = _pop_state(memory, "mask", round)
        self.participants = participants = _participants(run, state)
        self.index: int = state["index"]
        parts = by_index(sealed, len(participants), SEALED_BYTES)
        if parts[self.index]:
            raise TrainingError("This client received a share from itself.")
        self.members = [index for index, part in enumerate(parts) if part or index == self.index]
        if len(self.members) < participants.threshold:
            raise TrainingError(
                f"{len(self.members)} clients sent shares, but {participants.threshold} are needed, so this client "
                "withholds its update."
            )
        self._of_keys, self._of_seeds = [b""] * len(participants), [b""] * len(participants)
        self._of_seeds[self.index] = state["mine"]
        for other in self.members:
            if other != self.index:
                self._of_keys[other], self._of_seeds[other] = self._open(other, parts[other])

    def _open(self, other: int, sealed: bytes) -> tuple[bytes, bytes]:
        text = key_agreement.unseal(self._state["roots"][other], self.participants.digest, other, self.index, sealed)
        shares = (b"", b"") if text is None else (text[: shamir.SHARE_BYTES], text[shamir.SHARE_BYTES :])
        if not all(map(shamir.is_share, shares)):
            raise TrainingError(
                "A share from another client can't be decrypted: it was changed in transit, belongs to another "
                "round, or the two clients received different lists of clients."
            )
        return shares

    def mask(self, vector: torch.Tensor, context: bytes) -> torch.Tensor:
        """Return a vector of int64 plus this client's masks, and store the state for unmasking.

        The vector is changed in place. Masks of clients with different contexts (digests of the request) do not cancel.
        """
        state, digest, size = self._state, self.participants.digest, len(vector)
        vector += self_mask(self.participants, self.index, state["seed"], size)
        secret = key_agreement.PairwiseSecret(state["masking"])
        for other in self.members:
            if other != self.index:
                add_pair_mask(vector, self.participants, secret, self.index, other, context)
        self._memory[MEMORY] = {
            "step": "agree", "round": state["round"], "threshold": state["threshold"], "entries": state["entries"],
            "index": self.index, "roots": state["roots"], "members": self.members, "digest": digest,
            "of_keys": self._of_keys, "of_seeds": self._of_seeds,
        }  # fmt: skip
        return vector


def self_mask(participants: Participants, index: int, seed: bytes, size: int) -> torch.Tensor:
    """Return the mask of a client's own seed, which the others help to remove if it survives."""
    return key_agreement.mask(seed, participants.digest, size, b"self", index)


def add_pair_mask(
    vector: torch.Tensor,
    participants: Participants,
    secret: key_agreement.PairwiseSecret,
    index: int,
    other: int,
    context: bytes,
) -> None:
    """Add the mask shared with another client; the other client subtracts it."""
    common = secret.agree(participants.masking_key(other))
    first, second = min(index, other), max(index, other)
    words = key_agreement.mask(common, participants.digest, len(vector), b"pair", first, second, context)
    if index == first:
        vector += words
    else:
        vector -= words


def agree(memory: dict[str, Any], round: object, survivors: object) -> list[bytes]:
    """Record the survivors and return a confirmation for each of them."""
    state = _pop_state(memory, "agree", round)
    found = index_list(survivors, len(state["entries"]))
    if state["index"] not in found:
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
        key_agreement.confirmation(state["roots"][other], state["digest"], state["index"], other, text)
        if other in found and other != state["index"]
        else b""
        for other in range(len(state["entries"]))
    ]


def survivors_text(survivors: tuple[int, ...] | list[int]) -> bytes:
    """Return a list of indices as bytes."""
    return key_agreement.joined(b"survivors", *survivors)


def unmask(memory: dict[str, Any], round: object, confirmations: object) -> list[bytes]:
    """Return one share for each client: of its seed if it survived, of its masking key if not.

    Confirmations of clients that dropped out since are empty.
    """
    state = _pop_state(memory, "unmask", round)
    given = by_index(confirmations, len(state["entries"]), CONFIRMATION_BYTES)
    survivors, index, text = state["survivors"], state["index"], survivors_text(state["survivors"])
    confirming = [other for other, code in enumerate(given) if code]
    if not set(confirming) <= set(survivors) - {index}:
        raise TrainingError("A confirmation came from a client that is not in the list of survivors.")
    for other in confirming:
        expected = key_agreement.confirmation(state["roots"][other], state["digest"], other, index, text)
        if not hmac.compare_digest(given[other], expected):
            raise TrainingError(
                "Another client received a different list of survivors, so nothing is unmasked: two lists together "
                "could unmask a single client."
            )
    if len(confirming) + 1 < state["threshold"]:
        raise TrainingError(
            f"{len(confirming) + 1} clients agree on the survivors, but {state['threshold']} are needed to unmask."
        )
    answered = set(survivors)
    return [(state["of_seeds"] if other in answered else state["of_keys"])[other] for other in range(len(given))]
