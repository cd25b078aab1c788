"""Errors of encrypted computation."""

from __future__ import annotations

from syft.exceptions.base import SyftError


class ProtocolError(SyftError):
    """A protocol on shares can't be run, or was interrupted."""

    code = "SY501"


class PartyLostError(ProtocolError):
    """A party of a run is unreachable, or did not answer in time.

    Args:
        party: the id of the party.
        why: the reason.
        advice: the effect on the shares, unless they are gone with the party.
    """

    code = "SY502"

    def __init__(self, party: object = "", why: str = "it did not answer", advice: str = "") -> None:
        self.party = party
        gone = "Its shares are gone with it; share the values again with other parties."
        super().__init__(f"Party {party!r} was lost during a protocol: {why}. {advice or gone}")


class PinnedPartyError(ProtocolError):
    """A party or the dealer of a run is not the node that was pinned when the model was hosted; nothing was computed.

    Args:
        party: the id of the party.
        key: the fingerprint of the key that it had to prove.
    """

    code = "SY503"

    def __init__(self, party: object = "", key: str = "") -> None:
        super().__init__(
            f"The node {party!r} is not the node that this model was hosted with: it did not prove that it holds the "
            f"key {key}. Nothing was computed. Connect to the nodes of the model's owner, without a proxy that "
            "terminates TLS between them."
        )


class DriftError(SyftError):
    """The result of an encrypted operation differs from its plaintext; raised by `sy.mpc.validate` alone."""

    code = "SY504"
