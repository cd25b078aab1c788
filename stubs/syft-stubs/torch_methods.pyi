"""The methods that TorchHook adds to torch's classes, as type checkers and editors see them.

`python -m syft.typing` makes these classes bases of Tensor, Module and Dataset in the type stubs of torch. The
implementations are in `syft.tensors.native`, `syft.tensors.numpy_tensor`, `syft.mpc.tensor_methods`, `syft.tensors.private`, `syft.hook.modules`,
`syft.mpc.serving.serve` and `syft.federated.dataset`; a test compares the parameters. Here the types are exact: a
method of a stand-in class there can't say that it returns a Tensor.
"""

from collections.abc import Callable, Iterable
from typing import Any, Literal, Self, TypeAlias, overload

from torch import Tensor, dtype

from syft.core.id_provider import ObjectId
from syft.federated.dataset import FederatedDataset
from syft.mpc.serving.serve import ServedModel
from syft.pointers.pointer_tensor import PointerTensor
from syft.tensors.additive_shared import AdditiveSharingTensor
from syft.tensors.precision import FixedPrecisionTensor
from syft.workers.abstract import AbstractWorker

_Worker: TypeAlias = AbstractWorker | ObjectId
_Workers: TypeAlias = _Worker | list[_Worker] | tuple[_Worker, ...]

class TensorMethods:
    """Methods of every tensor: plain, pointer, encoded or shared."""

    id: ObjectId
    tags: set[str]
    description: str | None
    private: bool
    garbage_collection: bool
    gc: bool
    @property
    def owner(self) -> AbstractWorker | None:
        """The worker this tensor or pointer belongs to."""
    @property
    def location(self) -> AbstractWorker | list[AbstractWorker] | None:
        """The worker that holds the data; None if it is here."""
    @property
    def id_at_location(self) -> ObjectId:
        """The id of the data at the worker that holds it."""
    @property
    def is_wrapper(self) -> bool:
        """Whether this is a pointer, or an encoded or shared tensor."""
    def tag(self, *tags: str) -> Self:
        """Add tags by which the tensor can be found; returns it."""
    def describe(self, description: str) -> Self:
        """Set the text by which the tensor can be found; returns it."""
    @overload
    def send(
        self,
        *location: _Workers,
        inplace: bool = False,
        user: object = None,
        local_autograd: bool = False,
        preinitialize_grad: bool = False,
        no_wrap: Literal[False] = False,
        garbage_collect_data: bool | None = None,
        requires_grad: bool = False,
    ) -> Tensor:
        """Send the tensor to a worker and return a pointer to it, or to several and return a multi-pointer.

        Args:
            *location: the worker or workers; each gets a copy.
            inplace: become the pointer instead of returning a new one (one worker only).
            user: the user on whose behalf a private tensor is sent; a node takes it from the connection.
            local_autograd: not offered: gradients are computed where the data is.
            preinitialize_grad: give the tensor a gradient of zeros first.
            no_wrap: return the bare PointerTensor.
            garbage_collect_data: whether the remote tensor is deleted with its last pointer; by default it is, unless
                it has tags.
            requires_grad: whether gradients flow back through the send.
        """
    @overload
    def send(
        self, *location: _Workers, no_wrap: Literal[True], garbage_collect_data: bool | None = None
    ) -> PointerTensor: ...
    def send_(self, *location: _Workers, **kwargs: Any) -> Self:
        """Become a pointer to a copy of this tensor at a worker."""
    def get(self, *args: object, inplace: bool = False, user: object = None, reason: str = "") -> Tensor:
        """Fetch the tensor behind this pointer; its worker no longer holds it afterwards.

        Args:
            inplace: become the fetched tensor instead of returning it.
            user: the user on whose behalf a private tensor is fetched; a node takes it from the connection.
            reason: a text for the log of the worker.
        """
    def get_(self, *args: object, **kwargs: Any) -> Self:
        """Become the tensor behind this pointer."""
    def move(self, location: _Worker, requires_grad: bool = False) -> Tensor:
        """Move the remote data to another worker; returns a pointer to it there.

        Args:
            location: the receiving worker.
            requires_grad: whether gradients flow back through the move; this tensor then stays.
        """
    def move_(self, location: _Worker, requires_grad: bool = False) -> Self:
        """Move the remote data to another worker; this pointer then points there."""
    def remote_send(self, location: _Worker, change_location: bool = False) -> Tensor:
        """Make the holder send the data on; the result points at a pointer, or at the data."""
    def remote_get(self) -> Self:
        """Make the pointer that this pointer points at fetch its data, at its worker."""
    def mid_get(self) -> Self:
        """Same as `remote_get`."""
    def delete(self) -> None:
        """Delete the remote data now, even if other pointers to it exist."""
    def copy(self) -> Tensor:
        """Return a copy with an id of its own, here or where the data is."""
    def combine(self, *pointers: Tensor) -> Tensor:
        """Group this pointer with others at other workers into a multi-pointer."""
    def request(self, reason: str = "") -> Any:
        """Ask the owner of the worker that holds this tensor to release it; returns the request.

        Args:
            reason: the purpose, for the owner's log.
        """
    def refresh(self) -> Self:
        """Re-randomise the shares of a shared tensor."""
    def has_child(self) -> bool:
        """Return whether this is a pointer, or an encoded or shared tensor."""
    def numpy_tensor(self) -> Tensor:
        """Return the values of this plain tensor as a tensor around a numpy array."""
    def serialize(self, *args: object, **kwargs: Any) -> bytes:
        """Return this tensor as bytes."""
    @overload
    def fix_prec(
        self,
        *,
        base: int = 10,
        precision_fractional: int = 3,
        field: int = ...,
        kappa: int = ...,
        storage: Literal["auto", "large", "crt"] = "auto",
        field_type: str | int = "int100",
        internal_type: dtype = ...,
        verbose: bool = False,
        no_wrap: Literal[False] = False,
    ) -> Tensor:
        """Encode in fixed precision, rounding to the nearest; on a pointer, where the data is.

        Args:
            base: the base of the digits.
            precision_fractional: the number of digits after the point.
            field: the number of encoded values; results beyond half of it wrap around.
            kappa: kept from earlier releases.
            storage: "auto" uses a LargePrecisionTensor for more than 62 bits, "large" always; "crt" uses residues.
            field_type: the size of residues: "int64", "int100", "int128" or 21.
            internal_type: the dtype of the limbs of large numbers.
            verbose: kept from earlier releases.
            no_wrap: return the bare link.
        """
    @overload
    def fix_prec(
        self, *, no_wrap: Literal[True], base: int = 10, precision_fractional: int = 3
    ) -> FixedPrecisionTensor: ...
    fix_precision = fix_prec
    def fix_prec_(self, **kwargs: Any) -> Self:
        """Become the encoded tensor, in place."""
    fix_precision_ = fix_prec_
    def float_prec(self) -> Tensor:
        """Decode to the dtype that was encoded; on a pointer, where the data is."""
    float_precision = float_prec
    def float_prec_(self) -> Self:
        """Become the decoded tensor, in place."""
    float_precision_ = float_prec_
    @overload
    def share(
        self,
        *owners: _Workers,
        field: int | None = None,
        crypto_provider: _Worker | None = None,
        protocol: str | None = None,
        requires_grad: bool = False,
        no_wrap: Literal[False] = False,
        insecure: bool = False,
    ) -> Tensor:
        """Split into additive shares, one for each owner; on a pointer, the holder does it.

        Args:
            *owners: the parties, two workers or more.
            field: kept from earlier releases; shares are modulo 2**64.
            crypto_provider: a worker that is no party and deals randomness for products and comparisons.
            protocol: the protocol of comparisons: "beaver" (default), "snn" or "fss".
            requires_grad: whether autograd records operations on the result.
            no_wrap: return the bare AdditiveSharingTensor or FixedPrecisionTensor.
            insecure: let the crypto provider be one of the parties.
        """
    @overload
    def share(
        self, *owners: _Workers, no_wrap: Literal[True], crypto_provider: _Worker | None = None
    ) -> AdditiveSharingTensor | FixedPrecisionTensor: ...
    def share_(self, *owners: _Workers, **kwargs: Any) -> Self:
        """Become the shared tensor, in place."""
    def encrypt(self, protocol: Any = "mpc", inplace: bool = False, **kwargs: Any) -> Tensor:
        """Encrypt with a public key, or encode and share in one call.

        Args:
            protocol: a public key of `sy.keygen`; "mpc", or the protocol of comparisons: "beaver", "snn", "fss".
            inplace: become the encrypted tensor.
            **kwargs: `public_key`; or `workers`, `crypto_provider`, `requires_grad`, `insecure`, and `base`,
                `precision_fractional`, `field` of the encoding.
        """
    def decrypt(self, private_key: Any = None, inplace: bool = False, **kwargs: Any) -> Tensor:
        """Decrypt with a private key, or fetch the shares and decode."""
    def private_tensor(self, *args: str, allowed_users: str | Iterable[str] = (), no_wrap: bool = False) -> Tensor:
        """Make this tensor private: it computes as before, and only the users it names can fetch it.

        Args:
            *args: further users.
            allowed_users: the users who can fetch it; a text is one user.
            no_wrap: return the bare link.
        """
    def register_credentials(self, users: str | Iterable[str] = ()) -> Tensor:
        """Let more users fetch this private tensor; returns it."""
    def allow(self, user: object = None) -> bool:
        """Return whether a user can fetch this tensor."""

class ModuleMethods:
    """Methods of every module. All of them change the module in place and return it."""

    @property
    def owner(self) -> AbstractWorker | None:
        """The worker the module's tensors (or its pointers) belong to."""
    @property
    def location(self) -> AbstractWorker | None:
        """The worker that holds the module; None if it is here."""
    def send(self, *dest: _Worker, force_send: bool = False, garbage_collect_data: bool | None = None) -> Self:
        """Send every parameter and buffer to a worker, in place, with one message.

        Args:
            *dest: the worker.
            force_send: kept from earlier releases.
            garbage_collect_data: as for tensors.
        """
    def send_(self, *dest: _Worker, **kwargs: Any) -> Self:
        """Same as `send`."""
    def get(self) -> Self:
        """Fetch every parameter and buffer, in place, with one message."""
    def get_(self) -> Self:
        """Same as `get`."""
    def move(self, destination: _Worker) -> Self:
        """Move the remote module to another worker, in place."""
    def copy(self) -> Self:
        """Return a deep copy, where the module is."""
    def encrypt(
        self, inplace: bool = True, protocol: str = "mpc", workers: Sequence[object] = (), **options: Any
    ) -> Self:
        """Encode and share every parameter and buffer in one call; `decrypt` is the reverse."""
    def decrypt(self, inplace: bool = True) -> Self:
        """Fetch and decode every parameter and buffer."""
    def request(self, reason: str = "") -> Any:
        """Ask the owner of the worker that holds the module to release it; returns the request."""
    def fix_precision(
        self,
        *,
        base: int = 10,
        precision_fractional: int = 3,
        field: int = ...,
        storage: Literal["auto", "large", "crt"] = "auto",
        field_type: str | int = "int100",
        internal_type: dtype = ...,
    ) -> Self:
        """Encode every parameter and buffer of floats in fixed precision, in place; arguments as for tensors."""
    fix_prec = fix_precision
    fix_precision_ = fix_precision
    fix_prec_ = fix_precision
    def float_precision(self) -> Self:
        """Decode every parameter and buffer, in place."""
    float_prec = float_precision
    float_precision_ = float_precision
    float_prec_ = float_precision
    def share(
        self,
        *owners: _Workers,
        crypto_provider: _Worker | None = None,
        protocol: str | None = None,
        requires_grad: bool = False,
        insecure: bool = False,
    ) -> Self:
        """Share every parameter and buffer among workers, in place; arguments as for tensors."""
    share_ = share
    def serve(
        self, in_shape: Iterable[int], num_requests: int | None = None, answer: Callable[[Tensor], Any] | None = None
    ) -> ServedModel:
        """Let this encrypted model answer requests of invited clients; arguments as `sy.mpc.serve`."""

class DatasetMethods:
    """Methods of every data set."""

    def federate(self, workers: Iterable[AbstractWorker]) -> FederatedDataset:
        """Split this data set in as many parts as there are workers, and send one to each.

        Args:
            workers: the workers, in the order of the parts.
        """
