"""Limits the memory that several readers take together."""

from __future__ import annotations

from threading import Lock


class MemoryBudget:
    """Lets readers reserve memory, at most `limit_bytes` at a time. Thread-safe."""

    def __init__(self, limit_bytes: int) -> None:
        self._free_bytes = limit_bytes
        self._lock = Lock()

    def reserve(self, size: int) -> bool:
        """Reserve `size` bytes and return True; if fewer bytes are free, reserve nothing and return False."""
        with self._lock:
            if size > self._free_bytes:
                return False
            self._free_bytes -= size
            return True

    def release(self, size: int) -> None:
        """Give back `size` reserved bytes."""
        with self._lock:
            self._free_bytes += size
