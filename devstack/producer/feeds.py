"""Reads the feed files in dags/feeds."""

from pathlib import Path

from dedup_clone.contract.table import TableContract
from dedup_clone.settings.feed import Feed, read_feed

FEEDS_FOLDER = Path(__file__).resolve().parents[2] / "dags" / "feeds"


def feed_names() -> list[str]:
    return sorted(path.stem for path in FEEDS_FOLDER.glob("*.yaml"))


def read(name: str) -> Feed:
    """The feed of this name. Raises ConfigurationError if its file is missing or invalid."""
    return read_feed(FEEDS_FOLDER / f"{name}.yaml")


def table_of(settings: Feed) -> TableContract:
    return settings.table.to_contract()
