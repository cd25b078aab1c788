"""The client's side of a request to an encrypted model, for invited clients (`query`) and users of nodes (`client`).

The client splits its inputs into shares itself, sends each party its shares, and adds up the shares of the results.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import TypeVar

import torch

from syft.exceptions import ModelError, ObjectNotFoundError, PinnedPartyError, SyftError
from syft.mpc.serving.shared_program import Shares, is_share, show_shapes
from syft.mpc.serving.tensor_encoding import Encodings, shapes_of
from syft.mpc.values.sharing import generate_shares
from syft.workers.transport.stream import Stream

T = TypeVar("T")


def split_inputs(
    encodings: Encodings, tensors: Sequence[torch.Tensor], count: int, subject: str, error: type[SyftError]
) -> list[Shares]:
    """Return the shares of plain inputs, one tuple for each of `count` parties.

    Args:
        encodings: the encodings of the inputs.
        tensors: the inputs.
        count: the number of parties.
        subject: the name of the model in errors.
        error: the class of the error if shapes differ.
    """
    shapes = tuple([tuple(tensor.shape) for tensor in tensors])
    if shapes != shapes_of(encodings):
        expected = show_shapes(shapes_of(encodings))
        raise error(f"{subject} takes {expected}, not {show_shapes(shapes)}. Nothing was sent.")
    encoded = [encoding.encode(tensor) for encoding, tensor in zip(encodings, tensors, strict=True)]
    return list(zip(*[generate_shares(each, count) for each in encoded], strict=True))


def fetch_results(streams: Iterable[Stream], fetch: Callable[[Stream], T]) -> list[T]:
    """Fetch the result of each party; if any of them fails, raise the error that says most about the cause."""
    results: list[T] = []
    errors: list[Exception] = []
    for stream in streams:
        try:
            results.append(fetch(stream))
        except (SyftError, TimeoutError) as error:
            errors.append(error)
    if errors:
        raise min(errors, key=_vagueness)
    return results


def _vagueness(error: Exception) -> int:
    """Return a rank: some errors only say that another party left the run, or that there is no result."""
    if isinstance(error, PinnedPartyError | ModelError):
        return 0
    return 2 if isinstance(error, ObjectNotFoundError) else 1


def add_results(
    encodings: Encodings, results: Sequence[Sequence[object]], subject: str, error: type[SyftError]
) -> torch.Tensor | tuple[torch.Tensor, ...]:
    """Add up the shares of results and decode them: a tensor, or a tuple of tensors.

    Args:
        encodings: the encodings of the results.
        results: the shares of each party, which is not trusted to send the right number and shapes.
        subject: the name of the model in errors.
        error: the class of the error if a party sent something else.
    """
    rows = [[share for share in shares if is_share(share)] for shares in results]
    for row, shares in zip(rows, results, strict=True):
        if len(row) != len(shares) or tuple([tuple(share.shape) for share in row]) != shapes_of(encodings):
            raise error(f"A party of {subject} sent a result that does not consist of shares of the right shapes.")
    totals = [sum(column[1:], column[0]) for column in zip(*rows, strict=True)]
    decoded = tuple([encoding.decode(total) for encoding, total in zip(encodings, totals, strict=True)])
    return decoded[0] if len(decoded) == 1 else decoded
