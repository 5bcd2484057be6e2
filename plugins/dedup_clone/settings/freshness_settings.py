"""Models of a feed's section `freshness`: the freshness SLA, and when snapshots are expected."""

from __future__ import annotations

from datetime import time
from typing import Annotated, Self
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from pydantic import Field, model_validator

from dedup_clone.settings.strict_yaml import StrictModel

ClockTime = Annotated[str, Field(pattern=r"^([01][0-9]|2[0-3]):[0-5][0-9]$")]


class ExpectedArrivals(StrictModel):
    """The times of the day at which a snapshot is due."""

    times: Annotated[tuple[ClockTime, ...], Field(min_length=1)] = Field(examples=[["06:00", "18:00"]])
    """Each as `HH:MM`."""
    zone: str = Field(default="UTC", examples=["Europe/Berlin"])
    """IANA time zone of `times`."""
    grace_minutes: Annotated[int, Field(ge=0, le=24 * 60)] = Field(default=30, examples=[60])
    """How late a snapshot may arrive."""

    @model_validator(mode="after")
    def zone_and_times_are_valid(self) -> Self:
        try:
            ZoneInfo(self.zone)
        except (ZoneInfoNotFoundError, ValueError, OSError) as error:
            raise ValueError(f"zone [{self.zone}] is no IANA time zone such as [Europe/Berlin]") from error
        if len(set(self.times)) != len(self.times):
            raise ValueError(f"a time is named twice: {list(self.times)}")
        return self

    @property
    def clock_times(self) -> tuple[time, ...]:
        """The due times in `zone`, earliest first."""
        return tuple(sorted(time.fromisoformat(text) for text in self.times))


class FreshnessSettings(StrictModel):
    """How fresh the feed has to be (docs/operate.md)."""

    sla_minutes: Annotated[int, Field(ge=1, le=24 * 60)] = Field(default=60, examples=[120])
    """Longest time from arrival to swap."""
    expected_arrivals: ExpectedArrivals | None = None
    """Alert when a snapshot is overdue (null: never)."""
    max_age_minutes: Annotated[int, Field(ge=1)] | None = Field(default=None, examples=[480])
    """Alert when the live snapshot arrived longer ago (null: never)."""
