"""The routes of several concurrent iterators over the batches of a federated data set.

Each iterator goes through the batches of all workers, and no two iterators are at one worker at the same step.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple


class Stay(NamedTuple):
    """Consecutive batches that an iterator takes from one worker.

    Attributes:
        worker: the index of the worker.
        start: the number of the first batch.
        stop: the number after the last batch.
    """

    worker: int
    start: int
    stop: int


Route = list[Stay]


def routes(counts: list[int], width: int) -> list[Route]:
    """Return the routes of a number of iterators.

    Iterators begin at the first workers and hop to one that no other iterator is at. If that leads nowhere, they follow
    each other on a circle, at equal distances. A route takes every batch once, unless one worker has more than its
    share of 1 / `width` of all batches: it would still have batches when the others have none. Then each iterator takes
    some of its batches, and different iterators different ones.

    Args:
        counts: the number of batches of each worker.
        width: the number of iterators; at most that of workers with batches.
    """
    taken = lengths(counts, width)
    if not sum(taken):
        return []
    if taken == counts and (hopping := _hop(counts, width)) is not None:
        return hopping
    return [_follow(counts, taken, number, width) for number in range(width)]


def lengths(counts: list[int], width: int) -> list[int]:
    """Return the number of batches that each iterator takes from each worker."""
    taken = list(counts)
    # A worker is in use at most at every step, so its share of the steps of all iterators is at most 1 / width.
    while taken and width * (most := max(taken)) > (total := sum(taken)):
        others = total - most
        taken[taken.index(most)] = min(most - 1, others // (width - 1)) if width > 1 else most - 1
    return taken


def _hop(counts: list[int], width: int) -> list[Route] | None:
    """Return routes that begin at the first workers and take all batches of a worker at once; None: there are none."""
    unseen = [{worker for worker, count in enumerate(counts) if count} for _ in range(width)]
    places = [worker for worker, count in enumerate(counts) if count][:width]
    left = [counts[place] for place in places]
    made: list[Route] = [[] for _ in range(width)]
    while True:
        step = min(left)
        left = [batches - step for batches in left]
        arrived = [number for number in range(width) if not left[number]]
        for number in arrived:
            place = places[number]
            made[number].append(Stay(place, 0, counts[place]))
            unseen[number].discard(place)
        if not any(unseen):
            return made
        for number in arrived:
            free = [place for place in sorted(unseen[number]) if place not in places]
            if not free:
                return None
            places[number], left[number] = free[0], counts[free[0]]


def _follow(counts: list[int], taken: list[int], number: int, width: int) -> Route:
    """Return the route of one iterator on the circle of all workers, as long as the batches that are taken of each."""
    total = sum(taken)
    # Two iterators are at least as far from each other as the longest stay, so they are at different workers.
    begin = number * total // width
    first: Route = []
    last: Route = []
    for worker, position, length in _arcs(taken):
        # Iterators that do not take all batches of a worker take different ones.
        offset = number * length % counts[worker] if counts[worker] > length else 0
        cut = min(max(begin - position, 0), length)
        first.append(Stay(worker, offset + cut, offset + length))
        last.append(Stay(worker, offset, offset + cut))
    return [stay for stay in (*first, *last) if stay.stop > stay.start]


def _arcs(taken: list[int]) -> Iterator[tuple[int, int, int]]:
    """Yield worker, position and length of each part of the circle."""
    position = 0
    for worker, length in enumerate(taken):
        yield worker, position, length
        position += length
