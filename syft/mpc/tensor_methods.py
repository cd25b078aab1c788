"""Methods that syft.mpc adds to torch.Tensor: fix_precision, float_precision, share, encrypt, decrypt.

On a pointer each of them runs at the worker that holds the data. That worker encodes and splits its own tensor, and
sends the shares to the other workers, so no other worker sees a value.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, TypeAlias

import torch

from syft._suggestions import one_of, suggests_keywords
from syft.core.callsite import warn_user
from syft.core.context import acting_as
from syft.core.tensor import AbstractTensor, below
from syft.exceptions import CommandNotAllowedError, SyftError, UnsupportedOperationError, WorkerNotFoundError
from syft.he.methods import decrypt_tensor, encrypt_tensor
from syft.he.paillier import is_private_key, is_public_key
from syft.he.paillier_tensor import PaillierTensor
from syft.hook import base
from syft.hook import optimizers as _optimizers  # noqa: F401  (fills the table of optimizer hooks first)
from syft.hook.allowed_functions import register_command
from syft.hook.autograd_mark import mark, mark_of
from syft.hook.syft_tensor import SyftTensor, swap
from syft.mpc.values.sharing import OutOfRangeError, split
from syft.pointers.multi_pointer import MultiPointerTensor
from syft.pointers.pointer_tensor import PointerTensor
from syft.pointers.remote_call import call_by_name
from syft.tensors import native as _native  # noqa: F401  (fills the table of tensor methods first)
from syft.tensors.additive_shared import FIELD, PROTOCOLS, AdditiveSharingTensor
from syft.tensors.autograd import AutogradTensor
from syft.tensors.crt_precision import CRTPrecisionTensor
from syft.tensors.large_precision import LargePrecisionTensor, field_from_bytes, field_to_bytes
from syft.tensors.private import PrivateTensor
from syft.tensors.storages import ENCODED, encode_in
from syft.workers.base import BaseWorker
from syft.workers.delegation.introduction import introduce
from syft.workers.execution.execute import WORKER_COMMANDS
from syft.workers.transport.stream import InlineStream

if TYPE_CHECKING:
    WorkerOrId: TypeAlias = BaseWorker | int | str

FIX_PRECISION = "syft.fix_precision"
FLOAT_PRECISION = "syft.float_precision"
SHARE = "syft.share"
_OLD_FIELD = 2**62
_SHARE_OPTIONS = frozenset({"crypto_provider", "protocol", "insecure", "requires_grad", "field"})
_FORMAT_OPTIONS = frozenset(
    {"base", "precision_fractional", "field", "kappa", "storage", "field_type", "internal_type"}
)


class EncryptionMethods:
    """Methods that are copied onto torch.Tensor."""

    @suggests_keywords
    def fix_prec(
        self: Any, *args: object, storage: str = "auto", field_type: str | int | None = None, no_wrap: bool = False,
        base: int | None = None, precision_fractional: int | None = None, field: int | None = None,
        kappa: int | None = None, internal_type: torch.dtype | None = None, verbose: bool = False,
    ) -> Any:  # fmt: skip
        """Encode in fixed precision, rounding to the nearest; on a pointer, at the worker that holds the data.

        Args:
            *args: not accepted; pass the number of digits by name.
            storage: "auto" uses integers of 62 bits, or a LargePrecisionTensor, which rounds down, if a value or the
                number of digits needs more; "large" always uses the latter; "crt" uses a CRTPrecisionTensor.
            field_type: the size of residues for storage="crt": "int64", "int100" (default), "int128" or 21.
            no_wrap: return the bare link.
            base: the base of the digits, 10 by default.
            precision_fractional: the number of digits behind the point, 3 by default.
            field: the number of encoded values: values beyond half of it are refused, and results wrap around. By
                default 2**62, and 2**512 for large numbers.
            kappa: ignored; accepted for compatibility.
            internal_type: the dtype of the limbs of large numbers, torch.int32 by default.
            verbose: ignored; accepted for compatibility.
        """
        if args:
            raise TypeError(
                f"fix_precision() takes the number of digits by name: fix_precision(precision_fractional={args[0]!r})."
            )
        options = _given(
            base=base, precision_fractional=precision_fractional, field=field, kappa=kappa, field_type=field_type,
            internal_type=internal_type,
        )  # fmt: skip
        link = _link(self)
        if isinstance(link, PointerTensor | MultiPointerTensor):
            made = _run_at_holder(FIX_PRECISION, link, (), _on_the_wire(storage, options), no_wrap)
            return _like(self, made)
        if isinstance(link, AutogradTensor):
            return AutogradTensor().on(link.child.detach().fix_prec(storage=storage, **options), wrap=not no_wrap)
        if isinstance(link, (*ENCODED, AdditiveSharingTensor)):
            raise SyftError("This tensor is encoded or shared already. Encode the plain tensor, before sharing it.")
        if link is not None:
            raise UnsupportedOperationError("fix_precision", type(link).__name__, "Encode the plain tensor.")
        encoded = encode_in(storage, self, options)
        return encoded if no_wrap else _wrapped(encoded, self)

    fix_precision = fix_prec

    def fix_prec_(self: Any, *args: object, **options: Any) -> Any:
        """Encode in place; arguments as for `fix_precision`."""
        return _become(self, self.fix_prec(*args, **options))

    fix_precision_ = fix_prec_

    def float_prec(self: Any) -> Any:
        """Decode to the dtype that was encoded; on a pointer, at the worker that holds the data."""
        link = _link(self)
        if isinstance(link, PointerTensor | MultiPointerTensor):
            return _like(self, _run_at_holder(FLOAT_PRECISION, link, (), {}, False))
        if not isinstance(link, (*ENCODED, PrivateTensor)):
            raise SyftError("This tensor is not encoded in fixed precision, so there is nothing to decode.")
        decoded = link.float_precision()
        decoded = decoded.wrap() if isinstance(decoded, AbstractTensor) else decoded  # private tensors stay private
        return decoded.requires_grad_() if self.requires_grad and self.is_leaf else decoded

    float_precision = float_prec

    def float_prec_(self: Any) -> Any:
        """Decode in place."""
        return _become(self, self.float_prec())

    float_precision_ = float_prec_

    @suggests_keywords
    def share(
        self: Any,
        *owners: WorkerOrId | Sequence[WorkerOrId],
        field: int | None = None,
        crypto_provider: WorkerOrId | None = None,
        protocol: str | None = None,
        requires_grad: bool = False,
        no_wrap: bool = False,
        insecure: bool = False,
    ) -> Any:
        """Split into additive shares, one for each owner; on a pointer, the worker that holds the data does it.

        Args:
            *owners: the parties, two workers or more.
            field: 2**64, the modulus of all shares; 2**62, the default of 0.2, is accepted and has no effect.
            crypto_provider: a worker that is not a party and deals randomness for products and comparisons.
            protocol: the comparison protocol: "beaver" (default), "snn" or "fss".
            requires_grad: whether autograd records operations on the result, which then shows an AutogradTensor; whole
                numbers that are not encoded show it too, and have no gradient.
            no_wrap: return the bare link.
            insecure: allow a party to be the crypto provider.
        """
        if field not in (None, _OLD_FIELD, FIELD):
            raise UnsupportedOperationError(
                "share(field=...)", "torch.Tensor", "Shares are modulo 2**64; leave field out."
            )
        options: dict[str, Any] = {"crypto_provider": crypto_provider, "protocol": protocol, "insecure": insecure}
        link = _link(self)
        if isinstance(link, PointerTensor):
            options["requires_grad"] = requires_grad
            return _like(self, _share_at_holder(link, owners, options, no_wrap))
        if isinstance(link, AutogradTensor):
            return link.child.detach().share(*owners, **options, requires_grad=True, no_wrap=no_wrap)
        if isinstance(link, AdditiveSharingTensor):
            raise SyftError("This tensor is shared already. Fetch it first with .get() to share it again.")
        if link is not None and not isinstance(link, ENCODED):
            raise UnsupportedOperationError("share", type(link).__name__, "Share plain tensors, or pointers to them.")
        if requires_grad and isinstance(link, LargePrecisionTensor | CRTPrecisionTensor):
            raise SyftError("Only encoded tensors have gradients: x.fix_precision().share(..., requires_grad=True).")
        shared = split(self, owners, **options) if link is None else link.share(*owners, **options)
        if no_wrap:
            return AutogradTensor(shared) if requires_grad else shared
        wrapped = _wrapped(shared, self, requires_grad)
        return mark(wrapped) if requires_grad else _like(self, wrapped)

    def share_(self: Any, *owners: WorkerOrId | Sequence[WorkerOrId], **options: Any) -> Any:
        """Share in place; arguments as for `share`."""
        return _become(self, self.share(*owners, **options))

    @suggests_keywords
    def encrypt(
        self: Any, protocol: Any = "mpc", inplace: bool = False, workers: Sequence[WorkerOrId] = (),
        crypto_provider: WorkerOrId | None = None, requires_grad: bool = False, insecure: bool = False,
        base: int | None = None, precision_fractional: int | None = None, field: int | None = None,
        kappa: int | None = None, public_key: object = None,
    ) -> Any:  # fmt: skip
        """Encrypt with a public key: `x.encrypt(public_key)`; or encode and share in one call.

        Args:
            protocol: a public key, or "paillier" with `public_key`; "mpc", or the comparison protocol: "beaver",
                "snn", "fss".
            inplace: encrypt this tensor in place.
            workers: the parties, two workers or more.
            crypto_provider: as for `share`.
            requires_grad: as for `share`.
            insecure: as for `share`.
            base: as for `fix_precision`.
            precision_fractional: as for `fix_precision`.
            field: as for `fix_precision`.
            kappa: as for `fix_precision`.
            public_key: a Paillier key of `sy.keygen`.
        """
        if is_public_key(protocol) or is_private_key(protocol):
            protocol, public_key = "paillier", protocol
        if protocol == "paillier" or (public_key is not None and not workers):
            return _become(self, encrypt_tensor(self, public_key)) if inplace else encrypt_tensor(self, public_key)
        if protocol not in (known := ("mpc", *PROTOCOLS, "paillier")):
            raise UnsupportedOperationError(f"encrypt(protocol={protocol!r})", "torch.Tensor", one_of(protocol, known))
        if not workers:
            raise SyftError(
                "encrypt() needs workers, x.encrypt(workers=[alice, bob], crypto_provider=carol), "
                "or a public key: x.encrypt(public_key)."
            )
        options = _given(base=base, precision_fractional=precision_fractional, field=field, kappa=kappa)
        encrypted = self.fix_prec(**options).share(
            *workers,
            crypto_provider=crypto_provider,
            protocol=None if protocol == "mpc" else protocol,
            requires_grad=requires_grad,
            insecure=insecure,
        )
        return _become(self, encrypted) if inplace else encrypted

    def decrypt(self: Any, private_key: object = None, inplace: bool = False, protocol: str = "mpc") -> Any:
        """Decrypt with a private key: `x.decrypt(private_key)`; or fetch the shares and decode.

        Args:
            private_key: the Paillier key of `sy.keygen` that belongs to the public key.
            inplace: decrypt this tensor in place.
            protocol: ignored; accepted for compatibility.
        """
        if private_key is not None or protocol == "paillier" or isinstance(_link(self), PaillierTensor):
            decrypted = decrypt_tensor(self, private_key)
            return _become(self, decrypted) if inplace else decrypted
        fetched = self.get()
        decrypted = fetched.float_prec() if isinstance(_link(fetched), ENCODED) else fetched
        return _become(self, decrypted) if inplace else decrypted


def _link(tensor: torch.Tensor) -> AbstractTensor | None:
    return tensor.__dict__.get("child") if isinstance(tensor, SyftTensor) else None


def _given(**options: object) -> dict[str, Any]:
    """Return the options that the caller set."""
    return {name: value for name, value in options.items() if value is not None}


def _wrapped(link: AbstractTensor, source: Any, requires_grad: bool = False) -> Any:
    """Wrap a link in a shell with the tags, the description and (on leaves) the requires_grad of its source."""
    if source.requires_grad and not source.is_leaf:
        warn_user(
            "The autograd history of this tensor ends here: gradients do not flow back through an encoding. "
            "Encode the tensors it was computed from instead, or call .detach() first to silence this warning."
        )
    link.tags, link.description = set(source.tags), source.description
    is_float = link.tensor_meta().dtype.is_floating_point
    return link.wrap(requires_grad=is_float and (requires_grad or (source.requires_grad and source.is_leaf)))


def _like(source: Any, made: Any) -> Any:
    """Let a tensor show an AutogradTensor if its source does; returns it."""
    return mark(made) if isinstance(made, SyftTensor) and mark_of(source) is not None else made


def _become(target: torch.Tensor, source: torch.Tensor) -> torch.Tensor:
    swap(target, source)
    return target


# --- optimizers -----------------------------------------------------------------------------------------------


def _unchanged(self: torch.optim.Optimizer, *args: object, **kwargs: object) -> torch.optim.Optimizer:
    """Return this optimizer: its settings are public numbers, which work with encrypted parameters as they are."""
    return self


class OptimizerNames:
    """Adds fix_precision and float_precision to torch optimizers; `remove` deletes them again."""

    NAMES = ("fix_precision", "float_precision")

    def __init__(self) -> None:
        for name in self.NAMES:
            setattr(torch.optim.Optimizer, name, _unchanged)

    def remove(self) -> None:
        """Delete the names."""
        for name in self.NAMES:
            delattr(torch.optim.Optimizer, name)


base.optimizer_hooks.append(OptimizerNames)


# --- at the worker that holds the data --------------------------------------------------------------------------


def _run_at_holder(
    name: str, link: PointerTensor | MultiPointerTensor, args: tuple[Any, ...], options: dict[str, Any], no_wrap: bool
) -> Any:
    """Run a command at the worker that holds the data; at each of them, for a multi-pointer."""
    if isinstance(link, MultiPointerTensor):
        made: Any = MultiPointerTensor(children=[call_by_name(name, (p, *args), options) for p in link.child.values()])
    else:
        made = call_by_name(name, (link, *args), options)
    return made if no_wrap else made.wrap()


def _share_at_holder(link: PointerTensor, owners: tuple[Any, ...], options: dict[str, Any], no_wrap: bool) -> Any:
    """Let the worker that holds a tensor split it; workers are sent as their ids."""
    flat = [owner for entry in owners for owner in (entry if isinstance(entry, list | tuple) else (entry,))]
    names = tuple(getattr(owner, "id", owner) for owner in flat)
    provider = options["crypto_provider"]
    options["crypto_provider"] = getattr(provider, "id", provider)
    others = [link._owner.get_worker(other) for other in (*flat, provider) if other is not None]
    introduce(link._owner, (link.location, *others))
    return _run_at_holder(SHARE, link, names, options, no_wrap)


def _on_the_wire(storage: str, options: dict[str, Any]) -> dict[str, Any]:
    """Return options for another worker; a large field travels as bytes."""
    large = type(options.get("field")) is int and options["field"] > FIELD
    wide = {"field": field_to_bytes(options["field"])} if large else {}
    return {**options, **wide, **({} if storage == "auto" else {"storage": storage})}


def _fix_precision_here(tensor: object, **options: Any) -> Any:
    """Encode a tensor that a worker holds, for a client."""
    if not isinstance(tensor, torch.Tensor) or not set(options) <= _FORMAT_OPTIONS:
        raise CommandNotAllowedError("Encoding this")
    if isinstance(options.get("field"), bytes):
        options["field"] = field_from_bytes(options["field"])
    return tensor.detach().fix_prec(**options)  # type: ignore[attr-defined]


def _float_precision_here(tensor: object) -> Any:
    """Decode a tensor that a worker holds, for a client."""
    if not isinstance(tensor, torch.Tensor):
        raise CommandNotAllowedError("Decoding this")
    return tensor.detach().float_prec()  # type: ignore[attr-defined]


def _share_here(worker: BaseWorker, session: object, tensor: object, *names: object, **options: Any) -> Any:
    """Split a tensor that this worker holds, and send the shares to the parties on behalf of this worker.

    The caller has checked the release policy of the tensor, since sharing is a release.
    """
    if not isinstance(tensor, torch.Tensor) or not set(options) <= _SHARE_OPTIONS:
        raise CommandNotAllowedError("Sharing this")
    provider = options.get("crypto_provider")
    with acting_as(worker):
        owners = [_peer(worker, name) for name in names]
        if worker.id in names:
            _open_stream_to_self(worker)
        options["crypto_provider"] = None if provider is None else _peer(worker, provider)
        try:
            shared = tensor.detach().share(*owners, **options)  # type: ignore[attr-defined]
        except OutOfRangeError as error:  # the client that gets this error must not learn about the values
            raise error.without_index() from None
        for pointer in _pointers(shared):
            pointer.lease.stream.barrier()
    return shared


def _open_stream_to_self(worker: BaseWorker) -> None:
    """Open a stream from a served worker to itself, for its own share."""
    if (
        worker._stream_to_itself() is None
        and worker.id not in worker._streams
        and type(worker).open_stream is BaseWorker.open_stream
    ):
        worker._streams[worker.id] = InlineStream(worker, worker)


def _pointers(shared: Any) -> list[Any]:
    link = below(shared)
    links = link.residues.values() if isinstance(link, CRTPrecisionTensor) else (link,)
    shares = [link if isinstance(link, AdditiveSharingTensor) else link.child for link in links]
    return [pointer for share in shares for pointer in share.pointers()]


def _peer(worker: BaseWorker, name: object) -> BaseWorker:
    """Return a known worker by its id; the error does not list the others, which are not the client's business."""
    found = worker if name == worker.id else worker.known(name) if isinstance(name, int | str) else None
    if found is None:
        raise WorkerNotFoundError(name, ("not disclosed to peers",))
    return found


register_command(FIX_PRECISION, _fix_precision_here)
register_command(FLOAT_PRECISION, _float_precision_here)
WORKER_COMMANDS[SHARE] = _share_here
base.tensor_methods.append(EncryptionMethods)
