"""What the examination's counts say about one file's rows: file, column, count, and what was expected."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from dedup_clone.contract.delivery import Arrival
from dedup_clone.contract.request import DedupRequest


def row_problems(request: DedupRequest, arrival: Arrival, count: Mapping[str, Any]) -> list[str]:
    """`count` is one row of examine_delivery.sql. Empty when the file's rows keep the contract."""
    table, day = request.table, request.table.partition_column
    found = [
        f"column [{null['name']}]: {null['row_count']} rows are [NULL], expected none"
        for null in sorted(count["null_counts"], key=lambda item: str(item["name"]))
        if null["row_count"]
    ]
    if count["late_rows"]:
        found.append(
            f"column [{day}]: {count['late_rows']} rows have a date up to [{count['last_day']}], "
            f"expected at most [{request.latest_day}]"
        )
    if count["other_day_rows"]:
        folder_day = str(count["file_name"]).rsplit("/", 2)[1].partition("=")[2]
        found.append(
            f"column [{day}]: {count['other_day_rows']} rows have another date such as [{count['other_day']}], "
            f"expected its folder's [{folder_day}]"
        )
    if count["other_id_rows"]:
        found.append(
            f"column [{table.snapshot_id_column}]: {count['other_id_rows']} rows have another id, "
            f"expected the folder's [{arrival.delivery.snapshot_id}]"
        )
    return [f"file [{count['file_name']}] {problem}" for problem in found]
