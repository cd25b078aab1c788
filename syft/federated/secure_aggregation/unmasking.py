"""Removes the masks from a sum, with the shares that the clients sent."""

from __future__ import annotations

import hmac
import itertools
from collections.abc import Callable, Iterator, Mapping, Sequence

import torch

from syft.exceptions import FederatedError
from syft.federated.client.secure_aggregation import key_agreement
from syft.federated.client.secure_aggregation.participant import add_pair_mask, commitment, self_mask
from syft.federated.client.secure_aggregation.participants import Participants
from syft.federated.client.secure_aggregation.shamir import ShamirReconstructor


class Unmasking:
    """The end of a round, when the survivors are known, by their indices.

    `members` are the clients whose shares were sent: they have pairwise masks. `shares` has, for each helping client,
    its share for each client.
    """

    def __init__(
        self,
        participants: Participants,
        members: Sequence[int],
        survivors: Sequence[int],
        commitments: Mapping[int, bytes],
        shares: Mapping[int, Sequence[bytes]],
    ) -> None:
        self._participants, self._members, self._survivors = participants, members, survivors
        self._commitments, self._shares = commitments, shares
        self._joiners: dict[tuple[int, ...], ShamirReconstructor] = {}

    def take_off(self, total: torch.Tensor, context: bytes) -> None:
        """Remove all masks from a sum, in place. Pairwise masks are bound to the context."""
        for index in self._survivors:
            total -= self_mask(self._participants, index, self._seed(index), len(total))
        for gone in sorted(set(self._members) - set(self._survivors)):
            secret = key_agreement.PairwiseSecret(self._masking_secret(gone))
            for index in self._survivors:
                # Adds the mask that the dropped-out client would have added.
                add_pair_mask(total, self._participants, secret, gone, index, context)

    def _seed(self, index: int) -> bytes:
        expected = self._commitments[index]
        return self._joined(
            index, lambda seed: hmac.compare_digest(commitment(self._participants, index, seed), expected)
        )

    def _masking_secret(self, index: int) -> bytes:
        expected = self._participants.masking_key(index)
        return self._joined(index, lambda secret: hmac.compare_digest(key_agreement.public_of(secret), expected))

    def _joined(self, index: int, is_right: Callable[[bytes], bool]) -> bytes:
        """Return a secret of a client, reconstructed from the shares of others."""
        for helpers in self._choices():
            joiner = self._joiners.get(helpers)
            if joiner is None:
                joiner = self._joiners[helpers] = ShamirReconstructor([helper + 1 for helper in helpers])
            try:
                secret = joiner.join([self._shares[helper][index] for helper in helpers])
            except ValueError:
                continue
            if is_right(secret):
                return secret
        raise FederatedError(
            "The shares for unmasking the sum are inconsistent, so there is no sum: a client is broken or malicious."
        )

    def _choices(self) -> Iterator[tuple[int, ...]]:
        """Yield sets of helpers: first the default one, then each with one helper replaced."""
        helpers, needed = sorted(self._shares), self._participants.threshold
        yield tuple(helpers[:needed])
        for one, other in itertools.product(range(needed), helpers[needed : needed + 1]):
            yield tuple(sorted({*helpers[:needed], other} - {helpers[one]}))
