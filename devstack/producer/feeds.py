"""The feeds that the producer knows: those of dags/feeds, by their files alone."""

from dataclasses import dataclass
from pathlib import Path

from dedup_clone.contract.table import TableContract
from dedup_clone.settings.feed import Feed, read_feed

FEEDS_FOLDER = Path(__file__).resolve().parents[2] / "dags" / "feeds"


@dataclass(frozen=True)
class Layout:
    """How deliveries lie in landing: in folders named by `date_column`, or all files beside each other."""

    prefix: str
    marker: str = "_SUCCESS"
    date_column: str = "date"
    date_folders: bool = True


def feed_names(folder: Path = FEEDS_FOLDER) -> list[str]:
    return sorted(path.stem for path in folder.glob("*.yaml"))


def feed(name: str, folder: Path = FEEDS_FOLDER) -> Feed:
    """Raises ConfigurationError when its file is wrong."""
    return read_feed(folder / f"{name}.yaml")


def layout(settings: Feed) -> Layout:
    landing, table = settings.landing, settings.table
    return Layout(landing.prefix, landing.marker, table.partition_column, landing.date_folders)


def table_of(settings: Feed) -> TableContract:
    return settings.table.to_contract()
