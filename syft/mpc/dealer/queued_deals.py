"""QueuedDeals: deals that the dealer sent ahead to the last party of a group, and their bytes."""

from __future__ import annotations


class QueuedDeals(dict[tuple[bytes, int], dict[int, tuple[bytes, memoryview]]]):
    """Deals that were sent ahead, by key and instance: label and corrections by position."""

    def __init__(self) -> None:
        super().__init__()
        self._sizes: dict[tuple[bytes, int], int] = {}
        self.bytes = 0

    def put(self, pack: tuple[bytes, int], rows: dict[int, tuple[bytes, memoryview]], size: int) -> None:
        """Store a pack; it replaces an earlier one."""
        self.drop(pack)
        self[pack] = rows
        self._sizes[pack] = size
        self.bytes += size

    def drop(self, *packs: tuple[bytes, int]) -> None:
        """Drop packs, if they are stored."""
        for pack in packs:
            self.pop(pack, None)
            self.bytes -= self._sizes.pop(pack, 0)
