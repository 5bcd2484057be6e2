"""How much of a feed's target is compared with the published files each day."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from dedup_clone.settings.strict_yaml import StrictModel

GIB = 1 << 30
SMALLEST_QUERY_BYTES = 10 << 20  # BigQuery bills no query for less


class ContentAuditSettings(StrictModel):
    """`partitions_per_day`: how many are audited in turn. `bytes_per_day`: what BigQuery may bill for it in a UTC day.

    `enabled: false` takes the daily schedule away; the DAG can then still be triggered by hand.
    """

    enabled: bool = True
    partitions_per_day: Annotated[int, Field(ge=1, le=100)] = 1
    bytes_per_day: Annotated[int, Field(ge=SMALLEST_QUERY_BYTES)] = 64 * GIB
