"""Checks the dataset: its location, how its storage is billed, and defaults that would delete published data."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from deploy.doctor.finding import Finding, Level, LiveEnvironment, advice_after, grant_to_user, ok
from deploy.doctor.google_api import ApiError

FULL_TIME_TRAVEL_H = 168
MULTI_REGIONS = frozenset({"EU", "US"})


def check_dataset(live: LiveEnvironment) -> Iterator[Finding]:
    profile = live.profile
    name = f"{profile.project}:{profile.dataset}"
    try:
        dataset = read_dataset(live)
    except ApiError as error:
        create = f"bq --location={profile.location} mk --dataset --storage_billing_model=LOGICAL {name}"
        viewer = grant_to_user(profile.project, "roles/bigquery.metadataViewer")
        command = advice_after(error, if_refused=viewer, if_missing=create)
        yield Finding(Level.FAIL, "dataset", f"[{name}] cannot be read, {error}", command)
        return
    if dataset["location"].upper() != profile.location.upper():
        text = f"[{name}] is in [{dataset['location']}], the profile says [{profile.location}]: "
        text += "jobs would not find the dataset. Correct the profile."
        command = f"(set `location: {dataset['location']}` in the profile and deploy)"
        yield Finding(Level.FAIL, "dataset location", text, command)
    elif dataset["location"].upper() in MULTI_REGIONS:
        text = (
            f"[{name}] is in a multi-region. Its buckets must be in [{dataset['location']}] or in a region within it, "
        )
        text += "and storage costs more (docs/deploy.md). A dataset cannot be moved; create a new one in one region."
        yield Finding(Level.WARN, "dataset location", text)
    else:
        yield ok("dataset location", f"[{dataset['location']}].")
    yield from _billing(name, dataset)
    yield from _defaults(name, dataset)


def read_dataset(live: LiveEnvironment) -> dict[str, Any]:
    """The REST resource of the dataset. Raises ApiError."""
    profile = live.profile
    return live.google.get(
        f"https://bigquery.googleapis.com/bigquery/v2/projects/{profile.project}/datasets/{profile.dataset}"
    )


def _billing(name: str, dataset: dict[str, Any]) -> Iterator[Finding]:
    model = dataset.get("storageBillingModel", "LOGICAL")
    if model == "PHYSICAL":
        text = (
            f"[{name}] is billed by [PHYSICAL] bytes, expected [LOGICAL]: at six full loads a day, time travel would "
        )
        text += "be billed as 20 to 110 times the table. BigQuery allows one change of the model in 14 days."
        command = f"bq update --storage_billing_model=LOGICAL {name}"
        yield Finding(Level.WARN, "storage billing", text, command)
    else:
        yield ok("storage billing", "by logical bytes: time travel and fail-safe are free.")


def _defaults(name: str, dataset: dict[str, Any]) -> Iterator[Finding]:
    if dataset.get("defaultTableExpirationMs"):
        text = f"[{name}] deletes each new table after some time: target would vanish. Remove the default."
        yield Finding(Level.FAIL, "default expiration", text, f"bq update --default_table_expiration=0 {name}")
    if dataset.get("defaultPartitionExpirationMs"):
        text = f"[{name}] gives new tables a partition expiration, but each feed sets its own. Remove the default."
        yield Finding(Level.WARN, "default expiration", text, f"bq update --default_partition_expiration=0 {name}")
    hours = int(dataset.get("maxTimeTravelHours", FULL_TIME_TRAVEL_H))
    if hours < FULL_TIME_TRAVEL_H:
        text = f"[{name}] keeps [{hours}] hours of time travel, expected [{FULL_TIME_TRAVEL_H}] "
        text += "(free with logical billing): rolling back to an older generation would need a load instead of a clone."
        yield Finding(Level.WARN, "time travel", text, f"bq update --max_time_travel_hours={FULL_TIME_TRAVEL_H} {name}")
