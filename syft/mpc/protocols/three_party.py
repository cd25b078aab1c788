"""ThreeParty: messages among the two parties and the helper of SecureNN, and the rings of their values.

The helper is the crypto provider (P2 of the paper). It deals, so it must not receive values that the parties open to
each other: nothing is opened here, all messages go from one participant to another one.

* words: Z_L with L = 2^64;
* odd: Z_(L-1), as words that are never L - 1; a uniform word taken for L - 1 = 0 is uniform up to 2^-64;
* digits: Z_67, as bytes; 64 of them, for the bits of a word, highest first.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import torch

from syft.core.generator import Generator, local
from syft.mpc.runtime.party import Party, Tensors

BITS = 64
PRIME = 67
HELPER = 2
_LOWEST = -(2**63)
# Bytes below the limit give every digit equally often.
_DIGITS = (PRIME * 3, (np.arange(256) % PRIME).astype(np.uint8))
_NONZERO = ((PRIME - 1) * 3, (np.arange(256) % (PRIME - 1) + 1).astype(np.uint8))


def below(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    """Return where x < y, both read as unsigned words."""
    return (x ^ _LOWEST) < (y ^ _LOWEST)


def odd(x: torch.Tensor) -> torch.Tensor:
    """Return words as numbers modulo L - 1."""
    return torch.where(x == -1, 0, x)


def odd_add(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    """Add modulo L - 1: the carry of the highest bit is added to the lowest."""
    total = x + y
    return odd(total + below(total, x).long())


def odd_negate(x: torch.Tensor) -> torch.Tensor:
    """Negate modulo L - 1."""
    return odd(~x)


def odd_subtract(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    """Subtract modulo L - 1."""
    return odd_add(x, odd_negate(y))


def spread(words: torch.Tensor) -> torch.Tensor:
    """Return the 64 bits of each word of a vector as bytes, highest first."""
    swapped = words.contiguous().numpy().byteswap().view(np.uint8).reshape(len(words), BITS // 8)
    return torch.from_numpy(np.unpackbits(swapped, axis=1))


def digits(generator: Generator, count: int, nonzero: bool = False) -> torch.Tensor:
    """Draw uniform digits for the bits of `count` words; with `nonzero` none of them is 0."""
    limit, table = _NONZERO if nonzero else _DIGITS
    missing = count * BITS
    accepted: list[Any] = []
    while missing:
        drawn = generator.words(missing * 256 // limit // 8 + 32).numpy().view(np.uint8)
        accepted.append(drawn[drawn < limit][:missing])
        missing -= len(accepted[-1])
    return torch.from_numpy(table[np.concatenate(accepted)] if accepted else np.empty(0, np.uint8)).view(count, BITS)


# Ring -> functions that draw a uniform share for a number of elements, and compute the other share from it.
RINGS: dict[str, tuple[Callable[[Generator, int], torch.Tensor], Callable[..., torch.Tensor]]] = {
    "words": (lambda generator, count: generator.words(count), torch.sub),
    "odd": (lambda generator, count: odd(generator.words(count)), odd_subtract),
    "digits": (digits, lambda value, share: (value + (PRIME - share)) % PRIME),
}


class ThreeParty:
    """The participants of a run, as one of them sees them. Vectors are flat; the helper has None in place of shares.

    Args:
        party: this participant.
        common: the common generator of the two parties; None at the helper.
        lane: the common generator of party 0 and the helper; None at party 1.
    """

    def __init__(self, party: Party, common: Generator | None, lane: Generator | None) -> None:
        self.party = party
        self.first = party.first
        self.is_helper = party.is_helper
        self.common: Any = common
        self._lane: Any = lane

    @classmethod
    async def meet(cls, party: Party) -> ThreeParty:
        """Agree on common generators: party 0 picks a key for party 1, the helper one for party 0.

        Rounds: 1. Bytes: 16.
        """
        own = local().bytes(16)
        words = torch.frombuffer(bytearray(own), dtype=torch.int64)
        routes: dict[int, dict[int, Tensors]] = {0: {1: (words,)}, 1: {}, HELPER: {0: (words,)}}
        sources = {0: (HELPER,), 1: (0,), HELPER: ()}[party.index]
        received = await party.exchange(routes[party.index], sources)
        theirs = [Generator(received[source][0].numpy().tobytes()) for source in sources]
        mine = Generator(own)
        if party.index == 0:
            return cls(party, mine, theirs[0])
        return cls(party, theirs[0], None) if party.index == 1 else cls(party, None, mine)

    async def send_helper(self, *tensors: torch.Tensor | None) -> list[tuple[torch.Tensor, ...]]:
        """Send tensors from both parties to the helper, which gets a list of both messages. One round."""
        if self.is_helper:
            received = await self.party.exchange({}, (0, 1))
            return [received[0], received[1]]
        await self.party.exchange({HELPER: tuple(_packed(tensor) for tensor in tensors if tensor is not None)}, ())
        return []

    async def receive_shares(self, count: int, **pieces: tuple[str, torch.Tensor | None]) -> dict[str, torch.Tensor]:
        """Share values of the helper, by ring: party 0 draws its shares, party 1 receives the others. One round."""
        if self.is_helper or self.first:
            shares = {name: RINGS[ring][0](self._lane, count) for name, (ring, _) in pieces.items()}
        if self.is_helper:
            rest = [_packed(RINGS[ring][1](value, shares[name])) for name, (ring, value) in pieces.items()]
            await self.party.exchange({1: tuple(rest)}, ())
            return {}
        received = await self.party.exchange({}, () if self.first else (HELPER,))
        if self.first:
            return shares
        return {
            name: _unpacked(ring, tensor)
            for (name, (ring, _)), tensor in zip(pieces.items(), received[HELPER], strict=True)
        }

    async def swap(self, *tensors: torch.Tensor) -> tuple[torch.Tensor, ...]:
        """Exchange tensors between the two parties. One round."""
        if self.is_helper:
            await self.party.exchange({}, ())
            return ()
        other = 1 - self.party.index
        received: tuple[torch.Tensor, ...] = (await self.party.exchange({other: tensors}, (other,)))[other]
        return received


def _packed(tensor: torch.Tensor) -> torch.Tensor:
    """Return digits as words; words stay as they are."""
    return tensor if tensor.dtype is torch.int64 else tensor.contiguous().view(torch.int64)


def _unpacked(ring: str, tensor: torch.Tensor) -> torch.Tensor:
    return tensor.view(torch.uint8) if ring == "digits" else tensor
