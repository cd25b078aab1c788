"""Member: a client in one round of secure aggregation. It answers each step once, in order, or not at all.

    keys     two fresh key pairs: one seals, one masks                                  -> public keys
    shares   a list of all keys comes: shares of two secrets, sealed for each other     -> sealed shares
    train    (term "masking") sealed shares of others come                              -> update plus masks
    agree    it is said who answered: a vow to each of them that this is what was said  -> vows
    unmask   vows of enough others came, for the same list: a share for each client:
             of the seed of its own mask if it answered, of its masking key if not      -> shares

What a step needs is taken out of the station's memory when the step begins, and what the next one needs is put in when
it has ended well. So whatever is asked twice, out of order or wrongly ends the round for this client, and nothing of it
is given away: in particular never both shares of one client.
"""

from __future__ import annotations

import hmac
from typing import Any

import torch

from syft.exceptions import TrainingError
from syft.federated.client.secure_aggregation import key_agreement, shamir
from syft.federated.client.secure_aggregation.client_policy import NO_GUARD, ClientPolicy
from syft.federated.client.secure_aggregation.participants import Participants, by_place, place_list

# Under this name a station remembers a round: plain values, which can move with it to another process.
MEMORY = "secure"
SEALED_BYTES = 2 * shamir.SHARE_BYTES + key_agreement.TAG_BYTES
VOW_BYTES = 32
_OUT_OF_ORDER = (
    "This client is not at this step of a round of secure aggregation: a step is answered once, in order, and after a "
    "refusal the round is over for the client. Begin a round anew with fresh keys."
)


def _take(memory: dict[str, Any], step: str, round: object) -> dict[str, Any]:
    """Take out what a step needs; it is gone unless the step puts it back."""
    state = memory.pop(MEMORY, None)
    if type(state) is not dict or state["step"] != step or type(round) is not int or state["round"] != round:
        raise TrainingError(_OUT_OF_ORDER)
    return state


def _roster(run: str, state: dict[str, Any]) -> Participants:
    return Participants(run, state["round"], state["threshold"], state["entries"])


def make_keys(memory: dict[str, Any], run: str, round: object, guard: ClientPolicy = NO_GUARD) -> bytes:
    """Begin a round: make keys, and return the public ones, signed if the client has an identity."""
    if type(round) is not int or not 0 <= round < 2**53:
        raise TrainingError("A round has a number.")
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
    """Return the shares of this client's secrets, sealed for each of the others, and a commitment to its own seed."""
    state = _take(memory, "shares", round)
    if type(entries) not in (list, tuple):
        raise TrainingError("The clients of a round of secure aggregation come as a list of keys.")
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
    """Return what all keys between two clients are made of."""
    if place == other:
        return b""
    common = secret.agree(roster.sealing_key(other))
    return key_agreement.derive(common, roster.digest, b"root", min(place, other), max(place, other))


def commitment(roster: Participants, place: int, seed: bytes) -> bytes:
    """Return what shows later that a seed is the one that its owner had."""
    return key_agreement.digest(b"seed", roster.digest, place, seed)


class Masked:
    """A client between the shares of others and its masked update.

    Args:
        memory: what the station remembers.
        run: the id of the run.
        round: the number of the round.
        sealed: the shares of others that are sealed for this client; none of those who dropped out.
    """

    def __init__(self, memory: dict[str, Any], run: str, round: object, sealed: object) -> None:
        self._memory = memory
        self._state = state = _take(memory, "mask", round)
        self.roster = roster = _roster(run, state)
        self.place: int = state["place"]
        parts = by_place(sealed, len(roster), SEALED_BYTES)
        if parts[self.place]:
            raise TrainingError("This client was sent shares as if by itself.")
        self.members = [place for place, part in enumerate(parts) if part or place == self.place]
        if len(self.members) < roster.threshold:
            raise TrainingError(
                f"Shares of {len(self.members)} clients came, and {roster.threshold} are needed, so this client "
                "does not give its update."
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
                "What another client sealed for this one in a round of secure aggregation does not open: it was "
                "changed on the way, belongs to another round, or the two were shown different lists of clients."
            )
        return shares

    def mask(self, vector: torch.Tensor, context: bytes) -> torch.Tensor:
        """Return a vector of int64 plus this client's masks, and be ready to help to take them off the sum.

        Args:
            vector: what the client gives; it is changed.
            context: stands for all that the client was asked to do. Clients that were asked different things have
                masks that do not cancel.
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
    """Return the mask of a client's own, which the others help to take off if it answered."""
    return key_agreement.mask(seed, roster.digest, size, b"self", place)


def add_pair_mask(
    vector: torch.Tensor,
    roster: Participants,
    secret: key_agreement.PairwiseSecret,
    place: int,
    other: int,
    context: bytes,
) -> None:
    """Add the mask that a client has in common with another one; the other one subtracts it."""
    common = secret.agree(roster.masking_key(other))
    first, second = min(place, other), max(place, other)
    words = key_agreement.mask(common, roster.digest, len(vector), b"pair", first, second, context)
    if place == first:
        vector += words
    else:
        vector -= words


def agree(memory: dict[str, Any], round: object, survivors: object) -> list[bytes]:
    """Take note of who answered, and return a vow of that for each of them."""
    state = _take(memory, "agree", round)
    found = place_list(survivors, len(state["entries"]))
    if state["place"] not in found:
        raise TrainingError("This client gave its masked update, and is not among those who did.")
    if not set(found) <= set(state["members"]):
        raise TrainingError("Clients are said to have answered that never sent their shares.")
    if len(found) < state["threshold"]:
        raise TrainingError(
            f"{len(found)} clients answered, and {state['threshold']} are needed, so their sum stays hidden."
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
    """Return a list of places as bytes."""
    return key_agreement.joined(b"survivors", *survivors)


def unmask(memory: dict[str, Any], round: object, vows: object) -> list[bytes]:
    """Return one share for each client: of its seed if it answered, of its masking key if it did not.

    Args:
        memory: what the station remembers.
        round: the number of the round.
        vows: what those who answered vow to this client; none of those who dropped out since.
    """
    state = _take(memory, "unmask", round)
    given = by_place(vows, len(state["entries"]), VOW_BYTES)
    survivors, place, text = state["survivors"], state["place"], survivors_text(state["survivors"])
    heard = [other for other, code in enumerate(given) if code]
    if not set(heard) <= set(survivors) - {place}:
        raise TrainingError("A client vows that is not among those who answered.")
    for other in heard:
        expected = key_agreement.vow(state["roots"][other], state["digest"], other, place, text)
        if not hmac.compare_digest(given[other], expected):
            raise TrainingError(
                "Another client was told a different list of those who answered. Nothing is unmasked then: two lists "
                "together could unmask a single client."
            )
    if len(heard) + 1 < state["threshold"]:
        raise TrainingError(
            f"{len(heard) + 1} clients agree on who answered, and {state['threshold']} are needed to unmask their sum."
        )
    answered = set(survivors)
    return [(state["of_seeds"] if other in answered else state["of_keys"])[other] for other in range(len(given))]
