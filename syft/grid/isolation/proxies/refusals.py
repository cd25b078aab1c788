"""Errors for calls on private data whose results depend on values."""

from __future__ import annotations

from syft.exceptions import GetNotPermittedError

# Calls whose result is a value of the tensor, by their last name.
_VALUES = frozenset(
    "item tolist numpy __bool__ __int__ __float__ __complex__ __index__ __contains__ __array__ __format__ __repr__ "
    "__iter__ equal allclose is_nonzero _is_all_true _is_any_true __reversed__ __dlpack__".split()
)
_REQUEST = 'Ask for it with ptr.request(reason="..."), or use a DP query.'


def unknown(name: str) -> GetNotPermittedError:
    """Return the error for a call whose result can't be described without values."""
    if name.rpartition(".")[2] in _VALUES:
        return GetNotPermittedError(f"{name} would release values of private data. {_REQUEST}")
    return GetNotPermittedError(
        f"{name} gives a result whose shape or kind depends on values of private data. Use a call whose result has "
        "a fixed shape, such as torch.where or a multiplication by the mask, or ask the owner to allow a plan."
    )


def opaque(name: str) -> GetNotPermittedError:
    """Return the error for a call with unknown effects on private data."""
    return GetNotPermittedError(
        f"{name} can't run on private data: its results can't be described before it runs. Use a plan instead."
    )


def not_plain(name: str) -> GetNotPermittedError:
    """Return the error for a call on private tensors that are sparse, quantized or encoded."""
    return GetNotPermittedError(
        f"{name} can't run here: an argument is sparse, quantized, encoded or remote. "
        "Calls on private data take dense tensors only."
    )


def hidden(name: str) -> GetNotPermittedError:
    """Return the error for a property of a private tensor's memory."""
    return GetNotPermittedError(f"{name} is not available for private data: it describes memory of the vault.")
