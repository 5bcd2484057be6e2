"""What a feed promises its readers, and when its snapshots are expected."""

from __future__ import annotations

from datetime import time
from typing import Annotated, Any, Self
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from pydantic import Field, field_validator, model_validator

from dedup_clone.settings.strict_yaml import StrictModel

ClockTime = Annotated[str, Field(pattern=r"^([01][0-9]|2[0-3]):[0-5][0-9]$")]


class ExpectedArrivals(StrictModel):
    """When a snapshot arrives on every day: `times` as HH:MM in `zone` (an IANA name); late after `grace_minutes`."""

    times: Annotated[tuple[ClockTime, ...], Field(min_length=1)]
    zone: str = "UTC"
    grace_minutes: Annotated[int, Field(ge=0, le=24 * 60)] = 30

    @field_validator("times", mode="before")
    @classmethod
    def times_are_quoted(cls, times: Any) -> Any:
        if not isinstance(times, (list, tuple)):
            return times
        if any(isinstance(item, int) for item in times):
            raise ValueError('write each time in quotes, as "10:00": YAML takes it for a number otherwise')
        return tuple(times)  # what a validator hands on is no JSON any more, and a list is no tuple then

    @model_validator(mode="after")
    def zone_is_known(self) -> Self:
        try:
            ZoneInfo(self.zone)
        except (ZoneInfoNotFoundError, ValueError, OSError) as error:
            raise ValueError(f"zone [{self.zone}] is no IANA time zone such as [Europe/Berlin]") from error
        if len(set(self.times)) != len(self.times):
            raise ValueError(f"times name an hour twice: {list(self.times)}")
        return self

    @property
    def clock_times(self) -> tuple[time, ...]:
        return tuple(sorted(time.fromisoformat(text) for text in self.times))


class FreshnessSettings(StrictModel):
    """The promise: target shows a snapshot at most `promise_minutes` after its arrival.

    `expected_arrivals`: an alert when one is overdue (null: nobody is waited for). `max_age_minutes`: an alert when
    the snapshot that readers see arrived longer ago (null: no limit).
    """

    promise_minutes: Annotated[int, Field(ge=1, le=24 * 60)] = 60
    expected_arrivals: ExpectedArrivals | None = None
    max_age_minutes: Annotated[int, Field(ge=1)] | None = None
