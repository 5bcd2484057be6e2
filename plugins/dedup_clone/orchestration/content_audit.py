"""The trigger form and the tasks of the content audit DAG."""

from __future__ import annotations

from contextlib import suppress
from datetime import date
from typing import Any

from airflow.sdk import Context, Param
from airflow.sdk.exceptions import AirflowSkipException

from dedup_clone.audit.partition_audit import choose_partitions, compare_partitions
from dedup_clone.contract.errors import ConfigurationError
from dedup_clone.orchestration.setup import FeedOfForm, FeedSetup
from dedup_clone.orchestration.step import FeedRun


def params(feeds: list[str]) -> dict[str, Param]:
    """The trigger form."""
    return {
        "feed": Param(
            None,
            type=["null", "string"],
            enum=[None, *feeds],
            values_display={"null": "all feeds"},
            title="Feed",
            description="The feed to audit; empty: all feeds whose audit is switched on.",
        ),
        "date": Param(
            None,
            type=["null", "string"],
            format="date",
            title="Partition",
            description="Audit this date of the feed now, for instance after a replay. Empty: the dates that are due.",
        ),
    }


def choose_feeds(setup: FeedOfForm, context: Context) -> list[str]:
    """The feed of the form, or all feeds whose file is valid and switches the audit on."""
    form = context["params"]
    if form["feed"]:
        return [form["feed"]]
    if form["date"]:
        raise ConfigurationError(f"Name the feed whose partition [{form['date']}] is to be audited: parameter [feed].")
    chosen = []
    for name in setup.names:
        with suppress(ConfigurationError):  # the watchdog reports it
            if setup.named(name).feed.content_audit.enabled:
                chosen.append(name)
    return chosen


def audit(setup: FeedSetup, context: Context) -> list[dict[str, Any]]:
    """Compares the date of the form, or those that are due, and returns those that are equal to their files.

    Fails if a partition differs from its files. Skips the task if there is nothing to compare.
    """
    run = FeedRun(setup, context)
    services = run.services
    chosen = choose_partitions(services, _requested_date(run))
    if not chosen.dates:
        services.log(f"audit: nothing to compare: {chosen.reason}")
        raise AirflowSkipException(f"Nothing to compare: {chosen.reason}.")
    tries = run.context["ti"].max_tries  # more once the task is cleared, which must not take its former results
    records = compare_partitions(services, chosen.dates, f"{run.run_id} {tries}")
    return [{"date": r.date.isoformat(), "generation": r.generation} for r in records]


def _requested_date(run: FeedRun) -> date | None:
    text = run.form["date"]
    try:
        return None if text is None else date.fromisoformat(text)
    except ValueError as error:
        raise ConfigurationError(f"Parameter [date] is [{text}], expected a date such as 2026-06-15.") from error
