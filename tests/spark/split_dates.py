"""Splits every date over Spark tasks, whatever its size."""

from __future__ import annotations

import pytest

from dedup_spark.execution import part_tasks
from dedup_spark.plans import date_tasks


def split_every_date(patch: pytest.MonkeyPatch, part_count: int) -> None:
    patch.setattr(date_tasks, "is_split", lambda date_bytes, total, cores: True)
    patch.setattr(part_tasks.PartTasks, "part_count", part_count)
