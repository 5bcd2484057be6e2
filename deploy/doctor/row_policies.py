"""Checks that Airflow's account may read the past of tables with row access policies, if a feed declares some."""

from __future__ import annotations

from collections.abc import Iterator

from dedup_clone.settings.feed import read_feed
from dedup_clone.warehouse.policies import READ_PAST
from deploy.doctor.dataset import read_dataset
from deploy.doctor.finding import Finding, Level, LiveEnvironment, ok
from deploy.environment_settings import REPOSITORY

FEEDS = REPOSITORY / "dags" / "feeds"
ROLE_ID = "dedupCloneReadPast"  # of the custom role that access.tf makes


def check_row_policies(live: LiveEnvironment) -> Iterator[Finding]:
    feeds = [feed for feed in map(read_feed, sorted(FEEDS.glob("*.yaml"))) if feed.table.policies.row_access]
    if not feeds:
        return
    profile, account = live.profile, live.airflow_environment.airflow
    role = f"projects/{profile.project}/roles/{ROLE_ID}"
    access = read_dataset(live).get("access", [])
    names = ", ".join(feed.feed for feed in feeds)
    if any(entry.get("role") == role and entry.get("userByEmail") == account for entry in access):
        yield ok("row access policies", f"[{account}] may read the past of the tables of [{names}].")
        return
    text = (
        f"feeds [{names}] declare row access policies, but [{account}] lacks the custom role [{role}] on the dataset, "
    )
    text += f"which has the permission [{READ_PAST}]. Without it the check staging_access fails before the swap."
    command = (
        f"gcloud iam roles create {ROLE_ID} --project={profile.project} --permissions={READ_PAST}\n"
        f"bq query --nouse_legacy_sql 'GRANT `{role}` ON SCHEMA `{profile.project}.{profile.dataset}` "
        f'TO "serviceAccount:{account}"\''
    )
    yield Finding(Level.FAIL, "row access policies", text, command)
