"""QueuedDeals: what a dealer sent ahead to the last party of a group, and how many bytes that is."""

from __future__ import annotations


class QueuedDeals(dict[tuple[bytes, int], dict[int, tuple[bytes, memoryview]]]):
    """What the dealer sent ahead, by key and instance: label and corrections by position."""

    def __init__(self) -> None:
        super().__init__()
        self._sizes: dict[tuple[bytes, int], int] = {}
        self.bytes = 0

    def put(self, pack: tuple[bytes, int], rows: dict[int, tuple[bytes, memoryview]], size: int) -> None:
        """Keep a pack, instead of an earlier one."""
        self.drop(pack)
        self[pack] = rows
        self._sizes[pack] = size
        self.bytes += size

    def drop(self, *packs: tuple[bytes, int]) -> None:
        """Forget packs, if they are there."""
        for pack in packs:
            self.pop(pack, None)
            self.bytes -= self._sizes.pop(pack, 0)
