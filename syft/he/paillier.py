"""Keys of the Paillier cryptosystem: `keygen`, and the checks of keys from users and peers.

Keys are those of the package `phe`. A public key may be sent to other workers; a private key never leaves.
"""

from __future__ import annotations

import functools
import hashlib
import importlib
from typing import TYPE_CHECKING, Any

from syft._suggestions import suggests_keywords
from syft.exceptions import DependencyError, SyftError
from syft.he.modular import arithmetic

if TYPE_CHECKING:
    from syft.workers.abstract import AbstractWorker

# Key sizes in bits. Keys of less than 2048 bits are for tests: they can be factored.
MIN_BITS = 128
MAX_BITS = 8192
DEFAULT_BITS = 3072


def phe() -> Any:
    """Return the module `phe.paillier`; raises with installation instructions if it is missing."""
    try:
        return importlib.import_module("phe.paillier")
    except ImportError as error:
        if (error.name or "").partition(".")[0] != "phe":
            raise
        raise DependencyError("phe", "he") from None


@suggests_keywords
def keygen(private_keyring: Any = None, n_length: int = DEFAULT_BITS) -> tuple[Any, Any]:
    """Make a pair of Paillier keys: (public key, private key), of the package `phe`.

    Args:
        private_keyring: a `phe.paillier.PaillierPrivateKeyring` that the private key is added to.
        n_length: bits of the key; less than 2048 is for tests only.
    """
    if type(n_length) is not int or not MIN_BITS <= n_length <= MAX_BITS:
        raise SyftError(f"keygen() needs n_length from {MIN_BITS} to {MAX_BITS} bits, got {n_length!r}.")
    if n_length % 2:
        raise SyftError(f"keygen() needs an even n_length, got {n_length}. Use n_length={n_length + 1}.")
    public_key, private_key = phe().generate_paillier_keypair(private_keyring, n_length)
    return public_key, private_key


class Modulus:
    """The public key of a tensor, with the numbers that are computed from it.

    Attributes:
        n: the modulus of plaintexts.
        square: n * n, the modulus of ciphertexts.
        bits: the key size.
        limit: the largest absolute value of an encrypted integer; as in phe, a third of all plaintexts.
        fraction: fractional bits of encrypted numbers.
        factor: fractional bits of plain factors.
        magnitude: encrypted and plain floating-point numbers are below 2 ** magnitude.
        width: bytes of a ciphertext.
    """

    def __init__(self, n: int) -> None:
        self.n = arithmetic().number(n)
        self.square = self.n * self.n
        self.bits = n.bit_length()
        self.limit = n // 3 - 1
        self.fraction = min(64, self.bits // 16)
        # Fewer than `fraction`, because the time of a product grows with the bits of the factor.
        self.factor = min(48, self.bits // 16)
        self.magnitude = min(128, self.bits // 16)
        self.width = (2 * self.bits + 7) // 8

    @property
    def public_key(self) -> Any:
        """The key as an object of phe."""
        return phe().PaillierPublicKey(int(self.n))

    @functools.cached_property
    def fingerprint(self) -> str:
        """The first digits of a hash of the key, to tell keys apart."""
        return hashlib.sha256(self.to_bytes()).hexdigest()[:8]

    def to_bytes(self) -> bytes:
        """Return the modulus as bytes, for the wire."""
        return int(self.n).to_bytes((self.bits + 7) // 8, "big")

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Modulus) and self.n == other.n

    def __hash__(self) -> int:
        return hash(self.n)

    def __repr__(self) -> str:
        return f"{self.bits}-bit key {self.fingerprint}"


@functools.lru_cache(64)
def modulus(n: int) -> Modulus:
    """Return the modulus of a public key."""
    return Modulus(n)


def modulus_from_bytes(sent: object) -> Modulus:
    """Return the modulus that a peer sent, if its size is allowed."""
    if isinstance(sent, memoryview):
        sent = sent.tobytes()
    if type(sent) is not bytes or not sent or len(sent) > MAX_BITS // 8:
        raise TypeError(f"a Paillier key has at most {MAX_BITS} bits")
    n = int.from_bytes(sent, "big")
    if n.bit_length() < MIN_BITS or n % 2 == 0 or sent[0] == 0:
        raise TypeError(f"a Paillier key is an odd number of at least {MIN_BITS} bits")
    return modulus(n)


def is_public_key(value: object) -> bool:
    """Say whether a value is a public key of phe, without importing phe."""
    return _is_of_phe(value, "PaillierPublicKey")


def is_private_key(value: object) -> bool:
    """Say whether a value is a private key of phe, without importing phe."""
    return _is_of_phe(value, "PaillierPrivateKey")


def _is_of_phe(value: object, name: str) -> bool:
    return any((cls.__module__, cls.__qualname__) == ("phe.paillier", name) for cls in type(value).__mro__)


def modulus_of(public_key: object) -> Modulus:
    """Return the modulus of a public key that a user passed."""
    if not is_public_key(public_key):
        swapped = " This is a private key: encrypt with the public one." if is_private_key(public_key) else ""
        raise SyftError(
            f"encrypt() needs a public key, got a {type(public_key).__name__}.{swapped} "
            "Make keys: public_key, private_key = sy.keygen()."
        )
    n: int = public_key.n  # type: ignore[attr-defined]
    if not MIN_BITS <= n.bit_length() <= MAX_BITS:
        raise SyftError(f"encrypt() needs a key of {MIN_BITS} to {MAX_BITS} bits, got {n.bit_length()}.")
    return modulus(n)


def check_private_key(private_key: object, key: Modulus) -> None:
    """Raise unless a private key belongs to the public key of a tensor."""
    if not is_private_key(private_key):
        swapped = " This is a public key." if is_public_key(private_key) else ""
        raise SyftError(
            f"decrypt() needs the private key, got a {type(private_key).__name__}.{swapped} Use x.decrypt(private_key)."
        )
    found: Any = private_key
    if found.public_key.n != key.n:
        raise SyftError(
            f"decrypt() got the private key of another public key; this tensor has a {key}. "
            "Use the key that keygen() returned together with its public key."
        )


class PublicKeyCodec:
    """The wire form of a public key of phe, registered without importing phe."""

    # The class of phe that this codec writes.
    foreign = "phe.paillier.PaillierPublicKey"

    @staticmethod
    def simplify(worker: AbstractWorker | None, key: Any) -> tuple[bytes]:
        """Return the modulus."""
        return (modulus_of(key).to_bytes(),)

    @staticmethod
    def detail(worker: AbstractWorker | None, payload: tuple[Any, ...]) -> Any:
        """Rebuild a key of an allowed size."""
        (sent,) = payload
        return modulus_from_bytes(sent).public_key


# The class of phe that is never sent.
PRIVATE_KEY = "phe.paillier.PaillierPrivateKey"
