"""Reads the feed files in dags/feeds, and takes from them what the producer needs to land a snapshot."""

from dataclasses import dataclass
from pathlib import Path

from dedup_clone.contract.table import TableContract
from dedup_clone.settings.feed import Feed, read_feed

FEEDS_FOLDER = Path(__file__).resolve().parents[2] / "dags" / "feeds"


@dataclass(frozen=True)
class LandingLayout:
    """Where and how a feed's deliveries land, as its feed file says.

    `prefix`: the folder of the landing bucket. `marker`: the name of the marker object. `date_folders`: whether the
    rows of each date of `date_column` are in a folder of their own.
    """

    prefix: str
    marker: str = "_SUCCESS"
    date_column: str = "date"
    date_folders: bool = True


def feed_names() -> list[str]:
    return sorted(path.stem for path in FEEDS_FOLDER.glob("*.yaml"))


def read(name: str, folder: Path = FEEDS_FOLDER) -> Feed:
    """The feed of this name. Raises ConfigurationError if its file is missing or invalid."""
    return read_feed(folder / f"{name}.yaml")


def landing_layout(settings: Feed) -> LandingLayout:
    landing, table = settings.landing, settings.table
    return LandingLayout(landing.prefix, landing.marker, table.partition_column, landing.date_folders)


def table_of(settings: Feed) -> TableContract:
    return settings.table.to_contract()
