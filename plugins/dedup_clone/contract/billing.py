"""Units of bytes, and BigQuery's prices in USD: of queries (by bytes read), of slots and of streamed bytes."""

from __future__ import annotations

MIB = 1 << 20
GIB = 1 << 30
TIB = 1 << 40
USD_PER_TIB = 6.25  # on-demand queries, US
# By edition, US, no commitment. BigQuery's documentation has Standard's price only; look the others up.
USD_PER_SLOT_HOUR = {"Standard": 0.04, "Enterprise": 0.06, "Enterprise Plus": 0.10}
USD_PER_STREAMED_GIB = 0.025  # Storage Write API, without the two TiB a month that are free
MIN_BYTES_BILLED = 10 * MIB  # for each table that a query reads, and for each query, however little it reads
