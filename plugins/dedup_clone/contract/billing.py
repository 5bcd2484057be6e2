"""BigQuery's on-demand price, its minimum per query, and units of bytes."""

from __future__ import annotations

MIB = 1 << 20
GIB = 1 << 30
TIB = 1 << 40
USD_PER_TIB = 6.25  # on-demand queries, US
MIN_BYTES_BILLED = 10 * MIB  # per query
