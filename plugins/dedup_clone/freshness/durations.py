"""Formats times and durations for alerts, logs and the page (there static/formats.js does the same in the browser)."""

from __future__ import annotations

from datetime import datetime, timedelta


def format_time(at: datetime) -> str:
    return f"{at:%Y-%m-%d %H:%M:%S} UTC"


def format_duration(duration: timedelta) -> str:
    """Format a duration as `45 s`, `12 min`, `3 h 05 min` or `2 d 4 h`; a negative one as `0 s`."""
    seconds = max(0, round(duration.total_seconds()))
    if seconds < 120:
        return f"{seconds} s"
    minutes = seconds // 60
    if minutes < 120:
        return f"{minutes} min"
    hours, rest = divmod(minutes, 60)
    return f"{hours} h {rest:02} min" if hours < 48 else f"{hours // 24} d {hours % 24} h"
