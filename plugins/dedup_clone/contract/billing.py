"""BigQuery's prices on demand and by slots, its minimum per query, and units of bytes."""

from __future__ import annotations

MIB = 1 << 20
GIB = 1 << 30
TIB = 1 << 40
USD_PER_TIB = 6.25  # on-demand queries, US
USD_PER_SLOT_HOUR = {"Standard": 0.04, "Enterprise": 0.06, "Enterprise Plus": 0.10}  # by edition, US, no commitment
MIN_BYTES_BILLED = 10 * MIB  # per query
