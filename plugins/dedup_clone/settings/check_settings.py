"""Models of a feed's section `checks`: the bounds and queries that stop a publish before the swap."""

from __future__ import annotations

from collections.abc import Iterator
from enum import StrEnum
from typing import Annotated, ClassVar

from pydantic import Field

from dedup_clone.contract.costs import GIB, MIN_BYTES_BILLED
from dedup_clone.settings.strict_yaml import ColumnName, StrictModel

SQL_CHECK_PREFIX = "sql_"
UNIQUE_ACROSS_DATES = "unique_across_dates"  # the SQL check of this project's own

Share = Annotated[float, Field(ge=0, le=1)]
CheckName = Annotated[str, Field(pattern=r"^[a-z][a-z0-9_]{0,62}$")]


class DuplicateKeys(StrEnum):
    """The level of the check for duplicate keys within a delivery."""

    WARN = "warn"
    FAIL = "fail"


class SqlCheck(StrictModel):
    """A query over the rows that would be published: one SELECT in the file `dags/feeds/<feed>/<name>.sql`."""

    name: CheckName = Field(examples=["no_negative_amounts"])
    """The check is called `sql_<name>` in results and forms."""
    max_rows: Annotated[int, Field(ge=0)] = Field(default=0, examples=[10])
    """How many rows the query may return."""
    min: float | None = Field(default=None, examples=[1000000])
    """Smallest number that the query may return, in one row with one column (null: no limit)."""
    max: float | None = Field(default=None, examples=[2000000])
    """Greatest number (null: no limit)."""
    max_bytes_billed: Annotated[int, Field(ge=MIN_BYTES_BILLED)] = Field(default=64 * GIB, examples=[GIB])
    """Most bytes billed for one run of the query."""

    def problems(self) -> Iterator[str]:
        if self.has_range and "max_rows" in self.model_fields_set:
            yield f"check [{self.name}] has max_rows, which counts wrong rows, and min or max: keep one"
        if self.min is not None and self.max is not None and self.min > self.max:
            yield f"check [{self.name}] accepts no number: min [{self.min}] is greater than max [{self.max}]"

    @property
    def result_name(self) -> str:
        """The name of the check in results and among the checks that an operator may accept."""
        return f"{SQL_CHECK_PREFIX}{self.name}"

    @property
    def has_range(self) -> bool:
        """Whether the query returns one number, which must lie in a range. Otherwise it returns wrong rows."""
        return self.min is not None or self.max is not None


class CheckSettings(StrictModel):
    """Bounds of the checks before the swap. Shares divide by the new table's rows on dates of parent and delivery."""

    removed_keys: ClassVar[dict[str, str]] = {
        "tolerated_share": "A share of at most 1 % is not compared with its median.",
    }

    duplicate_keys: DuplicateKeys = Field(default=DuplicateKeys.WARN, examples=["fail"])
    """What a key that a delivery has more than once leads to. Of its rows one is published."""
    max_missing_dates: Annotated[int, Field(ge=0)] = Field(default=1, examples=[0])
    """Dates of the parent that a delivery may lack, whether they stay or go."""
    max_new_share: Share = Field(default=0.2, examples=[0.05])
    """Largest share of rows whose key the parent lacks."""
    max_survivor_share: Share = Field(default=0.2, examples=[0.05])
    """Largest share of rows that stay because the delivery, for the first time, lacks their key."""
    max_deleted_share: Share = Field(default=0.05, examples=[0.01])
    """Largest share of the parent's rows that go because the delivery lacks their key (`table.absent_keys: delete`)."""
    max_changed_share: Share = Field(default=0.5, examples=[1.0])
    """Largest share of rows with other values than in the parent."""
    max_times_usual: Annotated[float, Field(ge=1)] | None = Field(default=10.0, examples=[3])
    """Largest share above 1 % as a multiple of its median in the last 20 publishes, from the 7th on (null: any)."""
    unique_across_dates: tuple[ColumnName, ...] = Field(default=(), examples=[["order_id"]])
    """Keys that together may have one date only; a billed query (docs/deliver-snapshots.md, keep an id on one date)."""
    sql: tuple[SqlCheck, ...] = ()
    """Queries that run before each swap, except in a rollback or an erasure."""

    def problems(self) -> Iterator[str]:
        names = [check.name for check in self.sql] + [UNIQUE_ACROSS_DATES] * bool(self.unique_across_dates)
        if len(set(names)) != len(names):
            yield f"checks.sql names one check twice: {names}"
