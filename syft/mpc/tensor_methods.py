"""What syft.mpc adds to torch.Tensor: fix_precision, float_precision, share, encrypt, decrypt.

On a pointer each of them runs where the data is: the holder encodes its own tensor, and splits it and sends the
shares from worker to worker, so nobody else sees a value.
"""

from __future__ import annotations

import warnings
from typing import Any

import torch

from syft.core.context import acting_as
from syft.core.tensor import AbstractTensor
from syft.exceptions import CommandNotAllowed, SyftError, UnsupportedOperation, WorkerNotFoundException
from syft.hook import base
from syft.hook import optimizers as _optimizers  # noqa: F401  (fills the table of optimizer hooks first)
from syft.hook.functions import register_command
from syft.hook.syft_tensor import SyftTensor, swap
from syft.mpc.values.sharing import OutOfRangeError, split
from syft.pointers.multi_pointer import MultiPointerTensor
from syft.pointers.pointer_tensor import PointerTensor
from syft.pointers.remote_call import call_by_name
from syft.tensors import native as _native  # noqa: F401  (fills the table of tensor methods first)
from syft.tensors.additive_shared import FIELD, AdditiveSharingTensor
from syft.tensors.precision import FixedPrecisionTensor
from syft.workers.base import BaseWorker
from syft.workers.delegation.introduction import introduce
from syft.workers.execution.execute import WORKER_COMMANDS
from syft.workers.transport.stream import InlineStream

FIX_PRECISION = "syft.fix_precision"
FLOAT_PRECISION = "syft.float_precision"
SHARE = "syft.share"
_SHARE_OPTIONS = frozenset({"crypto_provider", "protocol", "insecure", "requires_grad", "field"})
_FORMAT_OPTIONS = frozenset({"base", "precision_fractional", "field", "kappa"})


class EncryptionMethods:
    """A stand-in for torch.Tensor: its public names are copied onto the real one."""

    def fix_prec(
        self: Any, *args: Any, storage: str = "auto", field_type: str = "int100", no_wrap: bool = False, **kwargs: Any
    ) -> Any:
        """Encode in fixed precision, rounding to the nearest; on a pointer, where the data is.

        Args:
            *args: none; the digits have names.
            storage: only "auto" is offered; values that need more than 62 bits are refused.
            field_type: kept from earlier releases.
            no_wrap: return the bare link.
            **kwargs: `base` (10), `precision_fractional` (3) and `field` (2**62).
        """
        if args:
            raise TypeError(
                f"fix_precision() takes its digits by name: fix_precision(precision_fractional={args[0]!r})."
            )
        _check_format(storage, kwargs)
        link = self.__dict__.get("child") if isinstance(self, SyftTensor) else None
        if isinstance(link, PointerTensor | MultiPointerTensor):
            return _remotely(FIX_PRECISION, link, (), kwargs, no_wrap)
        if isinstance(link, FixedPrecisionTensor | AdditiveSharingTensor):
            raise SyftError("This tensor is encoded or shared already; encode plain tensors, before sharing.")
        if link is not None:
            raise UnsupportedOperation("fix_precision", type(link).__name__, "Encode the plain tensor.")
        encoded = FixedPrecisionTensor(**kwargs, child=self).fix_precision()
        return encoded if no_wrap else _wrapped(encoded, self)

    fix_precision = fix_prec

    def fix_prec_(self: Any, *args: Any, **kwargs: Any) -> Any:
        """Become the encoded tensor, in place."""
        return _become(self, self.fix_prec(*args, **kwargs))

    fix_precision_ = fix_prec_

    def float_prec(self: Any) -> Any:
        """Decode to the dtype that was encoded; on a pointer, where the data is."""
        link = self.__dict__.get("child") if isinstance(self, SyftTensor) else None
        if isinstance(link, PointerTensor | MultiPointerTensor):
            return _remotely(FLOAT_PRECISION, link, (), {}, False)
        if not isinstance(link, FixedPrecisionTensor):
            raise SyftError("This tensor is not encoded in fixed precision, so there is nothing to decode.")
        decoded = link.float_precision()
        return decoded.requires_grad_() if self.requires_grad and self.is_leaf else decoded

    float_precision = float_prec

    def float_prec_(self: Any) -> Any:
        """Become the decoded tensor, in place."""
        return _become(self, self.float_prec())

    float_precision_ = float_prec_

    def share(
        self: Any,
        *owners: Any,
        field: int | None = None,
        crypto_provider: Any = None,
        protocol: str | None = None,
        requires_grad: bool = False,
        no_wrap: bool = False,
        insecure: bool = False,
    ) -> Any:
        """Split into additive shares, one for each owner; on a pointer, the holder does it.

        Args:
            *owners: the parties, two workers or more.
            field: kept from earlier releases; shares are modulo 2**64, and no other field can be chosen.
            crypto_provider: a worker that is no party and deals randomness for products and comparisons.
            protocol: how to compare: "beaver" (default), "snn" or "fss".
            requires_grad: whether autograd follows the result.
            no_wrap: return the bare link.
            insecure: let the crypto provider be one of the parties.
        """
        if field not in (None, FIELD):
            raise UnsupportedOperation("share(field=...)", "torch.Tensor", "Shares are modulo 2**64; leave field out.")
        options = {"crypto_provider": crypto_provider, "protocol": protocol, "insecure": insecure}
        link = self.__dict__.get("child") if isinstance(self, SyftTensor) else None
        if isinstance(link, PointerTensor):
            return _share_remotely(link, owners, {**options, "requires_grad": requires_grad}, no_wrap)
        if isinstance(link, AdditiveSharingTensor):
            raise SyftError("This tensor is shared already; fetch it first with .get() to share it anew.")
        if link is not None and not isinstance(link, FixedPrecisionTensor):
            raise UnsupportedOperation("share", type(link).__name__, "Share plain tensors, or pointers to them.")
        if link is None and requires_grad:
            raise SyftError("Only encoded tensors have gradients: x.fix_precision().share(..., requires_grad=True).")
        shared = split(self, owners, **options) if link is None else link.share(*owners, **options)
        return shared if no_wrap else _wrapped(shared, self, requires_grad)

    def share_(self: Any, *owners: Any, **kwargs: Any) -> Any:
        """Become the shared tensor, in place."""
        return _become(self, self.share(*owners, **kwargs))

    def encrypt(self: Any, protocol: str = "mpc", inplace: bool = False, **kwargs: Any) -> Any:
        """Encode and share in one call.

        Args:
            protocol: "mpc", or the way to compare: "beaver", "snn", "fss".
            inplace: become the shared tensor.
            **kwargs: `workers`, `crypto_provider`, `requires_grad`, `insecure`; and `base`, `precision_fractional`,
                `field` of the encoding.
        """
        if protocol not in ("mpc", "beaver", "snn", "fss"):
            raise UnsupportedOperation(f"encrypt(protocol={protocol!r})", "torch.Tensor", "Use protocol='mpc'.")
        workers = kwargs.pop("workers", None)
        if not workers:
            raise SyftError("encrypt() needs workers: x.encrypt(workers=[alice, bob], crypto_provider=carol).")
        format_options = {key: kwargs.pop(key) for key in list(kwargs) if key in _FORMAT_OPTIONS}
        if protocol != "mpc":
            kwargs["protocol"] = protocol
        encrypted = self.fix_prec(**format_options).share(*workers, **kwargs)
        return _become(self, encrypted) if inplace else encrypted

    def decrypt(self: Any, inplace: bool = False, **kwargs: Any) -> Any:
        """Fetch the shares and decode."""
        fetched = self.get()
        link = fetched.__dict__.get("child") if isinstance(fetched, SyftTensor) else None
        decrypted = fetched.float_prec() if isinstance(link, FixedPrecisionTensor) else fetched
        return _become(self, decrypted) if inplace else decrypted


def _check_format(storage: str, options: dict[str, Any]) -> None:
    if storage != "auto":
        raise UnsupportedOperation(f"fix_precision(storage={storage!r})", "torch.Tensor", "Use storage='auto'.")
    unknown = set(options) - _FORMAT_OPTIONS
    if unknown:
        raise TypeError(f"fix_precision() got unexpected arguments: {', '.join(sorted(unknown))}")


def _wrapped(link: AbstractTensor, source: Any, requires_grad: bool = False) -> Any:
    """Put a link into a shell that is followed by autograd as its source was; keep tags and description."""
    if source.requires_grad and not source.is_leaf:
        warnings.warn(
            "The autograd history of this tensor ends here: gradients will not flow back through an encoding. "
            "Encode what it was computed from instead, or call .detach() first to silence this.",
            stacklevel=3,
        )
    link.tags, link.description = set(source.tags), source.description
    shell = link.wrap()
    return shell.requires_grad_() if requires_grad or (source.requires_grad and source.is_leaf) else shell


def _become(target: Any, source: Any) -> Any:
    swap(target, source)
    return target


# --- optimizers -----------------------------------------------------------------------------------------------


def _as_it_is(self: Any, *args: Any, **kwargs: Any) -> Any:
    """Return this optimizer: its settings are public numbers, which encrypted parameters take as they are."""
    return self


class OptimizerNames:
    """The names that optimizers get; `remove` takes them back."""

    NAMES = ("fix_precision", "float_precision")

    def __init__(self) -> None:
        for name in self.NAMES:
            setattr(torch.optim.Optimizer, name, _as_it_is)

    def remove(self) -> None:
        """Take the names back."""
        for name in self.NAMES:
            delattr(torch.optim.Optimizer, name)


base.optimizer_hooks.append(OptimizerNames)


# --- where the data is ----------------------------------------------------------------------------------------


def _remotely(name: str, link: Any, args: tuple[Any, ...], options: dict[str, Any], no_wrap: bool) -> Any:
    """Run a command where the data is; at each place, for a multi-pointer."""
    if isinstance(link, MultiPointerTensor):
        made: Any = MultiPointerTensor(children=[call_by_name(name, (p, *args), options) for p in link.child.values()])
    else:
        made = call_by_name(name, (link, *args), options)
    return made if no_wrap else made.wrap()


def _share_remotely(link: PointerTensor, owners: tuple[Any, ...], options: dict[str, Any], no_wrap: bool) -> Any:
    """Have the holder of a tensor split it; workers travel as their ids."""
    flat = [owner for entry in owners for owner in (entry if isinstance(entry, list | tuple) else (entry,))]
    names = tuple(getattr(owner, "id", owner) for owner in flat)
    provider = options["crypto_provider"]
    options["crypto_provider"] = getattr(provider, "id", provider)
    others = [link._owner.get_worker(other) for other in (*flat, provider) if other is not None]
    introduce(link._owner, (link.location, *others))
    return _remotely(SHARE, link, names, options, no_wrap)


def _fix_precision_here(tensor: Any, **options: Any) -> Any:
    """Encode a tensor that a worker holds, for a client."""
    if not isinstance(tensor, torch.Tensor) or not set(options) <= _FORMAT_OPTIONS:
        raise CommandNotAllowed("Encoding this")
    return tensor.detach().fix_prec(**options)  # type: ignore[attr-defined]


def _float_precision_here(tensor: Any) -> Any:
    """Decode a tensor that a worker holds, for a client."""
    if not isinstance(tensor, torch.Tensor):
        raise CommandNotAllowed("Decoding this")
    return tensor.detach().float_prec()  # type: ignore[attr-defined]


def _share_here(worker: Any, session: Any, tensor: Any, *names: Any, **options: Any) -> Any:
    """Split a tensor that this worker holds, and send the shares to the parties in this worker's name.

    The policy was asked about the tensor before: to share is to release.
    """
    if not isinstance(tensor, torch.Tensor) or not set(options) <= _SHARE_OPTIONS:
        raise CommandNotAllowed("Sharing this")
    provider = options.get("crypto_provider")
    with acting_as(worker):
        owners = [_known(worker, name) for name in names]
        if worker.id in names:
            _reach_itself(worker)
        options["crypto_provider"] = None if provider is None else _known(worker, provider)
        try:
            shared = tensor.detach().share(*owners, **options)  # type: ignore[attr-defined]
        except OutOfRangeError as error:  # the client that reads this error may not learn about the values
            raise error.without_index() from None
        for pointer in _pointers(shared):
            pointer.lease.stream.settle()
    return shared


def _reach_itself(worker: Any) -> None:
    """Give a worker that is served to others a stream to itself, for the share that it keeps."""
    if (
        worker._stream_to_itself() is None
        and worker.id not in worker._streams
        and type(worker).open_stream is BaseWorker.open_stream
    ):
        worker._streams[worker.id] = InlineStream(worker, worker)


def _pointers(shared: Any) -> list[Any]:
    link = shared.child
    return list((link.child if isinstance(link, FixedPrecisionTensor) else link).pointers())


def _known(worker: Any, name: Any) -> Any:
    """Return a worker by its id; whom this one knows is nobody else's business."""
    found = worker if name == worker.id else worker.known(name) if isinstance(name, int | str) else None
    if found is None:
        raise WorkerNotFoundException(name, ("not told to peers",))
    return found


register_command(FIX_PRECISION, _fix_precision_here)
register_command(FLOAT_PRECISION, _float_precision_here)
WORKER_COMMANDS[SHARE] = _share_here
base.tensor_methods.append(EncryptionMethods)
