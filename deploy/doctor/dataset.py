"""Checks the dataset: its settings, its location, and the right to read the past of tables with row access policies."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from dedup_clone.warehouse.row_policies import READ_PAST
from deploy.doctor.finding import Finding, LiveEnvironment, fail, grant_to_user, ok, reading, warn
from deploy.doctor.settings import check_settings

MULTI_REGIONS = frozenset({"EU", "US"})
ROLE_ID = "dedupCloneReadPast"  # of the custom role that access.tf makes


def check_dataset(live: LiveEnvironment) -> Iterator[Finding]:
    profile = live.profile
    name = f"{profile.project}:{profile.dataset}"
    create = f"bq --location={profile.location} mk --dataset --storage_billing_model=LOGICAL {name}"
    viewer = grant_to_user(profile.project, "roles/bigquery.metadataViewer")
    with reading("dataset", f"[{name}]", if_refused=viewer, if_missing=create):
        dataset = read_dataset(live)
    yield from _location(live, name, dataset["location"])
    yield from check_settings(live, ("dataset",), dataset, name=name, update="")


def read_dataset(live: LiveEnvironment) -> dict[str, Any]:
    """The REST resource of the dataset. Raises ApiError."""
    profile = live.profile
    return live.google.get(
        f"https://bigquery.googleapis.com/bigquery/v2/projects/{profile.project}/datasets/{profile.dataset}"
    )


def _location(live: LiveEnvironment, name: str, location: str) -> Iterator[Finding]:
    subject = "dataset location"
    if location.upper() != live.profile.location.upper():
        text = f"[{name}] is in [{location}], the profile says [{live.profile.location}]: jobs would not find the "
        command = f"(set `location: {location}` in the profile and deploy)"
        yield fail(subject, text + "dataset. Correct the profile.", command)
    elif location.upper() in MULTI_REGIONS:
        text = f"[{name}] is in a multi-region. Its buckets must be in [{location}] or in a region within it, and "
        text += "storage costs more (docs/deploy.md). A dataset cannot be moved; create a new one in one region."
        yield warn(subject, text)
    else:
        yield ok(subject, f"[{location}].")


def check_row_policies(live: LiveEnvironment) -> Iterator[Finding]:
    """Whether Airflow's account may read the past of tables with row access policies, if feeds declare any."""
    feeds = [feed for feed in live.feeds if feed.table.policies.row_access]
    if not feeds:
        return
    profile, account = live.profile, live.airflow_environment.airflow
    role = f"projects/{profile.project}/roles/{ROLE_ID}"
    access = read_dataset(live).get("access", [])
    names = ", ".join(feed.feed for feed in feeds)
    if any(entry.get("role") == role and entry.get("userByEmail") == account for entry in access):
        yield ok("row access policies", f"[{account}] may read the past of the tables of [{names}].")
        return
    text = f"feeds [{names}] declare row access policies, but [{account}] lacks the custom role [{role}] on the "
    text += f"dataset, which has the permission [{READ_PAST}]. Without it the check staging_access fails before the "
    command = (
        f"gcloud iam roles create {ROLE_ID} --project={profile.project} --permissions={READ_PAST}\n"
        f"bq query --nouse_legacy_sql 'GRANT `{role}` ON SCHEMA `{profile.project}.{profile.dataset}` "
        f'TO "serviceAccount:{account}"\''
    )
    yield fail("row access policies", text + "swap.", command)
