"""Loads and clones tables in the stand-in's storage until its process is killed. Prints each commit once it is done."""

from __future__ import annotations

import sys
from datetime import date, timedelta
from itertools import count
from pathlib import Path

from devstack.bigquery.storage.garbage_collector import GarbageCollector
from tests.unit.devstack.bigquery.storage.tables import clone, open_catalog, put, rows_of, table_id

DAYS = [date(2026, 1, 1) + timedelta(days=offset) for offset in range(4)]


def main() -> None:
    catalog = open_catalog(Path(sys.argv[1]))
    GarbageCollector(catalog, interval_s=0.01).start()
    current = catalog.find(table_id("staging"))
    for number in count(current.number + 1 if current else 1):
        put(catalog, "staging", rows_of(DAYS, number))
        print(f"staging {number}", flush=True)
        clone(catalog, "target", "staging")
        print(f"target {number}", flush=True)


if __name__ == "__main__":
    main()
