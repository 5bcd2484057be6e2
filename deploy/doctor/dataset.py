"""The dataset: where it is, how its storage is billed, and defaults that would delete what is published."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from deploy.doctor.finding import Finding, Level, Patient, ok
from deploy.doctor.google import Refused

SEVEN_DAYS_H = 168


def check_dataset(patient: Patient) -> Iterator[Finding]:
    profile = patient.profile
    name = f"{profile.project}:{profile.dataset}"
    try:
        dataset = read_dataset(patient)
    except Refused as refused:
        command = f"bq --location={profile.location} mk --dataset --storage_billing_model=LOGICAL {name}"
        yield Finding(Level.FAIL, "dataset", f"[{name}] cannot be read, {refused}", command)
        return
    if dataset["location"].upper() != profile.location.upper():
        text = f"[{name}] is in [{dataset['location']}], the profile says [{profile.location}]: jobs would not find it."
        command = f"(set `location: {dataset['location']}` in dags/profiles/gcp.yaml and deploy)"
        yield Finding(Level.FAIL, "dataset location", text, command)
    else:
        yield ok("dataset location", f"[{dataset['location']}].")
    yield from _billing(name, dataset)
    yield from _defaults(name, dataset)


def read_dataset(patient: Patient) -> dict[str, Any]:
    profile = patient.profile
    return patient.google.get(
        f"https://bigquery.googleapis.com/bigquery/v2/projects/{profile.project}/datasets/{profile.dataset}"
    )


def _billing(name: str, dataset: dict[str, Any]) -> Iterator[Finding]:
    model = dataset.get("storageBillingModel", "LOGICAL")
    if model == "PHYSICAL":
        text = f"[{name}] is billed by [PHYSICAL] bytes, expected [LOGICAL]: time travel of six full rewrites a day is "
        text += "billed there, 20 to 110 times the table. (It can be changed back only after 14 days.)"
        command = f"bq update --storage_billing_model=LOGICAL {name}"
        yield Finding(Level.FAIL, "storage billing", text, command)
    else:
        yield ok("storage billing", "by logical bytes: time travel and fail-safe are free.")


def _defaults(name: str, dataset: dict[str, Any]) -> Iterator[Finding]:
    if dataset.get("defaultTableExpirationMs"):
        text = f"[{name}] gives each new table an expiration: the first swap makes target, which would vanish."
        yield Finding(Level.FAIL, "default expiration", text, f"bq update --default_table_expiration=0 {name}")
    if dataset.get("defaultPartitionExpirationMs"):
        text = f"[{name}] gives new tables a partition expiration of its own; the feeds state theirs."
        yield Finding(Level.WARN, "default expiration", text, f"bq update --default_partition_expiration=0 {name}")
    hours = int(dataset.get("maxTimeTravelHours", SEVEN_DAYS_H))
    if hours < SEVEN_DAYS_H:
        text = f"[{name}] keeps [{hours}] hours of time travel, expected [{SEVEN_DAYS_H}] (free by logical bytes): "
        text += "older generations are rolled back by a load."
        yield Finding(Level.WARN, "time travel", text, f"bq update --max_time_travel_hours={SEVEN_DAYS_H} {name}")
