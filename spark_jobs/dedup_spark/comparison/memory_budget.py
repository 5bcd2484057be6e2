"""A limit of memory that several readers share."""

from __future__ import annotations

from threading import Lock


class MemoryBudget:
    """Bytes that may be held in memory. Thread-safe."""

    def __init__(self, limit: int) -> None:
        self._left = limit
        self._lock = Lock()

    def reserve(self, size: int) -> bool:
        """Reserve `size` bytes and return True; if fewer bytes are left, reserve nothing and return False."""
        with self._lock:
            if size > self._left:
                return False
            self._left -= size
            return True
