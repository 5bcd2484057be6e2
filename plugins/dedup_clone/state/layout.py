"""Names of the objects in the state bucket that belong to one feed."""

from __future__ import annotations

import re
from collections.abc import Iterable

from dedup_clone.contract.delivery import Delivery

FRESHNESS_FOLDER = "_freshness/"  # the watchdog's verdicts on all feeds; no feed can have this name
GENERATION_DIGITS = 8  # at the start of the names of attempts and manifests
_NAME_OF_GENERATION = re.compile(rf"(\d{{{GENERATION_DIGITS}}})(-[\w-]+)?(\.files)?(\.json)?")


def generation_of(name: str) -> int | None:
    """The generation in the name of an object or folder, such as 12 for data/00000012-abc/.

    None for names that this project does not give, such as those of placeholders and copies, which callers ignore.
    """
    match = _NAME_OF_GENERATION.fullmatch(name.rstrip("/").rsplit("/", 1)[-1])
    return int(match[1]) if match else None


def generation_prefix(generation: int) -> str:
    """How the names of a generation's records and folders begin."""
    return f"{generation:0{GENERATION_DIGITS}d}"


def names_up_to(names: Iterable[str], generation: int) -> list[str]:
    """Those of `names` (of objects or folders) whose generation is at most `generation`."""
    return [name for name in names if (number := generation_of(name)) is not None and number <= generation]


class FeedLayout:
    """Object names of one feed, without the bucket. Names of folders end with a slash."""

    def __init__(self, feed: str) -> None:
        self.feed = feed
        self.current = f"{feed}/CURRENT"
        self.audits = f"{feed}/AUDITS"
        self.fingerprint_seed = f"{feed}/fingerprint_seed"
        self.incidents = f"{feed}/incidents.json"
        self.freshness = f"{FRESHNESS_FOLDER}{feed}.json"  # the watchdog's verdict on the feed
        # The checks that stopped the last publish before any row was read; absent if it passed them.
        self.checks_before_dedup = f"{feed}/checks_before_dedup.json"
        self.arrivals = f"{feed}/arrivals/"
        self.refused = f"{feed}/refused/"
        self.held = f"{feed}/held/"
        self.manifests = f"{feed}/manifests/"
        self.ledger = f"{feed}/ledger/"
        self.erasures = f"{feed}/erasures/"
        self.data = f"{feed}/data/"
        self.attempts = f"{feed}/attempts/"
        self.changes = f"{feed}/changes/"

    def arrival(self, delivery: Delivery) -> str:
        return f"{self.arrivals}{delivery.name}.json"

    def refusal(self, delivery: Delivery) -> str:
        return f"{self.refused}{delivery.name}.json"

    def held_delivery(self, delivery: Delivery) -> str:
        """Which checks on the data stopped the delivery, so that only a replay of it publishes it."""
        return f"{self.held}{delivery.name}.json"

    def manifest(self, generation: int) -> str:
        return f"{self.manifests}{generation_prefix(generation)}.json"

    def file_list(self, generation: int) -> str:
        return f"{self.manifests}{generation_prefix(generation)}.files.json"

    def erasure(self, generation: int) -> str:
        return f"{self.erasures}{generation_prefix(generation)}.json"

    def keys_to_erase(self, name: str) -> str:
        """A file of keys, which operators upload and the erasure deletes."""
        return f"{self.feed}/to_erase/{name}"

    def approved_keys(self, attempt: str) -> str:
        """The erasure's copy of the file of keys, as a person approved it."""
        return f"{self.attempt_folder(attempt)}keys_to_erase.csv"

    def data_folder(self, attempt: str) -> str:
        return f"{self.data}{attempt}/"

    def attempt_folder(self, attempt: str) -> str:
        return f"{self.attempts}{attempt}/"

    def changes_folder(self, attempt: str) -> str:
        """The files of rows that differ from the parent's, needed until the table `FEED_changes` has the rows."""
        return f"{self.changes}{attempt}/"

    def attempt(self, attempt: str) -> str:
        return f"{self.attempt_folder(attempt)}attempt.json"

    def dedup_started(self, attempt: str) -> str:
        """An empty object whose creation time says when the attempt's dedup task first started."""
        return f"{self.attempt_folder(attempt)}dedup_started"

    def progress(self, attempt: str) -> str:
        """How far the attempt's Spark job is, which the job writes for the page and the watch DAG."""
        return f"{self.attempt_folder(attempt)}progress.json"

    def candidate(self, attempt: str) -> str:
        return f"{self.attempt_folder(attempt)}candidate.json"

    def spark_usage(self, attempt: str) -> str:
        """What the attempt's Spark runs cost in USD, as far as it is known, by their names in the service."""
        return f"{self.attempt_folder(attempt)}spark_usage.json"

    def swap_spec(self, attempt: str) -> str:
        return f"{self.attempt_folder(attempt)}swap.json"

    def streamed_changes(self, attempt: str) -> str:
        return f"{self.attempt_folder(attempt)}streamed.json"

    def existing_table(self, attempt: str) -> str:
        """The table that a bootstrap or rebuild takes over."""
        return f"{self.attempt_folder(attempt)}existing_table.json"

    def check_results(self, attempt: str, phase: str) -> str:
        """The results of the checks `before` or `after` the swap (`phase`)."""
        return f"{self.attempt_folder(attempt)}checks_{phase}.json"

    def ledger_record(self, attempt: str) -> str:
        return f"{self.ledger}{attempt}.json"
