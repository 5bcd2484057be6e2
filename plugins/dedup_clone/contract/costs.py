"""BigQuery's prices."""

from __future__ import annotations

MIB = 1 << 20
GIB = 1 << 30
TIB = 1 << 40
USD_PER_TIB = 6.25  # on-demand queries, US
USD_PER_STREAMED_GIB = 0.025  # Storage Write API, without the two TiB a month that are free
MIN_BYTES_BILLED = 10 * MIB  # for each table that a query reads, and for each query, however little it reads
