"""The proof of identity between two nodes, over real sockets: both directions, and attacks on it."""

from __future__ import annotations

import contextlib
import socket
import threading

import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from syft.workers.delegation.key_proofs import PeerKey, Prover, fingerprint_of, is_fingerprint
from tests.helpers.nodes import Line

ALICE, BOB = PeerKey(), PeerKey()


def connected(port=None):
    """Two ends of a connection on this machine: who dialed, who listened; perhaps by way of a relay."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        line = Line(server.getsockname()[1]) if port == "relay" else None
        dialed = socket.create_connection(("127.0.0.1", line.port if line else server.getsockname()[1]), timeout=30)
        listened, _ = server.accept()
    return dialed, listened, line


def prove(dialer, listener, *, called="bob", calls="alice", purposes=("mpc", "mpc"), by=None):
    """Run both ends; returns what each of them learns about the other."""
    dialed, listened, line = connected(by)
    found = []
    thread = threading.Thread(target=lambda: found.append(listener.listen(listened, calls, purposes[1])))
    thread.start()
    learnt = dialer.dial(dialed, called, purposes[0], 10.0)
    if learnt is None:
        dialed.close()
    thread.join(30)
    for end in (dialed, listened, *([line] if line else [])):
        end.close()
    return learnt, found[0]


def test_each_end_learns_the_key_of_the_other():
    assert prove(Prover("alice", ALICE), Prover("bob", BOB)) == (BOB.fingerprint, ALICE.fingerprint)


def test_a_key_is_known_by_its_fingerprint():
    key = PeerKey(Ed25519PrivateKey.generate())
    assert key.fingerprint == fingerprint_of(key.public) and is_fingerprint(key.fingerprint)
    assert key.public.hex() not in repr(key)
    for wrong in (None, 5, "", "SHA256:", "SHA256:" + "g" * 64, key.fingerprint.upper(), key.fingerprint + "0", b"x"):
        assert not is_fingerprint(wrong)


@pytest.mark.parametrize(
    "how",
    [{"called": "carol"}, {"calls": "carol"}, {"purposes": ("mpc", "mpc-deal")}, {"by": "relay"}],
    ids=["another listener", "another dialer", "another purpose", "a relay"],
)
def test_both_ends_sign_the_same_transcript_or_learn_nothing(how):
    assert prove(Prover("alice", ALICE), Prover("bob", BOB), **how) == (None, None)


class Claimed(PeerKey):
    """A key that is claimed and not held."""

    def __init__(self):
        super().__init__()
        self.public = BOB.public


def test_a_public_key_alone_proves_nothing():
    carol = PeerKey()
    learnt, _ = prove(Prover("carol", carol), Prover("bob", Claimed()), calls="carol")
    assert learnt is None


def test_a_proof_is_not_reflected():
    """A peer that sends everything back proves nothing: each role signs a transcript of its own."""
    dialed, listened, _ = connected()

    def echo():
        with contextlib.suppress(OSError):
            while data := listened.recv(1000):
                listened.sendall(data)

    threading.Thread(target=echo, daemon=True).start()
    assert Prover("alice", ALICE).dial(dialed, "alice", "mpc", 10.0) is None
    dialed.close(), listened.close()


@pytest.mark.parametrize("sent", [b"", b"x", bytes(64), bytes(64) + bytes(64), bytes(1000)])
def test_bytes_that_are_no_proof(sent):
    dialed, listened, _ = connected()
    with dialed, listened:
        dialed.sendall(sent)
        dialed.shutdown(socket.SHUT_WR)
        assert Prover("bob", BOB).listen(listened, "alice", "mpc") is None


def test_keys_of_small_order_are_refused():
    """All-zero bytes are a valid signature under the all-zero key for one of four transcripts, and each run has another."""
    for _ in range(32):
        dialed, listened, _ = connected()
        with dialed, listened:
            dialed.sendall(bytes(128))
            dialed.shutdown(socket.SHUT_WR)
            assert Prover("bob", BOB).listen(listened, "alice", "mpc") is None


def test_a_silent_peer_times_out():
    dialed, listened, _ = connected()
    assert Prover("alice", ALICE).dial(dialed, "bob", "mpc", 0.3) is None
    dialed.close(), listened.close()
