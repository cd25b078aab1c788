"""Moves that gradients flow back through: `ptr.move(bob, requires_grad=True)`, `x.send(bob, requires_grad=True)`.

Autograd runs where the data is, so the graph of a moved tensor ends at its copy. A `Move` connects the copy to its
source. Pointers computed from the copy carry the move, so the client knows which copies a backward pass may reach.
After the pass at one worker, the gradient of each copy goes to the worker of its source, where the pass continues.
"""

from __future__ import annotations

import functools
import itertools
import weakref
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import torch

from syft.core.trees import iter_tensors
from syft.exceptions import SyftError, UnsupportedOperationError

if TYPE_CHECKING:
    from syft.core.references import TensorMeta

_Tensor: Any = torch.Tensor
# The position of `retain_graph` in torch.Tensor.backward and torch.autograd.backward; `create_graph` follows.
_RETAIN_GRAPH = 2
_numbers = itertools.count()
# All moves that a pointer still carries. Calls look for moves among their arguments only if there are any.
# A set of references: every call asks whether it is empty, and a WeakSet would count its members.
ALIVE: set[weakref.ref[Move]] = set()

_NO_GRAPH = (
    "A backward pass with create_graph=True can't go back through a move: the gradient has a graph of its own. "
    "Compute second derivatives at one worker, or leave create_graph out."
)

# Calls of worker commands that may run backward passes at the worker.
RUNS = frozenset({"syft.run_plan", "syft.run_protocol", "syft.call"})

# Calls whose results may share memory with their first tensor, in one graph: a write to either is part of both.
VIEWS = frozenset(
    f"torch.{home}{name}"
    for home in ("", "Tensor.")
    for name in (
        "__getitem__ T.__get__ mT.__get__ H.__get__ mH.__get__ real.__get__ imag.__get__ t adjoint transpose swapaxes "
        "swapdims permute movedim moveaxis view view_as reshape reshape_as flatten unflatten ravel squeeze unsqueeze "
        "squeeze_ unsqueeze_ narrow select unbind split split_with_sizes chunk tensor_split hsplit vsplit dsplit "
        "expand expand_as broadcast_to diagonal unfold contiguous to real imag view_as_real view_as_complex "
        "atleast_1d atleast_2d atleast_3d"
    ).split()
)


class SharedMemory:
    """The moves that were written into a tensor or into a view of it: all of them carry these."""

    __slots__ = ("moves",)

    def __init__(self) -> None:
        self.moves: tuple[Move, ...] = ()


class Move:
    """A tensor and its copy at another worker; the gradient of the copy is a gradient of the tensor.

    Args:
        source: the tensor: a pointer to it, or the local tensor itself.
        copy: a pointer to the copy.
        root: where passes enter the graph of the source; None if that has none.
        forwarded: how many pointers lead from the worker of the copy to its values (see `remote_send`).
    """

    def __init__(self, source: Any, copy: Any, root: Any, forwarded: int = 0) -> None:
        self.source = source
        self.root = root
        self.forwarded = forwarded
        # A second pointer with the same lease: the copy carries this move, and a cycle would delay its deletion.
        self.copy = type(copy)._attach(copy.lease, copy._owner, copy._meta)
        # A copy is made after everything that its source was computed from.
        self.number = next(_numbers)
        copy._moves = (self,)
        ALIVE.add(weakref.ref(self, ALIVE.discard))

    @property
    def source_worker(self) -> Any:
        """The worker that holds the source; None for a local tensor."""
        return None if isinstance(self.source, torch.Tensor) else self.source.location

    def check(self) -> None:
        """Raise if the copy, the source, or a tensor further back is gone."""
        self.copy.lease.check()
        if self.source_worker is not None:
            self.source.lease.check()
            for move in moves_of((self.root,)):
                move.check()


def check_differentiable(meta: TensorMeta | torch.Tensor, call: str) -> None:
    """Raise if tensors of a dtype have no gradients."""
    if not (meta.dtype.is_floating_point or meta.dtype.is_complex):
        raise UnsupportedOperationError(
            f"{call}(requires_grad=True)", f"tensors of {meta.dtype}", "Only floats have gradients: use x.float()."
        )


def moves_of(values: object) -> tuple[Move, ...]:
    """Return the moves that nested arguments carry, each once."""
    found: dict[Move, None] = {}
    for leaf in iter_tensors(values):
        found.update(dict.fromkeys((*getattr(leaf, "_moves", ()), *_written_moves(leaf))))
    return tuple(found)


def _relays_among(values: object) -> list[Any]:
    """Return the pointers to pointers among nested arguments: calls on them run further on."""
    return [leaf for leaf in iter_tensors(values) if getattr(leaf, "_relays", 0)]


def _written_moves(leaf: object) -> tuple[Move, ...]:
    memory: SharedMemory | None = getattr(leaf, "_memory", None)
    return () if memory is None else memory.moves


def share_memory(args: tuple[Any, ...], result: Any) -> None:
    """Note that the results of a call may be views of its first argument."""
    base: Any = args[0] if args else None
    if not hasattr(base, "_moves"):
        return
    if base._memory is None:
        base._memory = SharedMemory()
    for leaf in iter_tensors(result):
        if hasattr(leaf, "_moves"):
            leaf._memory = base._memory


def carry(name: str, args: tuple[Any, ...], kwargs: dict[str, Any], result: Any) -> None:
    """Let the results of a call carry the moves of its arguments, and all views of a tensor those written into it."""
    found = moves_of((args, kwargs)) if torch.is_grad_enabled() else ()
    if not found:
        return
    given = list(iter_tensors((args, kwargs)))
    # After a write through a view, the client may not know that a tensor requires a gradient, nor what follows from it.
    relays = max((getattr(leaf, "_relays", 0) for leaf in given), default=0)
    unknown = any(moves_of((leaf,)) and not _requires_grad(leaf) for leaf in given)
    changed = list(args[:1]) if name.endswith("__setitem__") else []
    results = list(iter_tensors(result))
    changed += [leaf for leaf in results if any(leaf is other for other in given)]
    for leaf in [*changed, *results]:
        if _requires_grad(leaf) or unknown or name.endswith("__setitem__"):
            leaf._moves = tuple(dict.fromkeys((*getattr(leaf, "_moves", ()), *found)))
            if relays:
                leaf._relays = relays
    for leaf in changed:
        if getattr(leaf, "_memory", None) is not None:
            leaf._memory.moves = tuple(dict.fromkeys((*leaf._memory.moves, *found)))


def _requires_grad(leaf: object) -> bool:
    meta = getattr(leaf, "_meta", None)
    return meta is None or bool(meta.requires_grad)


def leads_back(moves: tuple[Move, ...], worker: object) -> bool:
    """Return whether a pass through moves comes to a worker, now or further back."""
    return any(
        move.source_worker is worker or (move.source_worker is not None and leads_back(moves_of((move.root,)), worker))
        for move in moves
    )


class BackwardPass:
    """A backward pass over several workers, as the client drives it.

    Args:
        call: runs a torch function on pointers, at their worker.
    """

    def __init__(self, call: Callable[..., Any]) -> None:
        self._call = call
        # Gradients of copies that the pass has not gone back through yet.
        self._pending: dict[Move, Any] = {}

    def run(self, function: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        """Run a user's call of `backward`, and continue it at the sources of all copies that it reaches."""
        moves = moves_of((args, kwargs))
        for move in moves:
            move.check()
        if kwargs.get("create_graph") or (len(args) > _RETAIN_GRAPH + 1 and args[_RETAIN_GRAPH + 1]):
            raise SyftError(_NO_GRAPH)
        if leads_back(moves, moves[0].copy.location):  # the graph may be needed again when the pass comes back
            if len(args) > _RETAIN_GRAPH:
                args = (*args[:_RETAIN_GRAPH], True, *args[_RETAIN_GRAPH + 1 :])
            else:
                kwargs = {**kwargs, "retain_graph": True}
        self._differentiate(moves, lambda: self._call(function, args, kwargs), (args, kwargs))
        self.finish()

    def watch(self, run: Callable[[], Any], given: object) -> Any:
        """Make a call that may run a backward pass, such as a plan's, and go back from the copies that it reaches."""
        moves = moves_of(given)
        for move in moves:
            move.check()
        result: list[Any] = []
        self._differentiate(moves, lambda: result.append(run()), given)
        self.finish()
        return result[0]

    def finish(self) -> None:
        """Go back through all moves that the pass has reached."""
        while self._pending:
            self._go_back(self._latest())

    def _differentiate(
        self, moves: tuple[Move, ...], differentiate: Callable[[], object], given: object = None
    ) -> None:
        """Run a pass at one worker, and collect the gradients that it adds to copies.

        Args:
            moves: the moves that it may reach.
            differentiate: runs the pass.
            given: the arguments of the user's call. Pointers to pointers among them have the pass run elsewhere.
        """
        copies = [move.copy for move in moves]
        earlier = [self._gradient(copy) for copy in copies]
        for copy, before in zip(copies, earlier, strict=True):
            if before is not None:  # only the new part flows back
                self._set_gradient(copy, None)
        relays = _relays_among(given)
        if relays:
            for copy in copies:
                copy.lease.stream.barrier()
        added: list[Any] = [None] * len(copies)
        try:
            differentiate()
            self._await(relays)
            added = [self._gradient(copy) for copy in copies]
        finally:
            for copy, before, new in zip(copies, earlier, added, strict=True):
                if before is not None:
                    self._set_gradient(copy, before if new is None else before + new)
        for move, new in zip(moves, added, strict=True):
            if new is not None:
                known = self._pending.get(move)
                self._pending[move] = new if known is None else known + new

    def _await(self, relays: list[Any]) -> None:
        """Wait until calls through pointers to pointers are done: the worker at the end answers after them."""
        for relay in relays:
            self._call(_Tensor.is_leaf.__get__, (relay,), {})

    def _gradient(self, copy: Any) -> Any:
        """Return a pointer to the gradient of a copy, as a tensor of its own; None if it has none."""
        gradient = copy._grad()
        return None if gradient is None else self._call(_Tensor.detach, (gradient,), {})

    def _set_gradient(self, tensor: Any, gradient: Any) -> None:
        self._call(_Tensor.grad.__set__, (tensor, gradient), {})

    def _latest(self) -> list[Move]:
        """Return the moves to go back through next: the latest, with those that share its pass at the source's worker.

        All gradients of the latest copy have arrived, since a pass only reaches copies that were made earlier.
        """
        latest, *others = sorted(self._pending, key=lambda move: -move.number)
        worker = latest.source_worker
        moves = [move for move in (each() for each in tuple(ALIVE)) if move is not None]
        entries = [move.number for move in moves if move.copy.location is worker and move.number < latest.number]
        first = max(entries, default=-1)
        return [latest, *(move for move in others if move.source_worker is worker and move.number > first)]

    def _go_back(self, moves: list[Move]) -> None:
        """Continue the pass at the sources of some moves, which are at one worker."""
        gradients = [self._pending.pop(move) for move in moves]
        for move, gradient in zip(moves, gradients, strict=True):
            for _ in range(move.forwarded):
                gradient.remote_get()
        worker = moves[0].source_worker
        if worker is None:
            return _add_local([(move, gradient.get()) for move, gradient in zip(moves, gradients, strict=True)])
        sent = [one if one.location is worker else one._hand_over(worker) for one in gradients]
        return self.add([(move.source, move.root, new) for move, new in zip(moves, sent, strict=True)])

    def add(self, parts: list[tuple[Any, Any, Any]]) -> None:
        """Add gradients to remote tensors of one worker, and continue the pass through their graphs.

        Args:
            parts: each tensor, the root of its graph (or None), and the gradient to add.
        """
        for source, root, gradient in parts:
            if root is None:
                known = source._grad()
                self._set_gradient(source, gradient if known is None else known + gradient)
        follow = [(root, gradient) for _, root, gradient in parts if root is not None]
        if follow:
            roots, seeds = (tuple(part) for part in zip(*follow, strict=True))
            # Another copy may lead back to the same graph, in this pass or in a later one.
            options = {"grad_tensors": seeds, "retain_graph": True}
            differentiate = functools.partial(self._call, torch.autograd.backward, (roots,), options)
            self._differentiate(moves_of(roots), differentiate, roots)
        self._await(_relays_among([source for source, _, _ in parts]))


def local_root(tensor: torch.Tensor) -> Any:
    """Return where passes enter the graph of a local tensor as it is now; None if it has none."""
    return torch.autograd.graph.get_gradient_edge(tensor) if tensor.requires_grad else None


def _add_local(pairs: list[tuple[Move, torch.Tensor]]) -> None:
    """Add gradients to local tensors, and continue the pass through their graphs."""
    follow = [(move.root, gradient) for move, gradient in pairs if move.root is not None]
    for move, gradient in pairs:
        if move.root is None:
            source = move.source
            source.grad = gradient if source.grad is None else source.grad + gradient
    if follow:
        roots, seeds = zip(*follow, strict=True)
        torch.autograd.backward(roots, seeds, retain_graph=True)


def link_fetched(local: torch.Tensor, move: Move, call: Callable[..., Any]) -> None:
    """Let the gradients of a copy that was fetched continue at its source."""
    if move.source_worker is not None:
        link_local(local, move.source, move.root, call)
    else:
        local.register_hook(lambda gradient: _add_local([(move, gradient.detach())]))  # type: ignore[no-untyped-call]


def link_local(local: torch.Tensor, source: Any, root: Any, call: Callable[..., Any]) -> torch.Tensor:
    """Make a fetched copy a leaf whose gradients continue at its source, from the root of its graph on."""

    def go_back(gradient: torch.Tensor) -> None:
        if gradient.requires_grad:
            raise SyftError(
                "A backward pass with create_graph=True can't go back through a move. Leave create_graph out."
            )
        source.lease.check()
        backward = BackwardPass(call)
        sent = source._owner.send(gradient.detach(), source.location)
        backward.add([(source, root, sent)])
        backward.finish()

    local.requires_grad_()
    local.register_hook(go_back)  # type: ignore[no-untyped-call]
    return local
